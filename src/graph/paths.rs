//! From changed paths to the stacks and modules that own or watch them (spec 11 §9).

use std::cell::OnceCell;
use std::collections::BTreeSet;

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use super::model::{Graph, Stack, Warning};
use super::ordering::Ordering;
use super::watch_globs::WatchGlobs;
use crate::config::effective::{Instance, InstanceRules, effective};
use crate::config::glob::{GlobError, PathGlobs};
use crate::config::model::RepoConfig;
use crate::config::{ROOT_FILE, STACK_FILE};
use crate::ids::{STACK_KEY_BYTES_MAX, is_instance_name, normalise_path, split_key};
use crate::scan::directory::is_terraform_file;
use crate::scan::files::{ancestors, file_name, join, parent};

/// What the changed paths reach by themselves. Stacks are numbers of the [`Ordering`].
#[derive(Debug, Default)]
pub(crate) struct Touched<'g> {
    pub changed: BTreeSet<usize>,
    pub watching: BTreeSet<usize>,
    /// Keys of local modules.
    pub modules: BTreeSet<&'g str>,
    pub uncounted: Uncounted,
    pub warnings: Vec<Warning>,
}

/// How many changed paths belong to nobody without being odd.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Uncounted {
    /// Those that `stacks.ignore` matches, and what a tool keeps for itself.
    pub ignored: usize,
    /// The configuration and what lies beside it.
    pub configuration: usize,
}

/// Whether a stack may be scheduled at all: its key is already canonical and inside the repository, so that
/// `StackKey::parse` gives it back unchanged. Asked for every stack of a graph, so it allocates nothing.
pub fn is_schedulable(key: &str) -> bool {
    let (path, instance) = split_key(key);
    let clean = |segment: &str| !matches!(segment, "" | "." | "..");
    key.len() <= STACK_KEY_BYTES_MAX
        && key.trim() == key
        && !key.chars().any(|c| c == '\\' || c.is_control())
        && path.split('/').all(clean)
        && instance.is_none_or(is_instance_name)
}

/// Sorts the changed paths to their owners.
pub(crate) fn touched<'g>(
    graph: &'g Graph,
    ordering: &Ordering,
    config: &'g RepoConfig,
    changed_paths: &[String],
) -> Touched<'g> {
    let mut touched = Touched::default();
    let sorter = Sorter::of(graph, ordering, config, &mut touched.warnings);
    for path in cleaned(changed_paths) {
        sorter.sort(&path, &mut touched);
    }
    touched
}

/// The same path by path, so that each of them can be named as the reason; in order of the cleaned paths.
pub(crate) fn touched_by_each<'g>(
    graph: &'g Graph,
    ordering: &Ordering,
    config: &'g RepoConfig,
    changed_paths: &[String],
) -> Vec<(String, Touched<'g>)> {
    let sorter = Sorter::of(graph, ordering, config, &mut Vec::new());
    let alone = |path: String| {
        let mut touched = Touched::default();
        sorter.sort(&path, &mut touched);
        (path, touched)
    };
    cleaned(changed_paths).into_iter().map(alone).collect()
}

fn cleaned(paths: &[String]) -> BTreeSet<String> {
    paths.iter().map(|path| normalise_path(path)).filter(|path| !path.is_empty()).collect()
}

/// Which paths count, and for whom.
struct Sorter<'g> {
    owners: Owners<'g>,
    ignore: PathGlobs,
}

impl<'g> Sorter<'g> {
    fn of(graph: &'g Graph, ordering: &Ordering, config: &'g RepoConfig, warnings: &mut Vec<Warning>) -> Self {
        Self { owners: Owners::of(graph, ordering, config), ignore: ignore_globs(config, warnings) }
    }

    fn sort(&self, path: &str, touched: &mut Touched<'g>) {
        if path.split('/').any(|segment| segment == ".terraform") || self.ignore.matches(path) {
            touched.uncounted.ignored += 1;
            return;
        }
        let outside = path == ".." || path.starts_with("../");
        if !outside && self.owners.touch(path, touched) {
            return;
        }
        if is_own_configuration(path) {
            touched.uncounted.configuration += 1;
        } else {
            let message = format!("changed path {path:?} is in no stack or module");
            touched.warnings.push(Warning::new("path_unowned", message).in_file(path));
        }
    }
}

fn is_own_configuration(path: &str) -> bool {
    path == "stackorder.yaml" || path.starts_with(".stackorder/")
}

/// The ignore globs that are globs; the others warn.
fn ignore_globs(config: &RepoConfig, warnings: &mut Vec<Warning>) -> PathGlobs {
    let lockfiles = config.stacks.ignore_lockfile.then(|| "**/.terraform.lock.hcl".to_owned());
    let globs: Vec<String> = config.stacks.ignore.iter().cloned().chain(lockfiles).collect();
    let (compiled, invalid) = PathGlobs::lenient(&globs);
    let warn = |error: GlobError| {
        Warning::new("ignore_glob", format!("stacks.ignore: {error}; the glob is skipped")).in_file(ROOT_FILE)
    };
    warnings.extend(invalid.into_iter().map(warn));
    compiled
}

/// Who owns which directory; only looked up, never walked.
struct Owners<'g> {
    config: &'g RepoConfig,
    /// Nothing when the configuration has no valid rule, and then every file is of all instances.
    rules: Option<InstanceRules>,
    stacks: HashMap<&'g str, Directory<'g>>,
    modules: HashMap<&'g str, Vec<&'g str>>,
    watched: HashMap<&'g str, Vec<usize>>,
    globs: WatchGlobs<'g>,
}

/// The stacks of one directory.
#[derive(Default)]
struct Directory<'g> {
    stacks: Vec<(usize, &'g Stack)>,
    /// Worked out once, however many files of the directory change.
    uses: OnceCell<Option<FileUses<'g>>>,
}

/// What the stacks of a directory do with files, by their settings.
struct FileUses<'g> {
    by_instance: HashMap<&'g str, usize>,
    /// Paths of var files, and the stacks that have them.
    var_files: HashMap<String, BTreeSet<usize>>,
    /// Paths of files with backend values.
    backend_files: HashSet<String>,
}

impl<'g> Owners<'g> {
    fn of(graph: &'g Graph, ordering: &Ordering, config: &'g RepoConfig) -> Self {
        let (mut stacks, mut modules, mut watched) =
            (HashMap::with_capacity(graph.stacks.len()), HashMap::new(), HashMap::new());
        let mut globs = WatchGlobs::default();
        for stack in graph.stacks.iter().filter(|stack| !stack.external) {
            let Some(number) = ordering.index(&stack.key).filter(|stack| ordering.is_schedulable(*stack)) else {
                continue;
            };
            stacks.entry(stack.path.as_str()).or_insert_with(Directory::default).stacks.push((number, stack));
            for path in &stack.watch_paths {
                watched.entry(path.as_str()).or_insert_with(Vec::new).push(number);
            }
            for glob in &stack.watch_globs {
                globs.add(glob, number);
            }
        }
        for module in &graph.modules {
            if let Some(directory) = module.directory() {
                modules.entry(directory).or_insert_with(Vec::new).push(module.key.as_str());
            }
        }
        let rules = InstanceRules::new(config).ok();
        Self { config, rules, stacks, modules, watched, globs }
    }

    /// Whether anybody has to do with the path.
    fn touch(&self, path: &str, touched: &mut Touched<'g>) -> bool {
        let mut owned = false;
        let enclosing = || std::iter::once(path).chain(ancestors(path));
        let mut own = BTreeSet::new();
        if let Some(directory) = enclosing().find_map(|directory| self.stacks.get(directory)) {
            own = match self.user(path, directory) {
                User::All => directory.stacks.iter().map(|(number, _)| *number).collect(),
                User::Only(only) => BTreeSet::from([only]),
                User::Gone => BTreeSet::new(),
            };
            touched.changed.extend(&own);
            owned = true;
        }
        // A module at the root holds everything, but not what only we read.
        let module =
            enclosing().filter(|_| !is_own_configuration(path)).find_map(|directory| self.modules.get(directory));
        if let Some(modules) = module {
            // A lock file in a module folder pins nothing: only that of a stack counts.
            if file_name(path) != ".terraform.lock.hcl" {
                touched.modules.extend(modules);
            }
            owned = true;
        }
        if let Some(stacks) = self.watched.get(path) {
            touched.watching.extend(stacks);
            owned = true;
        }
        let watching = self.globs.watching(path, &mut touched.warnings);
        owned |= !watching.is_empty();
        // A stack's own file needs no second reason.
        touched.watching.extend(watching.into_iter().filter(|number| !own.contains(number)));
        owned
    }

    /// Whose a file of a stack directory is (spec 11 §18): of the one instance that has it as its var file, else of all.
    fn user(&self, path: &str, directory: &Directory<'g>) -> User {
        let stacks = &directory.stacks;
        let (Some((_, first)), Some(rules)) = (stacks.first(), &self.rules) else { return User::All };
        if stacks.len() == 1 && self.config.stacks.instances.from_var_files.is_empty() {
            return User::All;
        }
        let name = file_name(path);
        let is_of_all = is_terraform_file(path) || name == ".terraform.lock.hcl" || name == STACK_FILE;
        if is_of_all || (parent(path) == first.path && is_auto_loaded(name)) {
            return User::All;
        }
        let own = first.config.as_ref();
        let relative = path.strip_prefix(&first.path).map_or(path, |rest| rest.trim_start_matches('/'));
        // What cannot be worked out counts for every instance.
        let Ok(named) = rules.named_by(own, &first.path, relative) else { return User::All };
        let Some(uses) = directory.uses.get_or_init(|| self.uses(stacks)) else { return User::All };
        if uses.backend_files.contains(path) {
            return User::All;
        }
        let by_name = named.and_then(|name| uses.by_instance.get(name));
        let users: BTreeSet<usize> = uses.var_files.get(path).into_iter().flatten().chain(by_name).copied().collect();
        let declares_none = own.is_none_or(|own| own.instances.is_empty());
        // With the last file the directory becomes one stack, named by its workspace or not at all: a new one.
        let may_be_new =
            stacks.len() == 1 && (first.instance.is_empty() || own.is_some_and(|it| !it.workspace.is_empty()));
        match (users.first(), users.len()) {
            (Some(only), 1) => User::Only(*only),
            // The file made an instance that is gone with it, and stands among the removed.
            (None, _) if named.is_some() && declares_none && !may_be_new => User::Gone,
            _ => User::All,
        }
    }

    /// What the stacks of a directory do with files; `None` when the settings of one of them cannot be worked out.
    fn uses(&self, stacks: &[(usize, &'g Stack)]) -> Option<FileUses<'g>> {
        let (mut var_files, mut backend_files) = (HashMap::new(), HashSet::new());
        for (number, stack) in stacks {
            let instance = Instance { name: stack.instance.clone(), var_file: None };
            let settings = effective(self.config, stack.config.as_ref(), &stack.path, &instance).ok()?;
            backend_files.extend(settings.backend_config.iter().filter_map(|file| join("", file)));
            for file in settings.var_files.iter().filter_map(|file| join(&stack.path, file)) {
                var_files.entry(file).or_insert_with(BTreeSet::new).insert(*number);
            }
        }
        let by_instance = stacks.iter().map(|(number, stack)| (stack.instance.as_str(), *number)).collect();
        Some(FileUses { by_instance, var_files, backend_files })
    }
}

enum User {
    All,
    Only(usize),
    /// An instance that is not there any more.
    Gone,
}

fn is_auto_loaded(name: &str) -> bool {
    matches!(name, "terraform.tfvars" | "terraform.tfvars.json")
        || name.ends_with(".auto.tfvars")
        || name.ends_with(".auto.tfvars.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StackKey;

    proptest::proptest! {
        #[test]
        fn schedulable_keys_are_those_that_parse_to_themselves(key in r"[ab./:\\ \t-]{0,10}|(a|b|\.|\.\.|default|[é ]){1,2}([/:](a|\.\.|default|x)){0,3}") {
            let same = StackKey::parse(&key).is_ok_and(|parsed| parsed.as_str() == key);
            proptest::prop_assert_eq!(is_schedulable(&key), same, "{:?}", key);
        }
    }
}
