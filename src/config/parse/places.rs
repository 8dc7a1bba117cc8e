//! Where a known key belongs, for one that somebody wrote somewhere else.

use super::root::{APPLY, CHECKS, DRIFT, INSTANCES_FROM, MODULES, PROPAGATE, STACKS, TOP};
use super::stack::{STACK, STACK_APPLY};
use crate::config::{ROOT_FILE, STACK_FILE};

/// The keys below one key; those of the file itself below the empty one.
type Level = (&'static str, &'static [&'static str]);

const ROOT_LEVELS: [Level; 8] = [
    ("", &TOP),
    ("stacks", &STACKS),
    ("stacks.instances", &INSTANCES_FROM),
    ("modules", &MODULES),
    ("apply", &APPLY),
    ("propagate", &PROPAGATE),
    ("drift", &DRIFT),
    ("checks", &CHECKS),
];
const STACK_LEVELS: [Level; 2] = [("", &STACK), ("apply", &STACK_APPLY)];

/// The place of a key that stands at the wrong one of the root file.
pub(super) fn in_root_file(key: &str) -> Option<String> {
    place(key, &ROOT_LEVELS, (STACK_FILE, &STACK_LEVELS))
}

/// The place of a key that stands at the wrong one of a stack file.
pub(super) fn in_stack_file(key: &str) -> Option<String> {
    place(key, &STACK_LEVELS, (ROOT_FILE, &ROOT_LEVELS))
}

/// Places of the same file first; deep ones of the other file only when there is no other.
fn place(key: &str, same: &[Level], (other_file, other): (&str, &[Level])) -> Option<String> {
    let holding = |levels: &[Level]| -> Vec<&'static str> {
        levels.iter().filter(|(_, keys)| keys.contains(&key)).map(|(parent, _)| *parent).collect()
    };
    let (here, there) = (holding(same), holding(other));
    let mut places: Vec<String> = here
        .iter()
        .map(|parent| if parent.is_empty() { "at the top level".to_owned() } else { format!("below `{parent}`") })
        .collect();
    if !here.contains(&"") && there.contains(&"") {
        places.push(format!("in {other_file}"));
    } else if here.is_empty() {
        places.extend(there.iter().map(|parent| format!("below `{parent}` in {other_file}")));
    }
    (!places.is_empty()).then(|| format!("`{key}` belongs {}", places.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sent_to_its_place() {
        let root = |key| in_root_file(key).unwrap_or_default();
        assert_eq!(root("depends_on"), "`depends_on` belongs in .stackorder.yaml");
        assert_eq!(root("instances"), "`instances` belongs below `stacks` or in .stackorder.yaml");
        assert_eq!(root("env"), "`env` belongs at the top level");
        assert_eq!(root("from_var_files"), "`from_var_files` belongs below `stacks.instances`");
        assert_eq!(root("nothing"), "");
        let stack = |key| in_stack_file(key).unwrap_or_default();
        assert_eq!(stack("stacks"), "`stacks` belongs in stackorder.yaml");
        assert_eq!(stack("allowed_teams"), "`allowed_teams` belongs below `apply`");
        assert_eq!(stack("workspace"), "`workspace` belongs at the top level");
        assert_eq!(stack("four_eyes"), "`four_eyes` belongs below `apply` in stackorder.yaml");
        assert_eq!(stack("instance"), "");
    }
}
