//! The settings of one instance: combined from both files, rendered, and checked again (spec 10 §4.5, §5).

use std::collections::BTreeMap;

pub use crate::config::environments::{EnvironmentChoice, environment_of};
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

/// Combines and renders the settings of one instance; every problem is reported at the key that holds the value.
pub fn effective(
    root: &RepoConfig,
    stack: Option<&StackConfig>,
    path: &str,
    instance: &Instance,
) -> Result<Effective, Vec<Problem>> {
    let nothing = StackConfig::default();
    let stack_config = stack.unwrap_or(&nothing);
    let no_overrides = InstanceConfig::default();
    let chosen = stack_config.instances.get(&instance.name).unwrap_or(&no_overrides);
    let stack_file = stack_file(path);
    let in_root = Layer { file: ROOT_FILE, prefix: String::new() };
    let in_stack = Layer { file: &stack_file, prefix: String::new() };
    let in_instance = Layer { file: &stack_file, prefix: format!("instances.{}.", instance.name) };
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
    var_files.extend(instance.var_file.clone());
    var_files.extend(rendering.list(&in_instance, "var_files", &chosen.var_files, entries::var_file));

    let mut depends_on = rendering.list(&in_stack, "depends_on", &stack_config.depends_on, reference);
    depends_on.extend(rendering.list(&in_instance, "depends_on", &chosen.depends_on, reference));

    let mut ignore_inferred = rendering.list(&in_stack, "ignore_inferred", &stack_config.ignore_inferred, |_| Ok(()));
    ignore_inferred.extend(rendering.list(&in_instance, "ignore_inferred", &chosen.ignore_inferred, |_| Ok(())));
    ignore_inferred.retain(|entry| !entry.trim().is_empty());

    let mut winners: BTreeMap<&String, (&Layer<'_>, &EnvValue)> = BTreeMap::new();
    for (layer, env) in [(&in_root, &root.env), (&in_stack, &stack_config.env), (&in_instance, &chosen.env)] {
        winners.extend(env.iter().map(|(name, value)| (name, (layer, value))));
    }
    let env = winners
        .into_iter()
        .map(|(name, (layer, value))| (name.clone(), rendering.env_value(layer, name, value)))
        .collect();

    let (layer, workspace) = match chosen.workspace.as_str() {
        "" => (&in_stack, &stack_config.workspace),
        _ => (&in_instance, &chosen.workspace),
    };
    let workspace = rendering.text(layer.origin("workspace"), workspace, entries::workspace);

    let environment = environment_of(root, stack, path, &instance.name).unwrap_or_else(|problems| {
        rendering.problems.extend(problems);
        EnvironmentChoice { name: "default".to_owned(), configured: false }
    });

    if !rendering.problems.is_empty() {
        return Err(rendering.problems);
    }
    let tool_version = [&stack_config.tool_version, &root.tool_version].into_iter().find(|version| !version.is_empty());
    Ok(Effective {
        backend_config,
        var_files,
        depends_on,
        ignore_inferred,
        env,
        workspace: if workspace == "default" { String::new() } else { workspace },
        plan_output: plan_output_of(root, stack, path, &instance.name),
        tool: stack_config.tool.unwrap_or(root.tool),
        tool_version: tool_version.cloned().unwrap_or_default(),
        allowed_teams: allowed_teams_of(root, stack, path, &instance.name),
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
    let of_instance = stack.and_then(|stack| stack.instances.get(instance)).map(|chosen| &chosen.apply.allowed_teams);
    let of_stack = stack.map(|stack| &stack.apply.allowed_teams);
    let lists = [of_instance, of_stack, Some(&root.apply.allowed_teams)];
    lists.into_iter().flatten().find(|teams| !teams.is_empty()).cloned().unwrap_or_default()
}

/// How much of a plan leaves the runner: the instance's word, else the stack's, else the root's.
pub fn plan_output_of(root: &RepoConfig, stack: Option<&StackConfig>, _path: &str, instance: &str) -> PlanOutput {
    let of_instance = stack.and_then(|stack| stack.instances.get(instance)).and_then(|chosen| chosen.plan_output);
    of_instance.or_else(|| stack.and_then(|stack| stack.plan_output)).unwrap_or(root.plan_output)
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
}

impl<'f> Layer<'f> {
    fn origin(&self, key: &str) -> Origin<'f> {
        Origin::new(self.file, format!("{}{key}", self.prefix))
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
    ) -> Vec<String> {
        let indexed = values.iter().enumerate();
        indexed.map(|(index, value)| self.text(layer.origin(&format!("{key}[{index}]")), value, &rule)).collect()
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
