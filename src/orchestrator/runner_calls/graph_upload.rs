//! `POST /v1/runs/{id}/graph`: the resolve job's graph becomes the rows of its plan run (spec 20 §5.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Answer, CallError, Caller, forbidden, pull_of};
use crate::api::{GraphUploadRequest, lock_info};
use crate::config::ROOT_FILE;
use crate::config::effective::plan_output_of;
use crate::config::model::{PlanOutput, RepoConfig, StackConfig};
use crate::config::parse::parse_repo_config;
use crate::graph::model::{Graph, Stack};
use crate::graph::resolution::{MatrixEntry, Resolution};
use crate::graph::resolve::ResolveRequest;
use crate::graph::union::{UnionInput, resolve_union};
use crate::graph::validate;
use crate::ids::{RunId, Sha, StackKey, hex};
use crate::orchestrator::{App, Error, repo_ref};
use crate::run::dispatching;
use crate::run::locks;
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
        let rows = self.store.rows(id).await?;
        may_upload(&run, rows.is_empty(), repo, &request)?;
        let known = self.known_graph(repo, &run, &request.graph).await?;
        let base = self.base_of(repo, &request).await?;
        let resolved = self.decide_run(&run, |next| resolve_upload(next, id, &request, &base, known.as_ref()));
        resolved.await?.map_err(CallError::from)
    }

    /// What the default branch says. Stacks that no graph of it knows are looked up in its files, the affected ones only.
    async fn base_of(&self, repo: &Repo, request: &GraphUploadRequest) -> Answer<Base> {
        let head = self.github.branch_head(&repo_ref(repo), &repo.default_branch).await?;
        let mut base = Base {
            head,
            is_default: repo.default_graph.is_some(),
            graph: self.current_graph(repo).await?,
            files: BTreeMap::new(),
            unreadable: BTreeMap::new(),
        };
        if !base.is_default {
            let resolve_request = ResolveRequest {
                changed_paths: request.changed_paths.clone(),
                base: request.base.clone(),
                requested: request.stacks.clone(),
                ..ResolveRequest::default()
            };
            let union = resolve_union(base.union(request, &repo.policy(), &gone(request)), &resolve_request);
            let affected = union.resolution.affected.iter();
            let keys = affected.filter_map(|stack| StackKey::parse(&stack.key).ok()).collect();
            (base.files, base.unreadable) = self.stack_files(repo, &base.head, &keys).await?;
        }
        Ok(base)
    }

    /// The graph of the same pull request or the default branch that the uploaded one claims to equal, and its commit.
    async fn known_graph(&self, repo: &Repo, run: &Run, graph: &Graph) -> Answer<Option<(Sha, Arc<Graph>)>> {
        let Some(sha) = self.store.graph_by_tree_hash(repo.id, run.pr_number, &graph.tree_hash).await? else {
            return Ok(None);
        };
        Ok(self.store.graph(repo.id, &sha).await?.map(|known| (sha, known)))
    }

    /// The default-branch graph, else the newest one.
    pub(in crate::orchestrator) async fn current_graph(&self, repo: &Repo) -> Result<Option<Arc<Graph>>, Error> {
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

/// The default branch, as an upload is judged by it.
struct Base {
    head: Sha,
    /// Its graph, else the newest one.
    graph: Option<Arc<Graph>>,
    /// Whether it is the default branch's own.
    is_default: bool,
    /// The stacks' own files at its head, read while it has no graph.
    files: BTreeMap<StackKey, StackConfig>,
    unreadable: BTreeMap<StackKey, String>,
}

impl Base {
    fn union<'a>(
        &'a self,
        request: &'a GraphUploadRequest,
        policy: &'a RepoConfig,
        gone: &'a BTreeSet<String>,
    ) -> UnionInput<'a> {
        let head = request.config.as_ref().unwrap_or(policy);
        UnionInput { graph: &request.graph, head, base: policy, base_graph: self.graph.as_deref(), gone }
    }

    /// Stacks whose plans the default branch keeps to a summary, whatever the pull request makes of it (spec 30 §3.4).
    fn keep_summaries(&self, graph: &mut Graph, policy: &RepoConfig) {
        let own = self.graph.as_deref().filter(|_| self.is_default);
        let known: BTreeMap<&str, &Stack> =
            own.into_iter().flat_map(|own| &own.stacks).map(|stack| (stack.key.as_str(), stack)).collect();
        for stack in graph.stacks.iter_mut().filter(|stack| !stack.external) {
            if self.plan_output(stack, known.get(stack.key.as_str()).copied(), policy) == PlanOutput::Summary {
                stack.plan_output = Some(PlanOutput::Summary);
            }
        }
    }

    fn plan_output(&self, stack: &Stack, known: Option<&Stack>, policy: &RepoConfig) -> PlanOutput {
        // A typing error must not show more than the file meant to.
        if self.unreadable.contains_key(stack.key.as_str()) {
            return PlanOutput::Summary;
        }
        let file = match known {
            Some(known) => known.config.as_ref(),
            None => self.files.get(stack.key.as_str()),
        };
        plan_output_of(policy, file, &stack.path, &stack.instance)
    }
}

/// Directories that the pull request took away.
fn gone(request: &GraphUploadRequest) -> BTreeSet<String> {
    request.base.removed.iter().map(|removed| removed.path.clone()).collect()
}

/// The state of the run first, then what the request says.
fn may_upload(run: &Run, without_rows: bool, repo: &Repo, request: &GraphUploadRequest) -> Result<(), Refused> {
    match run.status {
        RunStatus::Pending | RunStatus::Planning => {}
        // Nothing was affected and the answer was lost: the same upload is answered again.
        RunStatus::Planned if without_rows => {}
        RunStatus::Superseded => {
            return Err(Refused::Superseded(format!("run {} was superseded by {}", run.id, run.superseded_by)));
        }
        RunStatus::Planned | RunStatus::Applying | RunStatus::Applied | RunStatus::Failed | RunStatus::Unconfirmed => {
            return Err(Refused::Conflict(format!("run {} is {} and takes no graph", run.id, run.status)));
        }
    }
    let GraphUploadRequest { graph, config, .. } = request;
    if !graph.sha.is_empty() && graph.sha != run.sha.as_str() {
        return Err(Refused::Invalid { field: "graph.sha", reason: format!("the run is of {}", run.sha) });
    }
    if !graph.repo.is_empty() && !repo.full_name.same_as(&graph.repo) {
        return Err(Refused::Invalid { field: "graph.repo", reason: format!("the run is of {}", repo.full_name) });
    }
    let own = config.as_ref().filter(|config| repo.config.as_deref() != Some(config));
    own.map_or(Ok(()), may_be_configuration)
}

/// What no file could say, no upload may say either. What the default branch says was read from a file.
fn may_be_configuration(config: &RepoConfig) -> Result<(), Refused> {
    let written = serde_json::to_vec(config).unwrap_or_default();
    let problem = parse_repo_config(ROOT_FILE, &written).err().and_then(|problems| problems.into_iter().next());
    problem.map_or(Ok(()), |problem| {
        let reason =
            if problem.path.is_empty() { problem.message } else { format!("{}: {}", problem.path, problem.message) };
        Err(Refused::Invalid { field: "config", reason })
    })
}

/// Validates, resolves under both configurations, stores rows, and the graph unless the known one is the same.
fn resolve_upload(
    next: &mut Next,
    id: &RunId,
    request: &GraphUploadRequest,
    base: &Base,
    known: Option<&(Sha, Arc<Graph>)>,
) -> Result<Resolution, Refused> {
    let run = next.scene.runs[id].clone();
    // Again: GitHub was asked meanwhile.
    may_upload(&run, next.scene.rows(id).next().is_none(), &next.scene.repo, request)?;
    let duplicates = validate::duplicate_keys(&request.graph);
    if !duplicates.is_empty() {
        next.caused_by(format!("workflow_run:{}", run.workflow_run_id), "graph upload");
        let now = next.now;
        let run = next.run_mut(id);
        run.warn(format!("the uploaded graph names {} twice", duplicates.join(", ")));
        run.enter(RunStatus::Failed, now);
        next.render(id);
        // The run fails and the caller learns why: the refusal is part of the committed decision.
        return Err(Refused::Invalid { field: "graph", reason: format!("duplicate keys: {}", duplicates.join(", ")) });
    }
    let policy = next.policy.clone();
    let mut request = request.clone();
    base.keep_summaries(&mut request.graph, &policy);
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
        policy_sha: base.head.to_string(),
    };
    let union = resolve_union(base.union(&request, &policy, &gone(&request)), &resolve_request);
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
                ..dispatching::entry(&recorded, row, base.head.as_str())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: &RepoConfig) -> String {
        match may_be_configuration(config) {
            Err(Refused::Invalid { field: "config", reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    /// Every key of the file, so that none of them is one that an upload may not say.
    #[test]
    fn whatever_a_file_may_say_an_upload_may_say() {
        let file = r#"
version: 1
tool: tofu
tool_version: "1.10"
stacks:
  discover: ["live/**"]
  include: ["extra/one"]
  exclude: ["live/old/**"]
  ignore: []
  ignore_lockfile: true
  instances: { from_var_files: "vars/*.tfvars" }
  plan_files: ["*.zip"]
modules: { paths: [] }
environments: { "live/prod/**": production, "**": staging }
apply:
  mode: on_merge
  require_approvals: 2
  require_codeowner_review: true
  allowed_teams: [acme/platform]
  four_eyes: true
  from_plan: false
  max_parallel: 3
  require_up_to_date: "off"
  require_complete: false
  required_checks: [policy]
  on_conflict: queue
plan_lock: true
checks: { per_stack_max: 0 }
propagate: { dependents: false, cross_repo: plan }
drift: { schedule: "CRON_TZ=Europe/Berlin 0 6 * * 1-5", open_issue: true }
plan_output: summary
backend_config: ["bucket=state-{{ .Instance }}"]
var_files: ["vars/{{ .Instance }}.tfvars"]
env: { TF_VAR_a: one, TF_VAR_b: { plan: two, apply: "three: {four}" } }
"#;
        for config in [RepoConfig::default(), parse_repo_config(ROOT_FILE, file.as_bytes()).unwrap()] {
            assert_eq!(may_be_configuration(&config), Ok(()));
        }
    }

    #[test]
    fn what_no_file_may_say_no_upload_may_say() {
        let mut config = RepoConfig::default();
        config.drift.schedule = "every now and then".to_owned();
        assert!(refused(&config).starts_with("drift.schedule: "), "{}", refused(&config));
        let mut config = RepoConfig::default();
        config.stacks.discover = vec!["../**".to_owned()];
        assert!(refused(&config).starts_with("stacks.discover"), "{}", refused(&config));
        assert!(refused(&RepoConfig { version: 2, ..RepoConfig::default() }).starts_with("version: "));
    }
}
