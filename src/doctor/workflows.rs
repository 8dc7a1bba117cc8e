//! The two workflow files of a repository, as far as the server depends on them (spec 24 §9).

use super::Finding;
use super::facts::{Known, RepositoryFacts};
use crate::config::yaml::{self, Node, Value};
use crate::guide::Topic;

pub const PLAN_FILE: &str = ".github/workflows/stackorder-plan.yml";
pub const RUN_FILE: &str = ".github/workflows/stackorder-run.yml";

/// By its title a workflow run is found whose number GitHub did not tell; blanks within `${{ }}` count for nothing.
const RUN_NAME: &str = "stackorder ${{ inputs.mode }} ${{ inputs.run_id }} wave ${{ inputs.wave }}";
const INPUTS: [&str; 5] = ["run_id", "mode", "wave", "sha", "stacks"];
/// What must start a plan; without `types` GitHub takes these.
const TYPES: [&str; 3] = ["opened", "synchronize", "reopened"];

pub(super) fn findings(repository: &RepositoryFacts) -> Vec<Finding> {
    let mut found = file(repository, PLAN_FILE, &repository.plan_workflow, plan_faults);
    found.extend(file(repository, RUN_FILE, &repository.run_workflow, run_faults));
    found
}

/// Something that is wrong with a file, and what to do.
struct Fault {
    is_fatal: bool,
    what: String,
    fix: String,
}

fn fatal(what: impl Into<String>, fix: impl Into<String>) -> Fault {
    Fault { is_fatal: true, what: what.into(), fix: fix.into() }
}

fn file(
    repository: &RepositoryFacts,
    path: &str,
    content: &Known<Option<Vec<u8>>>,
    faults: fn(&Node) -> Vec<Fault>,
) -> Vec<Finding> {
    let (place, branch) = (repository.name.as_str(), &repository.default_branch);
    let problem = |what: String, fix: &str| vec![Finding::problem(Topic::Workflows, place, what, fix)];
    let bytes = match content {
        Err(reason) => {
            return problem(format!("{path} cannot be read: {reason}"), "Check the App's permission contents: read.");
        }
        Ok(None) => {
            let what = format!("{branch} has no {path}");
            return problem(what, "stackorder init writes both files; merge them into the default branch.");
        }
        Ok(Some(bytes)) => bytes,
    };
    let root = match yaml::read(bytes) {
        Ok(document) => document.root,
        Err(errors) => {
            let why = errors.into_iter().next().map(|error| error.message).unwrap_or_default();
            return problem(format!("{path} is no YAML: {why}"), "Repair the file.");
        }
    };
    let Some(root) = root else { return problem(format!("{path} is empty"), "stackorder init writes both files.") };
    let faults = faults(&root);
    if faults.is_empty() {
        return vec![Finding::ok(Topic::Workflows, place, format!("{path} is as the server needs it"))];
    }
    let finding = |fault: Fault| {
        let what = format!("{path}: {}", fault.what);
        match fault.is_fatal {
            true => Finding::problem(Topic::Workflows, place, what, fault.fix),
            false => Finding::warning(Topic::Workflows, place, what, fault.fix),
        }
    };
    faults.into_iter().map(finding).collect()
}

fn plan_faults(root: &Node) -> Vec<Fault> {
    let mut faults = Vec::new();
    match trigger(root, "pull_request") {
        None => faults.push(fatal("it does not start on pull_request", "Add on: pull_request.")),
        Some(trigger) => {
            let types = trigger.and_then(|trigger| at(trigger, "types")).map(texts);
            let missing: Vec<&str> =
                TYPES.into_iter().filter(|name| types.as_ref().is_some_and(|types| !types.contains(name))).collect();
            if !missing.is_empty() {
                let missing = missing.join(", ");
                faults.push(fatal(
                    format!("it does not start when a pull request is {missing}"),
                    format!("Add {missing} to types."),
                ));
            }
        }
    }
    faults.extend(token_fault(root));
    faults
}

fn run_faults(root: &Node) -> Vec<Fault> {
    let mut faults = Vec::new();
    let run_name = at(root, "run-name").and_then(text);
    if run_name.map(without_blanks) != Some(without_blanks(RUN_NAME)) {
        let what = match run_name {
            None => "it has no run-name".to_owned(),
            Some(name) => format!("its run-name is {name:?}"),
        };
        faults.push(fatal(what, format!("Write run-name: {RUN_NAME}")));
    }
    match trigger(root, "workflow_dispatch") {
        None => faults.push(fatal("it cannot be dispatched", "Add on: workflow_dispatch with its five inputs.")),
        Some(trigger) => {
            let inputs = trigger.and_then(|trigger| at(trigger, "inputs"));
            let missing: Vec<&str> =
                INPUTS.into_iter().filter(|name| inputs.and_then(|inputs| at(inputs, name)).is_none()).collect();
            if !missing.is_empty() {
                let missing = missing.join(", ");
                let fix = format!(
                    "Declare {missing} under on.workflow_dispatch.inputs: GitHub refuses inputs that are not declared."
                );
                faults.push(fatal(format!("it lacks the inputs {missing}"), fix));
            }
        }
    }
    let has_group = at(root, "concurrency").is_some() || jobs(root).any(|job| at(job, "concurrency").is_some());
    if has_group {
        faults.push(Fault {
            is_fatal: false,
            what: "it has a concurrency group, which can cancel an apply that waits for its reviewers".to_owned(),
            fix: "Remove concurrency: the server lets nothing run twice.".to_owned(),
        });
    }
    faults.extend(token_fault(root));
    faults
}

/// Jobs prove who they are by a token of GitHub's; the right to one must be granted to each of them.
fn token_fault(root: &Node) -> Option<Fault> {
    let grants = |permissions: &Node| match text(permissions) {
        Some(all) => all == "write-all",
        None => at(permissions, "id-token").and_then(text) == Some("write"),
    };
    let everywhere = at(root, "permissions").is_some_and(grants);
    let lacks = |job: &Node| at(job, "permissions").map_or(!everywhere, |own| !grants(own));
    let none = jobs(root).next().is_none();
    (none || jobs(root).any(lacks)).then(|| match none {
        true => fatal("it has no jobs", "stackorder init writes both files."),
        false => fatal("a job lacks the permission id-token: write", "Add id-token: write to the job's permissions."),
    })
}

/// What stands beneath a trigger: `None` when it is none, `Some(None)` when it is named and nothing more.
fn trigger<'n>(root: &'n Node, name: &str) -> Option<Option<&'n Node>> {
    let on = at(root, "on")?;
    match &on.value {
        Value::Map(_) => at(on, name).map(Some),
        Value::Scalar { .. } | Value::List(_) => texts(on).contains(&name).then_some(None),
        Value::Null => None,
    }
}

fn jobs(root: &Node) -> impl Iterator<Item = &Node> {
    let jobs = match at(root, "jobs").map(|jobs| &jobs.value) {
        Some(Value::Map(entries)) => entries.as_slice(),
        Some(Value::Null | Value::Scalar { .. } | Value::List(_)) | None => &[],
    };
    jobs.iter().map(|entry| &entry.value)
}

fn at<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    match &node.value {
        Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
        Value::Null | Value::Scalar { .. } | Value::List(_) => None,
    }
}

fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

/// A text, or the texts of a list.
fn texts(node: &Node) -> Vec<&str> {
    match &node.value {
        Value::Scalar { text, .. } => vec![text],
        Value::List(nodes) => nodes.iter().filter_map(text).collect(),
        Value::Null | Value::Map(_) => Vec::new(),
    }
}

fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().concat()
}
