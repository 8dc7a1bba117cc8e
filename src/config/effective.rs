//! The settings of one instance: combined from both files, rendered, and checked again (spec 10 §4.5, §5).

use std::collections::BTreeMap;

pub use crate::config::environments::{EnvironmentChoice, EnvironmentRules, environment_of};
pub use crate::config::instances::{Instance, InstanceRules, InstanceSet, instances};

use crate::config::model::{EnvValue, InstanceConfig, PlanOutput, RepoConfig, StackConfig, Tool};
use crate::config::problem::{Problem, quoted};
use crate::config::references::Reference;
use crate::config::template::{self, Fields};
use crate::config::{ROOT_FILE, entries, stack_file};

/// Everything that both files say about one instance, with no template left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// `name=value`, or a file relative to the repository root; later ones win.
    pub backend_config: Vec<String>,
    /// Relative to the stack directory; later ones win.
    pub var_files: Vec<String>,
    /// Well formed (`Reference::parse` takes each), not yet resolved.
    pub depends_on: Vec<String>,
    /// As `depends_on`, but not checked: an entry that names nothing suppresses nothing.
    pub ignore_inferred: Vec<String>,
    /// Globs from the stack directory, none of which leads out of the repository; each with the key that holds it.
    pub watch: Vec<Sourced<String>>,
    pub env: BTreeMap<String, EnvValue>,
    /// Empty when the instance uses no workspace of its own; never `default`.
    pub workspace: String,
    pub plan_output: PlanOutput,
    pub tool: Tool,
    /// Empty when the workflow decides.
    pub tool_version: String,
    /// Empty when anyone with push permission may ask.
    pub allowed_teams: Vec<String>,
    pub environment: EnvironmentChoice,
}

/// What a command of the runner does; `env` may hold different values for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Plan,
    Apply,
    Drift,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nothing says anything else.
    Default,
    /// The name of the instance itself.
    Instance,
    /// A key of the root file.
    Root(String),
    /// A key of the directory's stack file.
    Stack(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub source: Source,
}

/// [`Effective`] with the source of each value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub backend_config: Vec<Sourced<String>>,
    pub var_files: Vec<Sourced<String>>,
    pub depends_on: Vec<Sourced<String>>,
    pub ignore_inferred: Vec<Sourced<String>>,
    pub watch: Vec<Sourced<String>>,
    pub env: BTreeMap<String, Sourced<EnvValue>>,
    pub workspace: Sourced<String>,
    pub plan_output: Sourced<PlanOutput>,
    pub tool: Sourced<Tool>,
    pub tool_version: Sourced<String>,
    pub allowed_teams: Sourced<Vec<String>>,
    pub environment: Sourced<EnvironmentChoice>,
}

/// Combines and renders the settings of one instance; every problem is reported at the key that holds the value.
pub fn effective(
    root: &RepoConfig,
    stack: Option<&StackConfig>,
    path: &str,
    instance: &Instance,
) -> Result<Effective, Vec<Problem>> {
    let values = |list: Vec<Sourced<String>>| list.into_iter().map(|sourced| sourced.value).collect();
    settings(root, stack, path, instance).map(|settings| Effective {
        backend_config: values(settings.backend_config),
        var_files: values(settings.var_files),
        depends_on: values(settings.depends_on),
        ignore_inferred: values(settings.ignore_inferred),
        watch: settings.watch,
        env: settings.env.into_iter().map(|(name, sourced)| (name, sourced.value)).collect(),
        workspace: settings.workspace.value,
        plan_output: settings.plan_output.value,
        tool: settings.tool.value,
        tool_version: settings.tool_version.value,
        allowed_teams: settings.allowed_teams.value,
        environment: settings.environment.value,
    })
}

/// What [`effective`] gives, with the source of each value.
pub fn settings(
    root: &RepoConfig,
    stack: Option<&StackConfig>,
    path: &str,
    instance: &Instance,
) -> Result<Settings, Vec<Problem>> {
    let nothing = StackConfig::default();
    let stack_config = stack.unwrap_or(&nothing);
    let no_overrides = InstanceConfig::default();
    let chosen = stack_config.instances.get(&instance.name).unwrap_or(&no_overrides);
    let stack_file = stack_file(path);
    let in_root = Layer { file: ROOT_FILE, prefix: String::new(), source: Source::Root };
    let in_stack = Layer { file: &stack_file, prefix: String::new(), source: Source::Stack };
    let in_instance =
        Layer { file: &stack_file, prefix: format!("instances.{}.", instance.name), source: Source::Stack };
    let mut rendering = Rendering { fields: Fields::of(path, &instance.name), problems: Vec::new() };

    let mut backend_config = Vec::new();
    let layers = [
        (&in_root, &root.backend_config),
        (&in_stack, &stack_config.backend_config),
        (&in_instance, &chosen.backend_config),
    ];
    for (layer, list) in layers {
        backend_config.extend(rendering.list(layer, "backend_config", list, entries::backend_config));
    }

    let mut var_files = rendering.list(&in_root, "var_files", &root.var_files, entries::var_file);
    var_files.extend(rendering.list(&in_stack, "var_files", &stack_config.var_files, entries::var_file));
    let matched = |file: &String| in_root.sourced("stacks.instances.from_var_files", file.clone());
    var_files.extend(instance.var_file.as_ref().map(matched));
    var_files.extend(rendering.list(&in_instance, "var_files", &chosen.var_files, entries::var_file));

    let mut depends_on = rendering.list(&in_stack, "depends_on", &stack_config.depends_on, reference);
    depends_on.extend(rendering.list(&in_instance, "depends_on", &chosen.depends_on, reference));

    let mut ignore_inferred = rendering.list(&in_stack, "ignore_inferred", &stack_config.ignore_inferred, |_| Ok(()));
    ignore_inferred.extend(rendering.list(&in_instance, "ignore_inferred", &chosen.ignore_inferred, |_| Ok(())));
    ignore_inferred.retain(|entry| !entry.value.trim().is_empty());

    let in_repository = |glob: &str| entries::watch_from(path, glob);
    let mut watch = rendering.list(&in_stack, "watch", &stack_config.watch, in_repository);
    watch.extend(rendering.list(&in_instance, "watch", &chosen.watch, in_repository));

    let mut winners: BTreeMap<&String, (&Layer<'_>, &EnvValue)> = BTreeMap::new();
    for (layer, env) in [(&in_root, &root.env), (&in_stack, &stack_config.env), (&in_instance, &chosen.env)] {
        winners.extend(env.iter().map(|(name, value)| (name, (layer, value))));
    }
    let env = winners
        .into_iter()
        .map(|(name, (layer, value))| {
            let rendered = rendering.env_value(layer, name, value);
            (name.clone(), layer.sourced(&format!("env.{name}"), rendered))
        })
        .collect();

    let (layer, workspace) = match chosen.workspace.as_str() {
        "" => (&in_stack, &stack_config.workspace),
        _ => (&in_instance, &chosen.workspace),
    };
    let rendered = rendering.text(layer.origin("workspace"), workspace, entries::workspace);
    let workspace = match (workspace.as_str(), rendered.as_str()) {
        ("", _) => Sourced { value: String::new(), source: Source::Default },
        (_, "default") => layer.sourced("workspace", String::new()),
        _ => layer.sourced("workspace", rendered),
    };

    let environment =
        EnvironmentRules::of(root).sourced_environment_of(stack, path, &instance.name).unwrap_or_else(|problems| {
            rendering.problems.extend(problems);
            let value = EnvironmentChoice { name: "default".to_owned(), configured: false };
            Sourced { value, source: Source::Default }
        });

    if !rendering.problems.is_empty() {
        return Err(rendering.problems);
    }
    Ok(Settings {
        backend_config,
        var_files,
        depends_on,
        ignore_inferred,
        watch,
        env,
        workspace,
        plan_output: sourced_plan_output_of(root, stack, &instance.name),
        tool: match stack_config.tool {
            Some(tool) => in_stack.sourced("tool", tool),
            None => in_root.sourced("tool", root.tool),
        },
        tool_version: match stack_config.tool_version.as_str() {
            "" => in_root.sourced("tool_version", root.tool_version.clone()),
            version => in_stack.sourced("tool_version", version.to_owned()),
        },
        allowed_teams: sourced_allowed_teams_of(root, stack, &instance.name),
        environment,
    })
}

/// The variables that a command gets: those with a value for its mode. Drift checks fall back to the value for plans.
pub fn env_for(env: &BTreeMap<String, EnvValue>, mode: Mode) -> BTreeMap<String, String> {
    let value_of = |value: &EnvValue| match (value, mode) {
        (EnvValue::Every(text), _) => Some(text.clone()),
        (EnvValue::PerMode { plan, .. }, Mode::Plan) => plan.clone(),
        (EnvValue::PerMode { apply, .. }, Mode::Apply) => apply.clone(),
        (EnvValue::PerMode { plan, drift, .. }, Mode::Drift) => drift.clone().or_else(|| plan.clone()),
    };
    env.iter().filter_map(|(name, value)| Some((name.clone(), value_of(value)?))).collect()
}

/// Who may ask for an apply: the most specific list that is not empty.
pub fn allowed_teams_of(root: &RepoConfig, stack: Option<&StackConfig>, _path: &str, instance: &str) -> Vec<String> {
    sourced_allowed_teams_of(root, stack, instance).value
}

fn sourced_allowed_teams_of(root: &RepoConfig, stack: Option<&StackConfig>, instance: &str) -> Sourced<Vec<String>> {
    let of_instance = stack.and_then(|stack| stack.instances.get(instance)).map(|chosen| &chosen.apply.allowed_teams);
    let lists = [
        (of_instance, Source::Stack(format!("instances.{instance}.apply.allowed_teams"))),
        (stack.map(|stack| &stack.apply.allowed_teams), Source::Stack("apply.allowed_teams".to_owned())),
    ];
    let said = lists.into_iter().find_map(|(teams, source)| Some((teams.filter(|teams| !teams.is_empty())?, source)));
    let (teams, source) =
        said.unwrap_or_else(|| (&root.apply.allowed_teams, Source::Root("apply.allowed_teams".to_owned())));
    Sourced { value: teams.clone(), source }
}

/// How much of a plan leaves the runner: the instance's word, else the stack's, else the root's.
pub fn plan_output_of(root: &RepoConfig, stack: Option<&StackConfig>, _path: &str, instance: &str) -> PlanOutput {
    sourced_plan_output_of(root, stack, instance).value
}

fn sourced_plan_output_of(root: &RepoConfig, stack: Option<&StackConfig>, instance: &str) -> Sourced<PlanOutput> {
    let of_instance = stack.and_then(|stack| stack.instances.get(instance)).and_then(|chosen| chosen.plan_output);
    match (of_instance, stack.and_then(|stack| stack.plan_output)) {
        (Some(value), _) => Sourced { value, source: Source::Stack(format!("instances.{instance}.plan_output")) },
        (None, Some(value)) => Sourced { value, source: Source::Stack("plan_output".to_owned()) },
        (None, None) => Sourced { value: root.plan_output, source: Source::Root("plan_output".to_owned()) },
    }
}

fn reference(entry: &str) -> entries::Rule {
    Reference::parse(entry, None).map(|_| ())
}

/// The file and key that hold a value, for the problems it causes.
#[derive(Debug, Clone)]
pub(super) struct Origin<'f> {
    file: &'f str,
    path: String,
}

impl<'f> Origin<'f> {
    pub(super) fn new(file: &'f str, path: impl Into<String>) -> Self {
        Self { file, path: path.into() }
    }

    /// Renders a value and checks what came out.
    pub(super) fn render(
        &self,
        value: &str,
        fields: &Fields,
        rule: impl Fn(&str) -> entries::Rule,
    ) -> Result<String, Problem> {
        let problem = |message: String| Problem::of_key(self.file, &self.path, message);
        let rendered = template::render(value, fields).map_err(|error| problem(error.to_string()))?;
        match rule(&rendered) {
            Ok(()) => Ok(rendered),
            Err(broken) if rendered == value => Err(problem(format!("{}: {broken}", quoted(value)))),
            Err(broken) => {
                let (value, rendered) = (quoted(value), quoted(&rendered));
                Err(problem(format!("{value} renders to {rendered} for {}: {broken}", fields.key)))
            }
        }
    }
}

/// One place that settings come from.
struct Layer<'f> {
    file: &'f str,
    prefix: String,
    source: fn(String) -> Source,
}

impl<'f> Layer<'f> {
    fn origin(&self, key: &str) -> Origin<'f> {
        Origin::new(self.file, format!("{}{key}", self.prefix))
    }

    fn sourced<T>(&self, key: &str, value: T) -> Sourced<T> {
        Sourced { value, source: (self.source)(format!("{}{key}", self.prefix)) }
    }
}

struct Rendering {
    fields: Fields,
    problems: Vec<Problem>,
}

impl Rendering {
    /// The rendered value; empty, with a problem noted, when there is none.
    fn text(&mut self, origin: Origin<'_>, value: &str, rule: impl Fn(&str) -> entries::Rule) -> String {
        origin.render(value, &self.fields, rule).unwrap_or_else(|problem| {
            self.problems.push(problem);
            String::new()
        })
    }

    fn list(
        &mut self,
        layer: &Layer<'_>,
        key: &str,
        values: &[String],
        rule: impl Fn(&str) -> entries::Rule,
    ) -> Vec<Sourced<String>> {
        let item = |(index, value): (usize, &String)| {
            let key = format!("{key}[{index}]");
            layer.sourced(&key, self.text(layer.origin(&key), value, &rule))
        };
        values.iter().enumerate().map(item).collect()
    }

    fn env_value(&mut self, layer: &Layer<'_>, name: &str, value: &EnvValue) -> EnvValue {
        let mut render =
            |mode: &str, value: &String| self.text(layer.origin(&format!("env.{name}{mode}")), value, |_| Ok(()));
        match value {
            EnvValue::Every(text) => EnvValue::Every(render("", text)),
            EnvValue::PerMode { plan, apply, drift } => EnvValue::PerMode {
                plan: plan.as_ref().map(|text| render(".plan", text)),
                apply: apply.as_ref().map(|text| render(".apply", text)),
                drift: drift.as_ref().map(|text| render(".drift", text)),
            },
        }
    }
}

#[cfg(test)]
mod tests;
