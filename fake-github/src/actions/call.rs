//! A job that calls a workflow: what the callee sees, and what comes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use github_actions_models::workflow::job::Secrets;
use serde_json::{Map, Value, json};

use super::concurrency::{Entered, enter_group};
use super::expression::Contexts;
use super::expression::coerce::{number, to_number, to_text};
use super::leg::{self, LegEnd};
use super::run::{Attempt, Frame, JobResult, SecretSource, combined, drive_frame};
use super::signals::Working;
use super::tree::{Node, job_permissions};
use super::workflow::call_of;

/// Takes such a job to its end.
pub(super) async fn run(plan: leg::Plan, callee: Arc<Node>, working: Working) -> (LegEnd, Working) {
    let attempt = Arc::clone(&plan.attempt);
    let contexts = plan.contexts(None);
    let frame = match callee_frame(&plan, &contexts, callee) {
        Ok(frame) => frame,
        Err(message) => {
            return (leg::record_failed(&attempt, &plan.frame, &plan.id, &message).into(), working);
        }
    };
    let settings = plan.frame.node.file.job_raw(&plan.id)["concurrency"].clone();
    let entered = enter_group(&attempt, &plan.frame, &settings, &contexts, &frame.stop, None, working).await;
    let (_permit, group, working) = match entered {
        Entered::In { permit, group, working } => (permit, group, working),
        Entered::Refused { message, working } => {
            return (leg::record_failed(&attempt, &plan.frame, &plan.id, &message).into(), working);
        }
    };
    let frame = match group {
        None => frame,
        Some(group) => frame.holding(group),
    };
    let frame = Arc::new(frame);
    let (jobs, working) = drive_frame(Arc::clone(&attempt), Arc::clone(&frame), working).await;
    let result = combined(jobs.values().map(|job| job.result.as_str())).to_owned();
    let ran = jobs.values().any(|job| job.ran);
    let outputs = match workflow_outputs(&attempt, &frame, &jobs) {
        Ok(outputs) => outputs,
        Err(message) => return (leg::record_failed(&attempt, &plan.frame, &plan.id, &message).into(), working),
    };
    (LegEnd { result, outputs, ran }, working)
}

fn callee_frame(plan: &leg::Plan, contexts: &Contexts, callee: Arc<Node>) -> Result<Frame, String> {
    let name = plan.display_name(contexts)?;
    let file = &plan.frame.node.file;
    let given = contexts.resolve(&file.job_raw(&plan.id)["with"]).map_err(|e| e.to_string())?;
    let inputs = call_inputs(&callee.file.events()["workflow_call"]["inputs"], &given)?;
    let job = call_of(&file.model.jobs[&plan.id]);
    let secrets = match job.and_then(|job| job.secrets.as_ref()) {
        None => SecretSource::Passed(BTreeMap::new()),
        Some(Secrets::Inherit) => plan.frame.secrets.clone(),
        Some(Secrets::Env(pairs)) => {
            let mut contexts = contexts.clone();
            contexts.set("secrets", json!(plan.secrets(None)));
            let passed =
                pairs.iter().map(|(k, v)| Ok((k.clone(), contexts.text(&v.to_string()).map_err(|e| e.to_string())?)));
            SecretSource::Passed(passed.collect::<Result<_, String>>()?)
        }
    };
    Ok(Frame {
        node: callee,
        name_prefix: format!("{}{name} / ", plan.frame.name_prefix),
        key: format!("{}/", plan.key),
        inputs,
        secrets,
        granted: Some(job_permissions(file, &plan.id, plan.frame.granted.as_ref())?),
        stop: plan.stop.child(),
        held_groups: plan.frame.held_groups.clone(),
    })
}

/// The `inputs` of a called workflow: given, else default, else empty; of the declared type.
fn call_inputs(declared: &Value, given: &Value) -> Result<Value, String> {
    let mut inputs = Map::new();
    for (name, input) in declared.as_object().into_iter().flatten() {
        let found = given.as_object().into_iter().flatten().find(|(key, _)| key.eq_ignore_ascii_case(name));
        let kind = input["type"].as_str().unwrap_or("string");
        let value = found.map(|(_, value)| value).or_else(|| input.get("default"));
        let value = match (kind, value) {
            ("boolean", None | Some(Value::Null)) => Value::Bool(false),
            ("boolean", Some(Value::Bool(b))) => Value::Bool(*b),
            ("boolean", Some(Value::String(text))) if text == "true" || text == "false" => Value::Bool(text == "true"),
            ("number", None | Some(Value::Null)) => json!(0),
            ("number", Some(value)) if !to_number(value).is_nan() => number(to_number(value)),
            ("string", None) => Value::String(String::new()),
            ("string", Some(value)) => Value::String(to_text(value)),
            (kind, Some(value)) => {
                return Err(format!("Invalid value for input '{name}': '{}' is no {kind}", to_text(value)));
            }
            (kind, None) => return Err(format!("Input '{name}' has the unknown type '{kind}'")),
        };
        inputs.insert(name.clone(), value);
    }
    Ok(Value::Object(inputs))
}

fn workflow_outputs(
    attempt: &Attempt,
    frame: &Frame,
    jobs: &BTreeMap<String, JobResult>,
) -> Result<BTreeMap<String, String>, String> {
    let mut contexts = frame.contexts(attempt);
    let shown = jobs.iter().map(|(id, job)| (id.clone(), json!({"result": job.result, "outputs": job.outputs})));
    contexts.set("jobs", Value::Object(shown.collect()));
    let declared = &frame.node.file.events()["workflow_call"]["outputs"];
    let output = |(name, output): (&String, &Value)| {
        let template = output["value"].as_str().unwrap_or_default();
        Ok((name.clone(), contexts.text(template).map_err(|e| e.to_string())?))
    };
    declared.as_object().into_iter().flatten().map(output).collect()
}
