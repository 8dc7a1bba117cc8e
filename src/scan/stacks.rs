//! Which directories are stacks, and the stacks they hold, one for each instance (spec 11 §3–§5).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::directory::Directory;
use super::evaluation::Scope;
use super::files::{EntryKind, join};
use super::inputs::Inputs;
use super::modules::Place;
use super::reader::Reader;
use super::value::Expression;
use super::{Globs, ScanError, backend, incomplete, modules, terraform_file, warning_in, watch_paths};
use crate::config::effective::{Effective, Instance, InstanceRules, Sourced, effective};
use crate::config::model::{RepoConfig, StackConfig, Tool};
use crate::config::parse::parse_stack_config;
use crate::config::problem::{Problem, quoted};
use crate::config::{ROOT_FILE, stack_file};
use crate::graph::model::{Backend, Stack, Warning};
use crate::ids::normalise_path;

/// A stack with what its edges are made of.
pub(super) struct Built {
    pub stack: Stack,
    /// As rendered, not yet resolved.
    pub depends_on: Vec<String>,
    pub ignore_inferred: Vec<String>,
    /// Globs from its directory, each with its key.
    pub watch: Vec<Sourced<String>>,
    pub inputs: Inputs,
    scope: OnceCell<Rc<Scope>>,
}

impl Built {
    /// Where its files are, and the tool that reads them.
    pub fn place(&self) -> Place {
        (self.inputs.path.clone(), self.inputs.tool)
    }

    /// The values of its own directory; read when somebody asks.
    pub fn scope(&self, reader: &Reader<'_>) -> Rc<Scope> {
        self.scope.get_or_init(|| Rc::new(self.inputs.scope(reader))).clone()
    }
}

#[derive(Default)]
pub(super) struct Stacks {
    pub stacks: Vec<Built>,
    pub warnings: Vec<Warning>,
}

/// The stack directories with what their files say.
pub(super) fn find(
    reader: &Reader<'_>,
    config: &RepoConfig,
    globs: &Globs,
) -> (BTreeMap<String, Rc<Directory>>, Vec<Warning>) {
    let mut warnings = Vec::new();
    let mut included = BTreeSet::new();
    for entry in &config.stacks.include {
        let path = normalise_path(entry);
        if globs.exclude.matches(&path) {
            let message = format!("stacks.include: {entry:?} is excluded by stacks.exclude");
            warnings.push(warning_in("include_excluded", ROOT_FILE, message));
        } else if !reader.tree.is_directory(&path) {
            let message = format!("stacks.include: {entry:?} is not a directory; it is ignored");
            warnings.push(warning_in("include_missing", ROOT_FILE, message));
        } else {
            included.insert(path);
        }
    }
    let discovered = reader.terraform_directories().filter(|path| {
        !globs.exclude.matches(path) && globs.discover.matches(path) && !modules::is_under(&globs.modules, path)
    });
    let candidates: BTreeSet<String> = discovered.map(str::to_owned).chain(included.iter().cloned()).collect();
    let mut stacks = BTreeMap::new();
    for path in candidates {
        let directory = reader.directory(&path, tool_of(reader, config, &path));
        warnings.extend(directory.warnings.iter().cloned());
        if directory.tool == Tool::Terraform && !directory.has_base_file && reader.has_tofu_file(&path) {
            let message = format!("{path} holds only .tofu files, which its tool, terraform, does not read");
            warnings.push(warning_in("only_tofu_files", &path, message));
        }
        match judge(&path, &directory, included.contains(&path)) {
            Verdict::Stack(more) => {
                warnings.extend(more);
                stacks.insert(path, directory);
            }
            Verdict::NoStack(None) if !path.is_empty() => warnings.extend(incomplete::maybe_stack(&path, &directory)),
            Verdict::NoStack(more) => warnings.extend(more),
        }
    }
    (stacks, warnings)
}

/// The tool of a directory, as far as it matters for which files are read. A stack file with mistakes is reported
/// where it is used.
fn tool_of(reader: &Reader<'_>, config: &RepoConfig, path: &str) -> Tool {
    let file = stack_file(path);
    if !reader.has_tofu_file(path) || reader.tree.kind(&file).is_none() {
        return config.tool;
    }
    let own = reader.read(&file).ok().and_then(|bytes| parse_stack_config(&file, &bytes).ok());
    own.and_then(|own| own.tool).unwrap_or(config.tool)
}

enum Verdict {
    Stack(Option<Warning>),
    NoStack(Option<Warning>),
}

fn judge(path: &str, directory: &Directory, included: bool) -> Verdict {
    let backend = directory.backend.as_ref().map(|block| block.it.kind.as_str());
    if path.is_empty() {
        let warned = included || (backend == Some("s3") && directory.has_base_file);
        return Verdict::NoStack(warned.then(|| {
            warning_in("root_is_stack", ".", "the repository root cannot be a stack; move its files into a directory")
        }));
    }
    match (backend, included) {
        (Some("s3"), _) if directory.has_base_file => Verdict::Stack(None),
        (_, true) => {
            let why = match (directory.has_base_file, directory.has_override) {
                (true, _) => "it has no s3 backend",
                (false, true) => "it has only override files",
                (false, false) => "it has no file that its tool reads",
            };
            let message = format!("{path} is included as a stack, but {why}");
            Verdict::Stack(Some(warning_in("include_without_backend", path, message)))
        }
        (Some(kind), false) if kind != "s3" => {
            let message = format!("{path} is not a stack: its backend is {kind:?}, not s3");
            Verdict::NoStack(Some(warning_in("backend_other", path, message)))
        }
        (Some(_) | None, false) => Verdict::NoStack(None),
    }
}

/// The stacks of all directories, sorted by key. All problems of all files come back together.
pub(super) fn build(
    reader: &Reader<'_>,
    config: &RepoConfig,
    directories: &BTreeMap<String, Rc<Directory>>,
) -> Result<Stacks, Vec<ScanError>> {
    let rules = InstanceRules::new(config).map_err(problems)?;
    let mut builder = Builder { reader, config, rules, directories, found: Stacks::default(), errors: Vec::new() };
    for (path, directory) in directories {
        if let Err(errors) = builder.directory(path, directory) {
            builder.errors.extend(errors);
        }
    }
    builder.found.stacks.sort_by(|a, b| a.stack.key.cmp(&b.stack.key));
    builder.errors.extend(same_keys(&builder.found.stacks));
    if !builder.errors.is_empty() {
        builder.errors.sort();
        builder.errors.dedup();
        return Err(builder.errors);
    }
    let mut found = builder.found;
    found.warnings.extend(shared_states(&found.stacks));
    Ok(found)
}

/// Two stacks with one key: a directory with a colon in its name, and an instance of the directory in front of the colon.
fn same_keys(stacks: &[Built]) -> Vec<ScanError> {
    let twins = stacks.windows(2).filter(|pair| pair[0].stack.key == pair[1].stack.key);
    let problem = |pair: &[Built]| {
        let of = pair.iter().map(|built| &built.stack).find(|stack| !stack.instance.is_empty())?;
        let message = format!(
            "the directory has the key of the instance {} of {}; rename one of them",
            quoted(&of.instance),
            quoted(&of.path)
        );
        Some(ScanError::Configuration(Problem::of_key(&of.key, "", message)))
    };
    twins.filter_map(problem).collect()
}

struct Builder<'a, 'f> {
    reader: &'a Reader<'f>,
    config: &'a RepoConfig,
    rules: InstanceRules,
    directories: &'a BTreeMap<String, Rc<Directory>>,
    found: Stacks,
    errors: Vec<ScanError>,
}

fn problems(problems: Vec<Problem>) -> Vec<ScanError> {
    problems.into_iter().map(ScanError::Configuration).collect()
}

impl Builder<'_, '_> {
    fn directory(&mut self, path: &str, directory: &Directory) -> Result<(), Vec<ScanError>> {
        let own = self.stack_config(path)?;
        // Names are asked for only where one of them can make an instance.
        let below = if self.config.stacks.instances.from_var_files.is_empty() {
            Vec::new()
        } else {
            self.reader.tree.files_below(path).map(str::to_owned).collect()
        };
        let set = self.rules.instances(own.as_ref(), path, &below).map_err(problems)?;
        // A matched file that no instance uses was still looked at.
        set.warnings.iter().for_each(|warning| self.reader.note(&warning.file));
        self.found.warnings.extend(set.warnings);
        self.reader.note(&format!("{path}/.terraform.lock.hcl"));
        for instance in &set.instances {
            match effective(self.config, own.as_ref(), path, instance) {
                Ok(settings) => self.stack(path, directory, own.as_ref(), instance, settings),
                Err(found) => self.errors.extend(problems(found)),
            }
        }
        Ok(())
    }

    fn stack_config(&self, path: &str) -> Result<Option<StackConfig>, Vec<ScanError>> {
        let file = stack_file(path);
        if self.reader.tree.kind(&file).is_none() {
            return Ok(None);
        }
        match self.reader.read(&file) {
            Ok(bytes) => parse_stack_config(&file, &bytes).map(Some).map_err(problems),
            Err(reason) => Err(vec![ScanError::Unreadable { file, reason }]),
        }
    }

    fn stack(
        &mut self,
        path: &str,
        directory: &Directory,
        own: Option<&StackConfig>,
        instance: &Instance,
        settings: Effective,
    ) {
        let key = if instance.name.is_empty() { path.to_owned() } else { format!("{path}:{}", instance.name) };
        let values = Inputs {
            path: path.to_owned(),
            tool: settings.tool,
            workspace: settings.workspace.clone(),
            var_files: settings.var_files.iter().map(|entry| join(path, entry)).collect(),
            env: settings.env,
        };
        let scope = OnceCell::new();
        let mut backend = self.backend(directory, &values, &scope);
        let mut inputs = BTreeSet::new();
        for entry in &settings.backend_config {
            match entry.split_once('=') {
                Some((name, value)) => {
                    let warning =
                        backend.as_mut().and_then(|backend| backend::overlay_value(backend, name.trim(), value, &key));
                    self.found.warnings.extend(warning);
                }
                None => match self.backend_file(entry, &mut backend) {
                    Ok(file) => drop(inputs.insert(file)),
                    Err(reason) => {
                        let (stack, file) = (key.clone(), entry.clone());
                        self.errors.push(ScanError::BackendFile { stack, file, reason });
                    }
                },
            }
        }
        for entry in &settings.var_files {
            inputs.extend(self.var_file(path, entry, &key));
        }
        let mut warnings = self.planning_warnings(path, directory, &key);
        if backend.as_ref().is_some_and(|backend| backend.bucket.is_empty() || backend.key.is_empty()) {
            let message = format!("{key}: state key not known; edges to it need depends_on");
            warnings.push(Warning::new("state_key_unknown", message).of_stack(&key));
        }
        let stack = Stack {
            path: path.to_owned(),
            instance: instance.name.clone(),
            workspace: settings.workspace,
            repo: String::new(),
            backend,
            environment: settings.environment.name,
            tool: Some(settings.tool),
            tool_version: settings.tool_version,
            plan_output: Some(settings.plan_output),
            config: own.cloned(),
            external: false,
            watch_paths: watch_paths::watch_paths(path, &inputs, self.directories),
            watch_globs: Vec::new(),
            warnings,
            key,
        };
        let Effective { depends_on, ignore_inferred, watch, .. } = settings;
        self.found.stacks.push(Built { stack, depends_on, ignore_inferred, watch, inputs: values, scope });
    }

    /// The backend as the files have it for one instance.
    fn backend(&mut self, directory: &Directory, values: &Inputs, scope: &OnceCell<Rc<Scope>>) -> Option<Backend> {
        let block = directory.backend.as_ref().filter(|block| block.it.kind == "s3")?;
        let evaluate = |expression: &Expression| {
            scope.get_or_init(|| Rc::new(values.scope(self.reader))).evaluate(expression, None)
        };
        let (backend, warnings) = backend::from_block(block, values.tool, &evaluate);
        self.found.warnings.extend(warnings);
        Some(backend)
    }

    /// Lays a backend file over the backend; the repository relative path, or why it cannot be used.
    fn backend_file(&mut self, entry: &str, backend: &mut Option<Backend>) -> Result<String, String> {
        let file = join("", entry).ok_or("it is outside the repository")?;
        let bytes = self.reader.read(&file)?;
        let (attributes, warnings) = terraform_file::read_attributes(&file, &bytes);
        self.found.warnings.extend(warnings);
        if let Some(backend) = backend {
            self.found.warnings.extend(backend::overlay_file(backend, &file, &attributes));
        }
        Ok(file)
    }

    /// The repository relative path of a var file, existing or not.
    fn var_file(&mut self, path: &str, entry: &str, key: &str) -> Option<String> {
        let Some(file) = join(path, entry) else {
            let message = format!("{key}: var file {entry:?} is outside the repository; it is not watched");
            self.found.warnings.push(Warning::new("var_file_outside", message).of_stack(key));
            return None;
        };
        if self.reader.tree.kind(&file).is_none() {
            let message = format!("the var file of {key} is missing");
            self.found.warnings.push(Warning::new("var_file_missing", message).in_file(&file).of_stack(key));
        }
        if let Some(EntryKind::BadLink { reason }) = self.reader.tree.kind(&file) {
            let message = format!("the var file of {key} cannot be read: {reason}");
            self.found.warnings.push(Warning::new("file_unreadable", message).in_file(&file).of_stack(key));
        }
        self.reader.note(&file);
        Some(file)
    }

    /// What matters only when the stack is planned.
    fn planning_warnings(&self, path: &str, directory: &Directory, key: &str) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if directory.names_provider && self.reader.tree.kind(&format!("{path}/.terraform.lock.hcl")).is_none() {
            let message = format!(
                "{key}: no .terraform.lock.hcl is committed; plan and apply may pick different provider versions"
            );
            warnings.push(Warning::new("no_lock_file", message).of_stack(key));
        }
        if self.config.stacks.plan_files.is_empty() {
            for (file, line) in &directory.archive_files {
                let message = "an archive_file data source makes a file while planning that the apply needs; name it in stacks.plan_files";
                warnings.push(Warning::new("archive_without_plan_files", message).at(file, *line).of_stack(key));
            }
        }
        warnings
    }
}

fn shared_states(stacks: &[Built]) -> Vec<Warning> {
    let mut writers: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for built in stacks {
        if let Some(object) = state_object(&built.stack) {
            writers.entry(object).or_default().push(&built.stack.key);
        }
    }
    let shared = writers.into_iter().filter(|(_, keys)| keys.len() > 1);
    let warn = |((bucket, key), stacks): ((String, String), Vec<&str>)| {
        Warning::new("state_shared", format!("{} share the state s3://{bucket}/{key}", stacks.join(", ")))
    };
    shared.map(warn).collect()
}

/// Bucket and object key, where both are known.
pub(super) fn state_object(stack: &Stack) -> Option<(String, String)> {
    let backend = stack.backend.as_ref()?;
    let known = !backend.bucket.is_empty() && !backend.key.is_empty();
    known.then(|| (backend.bucket.clone(), backend.object_key(&stack.workspace)))
}
