//! `stackorder man`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use clap_mangen::Man;

use super::visible::visible;
use super::{FormatFlag, Outcome, output};

/// Print the man page, or write that of every command into a directory
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  stackorder man | man -l -\n  stackorder man ~/.local/share/man/man1")]
pub(super) struct Flags {
    /// Where the pages go; made when it is missing
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(super) fn run(flags: &Flags, format: FormatFlag) -> Outcome {
    let done = match &flags.directory {
        _ if format != FormatFlag::Text => Err(anyhow::anyhow!("man pages have one format")),
        None => page().and_then(|page| output::print(&page)),
        Some(directory) => write(directory),
    };
    match done {
        Ok(()) => Outcome::Success,
        Err(error) => {
            anstream::eprintln!("error: {error:#}");
            Outcome::Error
        }
    }
}

fn page() -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(visible()).render(&mut page)?;
    Ok(page)
}

fn write(directory: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write man pages to {}", directory.display());
    std::fs::create_dir_all(directory).with_context(failed)?;
    clap_mangen::generate_to(visible(), directory).with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_no_hidden_one_has() {
        let directory = tempfile::tempdir().unwrap();
        let pages = directory.path().join("man1");
        write(&pages).unwrap();
        let names: Vec<String> =
            std::fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        for name in ["stackorder.1", "stackorder-affected.1", "stackorder-explain.1"] {
            assert!(names.iter().any(|page| page == name), "{name}: {names:?}");
        }
        assert!(names.iter().all(|name| !name.contains("standin")), "{names:?}");
        let page = std::fs::read_to_string(pages.join("stackorder-affected.1")).unwrap();
        assert!(page.contains("stackorder affected \\-\\-base main"), "{page}");
    }
}
