//! `stackorder config`.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::{Outcome, colour, table};
use crate::config::problem::Problem;
use crate::config::schema::{root_schema, stack_schema};
use crate::ids::{normalise_key, split_key};
use crate::runner::Job;
use crate::runner::console::Format;
use crate::runner::explain::no_such_stack;
use crate::runner::stop::Stop;
use crate::scan::configuration::{Checked, StackSettings};

#[derive(Debug, Args)]
pub(super) struct Flags {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Check stackorder.yaml and every .stackorder.yaml of the checkout
    #[command(after_help = "Leaves with 1 when something is wrong.\n\nExample:\n  stackorder config validate")]
    Validate,
    /// Print the settings that count for a stack, and where each comes from
    #[command(after_help = "Example:\n  stackorder config show stacks/prod/eks")]
    Show {
        /// Key of the stack, or a directory for all its instances [default: all stacks]
        stack: Option<String>,
    },
    /// Print the JSON Schema of a configuration file, for editors
    #[command(after_help = "Example:\n  stackorder config schema --file stack > .vscode/stack.json")]
    Schema {
        /// Which of the two files
        #[arg(long, value_enum, default_value_t = FileFlag::Root)]
        file: FileFlag,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FileFlag {
    /// stackorder.yaml
    Root,
    /// .stackorder.yaml
    Stack,
}

pub(super) fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    match &flags.command {
        ConfigCommand::Validate => Ok(validate(job, &job.check_configuration()?)),
        ConfigCommand::Show { stack } => show(job, job.stack_settings()?, stack.as_deref()),
        ConfigCommand::Schema { file } => {
            let schema = match file {
                FileFlag::Root => root_schema(),
                FileFlag::Stack => stack_schema(),
            };
            job.console.result(&serde_json::to_string_pretty(&schema).expect("a schema has text keys"));
            Ok(Outcome::Success)
        }
    }
}

fn validate(job: &Job, checked: &Checked) -> Outcome {
    let Checked { files, problems } = checked;
    job.console.result(&match job.console.format {
        Format::Json => json!({ "files": files, "problems": problems }).to_string(),
        Format::Text | Format::Picture(_) if problems.is_empty() => match files.len() {
            0 => "no configuration file; every setting has its default".to_owned(),
            1 => "1 file, no problem".to_owned(),
            count => format!("{count} files, no problem"),
        },
        Format::Text | Format::Picture(_) => lines(problems),
    });
    if problems.is_empty() { Outcome::Success } else { Outcome::Error }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(|problem| colour::harmless(&problem.to_string())).collect::<Vec<_>>().join("\n")
}

fn show(job: &Job, found: Vec<StackSettings>, wanted: Option<&str>) -> Result<Outcome, Stop> {
    let found = match wanted {
        None => found,
        Some(written) => chosen(found, written)?,
    };
    job.console.result(&match job.console.format {
        Format::Json => serde_json::to_string(&found).expect("settings have text keys"),
        Format::Text | Format::Picture(_) if found.is_empty() => "no stack in this checkout".to_owned(),
        Format::Text | Format::Picture(_) => found.iter().map(words).collect::<Vec<_>>().join("\n\n"),
    });
    Ok(Outcome::Success)
}

/// The stack of that key, else all instances of that directory.
fn chosen(found: Vec<StackSettings>, written: &str) -> Result<Vec<StackSettings>, Stop> {
    let key = normalise_key(written);
    let is_exact = found.iter().any(|it| it.stack == key);
    let matches = |it: &StackSettings| if is_exact { it.stack == key } else { split_key(&it.stack).0 == key };
    if !found.iter().any(matches) {
        let own: Vec<&str> = found.iter().map(|it| it.stack.as_str()).collect();
        return Err(no_such_stack(&key, &own));
    }
    Ok(found.into_iter().filter(matches).collect())
}

fn words(found: &StackSettings) -> String {
    let heading = ["SETTING", "VALUE", "FROM"].map(table::Cell::plain);
    let settings = found.settings.iter().map(|row| [row.key.clone(), plain(&row.value), row.origin.to_string()]);
    let rows: Vec<Vec<table::Cell>> =
        std::iter::once(heading.into()).chain(settings.map(|row| row.map(table::Cell::plain).into())).collect();
    let mut lines = vec![colour::harmless(&found.stack)];
    lines.extend(table::aligned(&rows).into_iter().map(|line| format!("  {line}")));
    lines.join("\n")
}

/// A text as it is when it fits on a line and cannot be mistaken for nothing; everything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() && !text.contains(char::is_control) => text.clone(),
        other => other.to_string(),
    }
}
