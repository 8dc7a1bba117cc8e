//! A `uses` step: a stand-in, or a composite action from a repository or the workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::Runner;
use super::steps::{Ready, Scope, StepEnd, evaluate_pairs};
use crate::actions::builtin;
use crate::actions::expression::Contexts;
use crate::actions::leg::ref_parts;
use crate::actions::model::Conclusion;
use crate::actions::tree::{ACTION_DEPTH_MAX, find_action};
use crate::actions::workflow::{ActionFile, Pairs, Source};

impl Runner<'_> {
    pub(super) async fn use_action(
        &mut self,
        ready: &Ready<'_>,
        scope: &Scope,
        uses: &str,
        with: &Pairs,
        depth: usize,
    ) -> Result<StepEnd, String> {
        let inputs = evaluate_pairs(&ready.contexts, with)?;
        self.log.line(&format!("##[group]Run {uses}"));
        if !inputs.is_empty() {
            self.log.line("with:");
            inputs.iter().for_each(|(name, value)| self.log.line(&format!("  {name}: {value}")));
        }
        self.log.line("##[endgroup]");
        if let Some(stand_in) = builtin::find(uses) {
            let env = self.step_env(scope, &ready.env);
            let step = builtin::Use { inputs: builtin::Inputs::new(inputs), env, stop: ready.stop.clone() };
            return match builtin::run(stand_in, self, &step).await {
                Ok(outputs) => Ok(StepEnd { outcome: Conclusion::Success, outputs }),
                Err(_) if ready.stop.is_set() => {
                    self.log.error("The operation was canceled.");
                    Ok(StepEnd { outcome: Conclusion::Cancelled, outputs: BTreeMap::new() })
                }
                Err(message) => Err(message),
            };
        }
        if depth >= ACTION_DEPTH_MAX {
            return Err(format!("actions nest deeper than {ACTION_DEPTH_MAX} at `{uses}`"));
        }
        let user = scope.source.clone().unwrap_or_else(|| self.plan.frame.node.file.source.clone());
        let (action, path) = self.find_action(uses, &user).await?;
        self.run_composite(ready, action, path, inputs, depth).await
    }

    async fn find_action(&mut self, uses: &str, user: &Source) -> Result<(ActionFile, PathBuf), String> {
        if let Some(local) = uses.strip_prefix("./") {
            let directory = self.workspace.join(local.trim_matches('/'));
            let found = ["action.yml", "action.yaml"].iter().map(|name| directory.join(name)).find(|p| p.is_file());
            let missing = format!(
                "Can't find 'action.yml', 'action.yaml' or 'Dockerfile' under '{}'. Did you forget to run \
                 actions/checkout before running your local action?",
                directory.display()
            );
            let file = found.ok_or(missing)?;
            let bytes = std::fs::read(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
            let source = Source { path: uses.to_owned(), ..user.clone() };
            let action = ActionFile::parse(source, &bytes).map_err(|e| e.to_string())?;
            return Ok((action, directory));
        }
        let action = find_action(self.engine.host.as_ref(), uses, user)
            .map_err(|e| e.to_string())?
            .ok_or_else(|| format!("Unable to resolve action `{uses}`, unable to find version or action file"))?;
        let root = builtin::checkout::action_repository(self, &action.source).await?;
        let directory = Path::new(&action.source.path).parent().unwrap_or(Path::new("")).to_owned();
        Ok((action, root.join(directory)))
    }

    async fn run_composite(
        &mut self,
        ready: &Ready<'_>,
        action: ActionFile,
        path: PathBuf,
        given: BTreeMap<String, String>,
        depth: usize,
    ) -> Result<StepEnd, String> {
        let inputs = self.action_inputs(&action, given, &ready.contexts)?;
        let mut scope = Scope {
            inputs: Some(inputs),
            env: ready.env.clone(),
            source: Some(action.source.clone()),
            timeout: ready.timeout,
            stop: Some(ready.stop.clone()),
            ..Scope::of_job()
        };
        scope.github.insert("action_path".to_owned(), json!(path));
        scope.github.insert("action_repository".to_owned(), json!(action.source.repo));
        scope.github.insert("action_ref".to_owned(), json!(ref_parts(&action.source.full_ref).1));
        scope.github.insert("action".to_owned(), json!(ready.spec.id.clone().unwrap_or_else(|| "__self".to_owned())));
        self.run_steps(&action.steps, &mut scope, depth + 1).await;
        let mut contexts = self.contexts_with(&scope, &BTreeMap::new());
        contexts.status = None;
        let mut outputs = BTreeMap::new();
        for (name, output) in &action.action.outputs {
            let template = output.value.as_deref().unwrap_or_default();
            outputs.insert(name.clone(), contexts.text(template).map_err(|e| e.to_string())?);
        }
        let outcome = if scope.failed {
            Conclusion::Failure
        } else if ready.stop.is_set() {
            Conclusion::Cancelled
        } else {
            Conclusion::Success
        };
        Ok(StepEnd { outcome, outputs })
    }

    /// Given inputs, and defaults for the rest.
    fn action_inputs(
        &mut self,
        action: &ActionFile,
        given: BTreeMap<String, String>,
        contexts: &Contexts,
    ) -> Result<Value, String> {
        let declared = &action.action.inputs;
        let unexpected = given.keys().filter(|name| !declared.keys().any(|known| known.eq_ignore_ascii_case(name)));
        let unexpected: Vec<String> = unexpected.map(|name| format!("'{name}'")).collect();
        if !unexpected.is_empty() {
            let valid: Vec<String> = declared.keys().map(|name| format!("'{name}'")).collect();
            let (unexpected, valid) = (unexpected.join(", "), valid.join(", "));
            self.log.warning(&format!("Unexpected input(s) {unexpected}, valid inputs are [{valid}]"));
        }
        let mut inputs = Map::new();
        for (name, input) in declared {
            let own = given.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone());
            let value = match (own, &input.default) {
                (Some(own), _) => own,
                (None, Some(default)) => contexts.text(default).map_err(|e| e.to_string())?,
                (None, None) => String::new(),
            };
            inputs.insert(name.clone(), Value::String(value));
        }
        Ok(Value::Object(inputs))
    }
}
