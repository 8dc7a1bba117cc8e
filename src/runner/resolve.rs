//! `stackorder resolve`: which stacks a change reaches, registered with the server where there is one
//! (spec 12 §6.1, 11 §9).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::base_copy::{config_at, policy_commit};
use super::checkout::Commit;
use super::fallback::tell_unconfirmed;
use super::git::Changes;
use super::server::{CallError, Server};
use super::stop::Stop;
use super::{Job, ScannedTree, outputs};
use crate::api::{CreateRunRequest, GraphUploadRequest};
use crate::config::STACK_FILE;
use crate::config::compare::differing_keys;
use crate::config::model::RepoConfig;
use crate::graph::base_facts::{changed_settings, cut_edges, removed_stacks};
use crate::graph::model::Graph;
use crate::graph::resolution::{BaseFacts, Matrix, MatrixEntry, Resolution};
use crate::graph::union::{UnionInput, resolve_union};
use crate::graph::{ResolveRequest, resolve as resolve_graph};
use crate::ids::{Sha, normalise_path};
use crate::render::escape;
use crate::run::status::Mode;
use crate::scan::ScanOptions;
use crate::scan::files::{Files, file_name, with_links};
use crate::waves::chunk_entries;

/// What `resolve` was asked.
#[derive(Debug, Clone, Default)]
pub struct AskedFor {
    pub base: Option<String>,
    /// Restricts what is planned; empty restricts nothing.
    pub stacks: Vec<String>,
    /// JSON object, key to role; says only which stacks may share a chunk.
    pub role_map: Option<String>,
}

/// A change, as far as git and the scan know it.
#[derive(Debug)]
pub struct Change {
    pub checkout: ScannedTree,
    /// Where base and head parted.
    pub merge_base: Sha,
    pub paths: Vec<String>,
    pub base: BaseFacts,
    pub until: Until,
}

impl Change {
    /// Says why there is nothing to resolve, so that an empty answer explains itself.
    pub(super) fn say_if_empty(&self, job: &Job) {
        if !self.paths.is_empty() || self.base != BaseFacts::default() {
            return;
        }
        let end = match (self.until, job.git.is_dirty()) {
            (Until::WorkingTree, _) => "the working tree",
            (Until::Head, Ok(true)) => "HEAD; what is not committed is not looked at without --working-tree",
            (Until::Head, Ok(false) | Err(_)) => "HEAD",
        };
        job.console.note(&format!("nothing differs between {} and {end}", self.merge_base.short()));
    }
}

/// Resolves, writes outputs and the step summary. Cycles are in the answer; the caller fails on them.
pub async fn resolve(job: &Job, asked: &AskedFor) -> Result<Resolution, Stop> {
    if job.facts.is_fork {
        job.console.note("pull request from a fork: its token is read-only, so nothing is planned");
        let nothing = Resolution { unconfirmed: true, ..Resolution::default() };
        write_outputs(job, &nothing, asked)?;
        return Ok(nothing);
    }
    let change = change(job, asked.base.as_deref(), Until::Head)?;
    change.say_if_empty(job);
    let server = job.server.as_ref().filter(|_| job.facts.is_actions);
    let (resolution, why_local) = match server {
        Some(server) => match register(job, server, &change, asked).await {
            Ok(resolution) => (resolution, None),
            Err(error @ CallError::Unreachable(_)) => {
                (local(job, &change, &asked.stacks)?.resolution, Some(error.to_string()))
            }
            Err(error) => return Err(error.or_failed()),
        },
        None => {
            let why = if job.facts.is_actions {
                "there is no server to register the run with"
            } else {
                "only jobs register runs"
            };
            (local(job, &change, &asked.stacks)?.resolution, Some(why.to_owned()))
        }
    };
    if let Some(why) = why_local {
        tell_unconfirmed(job, "stackorder/resolve", &why).await;
    }
    let annotated = resolution.warnings.iter().filter(|warning| !warning.stack.is_empty() || !warning.file.is_empty());
    if job.facts.is_actions {
        annotated.for_each(|warning| job.console.warn(&warning.to_string()));
    }
    write_outputs(job, &resolution, asked)?;
    Ok(resolution)
}

/// Where a change ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// At the last commit.
    Head,
    /// At the files as they are, with what is not committed and what git does not know yet.
    WorkingTree,
}

/// Scans the checkout and asks git what changed since the base.
pub fn change(job: &Job, base: Option<&str>, until: Until) -> Result<Change, Stop> {
    let checkout = job.scan()?;
    let head = job.git.commit_of("HEAD")?.ok_or_else(|| Stop::failed("the checkout has no commit yet"))?;
    if !job.facts.commit.is_empty() && job.facts.commit != head.as_str() {
        job.console.warn(&format!("the checkout is at {head}, the event is about {}", job.facts.commit));
    }
    let merge_base = merge_base(job, base, &head)?;
    let (changes, end) = match until {
        Until::Head => (job.git.changes(&merge_base, &head)?, Some(&head)),
        Until::WorkingTree => (job.git.changes_with_edits(&merge_base)?, None),
    };
    let paths = with_links(&checkout.tree.list(), &changes.paths);
    let base = base_facts(job, &checkout, &merge_base, end, &changes)?;
    Ok(Change { checkout, merge_base, paths, base, until })
}

/// A resolution made without a server, with what it was made of.
#[derive(Debug)]
pub struct Local {
    pub resolution: Resolution,
    /// The checkout's graph with stacks that only the default branch's configuration knows, where there is such a one.
    pub graph: Option<Graph>,
    /// The default branch's configuration, where it differs from the checkout's.
    pub base_config: Option<RepoConfig>,
}

/// Resolves without a server: under the checkout's configuration and, where it differs, the default branch's too.
pub fn local(job: &Job, change: &Change, stacks: &[String]) -> Result<Local, Stop> {
    let scanned = &change.checkout.scanned;
    let policy = policy_commit(job).unwrap_or_else(|stop| {
        job.console.warn(&format!("the default branch's configuration is not known: {stop}"));
        None
    });
    let request = ResolveRequest {
        changed_paths: change.paths.clone(),
        base: change.base.clone(),
        requested: stacks.to_vec(),
        // Only the server knows what was applied.
        applied: Vec::new(),
        locks: BTreeMap::new(),
        sha: job.facts.commit.clone(),
        policy_sha: policy.as_ref().map(ToString::to_string).unwrap_or_default(),
    };
    let base = policy.and_then(|commit| differing_base(job, &scanned.config, &commit));
    let (graph, mut resolution) = match &base {
        None => (None, resolve_graph(&scanned.graph, &scanned.config, &request)),
        Some((base_config, base_graph)) => {
            let gone = change.base.removed.iter().map(|removed| removed.path.clone()).collect();
            let input = UnionInput {
                graph: &scanned.graph,
                head: &scanned.config,
                base: base_config,
                base_graph: base_graph.as_ref(),
                gone: &gone,
            };
            let union = resolve_union(input, &request);
            (Some(union.graph), union.resolution)
        }
    };
    resolution.unconfirmed = true;
    Ok(Local { resolution, graph, base_config: base.map(|(config, _)| config) })
}

/// The default branch's configuration, where it differs from the checkout's, and its graph. What is broken there is
/// left out with a warning: this change may be the one that mends it.
fn differing_base(job: &Job, head: &RepoConfig, commit: &Sha) -> Option<(RepoConfig, Option<Graph>)> {
    let config = match config_at(&job.git, commit) {
        Ok(config) => config,
        Err(stop) => {
            job.console.warn(&format!("the default branch's configuration does not count, it cannot be read: {stop}"));
            return None;
        }
    };
    if differing_keys(head, &config).is_empty() {
        return None;
    }
    let graph = graph_at(job, commit, &config);
    let graph = graph.map_err(|stop| {
        job.console
            .warn(&format!("stacks that only the default branch knows do not count, it cannot be scanned: {stop}"));
    });
    Some((config, graph.ok()))
}

async fn register(job: &Job, server: &Server, change: &Change, asked: &AskedFor) -> Result<Resolution, CallError> {
    let facts = &job.facts;
    let scanned = &change.checkout.scanned;
    let request = CreateRunRequest {
        repo: facts.repo.clone(),
        sha: facts.commit.clone(),
        base_sha: change.merge_base.to_string(),
        pr_number: facts.pr_number,
        mode: Some(Mode::Plan),
        workflow_run_id: facts.workflow_run_id,
        workflow_run_attempt: facts.workflow_run_attempt,
        stacks: asked.stacks.clone(),
        ..CreateRunRequest::default()
    };
    let run_id = server.create_run(&request).await?.run_id;
    let upload = GraphUploadRequest {
        graph: scanned.graph.clone(),
        changed_paths: change.paths.clone(),
        base_sha: change.merge_base.to_string(),
        config: Some(scanned.config.clone()),
        stacks: asked.stacks.clone(),
        base: change.base.clone(),
    };
    let mut resolution = server.upload_graph(&run_id, &upload).await?;
    resolution.run_id.get_or_insert(run_id);
    Ok(resolution)
}

/// What to do about a clone whose history was cut off.
const NEEDS_HISTORY: &str = "; the checkout is shallow and needs its whole history: fetch-depth: 0 in actions/checkout, \
                             or git fetch --unshallow";

/// The first base that is there: the flag, the event's, the default branch.
fn merge_base(job: &Job, flag: Option<&str>, head: &Sha) -> Result<Sha, Stop> {
    let facts = &job.facts;
    let branch = if facts.default_branch.is_empty() { "main" } else { &facts.default_branch };
    let (base, commit, is_asked_for) = match flag.map(str::trim).filter(|base| !base.is_empty()) {
        Some(base) => (base.to_owned(), branch_or_commit(job, base)?, true),
        None if !facts.base.is_empty() => (facts.base.clone(), job.git.commit_of(&facts.base)?, true),
        // In full: a local branch or a tag may bear the short name too.
        None => (format!("origin/{branch}"), job.git.commit_of(&format!("refs/remotes/origin/{branch}"))?, false),
    };
    let Some(commit) = commit else {
        let (whole, other) = if job.git.is_shallow() {
            (NEEDS_HISTORY, NEEDS_HISTORY)
        } else {
            ("", "; fetch it, or pass another --base")
        };
        return Err(Stop::failed(if is_asked_for {
            format!("the base {base:?} is no commit here{other}")
        } else {
            format!("no base to compare with: there is no {base:?} here; pass --base <ref>{whole}")
        }));
    };
    job.git.merge_base(commit.as_str(), head.as_str())?.ok_or_else(|| {
        Stop::failed(if job.git.is_shallow() {
            format!("{base} and HEAD share no history here{NEEDS_HISTORY}")
        } else {
            format!("{base} and HEAD have unrelated histories: no commit is in both; pass a --base that HEAD came from")
        })
    })
}

/// What a person means by a name: the branch, where a tag of the same name would win in git's own order.
fn branch_or_commit(job: &Job, name: &str) -> Result<Option<Sha>, Stop> {
    for branch in [format!("refs/heads/{name}"), format!("refs/remotes/{name}")] {
        if let Some(commit) = job.git.commit_of(&branch)? {
            return Ok(Some(commit));
        }
    }
    Ok(job.git.commit_of(name)?)
}

fn base_facts(
    job: &Job,
    checkout: &ScannedTree,
    merge_base: &Sha,
    end: Option<&Sha>,
    changes: &Changes,
) -> Result<BaseFacts, Stop> {
    let head_scanned = &checkout.scanned;
    let base_config = match config_at(&job.git, merge_base) {
        Ok(config) => config,
        Err(stop) => {
            job.console.warn(&format!("the configuration of the base is not read: {stop}"));
            RepoConfig::default()
        }
    };
    let mut settings = changed_settings(&head_scanned.graph, &base_config, &head_scanned.config);
    if changes.paths.iter().any(|path| path.starts_with(".stackorder/hooks/")) {
        let own = head_scanned.graph.stacks.iter().filter(|stack| !stack.external);
        settings = own.map(|stack| stack.key.clone()).collect();
        settings.sort();
    }
    let may_remove = !changes.deleted.is_empty()
        || base_config != head_scanned.config
        || changes.paths.iter().any(|path| file_name(path) == STACK_FILE);
    let (removed, cut) = match may_remove.then(|| graph_at(job, merge_base, &base_config)) {
        None => (Vec::new(), Vec::new()),
        Some(Ok(base)) => {
            let renames = job.git.renames(merge_base, end)?;
            let removed = removed_stacks(&base, &head_scanned.graph, &changes.deleted, &renames);
            let cut = cut_edges(&base, &head_scanned.graph, &removed);
            (removed, cut)
        }
        Some(Err(stop)) => {
            job.console.warn(&format!("removed stacks are not known, the base cannot be scanned: {stop}"));
            (Vec::new(), Vec::new())
        }
    };
    Ok(BaseFacts { settings, removed, cut })
}

/// The graph of a commit, straight from git.
fn graph_at(job: &Job, commit: &Sha, config: &RepoConfig) -> Result<Graph, Stop> {
    let files = Commit::open(&job.git, commit)?;
    let options = ScanOptions {
        server_host: job.facts.host.clone(),
        config: Some(config.clone()),
        ..ScanOptions::new(&job.facts.repo, commit.as_str())
    };
    Ok(job.scan_files("reading the base", &files, &options)?.graph)
}

fn write_outputs(job: &Job, resolution: &Resolution, asked: &AskedFor) -> Result<(), Stop> {
    let json = |value: Result<String, serde_json::Error>| value.expect("keys and names always serialise");
    let roles = Roles::parse(asked.role_map.as_deref())?;
    let matrix = Matrix { include: chunk_entries(resolution.matrix.include.clone(), |entry| roles.of(entry)) };
    let affected: Vec<&str> = resolution.affected.iter().map(|stack| stack.key.as_str()).collect();
    outputs::write(
        &job.env,
        &[
            ("run-id", resolution.run_id.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("matrix", json(serde_json::to_string(&matrix))),
            ("waves", json(serde_json::to_string(&resolution.waves))),
            ("affected", json(serde_json::to_string(&affected))),
            ("count", affected.len().to_string()),
            ("unconfirmed", resolution.unconfirmed.to_string()),
        ],
    )?;
    outputs::summarise(&job.env, &markdown(resolution));
    Ok(())
}

/// The workflow's map of roles (spec 13 §6).
struct Roles(BTreeMap<String, String>);

impl Roles {
    fn parse(map: Option<&str>) -> Result<Self, Stop> {
        match map.map(str::trim).filter(|map| !map.is_empty()) {
            None => Ok(Self(BTreeMap::new())),
            Some(map) => serde_json::from_str(map)
                .map(Self)
                .map_err(|error| Stop::failed(format!("--role-map is no JSON object of texts: {error}"))),
        }
    }

    /// Exact key, instance, longest path prefix, environment; empty when nothing matches.
    fn of(&self, entry: &MatrixEntry) -> String {
        let exact = self.0.get(&entry.key);
        let instance = || self.0.get(&format!(":{}", entry.instance)).filter(|_| !entry.instance.is_empty());
        let prefix = || {
            let is_prefix = |name: &str| {
                let name = normalise_path(name);
                !name.is_empty() && (entry.stack == name || entry.stack.starts_with(&format!("{name}/")))
            };
            let prefixes = self.0.iter().filter(|(name, _)| !name.contains(':') && !name.starts_with('@'));
            prefixes
                .filter(|(name, _)| is_prefix(name))
                .max_by_key(|(name, _)| normalise_path(name).len())
                .map(|(_, role)| role)
        };
        let environment = || self.0.get(&format!("@{}", entry.environment));
        exact.or_else(instance).or_else(prefix).or_else(environment).cloned().unwrap_or_default()
    }
}

fn markdown(resolution: &Resolution) -> String {
    let line = "writing to a string cannot fail";
    let mut text = String::from("### Affected stacks\n\n");
    for cycle in &resolution.cycles {
        writeln!(text, "**Cycle**: {}\n", escape::code(&cycle.join(" -> "))).expect(line);
    }
    if resolution.affected.is_empty() {
        text.push_str("None.\n\n");
    } else {
        text.push_str("| Wave | Stack | Reasons | Environment |\n| --- | --- | --- | --- |\n");
    }
    for stack in &resolution.affected {
        let reasons: Vec<&str> = stack.reasons.iter().map(|reason| reason.as_str()).collect();
        let (key, environment) = (escape::cell(&stack.key), escape::cell(&stack.environment));
        writeln!(text, "| {} | {key} | {} | {environment} |", stack.wave, reasons.join(", ")).expect(line);
    }
    text.push('\n');
    for warning in &resolution.warnings {
        writeln!(text, "- {}", escape::text(&warning.to_string())).expect(line);
    }
    text
}
