//! Asking the gate, and starting an apply (spec 30 §5, §6.1).
//!
//! What GitHub says is gathered first; gate, run, locks and the first dispatches are then one decision and one commit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;

use super::comments::{CommandComment, Outcome, refused_text};
use super::{App, Result, Subject, repo_ref};
use crate::command::{Command, Verb};
use crate::config::effective::{allowed_teams_of, environment_of};
use crate::config::model::{ApplyMode, OnConflict, RequireUpToDate, StackConfig};
use crate::config::parse::parse_stack_config;
use crate::gate::codeowners::{self, Codeowners};
use crate::gate::facts::{Membership, PullRequest, ReviewState};
use crate::gate::{self, Entry, GateFacts, GateRequest, GateScene};
use crate::github::api::Comparison;
use crate::graph::ordering::ordering;
use crate::ids::{RunId, Sha, StackKey, normalise_key};
use crate::render;
use crate::run::apply_start::{self, ApplyRequest};
use crate::run::model::{Repo, Row};
use crate::run::next::Next;
use crate::run::plan_view::PlanView;
use crate::run::queue::Line;
use crate::run::scene::Scene;
use crate::run::status::Trigger;
use crate::run::waves::new_upstreams;
use crate::waves::waves;

/// GitHub works mergeability out after the question: so often is it asked, so long apart.
const MERGEABLE_READS_MAX: u32 = 5;
pub(super) const MERGEABLE_PAUSE: Duration = Duration::from_secs(2);
/// So often is everything gathered anew because another plan came in meanwhile.
pub(super) const GATHER_TRIES_MAX: u32 = 3;
pub(super) const STILL_MOVING: &str =
    "The plans of this pull request kept changing while the gate was asked; ask again when they rest";
/// What a plan of the head is behind when the merge brought other files.
const THE_MERGE: &str = "the merge";
/// How the merge is named where a command would be.
const MERGE_COMMAND: &str = "stackorder apply (on merge)";
/// Where GitHub looks for code owners, first found.
const CODEOWNERS_FILES: [&str; 3] = [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"];

/// Policy files of the default branch, and what GitHub says: all that a gate decision needs besides the scene.
pub(super) struct Gathered {
    pub facts: GateFacts,
    pub stack_files: BTreeMap<StackKey, StackConfig>,
    /// What all of this was asked for.
    wanted: Wanted,
    merge_differs: MergeDiffers,
}

/// How the tree of a merge commit differs from that of the head, which was planned (spec 30 §6.2a).
enum MergeDiffers {
    /// In these paths; in none when nothing is merged.
    In(Vec<String>),
    /// GitHub cut a tree: it may differ everywhere.
    Unknown,
}

/// The stacks that a request selects, and the workflow runs whose artifacts hold their plans.
#[derive(Default)]
pub(super) struct Wanted {
    pub selected: BTreeSet<StackKey>,
    pub artifact_runs: BTreeSet<i64>,
}

/// What one request to apply asks for.
pub(super) struct Asked<'a> {
    pub entry: Entry,
    pub trigger: Trigger,
    pub requester: &'a str,
    /// As typed; empty means every stack of the plan view.
    pub keys: &'a [String],
    pub sha: Sha,
    pub run_id: RunId,
    /// The commits whose plans count, newest first.
    pub commits: Vec<Sha>,
    /// The digest of the plans that the requester has seen, if that binds the request.
    pub plan_set_digest: Option<&'a str>,
}

/// What a request that nothing refuses brought about.
pub(super) enum Started {
    Now(RunId),
    /// Only locks stood in its way, and it waits for them; the text tells the person so.
    Queued(RunId, String),
}

/// Why nothing started.
pub(super) enum NotStarted {
    NothingAffected,
    /// A plan came in meanwhile that GitHub was not asked about: gather again.
    MoreWanted,
    Refused(Vec<gate::Refusal>),
}

impl App {
    pub(super) async fn apply_commented(&self, repo: &Repo, comment: &CommandComment) -> Result<()> {
        if repo.policy().apply.mode == ApplyMode::OnMerge {
            let reason = "apply.mode is on_merge here: the merge is what applies";
            return self
                .decide_comment(repo, comment, |_| Outcome::refused(reason, refused_text(&comment.command, reason)))
                .await;
        }
        let pull = self.settled_pull(repo, comment.number, MERGEABLE_PAUSE).await?;
        let asked = Asked {
            entry: Entry::Comment,
            trigger: Trigger::Comment,
            requester: &comment.author,
            keys: &comment.command.keys,
            sha: pull.head_sha.clone(),
            run_id: self.new_run_id(),
            commits: vec![pull.head_sha.clone()],
            plan_set_digest: None,
        };
        let refuse = |reason: &str| Outcome::refused(reason, refused_text(&comment.command, reason));
        for _ in 0..GATHER_TRIES_MAX {
            let gathered = self.gather(repo, pull.clone(), &asked).await?;
            let decided =
                self.decide_comment_or_wait(repo, comment, |next| match start_apply(next, &asked, &gathered) {
                    Ok(Started::Now(id)) => Some(Outcome::started(&id)),
                    Ok(Started::Queued(id, text)) => Some(Outcome::queued(&id, text)),
                    Err(NotStarted::MoreWanted) => None,
                    Err(NotStarted::NothingAffected) => {
                        Some(refuse("this pull request reaches no stack; an apply would do nothing"))
                    }
                    Err(NotStarted::Refused(refusals)) => {
                        let text = render::refusal::comment(&comment.command.canonical(), &refusals);
                        Some(Outcome::refused(&reasons(&refusals), text))
                    }
                });
            if decided.await?.unwrap_or(true) {
                return Ok(());
            }
        }
        self.decide_comment(repo, comment, |_| refuse(STILL_MOVING)).await
    }

    /// The merge applies (`on_merge`): at most one run per merge commit.
    pub(super) async fn apply_merge(&self, repo: &Repo, pull: &PullRequest) -> Result<()> {
        let merge = pull.merge_commit_sha.clone().unwrap_or_else(|| pull.head_sha.clone());
        let once = format!("merge:{}:{}:{merge}", repo.id, pull.number);
        if self.store.was_claimed(&once).await? {
            return Ok(());
        }
        let requester = pull.merged_by.clone().unwrap_or_default();
        let asked = Asked {
            entry: Entry::Merge,
            trigger: Trigger::PullRequest,
            requester: &requester,
            keys: &[],
            sha: merge.clone(),
            run_id: self.new_run_id(),
            commits: vec![merge.clone(), pull.head_sha.clone()],
            plan_set_digest: None,
        };
        let subject = Subject::Pull { repo_id: repo.id, number: pull.number };
        for _ in 0..GATHER_TRIES_MAX {
            let gathered = self.gather(repo, pull.clone(), &asked).await?;
            let decided = self.decide(&subject, |next| {
                match start_apply(next, &asked, &gathered) {
                    Err(NotStarted::MoreWanted) => return false,
                    Err(NotStarted::NothingAffected) => {}
                    Ok(Started::Now(id)) => record_request(next, &asked, Ok(&id)),
                    Ok(Started::Queued(id, text)) => {
                        next.comment(format!("queued:{id}"), text);
                        record_request(next, &asked, Ok(&id));
                    }
                    Err(NotStarted::Refused(refusals)) => {
                        let text = render::refusal::comment(MERGE_COMMAND, &refusals);
                        next.comment(format!("merge-refused:{merge}"), text);
                        record_request(next, &asked, Err(&reasons(&refusals)));
                    }
                }
                next.effects.once.push(once.clone());
                true
            });
            if decided.await?.unwrap_or(true) {
                return Ok(());
            }
        }
        self.decide(&subject, |next| {
            next.effects.once.push(once.clone());
            let text = format!("**Refused: {}.** {STILL_MOVING}.", render::escape::code(MERGE_COMMAND));
            next.comment(format!("merge-refused:{merge}"), text);
            record_request(next, &asked, Err(STILL_MOVING));
        })
        .await?;
        Ok(())
    }

    /// The pull request, read again while GitHub has not worked out whether it merges.
    pub(super) async fn settled_pull(&self, repo: &Repo, number: i64, pause: Duration) -> Result<PullRequest> {
        let mut reads = 1;
        loop {
            let pull = self.github.pull_request(&repo_ref(repo), number).await?;
            if pull.mergeable.is_some() || !pull.open || reads == MERGEABLE_READS_MAX {
                return Ok(pull);
            }
            reads += 1;
            tokio::time::sleep(pause).await;
        }
    }

    /// Everything GitHub is asked for before the decision. A first look at the scene tells what is worth asking.
    pub(super) async fn gather(&self, repo: &Repo, pull: PullRequest, asked: &Asked<'_>) -> Result<Gathered> {
        let scene = self.store.pull_scene(repo.id, pull.number).await?;
        let wanted = scene.as_ref().map(|scene| wanted(scene, asked)).unwrap_or_default();
        self.free_what_was_merged(repo, pull.number, &wanted.selected).await?;
        self.gather_for(repo, pull, asked, wanted).await
    }

    /// The same for stacks that are known already.
    pub(super) async fn gather_for(
        &self,
        repo: &Repo,
        pull: PullRequest,
        asked: &Asked<'_>,
        wanted: Wanted,
    ) -> Result<Gathered> {
        let asked_at = self.now();
        let github = repo_ref(repo);
        let policy = repo.policy();
        let selected = &wanted.selected;
        let default_head = self.github.branch_head(&github, &repo.default_branch).await?;
        let (stack_files, unreadable_files) = self.stack_files(repo, &default_head, selected).await?;

        let organisation = repo.full_name.owner();
        let mut teams = BTreeMap::new();
        for team in teams_of(&policy, &stack_files, selected) {
            let (organisation, slug) = gate::team_parts(&team, organisation);
            let membership = self.github.membership(&github, &organisation, &slug, asked.requester).await?;
            teams.insert(format!("{organisation}/{slug}"), membership);
        }
        let permission = if asked.requester.is_empty() || asked.requester.starts_with("apikey:") {
            crate::gate::facts::Permission::None
        } else {
            self.github.permission(&github, asked.requester).await?
        };
        let reviews = self.github.reviews(&github, pull.number).await?;
        let mut reviewers = BTreeMap::new();
        for review in reviews.iter().filter(|review| review.state == ReviewState::Approved) {
            let login = review.author.to_lowercase();
            if reviewers.contains_key(&login) {
                continue;
            }
            reviewers.insert(login, self.github.permission(&github, &review.author).await?);
        }
        let codeowners =
            if policy.apply.require_codeowner_review { self.codeowners(repo, &default_head).await? } else { None };
        let owner_members = self.owner_members(repo, codeowners.as_deref(), selected, reviewers.keys()).await?;
        let ahead = match policy.apply.require_up_to_date {
            RequireUpToDate::Affected if looks_at_base(asked.entry, &pull) => {
                self.github.compare(&github, asked.sha.as_str(), &repo.default_branch).await?
            }
            RequireUpToDate::Affected | RequireUpToDate::Off => Comparison::default(),
        };
        let mut artifacts = BTreeMap::new();
        if policy.apply.from_plan {
            for workflow_run_id in wanted.artifact_runs.iter().copied() {
                artifacts.insert(workflow_run_id, self.github.artifacts(&github, workflow_run_id).await?);
            }
        }
        let facts = GateFacts {
            asked_at,
            pull,
            permission,
            teams,
            reviews,
            reviewers,
            codeowners,
            owner_members,
            ahead,
            artifacts,
            unreadable_files,
        };
        let merge_differs = match asked.entry {
            Entry::Merge | Entry::AfterMerge => self.merge_differs(repo, &facts.pull.head_sha, &asked.sha).await?,
            Entry::Comment | Entry::ProtectionRule { .. } => MergeDiffers::In(Vec::new()),
        };
        Ok(Gathered { facts, stack_files, wanted, merge_differs })
    }

    /// `.stackorder.yaml` of each selected directory at the default branch, and what is wrong with those that do not parse: a
    /// typing error must not open a stack to more people.
    pub(super) async fn stack_files(
        &self,
        repo: &Repo,
        head: &Sha,
        selected: &BTreeSet<StackKey>,
    ) -> Result<(BTreeMap<StackKey, StackConfig>, BTreeMap<StackKey, String>)> {
        let mut by_path: BTreeMap<String, Option<std::result::Result<StackConfig, String>>> = BTreeMap::new();
        let (mut found, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
        for key in selected {
            if !by_path.contains_key(key.path()) {
                let path = format!("{}/.stackorder.yaml", key.path());
                let bytes = self.github.file(&repo_ref(repo), &path, head.as_str()).await?;
                let parsed = bytes.map(|bytes| {
                    parse_stack_config(&path, &bytes)
                        .map_err(|problems| problems.first().map(ToString::to_string).unwrap_or_default())
                });
                by_path.insert(key.path().to_owned(), parsed);
            }
            match by_path.get(key.path()) {
                Some(Some(Ok(config))) => drop(found.insert(key.clone(), config.clone())),
                Some(Some(Err(problem))) => drop(unreadable.insert(key.clone(), problem.clone())),
                Some(None) | None => {}
            }
        }
        Ok((found, unreadable))
    }

    async fn merge_differs(&self, repo: &Repo, head: &Sha, merge: &Sha) -> Result<MergeDiffers> {
        if head == merge {
            return Ok(MergeDiffers::In(Vec::new()));
        }
        let (planned, planned_cut) = self.github.tree(&repo_ref(repo), head).await?;
        let (merged, merged_cut) = self.github.tree(&repo_ref(repo), merge).await?;
        if planned_cut || merged_cut {
            return Ok(MergeDiffers::Unknown);
        }
        let planned: BTreeSet<(String, String)> = planned.into_iter().collect();
        let merged: BTreeSet<(String, String)> = merged.into_iter().collect();
        let paths: BTreeSet<&String> = planned.symmetric_difference(&merged).map(|(path, _)| path).collect();
        Ok(MergeDiffers::In(paths.into_iter().cloned().collect()))
    }

    async fn codeowners(&self, repo: &Repo, head: &Sha) -> Result<Option<String>> {
        for path in CODEOWNERS_FILES {
            if let Some(bytes) = self.github.file(&repo_ref(repo), path, head.as_str()).await? {
                // The first that is there is the only one that counts, loaded or not.
                let loaded = (bytes.len() <= codeowners::FILE_BYTES_MAX).then_some(bytes);
                return Ok(loaded.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
        Ok(None)
    }

    /// Which approvers are members of the teams that own a selected stack.
    async fn owner_members(
        &self,
        repo: &Repo,
        codeowners: Option<&str>,
        selected: &BTreeSet<StackKey>,
        approvers: impl Iterator<Item = &String>,
    ) -> Result<BTreeSet<(String, String)>> {
        let Some(text) = codeowners else { return Ok(BTreeSet::new()) };
        let rules = Codeowners::parse(text);
        let teams: BTreeSet<String> = selected
            .iter()
            .flat_map(|key| rules.owners(&format!("{}/main.tf", key.path())))
            .filter_map(|owner| owner.strip_prefix('@').filter(|name| name.contains('/')).map(str::to_owned))
            .collect();
        let mut members = BTreeSet::new();
        for login in approvers {
            for team in &teams {
                let (organisation, slug) = gate::team_parts(team, repo.full_name.owner());
                let membership = self.github.membership(&repo_ref(repo), &organisation, &slug, login).await?;
                if membership == Membership::Active {
                    members.insert((format!("{organisation}/{slug}"), login.clone()));
                }
            }
        }
        Ok(members)
    }
}

/// Whether it counts what the default branch holds that the commit lacks.
fn looks_at_base(entry: Entry, pull: &PullRequest) -> bool {
    match entry {
        Entry::AfterMerge => true,
        Entry::Comment | Entry::Merge => pull.open,
        Entry::ProtectionRule { .. } => false,
    }
}

/// Every refusal with its layer, in one line, as the audit keeps it.
fn reasons(refusals: &[gate::Refusal]) -> String {
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The audit row of a request that no comment made.
fn record_request(next: &mut Next, asked: &Asked<'_>, outcome: std::result::Result<&RunId, &str>) {
    let repo = next.scene.repo.full_name.clone();
    let mut details = json!({
        "repo": repo, "pr": next.scene.pr_number, "sha": asked.sha, "stacks": asked.keys, "accepted": outcome.is_ok(),
    });
    match outcome {
        Ok(id) => details["new_run_id"] = json!(id),
        Err(reason) => details["reason"] = json!(reason),
    }
    let actor = if asked.requester.is_empty() { "github" } else { asked.requester };
    next.audit(actor, "apply_requested", repo.to_string(), details);
}

fn wanted(scene: &Scene, asked: &Asked<'_>) -> Wanted {
    let commits: Vec<&Sha> = asked.commits.iter().collect();
    let view = PlanView::of(scene, &commits);
    let (selected, _) = selection(&view, asked.keys);
    let rows = selected.iter().filter_map(|key| view.rows.get(key));
    let artifact_runs = rows.map(|row| row.plan_run_id).filter(|id| *id != 0).collect();
    Wanted { selected, artifact_runs }
}

/// Named keys that are in the view, and those that are not, as typed.
fn selection(view: &PlanView<'_>, keys: &[String]) -> (BTreeSet<StackKey>, Vec<String>) {
    if keys.is_empty() {
        return (view.rows.keys().cloned().collect(), Vec::new());
    }
    let mut selected = BTreeSet::new();
    let mut unknown = Vec::new();
    for typed in keys {
        match StackKey::parse(&normalise_key(typed)).ok().filter(|key| view.rows.contains_key(key)) {
            Some(key) => drop(selected.insert(key)),
            None => unknown.push(typed.clone()),
        }
    }
    (selected, unknown)
}

fn teams_of(
    policy: &crate::config::model::RepoConfig,
    files: &BTreeMap<StackKey, StackConfig>,
    selected: &BTreeSet<StackKey>,
) -> BTreeSet<String> {
    let mut teams: BTreeSet<String> = policy.apply.allowed_teams.iter().cloned().collect();
    for key in selected {
        teams.extend(allowed_teams_of(policy, files.get(key), key.path(), key.instance()));
    }
    teams
}

/// Evaluates the gate on the scene as it is now and starts the apply if nothing refuses.
pub(super) fn start_apply(
    next: &mut Next,
    asked: &Asked<'_>,
    gathered: &Gathered,
) -> std::result::Result<Started, NotStarted> {
    let commits: Vec<&Sha> = asked.commits.iter().collect();
    let before = next.scene.clone();
    let view = PlanView::of(&before, &commits);
    let (selected, unknown) = selection(&view, asked.keys);
    if view.rows.is_empty()
        && unknown.is_empty()
        && !view.is_empty()
        && view.status() == Some(crate::run::status::RunStatus::Planned)
    {
        return Err(NotStarted::NothingAffected);
    }
    let now_wanted = wanted(&before, asked);
    let known = &gathered.wanted;
    if !now_wanted.selected.is_subset(&known.selected) || !now_wanted.artifact_runs.is_subset(&known.artifact_runs) {
        return Err(NotStarted::MoreWanted);
    }
    let request = GateRequest {
        entry: asked.entry,
        requester: asked.requester.to_owned(),
        selected: selected.clone(),
        unknown,
        plans_changed: asked.plan_set_digest.is_some_and(|seen| seen != view.digest(&before)),
    };
    let refusals = gate::evaluate(&GateScene {
        request: &request,
        scene: &before,
        view: &view,
        stack_files: &gathered.stack_files,
        facts: &gathered.facts,
        now: next.now,
    });
    let line = Line::of(&before);
    let queues = may_wait(next, &line, &selected, &refusals);
    if !refusals.is_empty() && !queues {
        return Err(NotStarted::Refused(refusals));
    }
    let graph = view.graph_sha().and_then(|sha| before.graphs.get(sha)).cloned().unwrap_or_default();
    let members: BTreeSet<String> = selected.iter().map(ToString::to_string).collect();
    let waves: BTreeMap<StackKey, u32> = waves(&ordering(&graph), &members)
        .into_iter()
        .filter_map(|(key, wave)| StackKey::parse(&key).ok().map(|key| (key, wave)))
        .collect();
    let environments = selected.iter().filter_map(|key| environment(next, gathered, key, view.rows.get(key))).collect();
    let changed_by_merge: BTreeSet<StackKey> = match &gathered.merge_differs {
        MergeDiffers::Unknown => selected.clone(),
        MergeDiffers::In(paths) if paths.is_empty() => BTreeSet::new(),
        MergeDiffers::In(paths) => gate::reached_by(&graph, &next.policy, paths.clone()).into_iter().collect(),
    };
    let behind_from_start = selected
        .iter()
        .map(|key| {
            let mut upstreams = new_upstreams(&before, &view, &selected, key);
            let planned_at = view.rows.get(key).and_then(|row| before.run(&row.run_id)).map(|run| &run.sha);
            if changed_by_merge.contains(key) && planned_at != Some(&asked.sha) {
                upstreams.push(THE_MERGE.to_owned());
            }
            (key.clone(), upstreams)
        })
        .filter(|(_, upstreams)| !upstreams.is_empty())
        .collect();
    let mut plans: BTreeMap<StackKey, Row> = view.rows.iter().map(|(key, row)| (key.clone(), (*row).clone())).collect();
    for plan in plans.values_mut() {
        let listed = gathered.facts.artifacts.get(&plan.plan_run_id).into_iter().flatten();
        if let Some(artifact) =
            listed.filter(|artifact| artifact.name == plan.plan_artifact).max_by_key(|artifact| artifact.id)
        {
            plan.plan_artifact_id = Some(artifact.id);
            plan.plan_artifact_expires_at = artifact.expires_at;
        }
    }
    let request = ApplyRequest {
        id: asked.run_id.clone(),
        sha: asked.sha.clone(),
        trigger: asked.trigger,
        requested_by: asked.requester.to_owned(),
        selected,
        environments,
        waves,
        behind_from_start,
    };
    if !queues {
        return Ok(Started::Now(apply_start::start(next, &request, &plans)));
    }
    let command = match asked.entry {
        Entry::Merge => MERGE_COMMAND.to_owned(),
        Entry::Comment | Entry::AfterMerge | Entry::ProtectionRule { .. } => {
            Command { verb: Verb::Apply, keys: asked.keys.to_vec() }.canonical()
        }
    };
    let text = render::queue::comment(&command, &line.holds(before.pr_number, &request.selected));
    Ok(Started::Queued(apply_start::enqueue(next, &request, &plans), text))
}

/// Only locks refuse, and others will free them: the request waits for its turn instead (spec 30 §7.6).
fn may_wait(next: &Next, line: &Line, selected: &BTreeSet<StackKey>, refusals: &[gate::Refusal]) -> bool {
    next.policy.apply.on_conflict() == OnConflict::Queue
        && !refusals.is_empty()
        && refusals.iter().all(|refusal| refusal.layer == 5)
        && next.scene.apply_in_flight().is_none()
        && !line.closes_a_circle(next.scene.pr_number, selected)
}

/// The environment an apply job runs under, from the default branch (spec 30 §6.1 step 4). The plan row's own is used only
/// when the default branch neither has the stack's file nor maps it.
fn environment(next: &Next, gathered: &Gathered, key: &StackKey, plan: Option<&&Row>) -> Option<(StackKey, String)> {
    let file = gathered.stack_files.get(key);
    let choice = environment_of(&next.policy, file, key.path(), key.instance()).ok()?;
    let unmapped = !choice.configured && file.is_none() && key.instance().is_empty();
    let name = match plan {
        Some(row) if unmapped => row.environment.clone(),
        Some(_) | None => choice.name,
    };
    Some((key.clone(), name))
}
