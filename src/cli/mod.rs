//! The command line: arguments in, one call, text or JSON out (spec 12).
//!
//! One file per command. What a command does is `runner`'s (or the server's) business; here stand its flags, its words
//! and the code it leaves with. `colour`, `table` and `times` are what several commands print and read, `output` is
//! where those print that have no console, `visible` is the command line as completions and man pages show it.

#[cfg(feature = "server")]
mod admin;
#[cfg(feature = "runner")]
mod affected;
#[cfg(feature = "runner")]
mod apply;
#[cfg(feature = "runner")]
mod check;
#[cfg(feature = "runner")]
mod colour;
#[cfg(feature = "runner")]
mod completions;
#[cfg(feature = "runner")]
mod config;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "runner")]
mod drift;
#[cfg(feature = "runner")]
mod explain;
#[cfg(feature = "runner")]
mod graph;
#[cfg(feature = "runner")]
mod init;
#[cfg(feature = "runner")]
mod man;
mod output;
#[cfg(feature = "runner")]
mod plan;
#[cfg(feature = "runner")]
mod resolve;
#[cfg(feature = "runner")]
mod runner;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "runner")]
mod table;
#[cfg(feature = "runner")]
mod times;
#[cfg(feature = "runner")]
mod unlock;
mod version;
#[cfg(feature = "runner")]
mod visible;

#[cfg(feature = "demo")]
pub(crate) use serve::start_logging as start_server_logging;

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// How a command ended; `main` alone knows the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Success,
    /// Bad flags or configuration, a failed tool, a server error that is no refusal.
    Error,
    /// `affected` and `drift` found something.
    Changes,
    /// The server refused, or nobody could confirm.
    Refused,
    /// Bad flags of a server command.
    Usage,
}

/// Commands whose usage errors are [`Outcome::Usage`]: nothing there means "changes".
const SERVER_COMMANDS: [&str; 5] = ["serve", "admin", "healthcheck", "check-config", "demo"];

#[derive(Debug, Parser)]
#[command(
    name = "stackorder",
    version,
    about = "Plans and applies Terraform and OpenTofu stacks in dependency order",
    after_help = "Examples:\n  stackorder graph\n  stackorder affected --base main\n  \
                  stackorder explain stacks/prod/eks --base main\n  stackorder plan --stack stacks/prod/vpc"
)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// Flags of every command.
#[derive(Debug, Clone, Args)]
struct Globals {
    /// Base URL of the server; empty means local mode [default: STACKORDER_SERVER_URL]
    #[cfg(feature = "runner")]
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,
    /// Checkout to work on [default: GITHUB_WORKSPACE, else the git top level, else the current directory]
    #[cfg(feature = "runner")]
    #[arg(long, global = true, value_name = "DIR")]
    repo_root: Option<std::path::PathBuf>,
    /// Directory in which scans leave what they found for the next one [default: STACKORDER_SCAN_CACHE, else none]
    #[cfg(feature = "runner")]
    #[arg(long, global = true, value_name = "DIR")]
    scan_cache: Option<std::path::PathBuf>,
    /// What standard output holds
    #[arg(long, global = true, value_enum, default_value_t = FormatFlag::Text)]
    format: FormatFlag,
    /// Log what happens in detail
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatFlag {
    Text,
    Json,
    /// Graphviz; only for `graph` and `affected`
    Dot,
    /// A Mermaid flowchart; only for `graph` and `affected`
    Mermaid,
    /// A picture for any browser; only for `graph` and `affected`
    Svg,
}

const PICTURES_ONLY_OF_GRAPHS: &str = "--format dot, mermaid and svg are only for graph and affected";

/// One variant per command; more of them come with more features.
#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "runner")]
    #[command(flatten)]
    Runner(runner::RunnerCommand),
    #[cfg(feature = "server")]
    Serve(serve::ServeArgs),
    #[cfg(feature = "server")]
    Healthcheck(serve::HealthcheckArgs),
    #[cfg(feature = "server")]
    CheckConfig(serve::CheckConfigArgs),
    #[cfg(feature = "server")]
    Admin(admin::AdminArgs),
    #[cfg(feature = "demo")]
    Demo(demo::DemoArgs),
    #[cfg(feature = "runner")]
    Completions(completions::Flags),
    #[cfg(feature = "runner")]
    Man(man::Flags),
    /// Print version and build
    #[command(after_help = "Examples:\n  stackorder version\n  stackorder version --format json")]
    Version,
}

/// Runs one command line, program name first.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Outcome {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => {
            let printed = output::print_usage(&error);
            return match (error.use_stderr(), is_server_command(&args)) {
                (false, _) => printed,
                (true, true) => Outcome::Usage,
                (true, false) => Outcome::Error,
            };
        }
    };
    if !logs_by_its_own_settings(&cli.command) {
        log_to_standard_error(cli.globals.verbose);
    }
    match cli.command {
        #[cfg(feature = "server")]
        Command::Serve(_) => finish(blocking(serve::serve())),
        #[cfg(feature = "server")]
        Command::Healthcheck(_) => finish(blocking(serve::healthcheck())),
        #[cfg(feature = "server")]
        Command::CheckConfig(_) => finish(serve::check_config()),
        #[cfg(feature = "server")]
        Command::Admin(args) => ended(blocking(admin::run(args, cli.globals.format))),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::run(args),
        #[cfg(feature = "runner")]
        Command::Runner(command) => runner::run(command, &cli.globals),
        #[cfg(feature = "runner")]
        Command::Completions(flags) => completions::run(&flags, cli.globals.format),
        #[cfg(feature = "runner")]
        Command::Man(flags) => man::run(&flags, cli.globals.format),
        Command::Version => version::run(cli.globals.format),
    }
}

/// The server's logs follow its own variables.
fn logs_by_its_own_settings(command: &Command) -> bool {
    match command {
        #[cfg(feature = "server")]
        Command::Serve(_) => true,
        #[cfg(feature = "demo")]
        Command::Demo(args) => args.is_server(),
        _ => false,
    }
}

/// Runs a command's future to its end.
#[cfg(feature = "server")]
fn blocking<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command)
}

/// Success, or one clear sentence with its causes.
#[cfg(feature = "server")]
fn finish(result: anyhow::Result<()>) -> Outcome {
    ended(result.map(|()| Outcome::Success))
}

/// The same for a command that can end in other ways.
#[cfg(feature = "server")]
fn ended(result: anyhow::Result<Outcome>) -> Outcome {
    match result {
        Ok(outcome) => outcome,
        Err(error) => {
            anstream::eprintln!("error: {}", crate::causes::chain(&*error));
            Outcome::Error
        }
    }
}

/// Whether the first word that is no flag names a command of the server.
fn is_server_command(args: &[OsString]) -> bool {
    let words = args.iter().skip(1).filter_map(|arg| arg.to_str());
    words.into_iter().find(|word| !word.starts_with('-')).is_some_and(|word| SERVER_COMMANDS.contains(&word))
}

/// Log lines go to standard error, because standard output holds the result alone.
fn log_to_standard_error(verbose: bool) {
    let level = if verbose { "stackorder=debug" } else { "stackorder=warn" };
    let logs = tracing_subscriber::fmt().with_env_filter(level).with_writer(std::io::stderr).with_ansi(false);
    // The second call in one process changes nothing, which only tests see.
    let _again = match std::env::var("STACKORDER_LOG_FORMAT").as_deref() {
        Ok("json") => logs.json().try_init(),
        Ok(_) | Err(_) => logs.try_init(),
    };
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn run_with(args: &[&str]) -> Outcome {
        run(std::iter::once("stackorder").chain(args.iter().copied()).map(OsString::from))
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn usage_errors_of_runner_commands_are_errors_and_of_the_server_usage() {
        assert_eq!(run_with(&["version", "--format", "yaml"]), Outcome::Error);
        assert_eq!(run_with(&["version", "--format", "dot"]), Outcome::Error);
        assert_eq!(run_with(&["version", "--format", "mermaid"]), Outcome::Error);
        assert_eq!(run_with(&["explain", "stacks/a", "--format", "mermaid"]), Outcome::Error);
        assert_eq!(run_with(&["nonsense"]), Outcome::Error);
        let both = ["demo", "--story", "--kills", "1", "--database", "postgres://localhost/x", "--servers", "2"];
        assert_eq!(run_with(&both), Outcome::Usage);
        assert_eq!(run_with(&["serve", "--nonsense"]), Outcome::Usage);
        assert_eq!(run_with(&["--help"]), Outcome::Success);
    }
}
