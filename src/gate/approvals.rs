//! Layer 2: the pull request's state, its reviews, its owners, and whether its base moved on (spec 30 §5.2, §5.3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::codeowners::Codeowners;
use super::facts::{Comparison, Permission, Review, ReviewState};
use super::{GateScene, Refusal, for_stacks, refusal, team_parts};
use crate::config::model::{RepoConfig, RequireUpToDate};
use crate::graph::model::Graph;
use crate::graph::resolve::{ResolveRequest, resolve};
use crate::guide::Topic;
use crate::ids::StackKey;
use crate::render::escape;
use crate::run::model::Repo;

const NAME: &str = "approvals";
/// Newest commits that a `base branch` refusal names.
const COMMITS_NAMED: usize = 3;

pub fn refusals(scene: &GateScene) -> Vec<Refusal> {
    let mut refusals = state(scene);
    let approvers = approvers(scene);
    let need = scene.policy().apply.require_approvals;
    if approvers.len() < need as usize {
        let reason = format!(
            "head commit {} has {} approvals that count; `apply.require_approvals` wants {need}",
            scene.short_head(),
            approvers.len()
        );
        refusals.push(refusal(Topic::TooFewApprovals, 2, NAME, reason));
    }
    refusals.extend(four_eyes(scene));
    refusals.extend(code_owners(scene, &approvers));
    refusals
}

fn state(scene: &GateScene) -> Vec<Refusal> {
    let pull = &scene.facts.pull;
    let mut refusals = Vec::new();
    if pull.merged {
        refusals.push(refusal(Topic::PullMerged, 2, NAME, "pull request is merged"));
    } else if !pull.open {
        refusals.push(refusal(Topic::PullClosed, 2, NAME, "pull request is closed"));
    }
    if pull.draft {
        refusals.push(refusal(Topic::PullDraft, 2, NAME, "pull request is a draft"));
    }
    if pull.base_ref != scene.scene.repo.default_branch {
        let reason =
            format!("pull request targets {}; only the default branch is applied", escape::code(&pull.base_ref));
        refusals.push(refusal(Topic::PullOtherBase, 2, NAME, reason));
    }
    if pull.open && (pull.mergeable == Some(false) || pull.mergeable_state == "dirty") {
        let reason = "pull request conflicts with its base branch";
        refusals.push(refusal(Topic::PullConflicts, 2, NAME, reason));
    } else if pull.open && pull.mergeable.is_none() {
        let reason = "GitHub has not worked out mergeability yet; comment again";
        refusals.push(refusal(Topic::MergeabilityUnknown, 2, NAME, reason));
    }
    refusals
}

/// Whose last deciding review of the head is an approval: not the author's, and only of people who may push. In lower case.
pub fn approvers(scene: &GateScene) -> BTreeSet<String> {
    let facts = scene.facts;
    let mut last: BTreeMap<String, &Review> = BTreeMap::new();
    for review in facts.reviews.iter().filter(|review| review.commit == scene.view.sha.as_str()) {
        match review.state {
            ReviewState::Approved | ReviewState::ChangesRequested | ReviewState::Dismissed => {
                let login = review.author.to_lowercase();
                let newer = last.get(&login).is_none_or(|known| known.submitted_at <= review.submitted_at);
                if newer {
                    last.insert(login, review);
                }
            }
            ReviewState::Commented | ReviewState::Pending => {}
        }
    }
    last.into_iter()
        .filter(|(_, review)| review.state == ReviewState::Approved)
        .map(|(login, _)| login)
        .filter(|login| *login != facts.pull.author.to_lowercase())
        .filter(|login| facts.reviewers.get(login).copied().unwrap_or(Permission::None).can_push())
        .collect()
}

fn four_eyes(scene: &GateScene) -> Option<Refusal> {
    let own = scene.request.requester.eq_ignore_ascii_case(&scene.facts.pull.author);
    (scene.policy().apply.four_eyes && own).then(|| {
        let reason = format!(
            "{} authored this pull request; `apply.four_eyes` wants another person to apply it",
            escape::text(&scene.request.requester)
        );
        refusal(Topic::FourEyes, 2, "four eyes", reason)
    })
}

fn code_owners(scene: &GateScene, approvers: &BTreeSet<String>) -> Vec<Refusal> {
    const OWNERS: &str = "code owner review";
    if !scene.policy().apply.require_codeowner_review {
        return Vec::new();
    }
    let Some(text) = &scene.facts.codeowners else {
        let reason = "`apply.require_codeowner_review` is on, yet the default branch has no CODEOWNERS";
        return vec![refusal(Topic::NoCodeowners, 2, OWNERS, reason)];
    };
    let rules = Codeowners::parse(text);
    let organisation = scene.scene.repo.full_name.owner();
    let approved_by = |owner: &str| {
        let Some(name) = owner.strip_prefix('@') else { return false };
        if !name.contains('/') {
            return approvers.contains(&name.to_lowercase());
        }
        let (organisation, slug) = team_parts(name, organisation);
        let team = format!("{organisation}/{slug}");
        approvers.iter().any(|login| scene.facts.owner_members.contains(&(team.clone(), login.clone())))
    };
    let mut refusals = Vec::new();
    for key in &scene.request.selected {
        let owners = rules.owners(&format!("{}/main.tf", key.path()));
        if owners.is_empty() || owners.iter().any(|owner| approved_by(owner)) {
            continue;
        }
        let list: Vec<String> = owners.iter().map(|owner| escape::code(owner)).collect();
        let reason = format!("no approval on the head commit by a code owner ({})", list.join(", "));
        refusals.push(for_stacks(Topic::NoOwnerApproval, 2, OWNERS, vec![key.clone()], reason));
    }
    refusals
}

/// The default branch holds changes that this head lacks and that reach a selected stack: its plans are of yesterday.
pub fn base_branch(scene: &GateScene) -> Option<Refusal> {
    let graph = scene.view.graph_sha().and_then(|sha| scene.scene.graphs.get(sha));
    base_moved_on(&scene.scene.repo, graph.map(Arc::as_ref), &scene.request.selected, &scene.facts.ahead)
}

/// The same of a head with this graph, whose default branch has `ahead` what it lacks.
pub fn base_moved_on(
    repo: &Repo,
    graph: Option<&Graph>,
    selected: &BTreeSet<StackKey>,
    ahead: &Comparison,
) -> Option<Refusal> {
    let policy = repo.policy();
    if policy.apply.require_up_to_date == RequireUpToDate::Off || (ahead.files.is_empty() && !ahead.truncated) {
        return None;
    }
    let reached: Vec<StackKey> = if ahead.truncated {
        selected.iter().cloned().collect()
    } else {
        reached_by(graph?, &policy, ahead.files.clone()).into_iter().filter(|key| selected.contains(key)).collect()
    };
    if reached.is_empty() {
        return None;
    }
    let newest: Vec<String> =
        ahead.commits.iter().rev().take(COMMITS_NAMED).map(|sha| sha.get(..7).unwrap_or(sha).to_owned()).collect();
    let reason = format!(
        "{} has moved on under it since this branch left it ({}); update the branch and plan again",
        escape::code(&repo.default_branch),
        newest.join(", ")
    );
    Some(for_stacks(Topic::BaseMovedOn, 2, "base branch", reached, reason))
}

/// The stacks that changed paths reach themselves: without propagation, and whatever the settings say.
pub fn reached_by(graph: &Graph, policy: &RepoConfig, changed_paths: Vec<String>) -> Vec<StackKey> {
    let mut narrow = policy.clone();
    narrow.propagate.dependents = false;
    let request = ResolveRequest { changed_paths, ..ResolveRequest::default() };
    let resolution = resolve(graph, &narrow, &request);
    resolution.affected.iter().filter_map(|affected| StackKey::parse(&affected.key).ok()).collect()
}
