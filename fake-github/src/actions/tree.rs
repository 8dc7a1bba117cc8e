//! A workflow and everything it calls, loaded and checked before anything runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use github_actions_models::common::Uses;
use github_actions_models::workflow::Job;
use github_actions_models::workflow::job::Secrets;
use serde_json::Value;

use super::builtin;
use super::host::Host;
use super::permissions::{Permissions, excess, parse};
use super::workflow::{ActionFile, Refusal, Source, StepBody, WorkflowFile, call_of, cycle, steps};

/// GitHub's limits: ten levels with the top one, fifty workflows in one tree; actions nest ten deep.
const LEVELS_MAX: usize = 10;
const WORKFLOWS_MAX: usize = 50;
pub(super) const ACTION_DEPTH_MAX: usize = 10;

/// One workflow and the workflows its jobs call.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) file: WorkflowFile,
    pub(super) calls: BTreeMap<String, Arc<Node>>,
}

/// Loads the tree below a file. `granted` is what the caller gives, `None` at the top.
pub(super) fn load(host: &dyn Host, source: Source, granted: Option<&Permissions>) -> Result<Node, Refusal> {
    let mut loader = Loader { host, workflows: 0 };
    let missing = refusal(&source, "the workflow file does not exist");
    let bytes = host.read_file(&source.repo, &source.commit, &source.path).ok_or(missing)?;
    loader.node(source, &bytes, granted, 1)
}

struct Loader<'a> {
    host: &'a dyn Host,
    workflows: usize,
}

impl Loader<'_> {
    fn node(
        &mut self,
        source: Source,
        bytes: &[u8],
        granted: Option<&Permissions>,
        level: usize,
    ) -> Result<Node, Refusal> {
        self.workflows += 1;
        let file = WorkflowFile::parse(source, bytes)?;
        if level > LEVELS_MAX || self.workflows > WORKFLOWS_MAX {
            let message = format!("more than {LEVELS_MAX} levels or {WORKFLOWS_MAX} workflows call each other");
            return Err(refusal(&file.source, &message));
        }
        if let Some(id) = cycle(&file.model) {
            return Err(file.refuse(&format!("{id}:"), format!("the needs of job '{id}' lead back to itself")));
        }
        let mut calls = BTreeMap::new();
        for (id, job) in &file.model.jobs {
            let permissions = job_permissions(&file, id, granted).map_err(|m| file.refuse("permissions:", m))?;
            match job {
                Job::NormalJob(normal) => {
                    for step in steps(normal) {
                        self.check_step(&file, &step.body)?;
                    }
                }
                Job::ReusableWorkflowCallJob(call) => {
                    let callee = self.callee(&file, &call.uses, &permissions, level)?;
                    check_call(&file, id, &callee)?;
                    calls.insert(id.clone(), Arc::new(callee));
                }
            }
        }
        Ok(Node { file, calls })
    }

    fn callee(
        &mut self,
        caller: &WorkflowFile,
        uses: &Uses,
        permissions: &Permissions,
        level: usize,
    ) -> Result<Node, Refusal> {
        let missing = || {
            let message = format!("error parsing called workflow \"{}\": workflow was not found.", uses.raw());
            caller.refuse(uses.raw(), message)
        };
        let source = match uses {
            Uses::Local(local) => {
                let path = local.raw().trim_start_matches(['.', '$']).trim_start_matches('/').to_owned();
                Source { path, ..caller.source.clone() }
            }
            Uses::Repository(used) => Source {
                repo: used.slug().to_owned(),
                commit: self.host.resolve_ref(used.slug(), used.git_ref()).ok_or_else(missing)?,
                path: used.subpath().ok_or_else(missing)?.to_owned(),
                full_ref: self.host.full_ref(used.slug(), used.git_ref()).ok_or_else(missing)?,
            },
            Uses::Docker(_) => return Err(missing()),
        };
        let bytes = self.host.read_file(&source.repo, &source.commit, &source.path).ok_or_else(missing)?;
        let callee = self.node(source, &bytes, Some(permissions), level + 1)?;
        if !callee.file.events().contains_key("workflow_call") {
            let message = format!("workflow \"{}\" has no `workflow_call` trigger", uses.raw());
            return Err(caller.refuse(uses.raw(), message));
        }
        Ok(callee)
    }

    fn check_step(&self, file: &WorkflowFile, body: &StepBody) -> Result<(), Refusal> {
        match body {
            StepBody::Run { shell, .. } => match unsupported_shell(shell.as_deref()) {
                Some(shell) => {
                    Err(file
                        .refuse(&format!("shell: {shell}"), format!("shell `{shell}` is not supported by this engine")))
                }
                None => Ok(()),
            },
            StepBody::Uses { uses, .. } => self.check_uses(uses, &file.source, 1).map_err(|error| match error {
                UsesError::Unsupported(message) => file.refuse(uses, message),
                UsesError::Inside(refusal) => refusal,
            }),
        }
    }

    /// Everything an action needs can be done; one that is not found fails its job later, as on GitHub.
    fn check_uses(&self, uses: &str, user: &Source, depth: usize) -> Result<(), UsesError> {
        let Some(action) = find_action(self.host, uses, user)? else { return Ok(()) };
        if depth > ACTION_DEPTH_MAX {
            return Err(UsesError::Unsupported(format!("actions nest deeper than {ACTION_DEPTH_MAX} at `{uses}`")));
        }
        for step in &action.steps {
            match &step.body {
                StepBody::Uses { uses, .. } => self.check_uses(uses, &action.source, depth + 1)?,
                StepBody::Run { shell, .. } => {
                    if let Some(shell) = unsupported_shell(shell.as_deref()) {
                        let message = format!("shell `{shell}` is not supported by this engine");
                        return Err(UsesError::Inside(refusal(&action.source, &message)));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Why a `uses` cannot run.
pub(super) enum UsesError {
    /// To be reported where it is used.
    Unsupported(String),
    /// The action's own file is at fault.
    Inside(Refusal),
}

impl std::fmt::Display for UsesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unsupported(message) => f.write_str(message),
            Self::Inside(refusal) => refusal.fmt(f),
        }
    }
}

/// The composite action that a `uses` names: none for stand-ins, for local paths (they come from the workspace) and for
/// what cannot be found.
pub(super) fn find_action(host: &dyn Host, uses: &str, user: &Source) -> Result<Option<ActionFile>, UsesError> {
    let unsupported = |why: &str| UsesError::Unsupported(format!("`{uses}` is not supported by this engine: {why}"));
    if builtin::find(uses).is_some() {
        return Ok(None);
    }
    let (repo, git_ref, subpath) = match Uses::parse(uses).map_err(|e| UsesError::Unsupported(e.to_string()))? {
        Uses::Docker(_) => return Err(unsupported("there are no containers here")),
        Uses::Local(local) if local.is_self_repository() => {
            let path = local.raw().trim_start_matches("$/").to_owned();
            (user.repo.clone(), user.commit.clone(), path)
        }
        Uses::Local(_) => return Ok(None),
        Uses::Repository(used) => {
            (used.slug().to_owned(), used.git_ref().to_owned(), used.subpath().unwrap_or_default().to_owned())
        }
    };
    if host.repository(&repo).is_none() {
        return Err(unsupported("it has no stand-in, and there is no such repository"));
    }
    let Some(commit) = host.resolve_ref(&repo, &git_ref) else { return Ok(None) };
    let directory = subpath.trim_matches('/');
    let found = ["action.yml", "action.yaml"].iter().find_map(|name| {
        let path = if directory.is_empty() { (*name).to_owned() } else { format!("{directory}/{name}") };
        Some((host.read_file(&repo, &commit, &path)?, path))
    });
    let Some((bytes, path)) = found else { return Ok(None) };
    let full_ref = host.full_ref(&repo, &git_ref).unwrap_or(git_ref);
    let source = Source { repo, commit, path, full_ref };
    ActionFile::parse(source, &bytes).map(Some).map_err(UsesError::Inside)
}

/// A shell that this machine's runner does not offer.
pub(super) fn unsupported_shell(shell: Option<&str>) -> Option<&str> {
    let shell = shell?;
    let known = matches!(shell, "bash" | "sh" | "python") || shell.contains("{0}") || shell.contains("${{");
    (!known).then_some(shell)
}

/// What the token of a job may do: the job's own words, else the workflow's, else the caller's, else the default.
pub(super) fn job_permissions(
    file: &WorkflowFile,
    id: &str,
    granted: Option<&Permissions>,
) -> Result<Permissions, String> {
    let own = file.job_raw(id).get("permissions").or_else(|| file.raw.get("permissions"));
    let asked = own.map(parse).transpose()?;
    match (asked, granted) {
        (None, None) => Ok(super::permissions::default_permissions()),
        (None, Some(granted)) => Ok(granted.clone()),
        (Some(asked), None) => Ok(asked),
        (Some(asked), Some(granted)) => match excess(&asked, granted) {
            Some(excess) => Err(format!("the nested job '{id}' is {excess}.")),
            None => Ok(asked),
        },
    }
}

fn check_call(caller: &WorkflowFile, id: &str, callee: &Node) -> Result<(), Refusal> {
    let settings = &callee.file.events()["workflow_call"];
    let job = caller.job_raw(id);
    let refuse = |needle: &str, message: String| Err(caller.refuse(needle, message));
    let given = |part: &str, name: &str| {
        job[part].as_object().into_iter().flatten().any(|(key, _)| key.eq_ignore_ascii_case(name))
    };
    let declares = |part: &str, name: &str| {
        settings[part].as_object().into_iter().flatten().any(|(key, _)| key.eq_ignore_ascii_case(name))
    };
    let required = |part: &str| -> Vec<String> {
        let all = settings[part].as_object().into_iter().flatten();
        all.filter(|(_, v)| v["required"] == Value::Bool(true)).map(|(k, _)| k.clone()).collect()
    };
    for name in job["with"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if !declares("inputs", name) {
            return refuse(
                &format!("{name}:"),
                format!("Invalid input, {name} is not defined in the referenced workflow."),
            );
        }
    }
    if let Some(name) = required("inputs").iter().find(|name| !given("with", name)) {
        return refuse(&format!("{id}:"), format!("Input {name} is required, but not provided while calling."));
    }
    let inherits = matches!(call_of(&caller.model.jobs[id]).map(|call| &call.secrets), Some(Some(Secrets::Inherit)));
    if inherits {
        return Ok(());
    }
    for name in job["secrets"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if !declares("secrets", name) {
            return refuse(
                &format!("{name}:"),
                format!("Invalid secret, {name} is not defined in the referenced workflow."),
            );
        }
    }
    if let Some(name) = required("secrets").iter().find(|name| !given("secrets", name)) {
        return refuse(&format!("{id}:"), format!("Secret {name} is required, but not provided while calling."));
    }
    Ok(())
}

fn refusal(source: &Source, message: &str) -> Refusal {
    Refusal { repo: source.repo.clone(), path: source.path.clone(), line: 1, message: message.to_owned() }
}
