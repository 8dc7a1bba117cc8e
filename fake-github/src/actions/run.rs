//! One attempt of a run: which jobs are ready, which legs they have, what became of them.
//!
//! `leg` takes a single job from its name to its end; this file only decides what runs when.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use github_actions_models::workflow::Job as ModelJob;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::call;
use super::concurrency::{Entered, enter_group};
use super::expression::coerce::{is_truthy, to_number};
use super::expression::{Contexts, StatusFacts};
use super::host::RunChange;
use super::leg::{self, LegEnd};
use super::matrix;
use super::model::{Conclusion, Status, WorkflowRun};
use super::permissions::Permissions;
use super::signals::{Stop, Working};
use super::state::{FinishedLeg, Inner};
use super::tree::Node;
use super::workflow::{condition, needs};

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

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

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
pub(super) fn drive_frame(
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
            Some(callee) => Box::pin(call::run(plan, Arc::clone(callee), working)),
        }
    }
}

struct Strategy {
    legs: Vec<Map<String, Value>>,
    order: Vec<String>,
    fail_fast: bool,
    max_parallel: usize,
}

/// One result for many.
pub(super) fn combined<'a>(results: impl Iterator<Item = &'a str>) -> &'static str {
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

    pub(super) fn holding(&self, group: String) -> Self {
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
