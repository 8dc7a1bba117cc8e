//! From changed paths to the stacks and modules that own or watch them (spec 11 §9).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::model::{Graph, ModuleKind, Stack, Warning};
use super::ordering::Ordering;
use crate::config::effective::{Instance, effective, instances};
use crate::config::glob::{self, GlobError, PathGlobs};
use crate::config::model::RepoConfig;
use crate::ids::{STACK_KEY_BYTES_MAX, is_instance_name, normalise_path, split_key};
use crate::scan::files::{ancestors, file_name, join, parent};

/// What the changed paths reach by themselves. Stacks are numbers of the [`Ordering`].
#[derive(Debug, Default)]
pub(crate) struct Touched<'g> {
    pub changed: BTreeSet<usize>,
    pub watching: BTreeSet<usize>,
    /// Keys of local modules.
    pub modules: BTreeSet<&'g str>,
    pub warnings: Vec<Warning>,
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
        Self { owners: Owners::of(graph, ordering, config, warnings), ignore: ignore_globs(config, warnings) }
    }

    fn sort(&self, path: &str, touched: &mut Touched<'g>) {
        if path.split('/').any(|segment| segment == ".terraform") || self.ignore.matches(path) {
            return;
        }
        let outside = path == ".." || path.starts_with("../");
        if (outside || !self.owners.touch(path, touched)) && !is_own_configuration(path) {
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
    let warn = |error: GlobError| Warning::new("ignore_glob", format!("stacks.ignore: {error}; the glob is skipped"));
    warnings.extend(invalid.into_iter().map(warn));
    compiled
}

/// Who owns which directory; only looked up, never walked.
struct Owners<'g> {
    config: &'g RepoConfig,
    stacks: HashMap<&'g str, Vec<(usize, &'g Stack)>>,
    modules: HashMap<&'g str, Vec<&'g str>>,
    watched: HashMap<&'g str, Vec<usize>>,
    globs: WatchGlobs<'g>,
}

/// Globs of stacks, and for each the stacks that watch what it matches.
struct WatchGlobs<'g> {
    compiled: PathGlobs,
    stacks: Vec<Vec<(usize, &'g Stack)>>,
}

/// Most different globs of all stacks together; compiling more takes seconds.
const WATCH_GLOBS_MAX: usize = 1_000;

impl<'g> WatchGlobs<'g> {
    fn of(watching: BTreeMap<&'g str, Vec<(usize, &'g Stack)>>, warnings: &mut Vec<Warning>) -> Self {
        let all = watching.len();
        let valid = watching.into_iter().filter(|(glob, _)| glob::check(glob).is_ok()).take(WATCH_GLOBS_MAX);
        let (globs, stacks): (Vec<String>, Vec<_>) = valid.map(|(glob, stacks)| (glob.to_owned(), stacks)).unzip();
        let compiled = PathGlobs::new(&globs);
        if compiled.is_err() || globs.len() < all {
            let used = if compiled.is_ok() { globs.len() } else { 0 };
            let message = format!("only {used} of {all} patterns of files that stacks read are watched");
            warnings.push(Warning::new("watch_globs", message));
        }
        match compiled {
            Ok(compiled) => Self { compiled, stacks },
            Err(_) => Self { compiled: PathGlobs::lenient(&[]).0, stacks: Vec::new() },
        }
    }
}

impl<'g> Owners<'g> {
    fn of(graph: &'g Graph, ordering: &Ordering, config: &'g RepoConfig, warnings: &mut Vec<Warning>) -> Self {
        let (mut stacks, mut modules, mut watched) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut globs: BTreeMap<&str, Vec<(usize, &Stack)>> = BTreeMap::new();
        for stack in graph.stacks.iter().filter(|stack| !stack.external) {
            let Some(number) = ordering.index(&stack.key).filter(|stack| ordering.is_schedulable(*stack)) else {
                continue;
            };
            stacks.entry(stack.path.as_str()).or_insert_with(Vec::new).push((number, stack));
            for path in &stack.watch_paths {
                watched.entry(path.as_str()).or_insert_with(Vec::new).push(number);
            }
            for glob in &stack.watch_globs {
                globs.entry(glob).or_default().push((number, stack));
            }
        }
        for module in graph.modules.iter().filter(|module| module.kind == ModuleKind::Local && !module.path.is_empty())
        {
            modules.entry(module.path.as_str()).or_insert_with(Vec::new).push(module.key.as_str());
        }
        Self { config, stacks, modules, watched, globs: WatchGlobs::of(globs, warnings) }
    }

    /// Whether anybody has to do with the path.
    fn touch(&self, path: &str, touched: &mut Touched<'g>) -> bool {
        let mut owned = false;
        let enclosing = || std::iter::once(path).chain(ancestors(path));
        let mut owner = "";
        if let Some(stacks) = enclosing().find_map(|directory| self.stacks.get(directory)) {
            match self.only_user(path, stacks) {
                Some(only) => drop(touched.changed.insert(only)),
                None => touched.changed.extend(stacks.iter().map(|(number, _)| *number)),
            }
            owner = stacks.first().map_or("", |(_, stack)| stack.path.as_str());
            owned = true;
        }
        if let Some(modules) = enclosing().find_map(|directory| self.modules.get(directory)) {
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
        for glob in self.globs.compiled.matching(path) {
            let watching = self.globs.stacks[glob].iter().filter(|(_, stack)| stack.path != owner);
            touched.watching.extend(watching.map(|(number, _)| *number));
            owned = true;
        }
        owned
    }

    /// The instance that alone uses a file of its directory as a var file (spec 11 §18); every other file is of all.
    fn only_user(&self, path: &str, stacks: &[(usize, &Stack)]) -> Option<usize> {
        if stacks.len() < 2 || !(path.ends_with(".tfvars") || path.ends_with(".tfvars.json")) {
            return None;
        }
        let name = file_name(path);
        let in_directory = parent(path) == stacks.first()?.1.path;
        let auto_loaded = name.starts_with("terraform.tfvars") || name.contains(".auto.tfvars");
        if in_directory && auto_loaded {
            return None;
        }
        let mut users = stacks.iter().filter(|(_, stack)| self.uses(stack, path)).map(|(number, _)| *number);
        let only = users.next()?;
        users.next().is_none().then_some(only)
    }

    /// Whether the file is a var file of the stack. What cannot be worked out counts as a use.
    fn uses(&self, stack: &Stack, path: &str) -> bool {
        let relative = path.strip_prefix(&stack.path).map_or(path, |rest| rest.trim_start_matches('/')).to_owned();
        let Ok(matched) = instances(self.config, stack.config.as_ref(), &stack.path, std::slice::from_ref(&relative))
        else {
            return true;
        };
        let var_file = matched.instances.into_iter().find(|instance| instance.name == stack.instance);
        let instance = var_file.unwrap_or_else(|| Instance { name: stack.instance.clone(), var_file: None });
        match effective(self.config, stack.config.as_ref(), &stack.path, &instance) {
            Err(_) => true,
            Ok(settings) => {
                let var_files = settings.var_files.iter().filter_map(|file| join(&stack.path, file));
                let backend_files = settings.backend_config.iter().filter_map(|file| join("", file));
                var_files.chain(backend_files).any(|file| file == path)
            }
        }
    }
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
