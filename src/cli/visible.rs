//! The command line without its hidden parts, for completions and man pages.

#[cfg(feature = "demo")]
use clap::builder::StyledStr;
use clap::{Command, CommandFactory};

/// Everything that people are meant to see. What the program calls of itself is in neither completions nor man pages,
/// which would list it otherwise.
pub(super) fn visible() -> Command {
    let command = super::Cli::command();
    #[cfg(feature = "demo")]
    let command = command.mut_subcommand("demo", |demo| alone("demo", &demo));
    command
}

/// A command without those below it, all of which are hidden.
#[cfg(feature = "demo")]
fn alone(name: &'static str, command: &Command) -> Command {
    let text = |text: Option<&StyledStr>| text.cloned().unwrap_or_default();
    Command::new(name)
        .about(text(command.get_about()))
        .long_about(text(command.get_long_about()))
        .after_help(text(command.get_after_help()))
        .args(command.get_arguments().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that does something, with its full name.
    fn commands(command: &Command, name: &str) -> Vec<(String, Command)> {
        let below: Vec<&Command> = command.get_subcommands().collect();
        if below.is_empty() {
            return vec![(name.to_owned(), command.clone())];
        }
        below.into_iter().flat_map(|below| commands(below, &format!("{name} {}", below.get_name()))).collect()
    }

    #[test]
    fn nothing_hidden_is_left() {
        fn hidden(command: &Command) -> Vec<&str> {
            let below = command.get_subcommands().flat_map(hidden);
            command.is_hide_set().then_some(command.get_name()).into_iter().chain(below).collect()
        }
        assert_eq!(hidden(&visible()), Vec::<&str>::new());
    }

    #[test]
    fn every_command_explains_itself_with_an_example() {
        let commands = commands(&visible(), "stackorder");
        assert!(commands.len() >= 12, "{}", commands.len());
        for (name, command) in commands {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&name), "{name} --help shows no call of it: {help:?}");
            assert!(command.get_about().is_some(), "{name} --help does not say what it does");
        }
    }
}
