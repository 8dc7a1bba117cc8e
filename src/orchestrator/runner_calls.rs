//! What jobs and API keys call (spec 20 §5.1–§5.5): register, upload, claim, result, verdict, manual runs, unlock.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{App, Error, Subject, repo_ref};
use crate::api::{
    CheckJson, CheckVerdict, ClaimRequest, ClaimResponse, CreateRunRequest, CreateRunResponse, GraphUploadRequest,
    RunJson, RunStackJson, StackResult, lock_info,
};
use crate::github::api::GitHubError;
use crate::github::oidc::Claims;
use crate::graph::model::Graph;
use crate::graph::resolution::{AffectedStack, LockInfo, Resolution};
use crate::graph::resolve::ResolveRequest;
use crate::graph::union::{UnionInput, resolve_union};
use crate::graph::validate;
use crate::ids::{RepoName, RunId, Sha, StackKey, hex, normalise_key};
use crate::plan::summary::Addresses;
use crate::run::apply_start;
use crate::run::binding::{self, DispatchedJob};
use crate::run::dispatching;
use crate::run::locks;
use crate::run::model::{Claim, Lock, Repo, Run};
use crate::run::next::Next;
use crate::run::plan_start::{self, Registration};
use crate::run::report::{self, Refused, Reporter};
use crate::run::scene::{Scene, StoredGraph};
use crate::run::status::{Mode, RowStatus, RunStatus, Trigger};
use crate::store::ApiKey;

/// Why a call is not answered with success.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("refused")]
    Refused(Refused),
    /// 423 with the locks in the way.
    #[error("locked")]
    Locked { message: String, conflicts: Vec<LockInfo> },
    #[error("failed")]
    Failed(#[from] Error),
}

impl From<Refused> for CallError {
    fn from(refused: Refused) -> Self {
        CallError::Refused(refused)
    }
}

impl From<crate::store::StoreError> for CallError {
    fn from(error: crate::store::StoreError) -> Self {
        CallError::Failed(error.into())
    }
}

impl From<GitHubError> for CallError {
    fn from(error: GitHubError) -> Self {
        CallError::Failed(error.into())
    }
}

pub(super) type Answer<T> = Result<T, CallError>;

/// Who calls, after the token was verified.
#[derive(Debug, Clone)]
pub enum Caller {
    /// A job of this repository, known to us and not suspended.
    Job {
        claims: Claims,
        repo: Box<Repo>,
    },
    Key(ApiKey),
}

impl Caller {
    /// A key acts only within its scopes and repositories.
    pub fn may(&self, scope: &str, repo: &RepoName) -> bool {
        match self {
            Caller::Job { repo: own, .. } => own.full_name.same_as(repo.as_str()),
            Caller::Key(key) => key.scopes.iter().any(|known| known == scope) && sees(key, repo),
        }
    }
}

/// A repository that a key does not name does not exist for it.
fn sees(key: &ApiKey, repo: &RepoName) -> bool {
    key.repos.is_empty() || key.repos.iter().any(|known| repo.same_as(known))
}

impl App {
    /// `POST /v1/runs`.
    pub async fn create_run(&self, caller: &Caller, request: &CreateRunRequest) -> Answer<(CreateRunResponse, bool)> {
        match caller {
            Caller::Key(key) => self.start_manual(key, request).await.map(|answer| {
                let created = !answer.existing;
                (answer, created)
            }),
            Caller::Job { claims, repo } => match claims.event_name.as_str() {
                "pull_request" => self.register_plan(claims, repo, request).await,
                "workflow_dispatch" => {
                    self.register_dispatched(claims, repo, request).await.map(|answer| (answer, false))
                }
                other => Err(forbidden(format!("jobs started by {other} cannot register runs"))),
            },
        }
    }

    async fn register_plan(
        &self,
        claims: &Claims,
        repo: &Repo,
        request: &CreateRunRequest,
    ) -> Answer<(CreateRunResponse, bool)> {
        if request.mode.is_some_and(|mode| mode != Mode::Plan) {
            return Err(forbidden("a pull request's job registers plan runs only"));
        }
        own_repository(repo, &request.repo)?;
        let number = pull_of(claims)?;
        if request.pr_number != number {
            return Err(forbidden(format!("the token is of pull request {number}")));
        }
        if request.sha.is_empty() {
            return Err(invalid("sha", "is required"));
        }
        let pull = self.github.pull_request(&repo_ref(repo), number).await?;
        if pull.from_fork {
            return Err(forbidden("pull requests from forks are not planned"));
        }
        if pull.head_sha.as_str() != request.sha {
            return Err(Refused::Superseded(format!("the head of #{number} is {}", pull.head_sha)).into());
        }
        let (commit_message, commit_author) = self.github.commit(&repo_ref(repo), &pull.head_sha).await?;
        let registration = Registration {
            id: self.new_run_id(),
            sha: pull.head_sha.clone(),
            base_sha: request.base_sha.clone(),
            actor: claims.actor.clone(),
            workflow_run_id: claims.run_id,
            attempt: claims.run_attempt,
            commit_message,
            commit_author,
            head_ref: pull.head_ref,
        };
        let subject = Subject::Pull { repo_id: repo.id, number };
        let registered = self.decide(&subject, |next| {
            let (id, existing) = plan_start::register(next, &registration);
            let run = next.scene.runs[&id].clone();
            (run, existing)
        });
        let (run, existing) = registered.await?.ok_or_else(|| not_found("the repository"))?;
        let answer = CreateRunResponse {
            run_id: run.id.clone(),
            status: run.status,
            existing,
            run: Some(self.run_json(&run, repo)),
        };
        Ok((answer, !existing))
    }

    async fn register_dispatched(
        &self,
        claims: &Claims,
        repo: &Repo,
        request: &CreateRunRequest,
    ) -> Answer<CreateRunResponse> {
        let id = request.run_id.clone().ok_or_else(|| invalid("run_id", "is required"))?;
        if !request.repo.is_empty() {
            own_repository(repo, &request.repo)?;
        }
        let run = self.run_of(repo, &id).await?;
        self.decide_run(&run, |next| binding::bind_job(next, &id, &dispatched(claims), None).map(drop)).await??;
        Ok(CreateRunResponse { run_id: id, status: run.status, existing: true, run: Some(self.run_json(&run, repo)) })
    }

    async fn start_manual(&self, key: &ApiKey, request: &CreateRunRequest) -> Answer<CreateRunResponse> {
        if request.trigger != Some(Trigger::Manual) {
            return Err(invalid("trigger", "an API key starts manual runs only"));
        }
        if request.mode != Some(Mode::Apply) {
            return Err(invalid("mode", "a manual run applies"));
        }
        let sha = Sha::parse(&request.sha).map_err(|error| invalid("sha", error.to_string()))?;
        let repo = self.repo_seen_by(key, &request.repo).await?;
        if !(Caller::Key(key.clone())).may("apply", &repo.full_name) {
            return Err(forbidden("this key may not apply in this repository"));
        }
        let keys: BTreeSet<String> =
            request.stacks.iter().map(|key| normalise_key(key)).filter(|key| !key.is_empty()).collect();
        if keys.is_empty() {
            return Err(invalid("stacks", "name at least one stack"));
        }
        let graph = self.current_graph(&repo).await?.ok_or_else(|| {
            invalid(
                "stacks",
                "this repository has no graph yet: open a pull request first, so that its stacks are known",
            )
        })?;
        // A caller that names its run may ask again when the answer was lost.
        let id = request.run_id.clone().unwrap_or_else(|| self.new_run_id());
        if let Some(run) = self.store.run(&id).await? {
            let own = run.repo_id == repo.id
                && run.trigger == Trigger::Manual
                && run.requested_by == format!("apikey:{}", key.name);
            if !own {
                return Err(Refused::Conflict(format!("run {id} is somebody else's")).into());
            }
            let json = self.run_json(&run, &repo);
            return Ok(CreateRunResponse { run_id: id, status: run.status, existing: true, run: Some(json) });
        }
        let subject = Subject::Pull { repo_id: repo.id, number: 0 };
        let started = self.decide(&subject, |next| {
            let run = plan_start::blank_run(next, id.clone(), sha.clone(), Mode::Apply, Trigger::Manual, "");
            let mut rows = Vec::new();
            for key in &keys {
                let stack = graph.stacks.iter().find(|stack| stack.key == *key && !stack.external);
                let affected = stack.map(affected_by_hand).ok_or_else(|| key.clone())?;
                let mut row = plan_start::pending_row(&run, &affected, next.now).ok_or_else(|| key.clone())?;
                row.status = RowStatus::Planned;
                rows.push(row);
            }
            let started = apply_start::start_manual(next, id.clone(), sha.clone(), &key.name, rows);
            Ok::<_, String>(started.map(|id| next.scene.runs[&id].clone()))
        });
        let run = match started.await?.ok_or_else(|| not_found("the repository"))? {
            Err(key) => return Err(invalid("stacks", format!("{key} is not a stack of {}", repo.full_name))),
            Ok(Err(conflicts)) => return Err(locked(&conflicts)),
            Ok(Ok(run)) => run,
        };
        Ok(CreateRunResponse {
            run_id: run.id.clone(),
            status: run.status,
            existing: false,
            run: Some(self.run_json(&run, &repo)),
        })
    }

    /// `POST /v1/runs/{id}/graph`.
    pub async fn upload_graph(&self, caller: &Caller, id: &RunId, request: GraphUploadRequest) -> Answer<Resolution> {
        let Caller::Job { claims, repo } = caller else {
            return Err(forbidden("only the resolve job of a pull request uploads a graph"));
        };
        let run = self.run_of(repo, id).await?;
        let own = claims.event_name == "pull_request"
            && run.trigger == Trigger::PullRequest
            && run.mode == Mode::Plan
            && pull_of(claims).is_ok_and(|number| number == run.pr_number);
        if !own {
            return Err(forbidden(
                "only the resolve job of the pull request that registered this run uploads its graph",
            ));
        }
        if !request.graph.sha.is_empty() && request.graph.sha != run.sha.as_str() {
            return Err(invalid("graph.sha", format!("the run is of {}", run.sha)));
        }
        if !request.graph.repo.is_empty() && !repo.full_name.same_as(&request.graph.repo) {
            return Err(invalid("graph.repo", format!("the run is of {}", repo.full_name)));
        }
        let policy_sha = self.github.branch_head(&repo_ref(repo), &repo.default_branch).await?;
        let known = self.known_graph(repo, &run, &request.graph).await?;
        let base_graph = self.current_graph(repo).await?;
        let resolved = self.decide_run(&run, |next| {
            resolve_upload(next, id, &request, base_graph.as_deref(), policy_sha.as_str(), known.as_ref())
        });
        resolved.await?.map_err(CallError::from)
    }

    /// The graph of the same pull request or the default branch that the uploaded one claims to equal, and its commit.
    async fn known_graph(&self, repo: &Repo, run: &Run, graph: &Graph) -> Answer<Option<(Sha, Arc<Graph>)>> {
        let Some(sha) = self.store.graph_by_tree_hash(repo.id, run.pr_number, &graph.tree_hash).await? else {
            return Ok(None);
        };
        Ok(self.store.graph(repo.id, &sha).await?.map(|known| (sha, known)))
    }

    /// The default-branch graph, else the newest one.
    pub(super) async fn current_graph(&self, repo: &Repo) -> Answer<Option<Arc<Graph>>> {
        let sha = match &repo.default_graph {
            Some(sha) => Some(sha.clone()),
            None => self.store.newest_graph(repo.id).await?,
        };
        match sha {
            Some(sha) => Ok(self.store.graph(repo.id, &sha).await?),
            None => Ok(None),
        }
    }

    /// `POST …/result`.
    pub async fn report_result(
        &self,
        caller: &Caller,
        id: &RunId,
        key: &StackKey,
        result: &StackResult,
    ) -> Answer<RunStackJson> {
        let (run, _) = self.visible_run(caller, id).await?;
        let reported = self.decide_run(&run, |next| {
            let reporter = reporter(next, caller, id, key)?;
            let outcome = report::on_result(next, id, key, &reporter, result);
            let row = next.scene.row(id, key).cloned();
            // A late report is kept although it is refused: the refusal is part of the committed decision.
            outcome.map(|()| RunStackJson::of(&row.expect("on_result found it")))
        });
        Ok(reported.await??)
    }

    /// `POST …/checks/{name}`.
    pub async fn report_verdict(
        &self,
        caller: &Caller,
        id: &RunId,
        key: &StackKey,
        name: &str,
        verdict: &CheckVerdict,
    ) -> Answer<CheckJson> {
        let (run, _) = self.visible_run(caller, id).await?;
        let reported = self.decide_run(&run, |next| {
            let reporter = reporter(next, caller, id, key)?;
            report::on_verdict(next, id, key, &reporter, name, verdict)
        });
        Ok(CheckJson::of(&reported.await??))
    }

    /// `POST …/claim`: the last proof before an apply.
    pub async fn claim(
        &self,
        caller: &Caller,
        id: &RunId,
        key: &StackKey,
        request: &ClaimRequest,
    ) -> Answer<ClaimResponse> {
        let Caller::Job { claims, .. } = caller else {
            return Err(forbidden("only a dispatched apply job claims"));
        };
        if claims.event_name != "workflow_dispatch" {
            return Err(forbidden("only a dispatched apply job claims"));
        }
        if request.workflow_run_attempt != claims.run_attempt {
            return Err(invalid("workflow_run_attempt", format!("the token is of attempt {}", claims.run_attempt)));
        }
        let (run, _) = self.visible_run(caller, id).await?;
        let token = format!("jt_{}", hex(&self.random_bytes::<32>()));
        let token_hash = hex(&Sha256::digest(token.as_bytes()));
        let claimed = self.decide_run(&run, |next| {
            if next.scene.row(id, key).is_none() {
                return Err(Refused::NotFound(format!("run {id} has no stack {key}")));
            }
            if next.scene.runs[id].status == RunStatus::Superseded {
                return Err(Refused::Superseded(format!("run {id} was superseded")));
            }
            let job = dispatched(claims);
            binding::bind_job(next, id, &job, Some(key))?;
            let claim = Claim {
                at: next.now,
                workflow_run_id: job.workflow_run_id,
                attempt: job.attempt,
                check_run_id: job.check_run_id,
            };
            report::on_claim(next, id, key, &claim, &request.sha, token_hash.clone())?;
            let row = next.scene.row(id, key).expect("on_claim found it").clone();
            let lock = next.scene.locks.get(key).expect("on_claim found it").clone();
            Ok((row, lock))
        });
        let (row, lock) = match claimed.await? {
            Ok(claimed) => claimed,
            Err(Refused::Locked(message)) => return Err(CallError::Locked { message, conflicts: Vec::new() }),
            Err(refused) => return Err(refused.into()),
        };
        let summary = row.summary.clone().unwrap_or_default();
        Ok(ClaimResponse {
            lock: lock_info(&lock),
            bundle_sha256: row.bundle_sha256.clone(),
            plan_digest: row.plan_digest.clone(),
            actions_digest: row.actions_digest.clone(),
            addresses: Addresses {
                added: summary.added.into_iter().collect(),
                changed: summary.changed.into_iter().collect(),
                destroyed: summary.destroyed.into_iter().collect(),
                replaced: summary.replaced.into_iter().collect(),
            },
            row: RunStackJson::of(&row),
            job_token: token,
        })
    }

    /// `GET /v1/runs/{id}`.
    pub async fn read_run(&self, caller: &Caller, id: &RunId) -> Answer<RunJson> {
        let (run, repo) = self.visible_run(caller, id).await?;
        if let Caller::Job { claims, .. } = caller {
            match claims.event_name.as_str() {
                "pull_request" => {
                    let own = run.trigger == Trigger::PullRequest && pull_of(claims)? == run.pr_number;
                    if !own || run.mode != Mode::Plan {
                        return Err(forbidden("this token reads its own pull request's plan run only"));
                    }
                    if run.status == RunStatus::Superseded {
                        return Err(Refused::Superseded(format!("run {id} was superseded")).into());
                    }
                    if run.status == RunStatus::Planned || run.status.is_terminal() {
                        return Err(Refused::Conflict(format!("run {id} is {}", run.status)).into());
                    }
                }
                _ => {
                    self.decide_run(&run, |next| binding::bind_job(next, id, &dispatched(claims), None).map(drop))
                        .await??
                }
            }
        }
        let scene = self.store.scene(id).await?.ok_or_else(|| not_found("run"))?;
        Ok(self.full_run_json(&scene, id, &repo))
    }

    /// A run with its rows, their checks and their locks.
    pub fn full_run_json(&self, scene: &Scene, id: &RunId, repo: &Repo) -> RunJson {
        let mut json = self.run_json(&scene.runs[id], repo);
        let mut rows: Vec<_> = scene.rows(id).collect();
        rows.sort_by(|a, b| (a.wave, &a.key).cmp(&(b.wave, &b.key)));
        json.stacks = rows
            .into_iter()
            .map(|row| {
                let verdicts =
                    scene.verdicts.values().filter(|verdict| verdict.run_id == *id && verdict.key == row.key);
                RunStackJson {
                    checks: verdicts.map(CheckJson::of).collect(),
                    lock: scene.locks.get(&row.key).map(lock_info),
                    ..RunStackJson::of(row)
                }
            })
            .collect();
        json
    }

    /// A run the caller may know of, and its repository; anything else is 404.
    async fn visible_run(&self, caller: &Caller, id: &RunId) -> Answer<(Run, Repo)> {
        match caller {
            Caller::Job { repo, .. } => Ok((self.run_of(repo, id).await?, Repo::clone(repo))),
            Caller::Key(_) => {
                let run = self.store.run(id).await?.ok_or_else(|| not_found("run"))?;
                let repo = self.store.repo(run.repo_id).await?.ok_or_else(|| not_found("run"))?;
                if !caller.may("read", &repo.full_name) && !caller.may("apply", &repo.full_name) {
                    return Err(not_found("run"));
                }
                Ok((run, repo))
            }
        }
    }

    async fn run_of(&self, repo: &Repo, id: &RunId) -> Answer<Run> {
        let run = self.store.run(id).await?;
        run.filter(|run| run.repo_id == repo.id).ok_or_else(|| not_found("run"))
    }

    async fn repo_named(&self, name: &str) -> Answer<Repo> {
        let name = RepoName::parse(name).map_err(|error| invalid("repo", error.to_string()))?;
        self.store.repo_by_name(&name).await?.ok_or_else(|| not_found("repository"))
    }

    /// A repository by name, if it is one of the key's; any other is 404, whether it exists or not.
    pub(super) async fn repo_seen_by(&self, key: &ApiKey, name: &str) -> Answer<Repo> {
        let repo = self.repo_named(name).await?;
        if sees(key, &repo.full_name) { Ok(repo) } else { Err(not_found("repository")) }
    }

    /// Decides on the run's own subject.
    pub(super) async fn decide_run<T: Send>(&self, run: &Run, decide: impl FnMut(&mut Next) -> T + Send) -> Answer<T> {
        let subject = match run.pr_number {
            0 => Subject::Run(run.id.clone()),
            number => Subject::Pull { repo_id: run.repo_id, number },
        };
        self.decide(&subject, decide).await?.ok_or_else(|| not_found("run"))
    }

    pub fn run_json(&self, run: &Run, repo: &Repo) -> RunJson {
        RunJson::of(run, repo.full_name.as_str(), &self.addresses.base_url)
    }
}

/// Validates, resolves under both configurations, stores rows, and the graph unless the known one is the same.
fn resolve_upload(
    next: &mut Next,
    id: &RunId,
    request: &GraphUploadRequest,
    base_graph: Option<&Graph>,
    policy_sha: &str,
    known: Option<&(Sha, Arc<Graph>)>,
) -> Result<Resolution, Refused> {
    let run = next.scene.runs[id].clone();
    match run.status {
        RunStatus::Pending | RunStatus::Planning => {}
        // Nothing was affected and the answer was lost: the same upload is answered again.
        RunStatus::Planned if next.scene.rows(id).next().is_none() => {}
        RunStatus::Superseded => {
            return Err(Refused::Superseded(format!("run {id} was superseded by {}", run.superseded_by)));
        }
        RunStatus::Planned | RunStatus::Applying | RunStatus::Applied | RunStatus::Failed | RunStatus::Unconfirmed => {
            return Err(Refused::Conflict(format!("run {id} is {} and takes no graph", run.status)));
        }
    }
    let duplicates = validate::duplicate_keys(&request.graph);
    if !duplicates.is_empty() {
        let now = next.now;
        let run = next.run_mut(id);
        run.warn(format!("the uploaded graph names {} twice", duplicates.join(", ")));
        run.enter(RunStatus::Failed, now);
        next.render(id);
        // The run fails and the caller learns why: the refusal is part of the committed decision.
        return Err(Refused::Invalid { field: "graph", reason: format!("duplicate keys: {}", duplicates.join(", ")) });
    }
    let policy = next.policy.clone();
    let head = request.config.clone().unwrap_or_else(|| policy.clone());
    let gone: BTreeSet<String> = request.base.removed.iter().map(|removed| removed.path.clone()).collect();
    let foreign = next
        .scene
        .locks
        .values()
        .filter(|lock| lock.pr_number == 0 || lock.pr_number != run.pr_number)
        .map(|lock| (lock.key.to_string(), lock_info(lock)))
        .collect();
    let resolve_request = ResolveRequest {
        changed_paths: request.changed_paths.clone(),
        base: request.base.clone(),
        requested: request.stacks.clone(),
        applied: locks::applied(next),
        locks: foreign,
        sha: run.sha.to_string(),
        policy_sha: policy_sha.to_owned(),
    };
    let input = UnionInput { graph: &request.graph, head: &head, base: &policy, base_graph, gone: &gone };
    let union = resolve_union(input, &resolve_request);
    let mut resolution = union.resolution;
    resolution.run_id = Some(id.clone());
    if !request.base_sha.is_empty() {
        next.run_mut(id).base_sha.clone_from(&request.base_sha);
    }
    let mut graph = union.graph;
    graph.repo = next.scene.repo.full_name.to_string();
    graph.sha = run.sha.to_string();
    let content_hash = content_hash(&graph);
    // The tree hash is the client's word; what counts is the content.
    let graph_sha = match known.filter(|(_, known)| self::content_hash(known) == content_hash) {
        Some((sha, _)) => {
            resolution.cached = true;
            sha.clone()
        }
        None => {
            next.effects.graph = Some(StoredGraph {
                repo_id: run.repo_id,
                sha: run.sha.clone(),
                content_hash,
                tree_hash: graph.tree_hash.clone(),
                pr_number: run.pr_number,
                graph,
                created_at: next.now,
            });
            run.sha.clone()
        }
    };
    plan_start::record_resolution(next, id, &resolution, graph_sha);
    // The matrix is made of the rows, so that policy applied to them counts in the jobs too.
    let recorded = next.scene.runs[id].clone();
    resolution.matrix.include = if resolution.cycles.is_empty() {
        let mut rows: Vec<_> = next.scene.rows(id).collect();
        rows.sort_by(|a, b| (a.wave, &a.key).cmp(&(b.wave, &b.key)));
        rows.into_iter()
            .map(|row| crate::graph::resolution::MatrixEntry {
                environment: row.environment.clone(),
                ..dispatching::entry(&recorded, row, policy_sha)
            })
            .collect()
    } else {
        Vec::new()
    };
    Ok(resolution)
}

/// Digest of a graph whatever commit it is of.
fn content_hash(graph: &Graph) -> String {
    let content = serde_json::to_vec(&Graph { sha: String::new(), ..graph.clone() }).unwrap_or_default();
    hex(&Sha256::digest(&content))
}

fn affected_by_hand(stack: &crate::graph::model::Stack) -> AffectedStack {
    AffectedStack {
        key: stack.key.clone(),
        path: stack.path.clone(),
        instance: stack.instance.clone(),
        workspace: stack.workspace.clone(),
        wave: 0,
        reasons: vec![crate::graph::resolution::Reason::Requested],
        environment: stack.environment.clone(),
        tool: stack.tool,
        tool_version: stack.tool_version.clone(),
        plan_output: stack.plan_output,
        via: Vec::new(),
        locked_by: None,
    }
}

/// Who reports on this stack, binding a dispatched job on the way.
fn reporter(next: &mut Next, caller: &Caller, id: &RunId, key: &StackKey) -> Result<Reporter, Refused> {
    match caller {
        // Seeing a run takes less than telling what became of it.
        Caller::Key(_) if !caller.may("apply", &next.scene.repo.full_name) => {
            Err(Refused::Forbidden("this key may not report: that takes the scope apply".to_owned()))
        }
        Caller::Key(api_key) => Ok(Reporter::ApiKey { name: api_key.name.clone() }),
        Caller::Job { claims, .. } if claims.event_name == "pull_request" => {
            let number = pull_number(&claims.git_ref)
                .ok_or_else(|| Refused::Forbidden(format!("{} is no pull request's ref", claims.git_ref)))?;
            Ok(Reporter::PullRequestJob { number, workflow_run_id: claims.run_id, attempt: claims.run_attempt })
        }
        Caller::Job { claims, .. } if claims.event_name == "workflow_dispatch" => {
            if next.scene.row(id, key).is_none() {
                return Err(Refused::NotFound(format!("run {id} has no stack {key}")));
            }
            let job = dispatched(claims);
            if next.scene.runs[id].status != RunStatus::Superseded {
                match binding::bind_job(next, id, &job, Some(key)) {
                    Ok(_) => {}
                    // A claimed job reports even after its dispatch was closed: late evidence is kept.
                    Err(_) if is_claimed_by(next, id, key, &job) => {}
                    Err(refused) => return Err(refused),
                }
            }
            Ok(Reporter::DispatchedJob {
                workflow_run_id: job.workflow_run_id,
                attempt: job.attempt,
                check_run_id: job.check_run_id,
            })
        }
        Caller::Job { claims, .. } => {
            Err(Refused::Forbidden(format!("jobs started by {} report nothing", claims.event_name)))
        }
    }
}

fn is_claimed_by(next: &Next, id: &RunId, key: &StackKey, job: &DispatchedJob) -> bool {
    next.scene.row(id, key).and_then(|row| row.claim.as_ref()).is_some_and(|claim| {
        claim.workflow_run_id == job.workflow_run_id
            && claim.attempt == job.attempt
            && claim.check_run_id == job.check_run_id
    })
}

fn dispatched(claims: &Claims) -> DispatchedJob {
    DispatchedJob {
        git_ref: claims.git_ref.clone(),
        workflow_run_id: claims.run_id,
        attempt: claims.run_attempt,
        environment: claims.environment.clone().unwrap_or_default(),
        check_run_id: claims.check_run_id,
    }
}

/// `<n>` of `refs/pull/<n>/merge`: decimal, no leading zeros.
pub fn pull_number(git_ref: &str) -> Option<i64> {
    let digits = git_ref.strip_prefix("refs/pull/")?.strip_suffix("/merge")?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    if plain { digits.parse().ok() } else { None }
}

fn pull_of(claims: &Claims) -> Answer<i64> {
    pull_number(&claims.git_ref).ok_or_else(|| forbidden(format!("{} is no pull request's ref", claims.git_ref)))
}

fn own_repository(repo: &Repo, named: &str) -> Answer<()> {
    if repo.full_name.same_as(named) { Ok(()) } else { Err(forbidden(format!("the token is of {}", repo.full_name))) }
}

fn locked(conflicts: &[Lock]) -> CallError {
    let first = &conflicts[0];
    CallError::Locked {
        message: format!("{} is locked by {}", first.key, first.holder()),
        conflicts: conflicts.iter().map(lock_info).collect(),
    }
}

pub(super) fn forbidden(reason: impl Into<String>) -> CallError {
    Refused::Forbidden(reason.into()).into()
}

pub(super) fn invalid(field: &'static str, reason: impl Into<String>) -> CallError {
    Refused::Invalid { field, reason: reason.into() }.into()
}

pub(super) fn not_found(what: &str) -> CallError {
    Refused::NotFound(format!("no such {what}")).into()
}
