//! Inputs of a stack that lie outside what its own directory owns (spec 11 §5).

use std::collections::{BTreeMap, BTreeSet};

use super::files::ancestors;

/// The inputs that `stack_directory` does not own, sorted. A file is owned by the deepest stack directory around it.
pub(super) fn watch_paths<V>(
    stack_directory: &str,
    inputs: &BTreeSet<String>,
    stack_directories: &BTreeMap<String, V>,
) -> Vec<String> {
    let owner =
        |path: &str| ancestors(path).find(|directory| stack_directories.contains_key(*directory)).map(str::to_owned);
    inputs.iter().filter(|path| owner(path).as_deref() != Some(stack_directory)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_nested_and_sibling_stacks_are_watched_and_own_files_are_not() {
        let stacks: BTreeMap<String, ()> =
            ["live/a", "live/a/inner", "live/b"].map(|path| (path.to_owned(), ())).into();
        let inputs = ["live/a/x.tfvars", "live/a/inner/y.tfvars", "live/b/z.tfvars", "live/c.tfbackend"];
        let inputs: BTreeSet<String> = inputs.map(str::to_owned).into();
        assert_eq!(
            watch_paths("live/a", &inputs, &stacks),
            ["live/a/inner/y.tfvars", "live/b/z.tfvars", "live/c.tfbackend"]
        );
    }
}
