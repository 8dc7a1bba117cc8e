//! What a job has to know of a stack, under the configuration of the resolution (spec 11 §12).

use super::model::{Stack, Warning};
use crate::config::environments::EnvironmentRules;
use crate::config::model::{PlanOutput, RepoConfig, Tool};

pub(crate) struct Settings {
    /// Never empty.
    pub environment: String,
    pub tool: Tool,
    pub tool_version: String,
    pub plan_output: PlanOutput,
}

/// The scanned value, else the stack's own file, else the root; the environment asks the configuration first.
pub(crate) fn of(
    stack: &Stack,
    config: &RepoConfig,
    environments: &EnvironmentRules<'_>,
    warnings: &mut Vec<Warning>,
) -> Settings {
    let own = stack.config.as_ref();
    let environment = environment(stack, environments, warnings);
    let version =
        [&stack.tool_version, own.map_or(&config.tool_version, |own| &own.tool_version), &config.tool_version];
    Settings {
        environment,
        tool: stack.tool.or_else(|| own.and_then(|own| own.tool)).unwrap_or(config.tool),
        tool_version: version.into_iter().find(|version| !version.is_empty()).cloned().unwrap_or_default(),
        plan_output: stack.plan_output.or_else(|| own.and_then(|own| own.plan_output)).unwrap_or(config.plan_output),
    }
}

fn environment(stack: &Stack, rules: &EnvironmentRules<'_>, warnings: &mut Vec<Warning>) -> String {
    let mut chosen = String::new();
    let mut configured = false;
    match rules.environment_of(stack.config.as_ref(), &stack.path, &stack.instance) {
        Ok(choice) => {
            configured = choice.configured;
            chosen = choice.name;
        }
        Err(problems) => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let message = format!("{}: its environment cannot be worked out: {}", stack.key, problems.join("; "));
            warnings.push(Warning::new("settings_unresolved", message).of_stack(&stack.key));
        }
    }
    if !configured && !stack.environment.is_empty() {
        chosen.clone_from(&stack.environment);
    }
    if chosen.is_empty() {
        "default".clone_into(&mut chosen);
    }
    if !configured && chosen == "default" {
        let message = format!("{}: no environment is configured, so it applies under \"default\"", stack.key);
        warnings.push(Warning::new("environment_default", message).of_stack(&stack.key));
    }
    chosen
}
