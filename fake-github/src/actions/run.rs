//! One attempt of a run: which jobs are ready, which legs they have, what became of them.
//!
//! `leg` takes a single job from its name to its end; this file only decides what runs when.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use github_actions_models::workflow::Job as ModelJob;
use github_actions_models::workflow::job::Secrets;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::expression::coerce::{is_truthy, to_number, to_text};
use super::expression::{Contexts, StatusFacts};
use super::groups::Entry;
use super::host::RunChange;
use super::leg::{self, LegEnd};
use super::matrix;
use super::model::{Conclusion, Status, WorkflowRun};
use super::permissions::Permissions;
use super::signals::{Stop, Working};
use super::state::{FinishedLeg, Inner};
use super::tree::{Node, job_permissions};
use super::workflow::{call_of, condition, needs};

/// What all jobs of an attempt share.
pub(super) struct Attempt {
    pub(super) engine: Arc<Inner>,
    pub(super) run: WorkflowRun,
    /// `inputs` with their kinds.
    pub(super) inputs: Value,
    pub(super) stop: Stop,
    /// Legs of the attempt before that need not run again.
    pub(super) previous: BTreeMap<String, FinishedLeg>,
}

/// One workflow of the tree as it was called.
pub(super) struct Frame {
    pub(super) node: Arc<Node>,
    /// `plan / ` in front of the names of its jobs.
    pub(super) name_prefix: String,
    /// The path to it, unique in the attempt.
    pub(super) key: String,
    pub(super) inputs: Value,
    pub(super) secrets: SecretSource,
    /// What the caller gives its token; `None` at the top.
    pub(super) granted: Option<Permissions>,
    pub(super) stop: Stop,
    /// Concurrency groups that an enclosing workflow or job holds.
    pub(super) held_groups: Vec<String>,
}

/// Where a workflow's secrets come from.
#[derive(Clone)]
pub(super) enum SecretSource {
    /// The repository's, with those of the job's environment on top.
    Repository,
    /// What the caller passed, with those of the job's environment on top.
    Passed(BTreeMap<String, String>),
}

/// What `needs` shows of a job.
#[derive(Debug, Clone, Default)]
pub(super) struct JobResult {
    /// `success`, `failure`, `cancelled`, `skipped`.
    pub(super) result: String,
    pub(super) outputs: BTreeMap<String, String>,
    /// It ran in this attempt, so what depends on it runs again too.
    pub(super) ran: bool,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs an attempt to its end.
pub(super) async fn drive(attempt: Arc<Attempt>, node: Arc<Node>, working: Working) {
    let run_id = attempt.run.id;
    let frame = Arc::new(Frame {
        node,
        name_prefix: String::new(),
        key: String::new(),
        inputs: attempt.inputs.clone(),
        secrets: SecretSource::Repository,
        granted: None,
        stop: attempt.stop.clone(),
        held_groups: Vec::new(),
    });
    let (results, _working) = drive_frame(Arc::clone(&attempt), frame, working).await;
    let conclusion = match combined(results.values().map(|job| job.result.as_str())) {
        _ if attempt.stop.is_set() => Conclusion::Cancelled,
        "failure" => Conclusion::Failure,
        "cancelled" => Conclusion::Cancelled,
        "skipped" => Conclusion::Skipped,
        _ => Conclusion::Success,
    };
    attempt.engine.change_run(run_id, Some(RunChange::Completed), |run| {
        run.status = Status::Completed;
        run.conclusion = Some(conclusion);
    });
    if let Some(record) = attempt.engine.state().runs.get_mut(&run_id) {
        record.stopping = None;
    }
}

/// Runs all jobs of one workflow; how each ended.
fn drive_frame(
    attempt: Arc<Attempt>,
    frame: Arc<Frame>,
    working: Working,
) -> Boxed<(BTreeMap<String, JobResult>, Working)> {
    Box::pin(async move {
        let settings = frame.node.file.raw["concurrency"].clone();
        let contexts = frame.contexts(&attempt);
        let entered = enter_group(&attempt, &frame, &settings, &contexts, &frame.stop, None, working).await;
        let (_permit, group, working) = match entered {
            Entered::In { permit, group, working } => (permit, group, working),
            Entered::Refused { message, working } => {
                let refused = leg::record_refused(&attempt, &frame, &message);
                return (BTreeMap::from([(String::new(), refused)]), working);
            }
        };
        let frame = match group {
            None => frame,
            Some(group) => Arc::new(frame.holding(group)),
        };
        run_jobs(&attempt, &frame, working).await
    })
}

async fn run_jobs(
    attempt: &Arc<Attempt>,
    frame: &Arc<Frame>,
    working: Working,
) -> (BTreeMap<String, JobResult>, Working) {
    let jobs = &frame.node.file.model.jobs;
    let mut waiting: Vec<&String> = jobs.keys().collect();
    let mut done: BTreeMap<String, JobResult> = BTreeMap::new();
    let mut tasks: JoinSet<(String, JobResult, Working)> = JoinSet::new();
    let mut working = Some(working);
    loop {
        let (ready, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|id| needs(&jobs[*id]).iter().all(|need| done.contains_key(need)));
        waiting = rest;
        for id in ready {
            let guard = working.clone().unwrap_or_else(|| attempt.engine.busy.begin());
            let scene =
                Scene { attempt: Arc::clone(attempt), frame: Arc::clone(frame), id: id.clone(), done: done.clone() };
            tasks.spawn(async move {
                let (result, guard) = scene.run(guard).await;
                (id_of(&scene), result, guard)
            });
        }
        if tasks.is_empty() {
            return (done, working.unwrap_or_else(|| attempt.engine.busy.begin()));
        }
        working = None;
        match tasks.join_next().await {
            Some(Ok((id, result, guard))) => {
                working = Some(guard);
                done.insert(id, result);
            }
            // A task that panicked is our own bug; its job counts as failed so that the run ends.
            Some(Err(error)) => {
                tracing::error!(%error, "a job task ended early");
                let lost = waiting_or_lost(jobs.keys(), &done, &waiting);
                done.insert(lost, JobResult { result: "failure".to_owned(), ..JobResult::default() });
            }
            None => {}
        }
    }
}

fn id_of(scene: &Scene) -> String {
    scene.id.clone()
}

fn waiting_or_lost<'a>(
    ids: impl Iterator<Item = &'a String>,
    done: &BTreeMap<String, JobResult>,
    waiting: &[&String],
) -> String {
    ids.into_iter().find(|id| !done.contains_key(*id) && !waiting.contains(id)).cloned().unwrap_or_default()
}

/// One job with what came before it.
struct Scene {
    attempt: Arc<Attempt>,
    frame: Arc<Frame>,
    id: String,
    done: BTreeMap<String, JobResult>,
}

impl Scene {
    fn job(&self) -> &ModelJob {
        &self.frame.node.file.model.jobs[&self.id]
    }

    async fn run(&self, working: Working) -> (JobResult, Working) {
        let job = self.job();
        let mut contexts = self.frame.contexts(&self.attempt);
        contexts.set("needs", self.needs_value());
        contexts.status = Some(self.status());
        let text = match job {
            ModelJob::NormalJob(job) => job.r#if.as_ref().map(condition),
            ModelJob::ReusableWorkflowCallJob(job) => job.r#if.as_ref().map(condition),
        };
        match contexts.condition(text.as_deref().unwrap_or("success()")) {
            Ok(true) => {}
            Ok(false) => {
                let template = job.name().unwrap_or(&self.id);
                let name = contexts.text(template).unwrap_or_else(|_| template.to_owned());
                return (leg::record_skipped(&self.attempt, &self.frame, &self.id, &name), working);
            }
            Err(error) => {
                return (leg::record_failed(&self.attempt, &self.frame, &self.id, &error.to_string()), working);
            }
        }
        contexts.status = None;
        match self.strategy(&contexts) {
            Ok(strategy) => self.run_legs(strategy, working).await,
            Err(message) => (leg::record_failed(&self.attempt, &self.frame, &self.id, &message), working),
        }
    }

    /// Every job that leads here, not only the nearest.
    fn ancestors(&self) -> Vec<&JobResult> {
        let jobs = &self.frame.node.file.model.jobs;
        let mut ids: Vec<&String> = needs(&jobs[&self.id]).iter().collect();
        let mut i = 0;
        while i < ids.len() {
            let more: Vec<&String> = needs(&jobs[ids[i]]).iter().filter(|id| !ids.contains(id)).collect();
            ids.extend(more);
            i += 1;
        }
        ids.iter().filter_map(|id| self.done.get(*id)).collect()
    }

    fn status(&self) -> StatusFacts {
        let ancestors = self.ancestors();
        let cancelled = self.frame.stop.is_set();
        StatusFacts {
            success: !cancelled && ancestors.iter().all(|job| job.result == "success"),
            failure: ancestors.iter().any(|job| job.result == "failure"),
            cancelled,
        }
    }

    fn needs_value(&self) -> Value {
        let shown = |id: &String| {
            let job = self.done.get(id).cloned().unwrap_or_default();
            (id.clone(), json!({"result": job.result, "outputs": job.outputs}))
        };
        Value::Object(needs(self.job()).iter().map(shown).collect())
    }

    fn strategy(&self, contexts: &Contexts) -> Result<Strategy, String> {
        let raw = &self.frame.node.file.job_raw(&self.id)["strategy"];
        let resolved = contexts.resolve(raw).map_err(|e| e.to_string())?;
        let order = self.matrix_order();
        let legs = match resolved.get("matrix") {
            None | Some(Value::Null) => Vec::new(),
            Some(matrix) => matrix::expand(matrix, &order)?,
        };
        let total = legs.len().max(1);
        let limit = resolved.get("max-parallel").map(to_number).filter(|n| *n >= 1.0);
        Ok(Strategy {
            legs,
            order,
            fail_fast: resolved.get("fail-fast").is_none_or(is_truthy),
            max_parallel: limit.map_or(total, |n| n as usize).min(total),
        })
    }

    /// Vector names as the file writes them; a computed matrix has no order of its own.
    fn matrix_order(&self) -> Vec<String> {
        use github_actions_models::common::expr::LoE;
        let ModelJob::NormalJob(job) = self.job() else { return Vec::new() };
        match job.strategy.as_ref().and_then(|strategy| strategy.matrix.as_ref()) {
            Some(LoE::Literal(matrix)) => match &matrix.dimensions {
                LoE::Literal(dimensions) => dimensions.keys().cloned().collect(),
                LoE::Expr(_) => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    async fn run_legs(&self, strategy: Strategy, working: Working) -> (JobResult, Working) {
        let group = self.frame.stop.child();
        let total = strategy.legs.len().max(1);
        let mut queue = (0..total).collect::<Vec<_>>().into_iter();
        let mut tasks: JoinSet<(LegEnd, Working)> = JoinSet::new();
        let mut ends: Vec<LegEnd> = Vec::new();
        let mut working = Some(working);
        loop {
            while tasks.len() < strategy.max_parallel {
                let Some(index) = queue.next() else { break };
                let guard = working.clone().unwrap_or_else(|| self.attempt.engine.busy.begin());
                tasks.spawn(self.leg(&strategy, index, total, &group, guard));
            }
            if tasks.is_empty() {
                break;
            }
            working = None;
            if let Some(Ok((end, guard))) = tasks.join_next().await {
                working = Some(guard);
                if end.result == "failure" && strategy.fail_fast && total > 1 {
                    group.set();
                }
                ends.push(end);
            }
        }
        let mut outputs = BTreeMap::new();
        for end in &ends {
            // The last leg that sets an output wins; an empty one sets nothing.
            outputs.extend(end.outputs.iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.clone(), v.clone())));
            for name in end.outputs.keys() {
                outputs.entry(name.clone()).or_default();
            }
        }
        let result = if ends.len() < total { "failure" } else { combined(ends.iter().map(|end| end.result.as_str())) };
        let ran = ends.iter().any(|end| end.ran);
        let working = working.unwrap_or_else(|| self.attempt.engine.busy.begin());
        (JobResult { result: result.to_owned(), outputs, ran }, working)
    }

    fn leg(
        &self,
        strategy: &Strategy,
        index: usize,
        total: usize,
        group: &Stop,
        working: Working,
    ) -> Boxed<(LegEnd, Working)> {
        let values = strategy.legs.get(index);
        let plan = leg::Plan {
            attempt: Arc::clone(&self.attempt),
            frame: Arc::clone(&self.frame),
            id: self.id.clone(),
            key: format!("{}{}#{index}", self.frame.key, self.id),
            matrix: values.cloned().map_or(Value::Null, Value::Object),
            matrix_suffix: values.map(|leg| matrix::suffix(leg, &strategy.order)),
            strategy: json!({"fail-fast": strategy.fail_fast, "job-index": index, "job-total": total,
                             "max-parallel": strategy.max_parallel}),
            needs: self.needs_value(),
            needs_ran: self.ancestors().iter().any(|job| job.ran),
            stop: group.clone(),
        };
        match self.frame.node.calls.get(&self.id) {
            None => Box::pin(leg::run(plan, working)),
            Some(callee) => Box::pin(call(plan, Arc::clone(callee), working)),
        }
    }
}

struct Strategy {
    legs: Vec<Map<String, Value>>,
    order: Vec<String>,
    fail_fast: bool,
    max_parallel: usize,
}

/// A job that calls a workflow.
async fn call(plan: leg::Plan, callee: Arc<Node>, working: Working) -> (LegEnd, Working) {
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
            ("number", Some(value)) if !to_number(value).is_nan() => {
                super::expression::coerce::number(to_number(value))
            }
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

/// The way into a concurrency group.
pub(super) enum Entered {
    In { permit: Option<super::groups::Permit>, group: Option<String>, working: Working },
    Refused { message: String, working: Working },
}

/// Waits for the group that `concurrency` names, if it names one. A wait that a stop ends goes in without a permit:
/// what follows sees the stop itself. The run, or the one job, shows as pending meanwhile.
pub(super) async fn enter_group(
    attempt: &Attempt,
    frame: &Frame,
    settings: &Value,
    contexts: &Contexts,
    stop: &Stop,
    job_id: Option<i64>,
    working: Working,
) -> Entered {
    let resolved = match contexts.resolve(settings) {
        Ok(resolved) => resolved,
        Err(error) => return Entered::Refused { message: error.to_string(), working },
    };
    let (name, cancel_in_progress) = match &resolved {
        Value::Null => return Entered::In { permit: None, group: None, working },
        Value::Object(members) => (
            members.get("group").map(to_text).unwrap_or_default(),
            members.get("cancel-in-progress").is_some_and(|v| is_truthy(v) && to_text(v) != "false"),
        ),
        name => (to_text(name), false),
    };
    if frame.held_groups.iter().any(|held| held.eq_ignore_ascii_case(&name)) {
        let message = format!("Canceling since a deadlock for concurrency group '{name}' was detected");
        return Entered::Refused { message, working };
    }
    let engine = &attempt.engine;
    match engine.groups.enter(&attempt.run.repo, &name, stop, cancel_in_progress) {
        Entry::Running(permit) => Entered::In { permit: Some(permit), group: Some(name), working },
        Entry::Pending(receiver) => {
            match job_id {
                Some(id) => engine.change_job(id, super::host::JobChange::Progress, |job| job.status = Status::Pending),
                None => engine.change_run(attempt.run.id, None, |run| run.status = Status::Pending),
            }
            drop(working);
            let (permit, working) = tokio::select! {
                biased;
                handed = receiver => handed.unwrap_or_else(|_| (None, engine.busy.begin())),
                () = stop.wait() => (None, engine.busy.begin()),
            };
            match job_id {
                Some(id) => engine.change_job(id, super::host::JobChange::Progress, |job| job.status = Status::Queued),
                None => engine.change_run(attempt.run.id, None, |run| run.status = Status::Queued),
            }
            let group = permit.is_some().then_some(name);
            Entered::In { permit, group, working }
        }
    }
}

/// One result for many.
fn combined<'a>(results: impl Iterator<Item = &'a str>) -> &'static str {
    let results: Vec<&str> = results.collect();
    let any = |result: &str| results.contains(&result);
    if any("failure") {
        "failure"
    } else if any("cancelled") {
        "cancelled"
    } else if results.iter().all(|result| *result == "skipped") {
        "skipped"
    } else {
        "success"
    }
}

impl Frame {
    /// `github`, `inputs` and `vars`: what every expression of the workflow can see.
    pub(super) fn contexts(&self, attempt: &Attempt) -> Contexts {
        let mut contexts = Contexts::default();
        contexts.set("github", leg::github_context(attempt, self));
        contexts.set("inputs", self.inputs.clone());
        contexts.set("vars", json!(attempt.engine.host.variables(&attempt.run.repo, None)));
        contexts
    }

    fn holding(&self, group: String) -> Self {
        let mut held_groups = self.held_groups.clone();
        held_groups.push(group);
        Self {
            node: Arc::clone(&self.node),
            name_prefix: self.name_prefix.clone(),
            key: self.key.clone(),
            inputs: self.inputs.clone(),
            secrets: self.secrets.clone(),
            granted: self.granted.clone(),
            stop: self.stop.clone(),
            held_groups,
        }
    }
}
