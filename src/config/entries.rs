//! The rules for single values, each a function from a text to what is wrong with it (spec 10 §4.1, §5, §11, §12).
//!
//! The same rules hold for what a file says and for what its templates render to.

use crate::config::glob::{self, parts};
use crate::ids::{is_instance_name, normalise_path};

/// `Err` holds the rule that is broken, without the value itself.
pub(super) type Rule = Result<(), String>;

fn rule(holds: bool, otherwise: &str) -> Rule {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn is_absolute(path: &str) -> bool {
    let drive = path.as_bytes().get(1) == Some(&b':') && path.starts_with(|c: char| c.is_ascii_alphabetic());
    path.starts_with(['/', '\\']) || drive
}

fn leaves_its_base(path: &str) -> bool {
    let path = normalise_path(path);
    path == ".." || path.starts_with("../")
}

/// `name=value`, or a file relative to the repository root.
pub(super) fn backend_config(entry: &str) -> Rule {
    rule(!entry.trim().is_empty(), "empty entry")?;
    rule(!entry.trim_start().starts_with('='), "no attribute name before the =")?;
    rule(entry.contains('=') || !is_absolute(entry), "a file must be repository relative")
}

/// A file relative to the stack directory.
pub(super) fn var_file(entry: &str) -> Rule {
    rule(!entry.trim().is_empty(), "empty path")?;
    rule(!is_absolute(entry), "must be stack relative")
}

/// The name of an environment variable that we may set.
pub(super) fn env_name(name: &str) -> Rule {
    const RESERVED_PREFIXES: [&str; 4] = ["STACKORDER_", "GITHUB_", "ACTIONS_", "RUNNER_"];
    const RESERVED_NAMES: [&str; 2] = ["PATH", "HOME"];
    let shaped = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    rule(shaped, "a name is a letter or _, then letters, digits and _")?;
    let upper = name.to_ascii_uppercase();
    if let Some(prefix) = RESERVED_PREFIXES.iter().find(|prefix| upper.starts_with(**prefix)) {
        return Err(format!("prefix {prefix} is reserved"));
    }
    rule(!RESERVED_NAMES.contains(&upper.as_str()), "the name is reserved")
}

/// `slug` or `org/slug`, each with an optional leading `@`.
pub(super) fn team(team: &str) -> Rule {
    let bare = team.strip_prefix('@').unwrap_or(team);
    rule(!bare.trim().is_empty(), "empty team")?;
    let shaped = |part: &str| !part.is_empty() && !part.contains(['/', '@']) && !part.contains(char::is_whitespace);
    let known = match bare.split_once('/') {
        Some((org, slug)) => shaped(org) && shaped(slug),
        None => shaped(bare),
    };
    rule(known, "a team is slug or org/slug")
}

/// The name of a check that a hook or a policy posts.
pub(super) fn check_name(name: &str) -> Rule {
    rule(!name.is_empty(), "empty check name")?;
    rule(name.len() <= 64, "a check name has at most 64 characters")?;
    let shaped = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    rule(shaped, "a check name has letters, digits, -, _ and . only")?;
    rule(!matches!(name, "resolve" | "plan" | "apply"), "the check name is reserved")
}

/// The name of an instance.
pub(super) fn instance_name(name: &str) -> Rule {
    rule(!name.is_empty(), "empty instance name")?;
    rule(!name.eq_ignore_ascii_case("default"), "the instance name default is reserved")?;
    rule(name.chars().count() <= 64, "an instance name is longer than 64 characters")?;
    let alphabet = "an instance name starts with a letter or digit, then has letters, digits, ., _ and -";
    rule(is_instance_name(name), alphabet)
}

/// A Terraform workspace, rendered or without a template.
pub(super) fn workspace(name: &str) -> Rule {
    let bad = |c: char| matches!(c, '/' | ':' | ' ') || c.is_control();
    rule(!name.contains(bad), "invalid characters: a workspace may not hold /, :, blanks or control characters")
}

/// A glob from the repository root.
pub(super) fn repository_glob(text: &str) -> Rule {
    rule(!text.trim().is_empty(), "empty glob")?;
    repository_base(text)?;
    rule(!text.starts_with('/') && !leaves_its_base(text), "not a repository-relative glob")?;
    glob::check(text).map_err(|error| format!("not a repository-relative glob: {}", error.reason))
}

/// The part of [`repository_glob`] that also holds where other malformed globs are only skipped.
pub(super) fn repository_base(text: &str) -> Rule {
    rule(!text.starts_with("./") && !text.starts_with("../"), "globs here start at the repository root")
}

/// A glob from the stack directory; a leading `./` is fine.
pub(super) fn stack_glob(text: &str) -> Rule {
    let inside = !text.starts_with('/') && !leaves_its_base(text) && !text.split('/').any(|part| part == "..");
    rule(inside, "not a stack-relative glob")?;
    let bare = text.strip_prefix("./").unwrap_or(text);
    glob::check(bare).map_err(|error| format!("not a stack-relative glob: {}", error.reason))
}

/// A glob from the stack directory that may lead out of it.
pub(super) fn watch(text: &str) -> Rule {
    rule(!text.trim().is_empty(), "empty glob")?;
    rule(!text.starts_with('/'), "must be stack relative")?;
    let behind = text.split('/').skip_while(|segment| !parts::has_pattern(segment));
    let climbs = behind.flat_map(|segment| segment.split(['{', ',', '}'])).any(|part| part == "..");
    rule(!climbs, ".. must stand in front of every pattern")?;
    glob::check(text).map_err(|error| format!("not a stack-relative glob: {}", error.reason))
}

/// The same where the stack directory is known.
pub(super) fn watch_from(directory: &str, text: &str) -> Rule {
    watch(text)?;
    let glob = parts::from_root(directory, text).ok_or("leads out of the repository")?;
    rule(!glob.is_empty(), "is the whole repository; end it with /** for all files")?;
    glob::check(&glob).map_err(|error| format!("not a stack-relative glob: {}", error.reason))
}

/// A glob for files that travel from plan to apply.
pub(super) fn plan_file(text: &str) -> Rule {
    rule(!text.trim().is_empty(), "empty glob")?;
    let must = "must stay inside the stack directory";
    let bare = text.strip_prefix("./").unwrap_or(text);
    let mut parts = bare.split('/').filter(|part| !matches!(*part, "" | "."));
    let reaches_terraform = parts.next() == Some(".terraform") && parts.next() != Some("modules");
    let leaves = text.starts_with('/') || bare.split('/').any(|part| part == "..");
    rule(!leaves, must)?;
    rule(!reaches_terraform, &format!("{must} and, below .terraform, inside .terraform/modules"))?;
    glob::check(bare).map_err(|error| format!("not a stack-relative glob: {}", error.reason))
}

/// The path of a directory from the repository root.
pub(super) fn repository_path(text: &str) -> Rule {
    let inside = !is_absolute(text) && !leaves_its_base(text) && !normalise_path(text.trim()).is_empty();
    rule(inside, "must be a repository-relative path")
}

/// A text that ends up on a command line or in a workflow's output.
pub(super) fn one_line(text: &str) -> Rule {
    rule(!text.contains(char::is_control), "must not hold line breaks or other control characters")
}
