//! Directories to the globs of `stacks.discover` and `modules.paths`.

use std::collections::BTreeSet;

use crate::scan::files::parent;

/// Most globs of one list; beyond it, `**` or nothing says the same in a line that people read.
const GLOBS_MAX: usize = 8;

/// The text as a glob that matches nothing else.
pub(super) fn escaped(path: &str) -> String {
    let mut glob = String::with_capacity(path.len());
    for character in path.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | '!' | ',') {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob
}

/// Globs for `stacks.discover`; `None` where the default finds all stacks.
///
/// A glob may cover more directories than the stacks: only those with an s3 backend count.
pub(super) fn discover(stacks: &BTreeSet<String>) -> Option<Vec<String>> {
    let tops: BTreeSet<&str> = stacks.iter().map(|path| top(path)).collect();
    if tops.iter().all(|top| *top == "stacks") {
        return None;
    }
    if tops.len() > GLOBS_MAX {
        return Some(vec!["**".to_owned()]);
    }
    Some(tops.into_iter().map(|top| format!("{}/**", escaped(top))).collect())
}

/// Globs for `modules.paths`; `None` where the default covers all modules, or too many globs would be needed.
pub(super) fn modules(modules: &BTreeSet<String>, stacks: &BTreeSet<String>, has_default: bool) -> Option<Vec<String>> {
    let is_default = |path: &str| top(path) == "modules";
    let mut globs: BTreeSet<String> = BTreeSet::new();
    for module in modules.iter().filter(|path| !is_default(path)) {
        if holds_stack(module, stacks) {
            continue;
        }
        let mut highest = module.as_str();
        while !parent(highest).is_empty() && !holds_stack(parent(highest), stacks) {
            highest = parent(highest);
        }
        globs.insert(format!("{}/**", escaped(highest)));
    }
    if globs.is_empty() || globs.len() > GLOBS_MAX {
        return None;
    }
    if has_default {
        globs.insert("modules/**".to_owned());
    }
    Some(globs.into_iter().collect())
}

fn top(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

/// Whether a stack is this directory or lies below it.
fn holds_stack(path: &str, stacks: &BTreeSet<String>) -> bool {
    let below = format!("{path}/");
    stacks.contains(path) || stacks.range(below.clone()..).next().is_some_and(|stack| stack.starts_with(&below))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    fn listed(globs: Option<Vec<String>>) -> Vec<String> {
        globs.unwrap_or_default()
    }

    #[test]
    fn the_default_is_not_spelled_out() {
        assert_eq!(discover(&set(&["stacks/a", "stacks/b/c"])), None);
        assert_eq!(listed(discover(&set(&["infra/dns", "live/a", "live/b"]))), ["infra/**", "live/**"]);
        let many: BTreeSet<String> = (0..20).map(|number| format!("s{number}")).collect();
        assert_eq!(listed(discover(&many)), ["**"]);
        assert_eq!(listed(discover(&set(&["a[1]/x"]))), ["a\\[1\\]/**"]);
    }

    #[test]
    fn modules_are_covered_as_high_as_no_stack_is() {
        let stacks = set(&["live/prod/net", "live/prod/app"]);
        assert_eq!(modules(&set(&["modules/a"]), &stacks, true), None);
        assert_eq!(
            listed(modules(&set(&["lib/a/b", "live/common/x", "live/prod/net/inner", "modules/a"]), &stacks, true)),
            ["lib/**", "live/common/**", "live/prod/net/inner/**", "modules/**"]
        );
        assert_eq!(modules(&set(&["live/prod"]), &stacks, false), None);
    }
}
