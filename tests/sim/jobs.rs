//! The jobs of Actions: what the runner's commands do, one step at a time, on a machine that may vanish.

use std::collections::BTreeSet;

use stackorder::api::{ClaimRequest, CreateRunRequest, GraphUploadRequest, ResultStatus, StackResult};
use stackorder::config::model::RepoConfig;
use stackorder::github::api::JobFacts;
use stackorder::github::oidc::Claims;
use stackorder::graph::model::Graph;
use stackorder::graph::resolution::MatrixEntry;
use stackorder::ids::{RunId, StackKey};
use stackorder::orchestrator::runner_calls::{CallError, Caller};
use stackorder::run::status::Mode;
use stackorder::store::Store as _;

use super::github::{NAME, REPOSITORY, Work};
use super::infrastructure::Plan;
use super::world::{Reply, World, now};

/// Calls of one step before a job gives up, as the CLI does (spec 30 §17).
const TRIES_MAX: u32 = 4;

#[derive(Debug, Clone)]
pub struct Job {
    pub workflow_run: i64,
    attempt: u32,
    /// Of the environment that the job names.
    environment: Option<String>,
    entry: Option<MatrixEntry>,
    /// The run that it works for, once it is known.
    run: Option<RunId>,
    step: Step,
    is_calling: bool,
    tries: u32,
}

#[derive(Debug, Clone)]
enum Step {
    Queued,
    Waiting,
    Register,
    Upload,
    Plan,
    Claim,
    Applying(Box<Plan>),
    Report(Box<StackResult>),
    Ended,
}

impl World {
    /// One job does its next step.
    pub fn jobs_move(&mut self) {
        self.begin_workflow_runs();
        if self.chance.one_in(12) {
            self.hands_move();
        }
        if self.open_jobs.is_empty() {
            return;
        }
        let at = self.chance.below(self.open_jobs.len());
        let id = *self.open_jobs.iter().nth(at).expect("it is below their number");
        let odds = if matches!(self.jobs[&id].step, Step::Applying(_)) { 12 } else { 120 };
        if self.faults.hits("a runner vanished", odds) {
            return self.vanish(id);
        }
        self.job_moves(id);
    }

    /// Every job that can do something does it; whether there was any.
    pub fn everybody_moves(&mut self) -> bool {
        self.begin_workflow_runs();
        let open: Vec<i64> = self.open_jobs.iter().copied().collect();
        for id in &open {
            self.job_moves(*id);
        }
        let by_hand = self.hands_move();
        !open.is_empty() || by_hand
    }

    fn begin_workflow_runs(&mut self) {
        let fresh: Vec<(i64, u32, Work)> = {
            let mut model = self.hub.model();
            let ids = std::mem::take(&mut model.fresh);
            let fresh = ids.iter().map(|id| &model.runs[id]).filter(|run| run.conclusion.is_none());
            fresh.map(|run| (run.id, run.attempt, run.work.clone())).collect()
        };
        for (run, attempt, work) in fresh {
            match work {
                Work::PullRequest { .. } => self.add_job(run, attempt, "resolve".to_owned(), None, None, None),
                Work::Dispatched { mode, run_id, entries, .. } => {
                    for entry in entries {
                        let name = match mode.as_str() {
                            "apply" => format!("apply wave {} {}", entry.wave, entry.key),
                            mode => format!("{mode} {}", entry.key),
                        };
                        let environment = Some(entry.environment.clone());
                        let run_id = RunId::parse(&run_id).expect("the server sent it");
                        self.add_job(run, attempt, name, environment, Some(entry), Some(run_id));
                    }
                }
            }
        }
    }

    fn add_job(
        &mut self,
        workflow_run: i64,
        attempt: u32,
        name: String,
        environment: Option<String>,
        entry: Option<MatrixEntry>,
        run: Option<RunId>,
    ) {
        let mut model = self.hub.model();
        let id = model.number();
        let shown = JobFacts {
            id,
            name: name.clone(),
            status: "queued".to_owned(),
            started: false,
            html_url: format!("https://gh.test/acme/infra/actions/runs/{workflow_run}/job/{id}"),
        };
        let of = model.runs.get_mut(&workflow_run).expect("it is there");
        of.jobs.push(id);
        of.shown.insert(id, shown);
        drop(model);
        let (step, is_calling, tries) = (Step::Queued, false, 0);
        let job = Job { workflow_run, attempt, environment, entry, run, step, is_calling, tries };
        self.jobs.insert(id, job);
        self.open_jobs.insert(id);
    }

    fn show(&mut self, id: i64, status: &str) {
        let run = self.jobs[&id].workflow_run;
        let mut model = self.hub.model();
        let shown = model.runs.get_mut(&run).expect("it is there").shown.get_mut(&id).expect("it is shown");
        status.clone_into(&mut shown.status);
        shown.started |= status == "in_progress";
        model.tell_job(run, id);
    }

    fn set(&mut self, id: i64, step: Step) {
        let job = self.jobs.get_mut(&id).expect("it is a job");
        job.step = step;
        job.tries = 0;
    }

    fn job_moves(&mut self, id: i64) {
        let job = self.jobs[&id].clone();
        if job.is_calling {
            return;
        }
        match job.step.clone() {
            Step::Queued => {
                let needs_review = job.environment.as_deref() == Some("production") && job.is_apply(self);
                if needs_review {
                    self.show(id, "waiting");
                    let environment = job.environment.clone().unwrap_or_default();
                    self.hub.model().runs.get_mut(&job.workflow_run).expect("it is there").waiting.insert(environment);
                    self.set(id, Step::Waiting);
                } else {
                    self.begin(id, &job);
                }
            }
            Step::Waiting => {
                if self.faults.hits("a reviewer rejected a deployment", 25) {
                    return self.end(id);
                }
                let environment = job.environment.clone().unwrap_or_default();
                self.hub.model().runs.get_mut(&job.workflow_run).expect("it is there").waiting.remove(&environment);
                self.begin(id, &job);
            }
            Step::Plan => {
                let result = self.planned(&job);
                self.set(id, Step::Report(Box::new(result)));
            }
            Step::Applying(plan) => self.applied(id, &plan),
            Step::Register | Step::Upload | Step::Claim | Step::Report(_) => self.ask(id, &job),
            Step::Ended => {}
        }
    }

    fn begin(&mut self, id: i64, job: &Job) {
        self.show(id, "in_progress");
        let step = match &job.entry {
            None => Step::Register,
            Some(_) if job.is_apply(self) => Step::Claim,
            Some(_) => Step::Plan,
        };
        self.set(id, step);
    }

    /// Calls a server for the step that the job is at.
    fn ask(&mut self, id: i64, job: &Job) {
        let caller = self.caller(id, job);
        let asked = match job.step.clone() {
            Step::Register => {
                let Work::PullRequest { number, head } = self.work_of(job) else { return self.end(id) };
                let request = CreateRunRequest {
                    repo: NAME.to_owned(),
                    sha: head.to_string(),
                    pr_number: number,
                    ..CreateRunRequest::default()
                };
                self.call(
                    id,
                    |app| async move { Reply::Registered(app.create_run(&caller, &request).await.map(Box::new)) },
                )
            }
            Step::Upload => {
                let Work::PullRequest { head, .. } = self.work_of(job) else { return self.end(id) };
                let run = job.run.clone().expect("it is registered");
                let (changed_paths, tree_hash) = {
                    let model = self.hub.model();
                    (model.changed(&head), format!("{:?}", model.commits[&head].files))
                };
                let graph = Graph { sha: head.to_string(), tree_hash, ..self.graph.clone() };
                let config = now(self.memory.repo(REPOSITORY)).ok().flatten().and_then(|repo| repo.config);
                let config = config.map(|config| RepoConfig::clone(&config));
                let request = GraphUploadRequest {
                    graph,
                    changed_paths,
                    base_sha: String::new(),
                    config,
                    stacks: Vec::new(),
                    base: Default::default(),
                };
                self.call(id, |app| async move { Reply::Resolved(app.upload_graph(&caller, &run, request).await) })
            }
            Step::Claim => {
                let (run, key) = job.target();
                let sha = job.entry.as_ref().expect("it applies a stack").sha.clone();
                let request = ClaimRequest { sha, workflow_run_attempt: job.attempt };
                self.call(id, |app| async move {
                    Reply::Claimed(app.claim(&caller, &run, &key, &request).await.map(Box::new))
                })
            }
            Step::Report(result) => {
                let (run, key) = job.target();
                self.call(id, |app| async move {
                    Reply::Reported(app.report_result(&caller, &run, &key, &result).await.map(drop))
                })
            }
            Step::Queued | Step::Waiting | Step::Plan | Step::Applying(_) | Step::Ended => return,
        };
        let job = self.jobs.get_mut(&id).expect("it is a job");
        if asked {
            job.is_calling = true;
        } else {
            self.unheard(id);
        }
    }

    fn work_of(&self, job: &Job) -> Work {
        self.hub.model().runs[&job.workflow_run].work.clone()
    }

    fn caller(&self, id: i64, job: &Job) -> Caller {
        let (event_name, git_ref) = match self.work_of(job) {
            Work::PullRequest { number, .. } => ("pull_request", format!("refs/pull/{number}/merge")),
            Work::Dispatched { .. } => ("workflow_dispatch", "refs/heads/main".to_owned()),
        };
        let claims = Claims {
            repository: NAME.to_owned(),
            repository_id: REPOSITORY,
            event_name: event_name.to_owned(),
            git_ref,
            run_id: job.workflow_run,
            run_attempt: job.attempt,
            environment: job.environment.clone(),
            actor: "ada".to_owned(),
            job_workflow_ref: String::new(),
            check_run_id: id,
            jti: String::new(),
            iat_ms: 0,
            exp_ms: 0,
        };
        let repo = now(self.memory.repo(REPOSITORY)).expect("the memory store answers").expect("it is there");
        Caller::Job { claims, repo: Box::new(repo) }
    }

    /// What came back from a call; nothing when the server died over it.
    pub fn answered(&mut self, id: i64, reply: Option<Reply>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.is_calling = false;
        if matches!(job.step, Step::Ended) {
            return;
        }
        let job = job.clone();
        match reply {
            None => self.unheard(id),
            Some(Reply::Registered(Ok(registered))) => {
                self.jobs.get_mut(&id).expect("it is a job").run = Some(registered.run_id);
                self.set(id, Step::Upload);
            }
            Some(Reply::Resolved(Ok(resolution))) => {
                for entry in resolution.matrix.include {
                    let name = format!("plan {}", entry.key);
                    self.add_job(job.workflow_run, job.attempt, name, None, Some(entry), job.run.clone());
                }
                self.end(id);
            }
            Some(Reply::Claimed(Ok(claimed))) => {
                let plan = self.bundles.get(&claimed.bundle_sha256).cloned();
                match plan {
                    Some(plan) if self.hub.model().is_expired(&claimed.row.plan_artifact) => {
                        self.apply_begins_anew(id, &job, &plan);
                    }
                    Some(plan) => self.apply_begins(id, &job, plan),
                    None => self.breaks("a claim names a bundle that nobody made"),
                }
            }
            Some(Reply::Reported(Ok(_))) => {
                if let Step::Report(result) = &job.step
                    && !result.plan_artifact.is_empty()
                    && !self.faults.hits("an artifact was never uploaded", 60)
                {
                    self.hub.model().upload(job.workflow_run, &result.plan_artifact);
                }
                self.end(id);
            }
            Some(
                Reply::Registered(Err(CallError::Failed(_)))
                | Reply::Resolved(Err(CallError::Failed(_)))
                | Reply::Claimed(Err(CallError::Failed(_)))
                | Reply::Reported(Err(CallError::Failed(_))),
            ) => self.unheard(id),
            // A refusal is final.
            Some(_) => self.end(id),
        }
    }

    fn unheard(&mut self, id: i64) {
        let job = self.jobs.get_mut(&id).expect("it is a job");
        job.tries += 1;
        if job.tries >= TRIES_MAX {
            self.end(id);
        }
    }

    fn planned(&mut self, job: &Job) -> StackResult {
        let (_, key) = job.target();
        let sha = match self.work_of(job) {
            Work::PullRequest { head, .. } => head.to_string(),
            Work::Dispatched { sha, .. } => sha,
        };
        let is_drift = matches!(self.work_of(job), Work::Dispatched { mode, .. } if mode == "drift");
        let mode = if is_drift { Mode::Drift } else { Mode::Plan };
        if self.faults.hits("a plan failed", 40) {
            return result(mode, ResultStatus::Failure);
        }
        let content = {
            let model = self.hub.model();
            let sha = stackorder::ids::Sha::parse(&sha).expect("the server sent it");
            model.commits[&sha].files[key.as_str()]
        };
        let plan = self.infrastructure.plan(key.as_str(), content);
        if is_drift {
            self.faults.met("a drift check ended");
        }
        let unconfirmed = self.faults.hits("a plan was not confirmed", 120);
        let bundle = format!("{:064x}", self.hub.model().number());
        let made = StackResult {
            has_changes: !plan.is_empty(),
            summary: Some(plan.summary()),
            plan_artifact: format!("stackorder-plan-{}-{sha}-{bundle}", key.slug()),
            bundle_sha256: bundle.clone(),
            plan_digest: format!("{plan:?}").len().to_string() + &plan.actions,
            unconfirmed,
            ..result(mode, ResultStatus::Success)
        };
        self.bundles.insert(bundle, plan);
        made
    }

    /// A job may apply: the law of laws is asked before it does.
    fn apply_begins(&mut self, id: i64, job: &Job, plan: Plan) {
        let (run, key) = job.target();
        self.note(|| format!("job {id} of run {} begins to apply {key}: {}", &run.as_str()[..8], plan.actions));
        self.begins_at(id, &key);
        self.approved(&run, &key, &plan);
        let mut laws = self.laws.lock().expect("one thread");
        let first = *laws.appliers.entry((run, key)).or_insert(id);
        laws.law("a row is applied by one job", first == id, || format!("{first} and {id}"));
        drop(laws);
        self.set(id, Step::Applying(Box::new(plan)));
    }

    /// Somebody begins to apply a stack, and nobody else is at it, unless a person took the lock away from them.
    pub fn begins_at(&mut self, id: i64, key: &StackKey) {
        let other = self.infrastructure.applying.insert(key.to_string(), id).filter(|other| *other != id);
        let mut laws = self.laws.lock().expect("one thread");
        let is_alone = other.is_none() || laws.freed.contains(key);
        laws.law("two jobs never apply one stack at once", is_alone, || format!("{key}: {other:?} and {id}"));
    }

    /// The plan's artifact is gone: the job plans again, and applies what does the same to the same addresses.
    fn apply_begins_anew(&mut self, id: i64, job: &Job, plan: &Plan) {
        let (_, key) = job.target();
        self.faults.met("the job of an expired plan planned again");
        let sha = stackorder::ids::Sha::parse(&job.entry.as_ref().expect("it applies a stack").sha);
        let content = {
            let model = self.hub.model();
            model.commits[&sha.expect("the server sent it")].files[key.as_str()]
        };
        let fresh = self.infrastructure.plan(key.as_str(), content);
        if fresh.actions == plan.actions {
            return self.apply_begins(id, job, fresh);
        }
        self.set(id, Step::Report(Box::new(result(Mode::Apply, ResultStatus::Failure))));
    }

    /// What is applied is what the gate let through: that plan, one with the same addresses, or an empty one.
    fn approved(&self, run: &RunId, key: &StackKey, plan: &Plan) {
        let mut laws = self.laws.lock().expect("one thread");
        let first = laws.approved.get(&(run.clone(), key.clone())).and_then(|bundle| self.bundles.get(bundle));
        let holds = plan.is_empty() || first.is_some_and(|first| first == plan || first.actions == plan.actions);
        laws.law("what was approved is what is applied", holds, || {
            format!("{key} in {run}: {first:?} approved, {plan:?} applied")
        });
    }

    fn applied(&mut self, id: i64, plan: &Plan) {
        let (run, _) = self.jobs[&id].target();
        self.infrastructure.applying.remove(&plan.stack);
        let unconfirmed = self.faults.hits("an apply was not confirmed", 60);
        let (status, summary) = if unconfirmed {
            (ResultStatus::Failure, None)
        } else if self.faults.hits("an apply failed half-way", 15) {
            self.infrastructure.break_off(plan, Some(&run));
            (ResultStatus::Failure, None)
        } else {
            match self.infrastructure.apply(plan, Some(&run)) {
                Ok(()) => (ResultStatus::Success, Some(plan.summary())),
                Err(_stale) => (ResultStatus::Failure, None),
            }
        };
        let made = StackResult { summary, unconfirmed, has_changes: !plan.is_empty(), ..result(Mode::Apply, status) };
        self.set(id, Step::Report(Box::new(made)));
    }

    /// The machine is gone; what it was doing may be done, half done, or not begun.
    fn vanish(&mut self, id: i64) {
        if let Step::Applying(plan) = self.jobs[&id].step.clone() {
            self.infrastructure.applying.remove(&plan.stack);
            self.broke_off.push(self.jobs[&id].workflow_run);
            let (run, _) = self.jobs[&id].target();
            match self.chance.below(3) {
                0 => self.infrastructure.break_off(&plan, Some(&run)),
                1 => drop(self.infrastructure.apply(&plan, Some(&run))),
                _ => {}
            }
        }
        self.note(|| format!("the runner of job {id} vanishes"));
        self.end(id);
    }

    /// The job is over, however it went.
    fn end(&mut self, id: i64) {
        self.set(id, Step::Ended);
        self.open_jobs.remove(&id);
        let workflow_run = self.jobs[&id].workflow_run;
        self.show(id, "completed");
        let jobs: BTreeSet<i64> = self.hub.model().runs[&workflow_run].jobs.iter().copied().collect();
        if jobs.iter().all(|job| !self.open_jobs.contains(job)) {
            let mut model = self.hub.model();
            let run = model.runs.get_mut(&workflow_run).expect("it is there");
            if run.conclusion.is_none() {
                run.conclusion = Some("success");
                run.waiting.clear();
                model.tell_run(workflow_run, "completed");
            }
        }
    }

    pub fn cancel_run(&mut self, workflow_run: i64) {
        let jobs = self.hub.model().runs[&workflow_run].jobs.clone();
        {
            let mut model = self.hub.model();
            let run = model.runs.get_mut(&workflow_run).expect("it is there");
            run.conclusion = Some("cancelled");
            run.waiting.clear();
            model.tell_run(workflow_run, "completed");
        }
        for job in jobs {
            if self.open_jobs.contains(&job) {
                self.vanish(job);
            }
        }
    }
}

impl Job {
    fn is_apply(&self, world: &World) -> bool {
        matches!(world.work_of(self), Work::Dispatched { mode, .. } if mode == "apply")
    }

    fn target(&self) -> (RunId, StackKey) {
        let entry = self.entry.as_ref().expect("a job of a stack");
        let key = StackKey::parse(&entry.key).expect("the server sent it");
        (self.run.clone().expect("its run is known"), key)
    }
}

pub fn result(mode: Mode, status: ResultStatus) -> StackResult {
    StackResult {
        mode,
        status,
        exit_code: i32::from(status != ResultStatus::Success),
        has_changes: false,
        summary: None,
        plan_text: None,
        truncated: false,
        error_text: String::new(),
        plan_artifact: String::new(),
        bundle_sha256: String::new(),
        plan_digest: String::new(),
        job_url: String::new(),
        tool: String::new(),
        tool_version: String::new(),
        duration_ms: 0,
        backend: None,
        unconfirmed: false,
    }
}
