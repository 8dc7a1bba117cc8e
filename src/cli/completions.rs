//! `stackorder completions`.

use clap::Args;
use clap_complete::{Shell, generate};

use super::visible::visible;
use super::{FormatFlag, Outcome, output};

/// Print the completions of a shell
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  stackorder completions bash > ~/.local/share/bash-completion/completions/stackorder\n  \
                        stackorder completions zsh > \"${fpath[1]}/_stackorder\"\n  \
                        stackorder completions fish > ~/.config/fish/completions/stackorder.fish"
)]
pub(super) struct Flags {
    /// The shell that reads them
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(flags: &Flags, format: FormatFlag) -> Outcome {
    if format != FormatFlag::Text {
        anstream::eprintln!("error: completions have one format: that of the shell");
        return Outcome::Error;
    }
    output::printed(&script(flags.shell))
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut visible(), "stackorder", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_learns_every_command_and_none_of_the_hidden_ones() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            for command in ["affected", "explain", "completions", "repo-root"] {
                assert!(script.contains(command), "{shell}: {command}");
            }
            assert!(!script.contains("standin-tool"), "{shell}");
        }
    }
}
