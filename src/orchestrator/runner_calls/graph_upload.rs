//! `POST /v1/runs/{id}/graph`: the resolve job's graph becomes the rows of its plan run (spec 20 §5.2).

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Answer, CallError, Caller, forbidden, invalid, pull_of};
use crate::api::{GraphUploadRequest, lock_info};
use crate::graph::model::Graph;
use crate::graph::resolution::{MatrixEntry, Resolution};
use crate::graph::resolve::ResolveRequest;
use crate::graph::union::{UnionInput, resolve_union};
use crate::graph::validate;
use crate::ids::{RunId, Sha, hex};
use crate::orchestrator::{App, repo_ref};
use crate::run::dispatching;
use crate::run::model::{Repo, Run};
use crate::run::next::Next;
use crate::run::plan_start;
use crate::run::report::Refused;
use crate::run::scene::StoredGraph;
use crate::run::status::{Mode, RunStatus, Trigger};

impl App {
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
    pub(in crate::orchestrator) async fn current_graph(&self, repo: &Repo) -> Answer<Option<Arc<Graph>>> {
        let sha = match &repo.default_graph {
            Some(sha) => Some(sha.clone()),
            None => self.store.newest_graph(repo.id).await?,
        };
        match sha {
            Some(sha) => Ok(self.store.graph(repo.id, &sha).await?),
            None => Ok(None),
        }
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
    let locks = next
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
        locks,
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
            .map(|row| MatrixEntry {
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
