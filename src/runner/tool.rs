//! Finding Terraform or OpenTofu, and the environment it runs in (spec 12 §9).

use std::collections::BTreeMap;
use std::path::Path;

use super::environment::Environment;
use super::stack::ChosenStack;
use crate::config::effective::{Mode, env_for};
use crate::config::model::Tool;
use crate::config::problem::quoted;

/// Where secret keys of plan bundles are; no tool and no hook ever sees them.
pub const PLAN_IDENTITY: &str = "STACKORDER_PLAN_IDENTITY";
/// Who may open a plan bundle: age public keys.
pub const PLAN_RECIPIENT: &str = "STACKORDER_PLAN_RECIPIENT";

/// Which tool a stack wants, and how it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolChoice {
    pub tool: Tool,
    pub program: String,
    /// Empty when any will do.
    pub wanted_version: String,
}

impl ToolChoice {
    /// `STACKORDER_TOOL` and `STACKORDER_TOOL_VERSION` beat the configuration.
    pub fn of(stack: &ChosenStack, env: &Environment) -> Result<Self, String> {
        let tool = match env.get("STACKORDER_TOOL") {
            None => stack.settings.tool,
            Some("terraform") => Tool::Terraform,
            Some("tofu") => Tool::Tofu,
            Some(other) => return Err(format!("STACKORDER_TOOL: {} is neither terraform nor tofu", quoted(other))),
        };
        let binary = match tool {
            Tool::Terraform => "STACKORDER_TERRAFORM_BIN",
            Tool::Tofu => "STACKORDER_TOFU_BIN",
        };
        let program = env.get(binary).unwrap_or(tool.as_str());
        let program = match program.contains(['/', '\\']) {
            // It is started in the stack's directory, to which no path of ours is relative.
            true => std::path::absolute(program).map_err(|error| format!("{binary}: {error}"))?.display().to_string(),
            false => program.to_owned(),
        };
        let version = env.get("STACKORDER_TOOL_VERSION").unwrap_or(&stack.settings.tool_version);
        Ok(Self { tool, program, wanted_version: if version == "latest" { String::new() } else { version.to_owned() } })
    }
}

/// The environment of the tool and of hooks: the process's own, automation, the stack's values, the stack's name.
pub fn tool_environment(env: &Environment, stack: &ChosenStack, mode: Mode) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> =
        env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    variables.remove(PLAN_IDENTITY);
    // Terraform warns on every command about a configuration file that is not there.
    if variables.get("TF_CLI_CONFIG_FILE").is_some_and(|file| !Path::new(file).exists()) {
        variables.remove("TF_CLI_CONFIG_FILE");
    }
    for (name, value) in [("TF_IN_AUTOMATION", "1"), ("TF_INPUT", "0"), ("CHECKPOINT_DISABLE", "1")] {
        variables.insert(name.to_owned(), value.to_owned());
    }
    variables.extend(env_for(&stack.settings.env, mode));
    variables.insert("STACKORDER_STACK".to_owned(), stack.key.to_string());
    variables.insert("STACKORDER_STACK_PATH".to_owned(), stack.key.path().to_owned());
    variables.insert("STACKORDER_INSTANCE".to_owned(), stack.key.instance().to_owned());
    variables
}

/// The version in the answer to `version -json`.
pub fn version_of_json(answer: &[u8]) -> Option<String> {
    let json: serde_json::Value = serde_json::from_slice(answer).ok()?;
    Some(json.get("terraform_version")?.as_str()?.to_owned())
}

/// Whether `version -json` was answered by Terraform: OpenTofu's answer says nothing of being outdated.
pub fn is_terraform(answer: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(answer).is_ok_and(|json| json.get("terraform_outdated").is_some())
}

/// Tool and version in the first line of the answer to `version`, as `OpenTofu v1.10.0`.
pub fn version_of_text(answer: &[u8]) -> Option<(Tool, String)> {
    let text = String::from_utf8_lossy(answer);
    let (name, version) = text.lines().next()?.trim().split_once(" v")?;
    let tool = match name {
        "Terraform" => Tool::Terraform,
        "OpenTofu" => Tool::Tofu,
        _ => return None,
    };
    Some((tool, version.split_whitespace().next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tools_are_told_apart_by_their_first_line() {
        let of = |text: &str| version_of_text(text.as_bytes());
        assert_eq!(of("Terraform v1.11.4\non linux_amd64\n"), Some((Tool::Terraform, "1.11.4".to_owned())));
        assert_eq!(of("OpenTofu v1.10.0\n"), Some((Tool::Tofu, "1.10.0".to_owned())));
        assert_eq!(of("something else\n"), None);
        assert_eq!(version_of_json(br#"{"terraform_version":"1.11.4"}"#).as_deref(), Some("1.11.4"));
    }

    #[test]
    fn the_json_answer_of_terraform_alone_says_whether_it_is_outdated() {
        assert!(is_terraform(br#"{"terraform_version":"1.11.4","terraform_outdated":false}"#));
        assert!(!is_terraform(br#"{"terraform_version":"1.10.0","platform":"linux_amd64"}"#));
        assert!(!is_terraform(b"Terraform v1.11.4"));
    }
}
