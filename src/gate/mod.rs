//! The apply gate: scene in, refusals out (spec 30 §5).
//!
//! Every layer asked for runs, even after a refusal, so that a person sees all of them at once.
//! The gate knows nothing of GitHub's API: `facts` is what was gathered before.
//!
//! - `facts`: what GitHub says, gathered before the decision.
//! - `authorization`, `approvals`, `plans`, `verdicts`, `locks`: one file per layer.
//! - `codeowners`: who owns a path.
//! - `deployment`: what GitHub is answered when it asks for a job that waits for an environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::config::model::{RepoConfig, StackConfig};
use crate::guide::Topic;
use crate::ids::StackKey;
use crate::run::plan_view::PlanView;
use crate::run::scene::Scene;
use facts::{ArtifactFacts, Comparison, Membership, Permission, PullRequest, Review};

mod approvals;
mod authorization;
pub mod codeowners;
pub mod deployment;
pub mod facts;
mod locks;
mod plans;
mod verdicts;

pub use approvals::{base_moved_on, reached_by};
pub use locks::reason_of;

#[cfg(test)]
mod tests;

/// One reason why nothing may start.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refusal {
    pub layer: u8,
    pub name: String,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackKey>,
    /// Address of what it means and what to do; empty where nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub help: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "layer {}, {}: {}", self.layer, self.name, self.reason)
    }
}

/// Which entry asks, and so which layers count (spec 30 §5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// `stackorder apply`, or the same request from a page: layers 1 to 5.
    Comment,
    /// The merge itself: 1, 3, 4, 5.
    Merge,
    /// A request for a merged pull request: 1, 3, 4, 5, and `base branch` on the merge commit.
    AfterMerge,
    /// A deployment protection rule: 1, and 2 without `base branch` for a comment apply.
    ProtectionRule { comment_apply: bool },
}

#[derive(Debug, Clone)]
pub struct GateRequest {
    pub entry: Entry,
    /// Login, `apikey:<name>`, or empty.
    pub requester: String,
    /// The stacks asked for: the named ones, or the whole plan view.
    pub selected: BTreeSet<StackKey>,
    /// Named keys that are no stack of the plan view, as typed.
    pub unknown: Vec<String>,
    /// Set when the caller bound its request to the plans it saw, and they are no longer current.
    pub plans_changed: bool,
}

/// What GitHub says, gathered before the decision. A team is `organisation/slug`.
#[derive(Debug, Clone)]
pub struct GateFacts {
    /// When GitHub was begun to be asked: what was locked since then, was locked in a race.
    pub asked_at: Millis,
    pub pull: PullRequest,
    /// The requester's permission on the repository.
    pub permission: Permission,
    /// The requester's membership of every team that `allowed_teams` names.
    pub teams: BTreeMap<String, Membership>,
    pub reviews: Vec<Review>,
    /// Permission of everyone who reviewed, by lower-case login.
    pub reviewers: BTreeMap<String, Permission>,
    /// CODEOWNERS of the default branch, when there is one.
    pub codeowners: Option<String>,
    /// `(team, login in lower case)` pairs of approvers who are active members of an owning team.
    pub owner_members: BTreeSet<(String, String)>,
    /// `{head}...{default branch}`: what the head lacks.
    pub ahead: Comparison,
    /// Artifacts of every workflow run that uploaded a plan of the view.
    pub artifacts: BTreeMap<i64, Vec<ArtifactFacts>>,
    /// Selected stacks whose `.stackorder.yaml` of the default branch does not parse, and why: what it demands is not known.
    pub unreadable_files: BTreeMap<StackKey, String>,
}

/// Everything the gate looks at.
pub struct GateScene<'a> {
    pub request: &'a GateRequest,
    pub scene: &'a Scene,
    pub view: &'a PlanView<'a>,
    /// `.stackorder.yaml` of the default branch for each selected stack that has one there.
    pub stack_files: &'a BTreeMap<StackKey, StackConfig>,
    pub facts: &'a GateFacts,
    pub now: Millis,
}

impl GateScene<'_> {
    /// The default branch's configuration (I11).
    fn policy(&self) -> Arc<RepoConfig> {
        self.scene.repo.policy()
    }

    fn short_head(&self) -> &str {
        self.view.sha.short()
    }
}

/// All layers that the entry asks for, in order; no refusal means that the apply may start.
pub fn evaluate(scene: &GateScene) -> Vec<Refusal> {
    let mut refusals = authorization::refusals(scene);
    match scene.request.entry {
        Entry::Comment => {
            refusals.extend(approvals::refusals(scene));
            refusals.extend(approvals::base_branch(scene));
        }
        Entry::AfterMerge => refusals.extend(approvals::base_branch(scene)),
        Entry::ProtectionRule { comment_apply: true } => refusals.extend(approvals::refusals(scene)),
        Entry::Merge | Entry::ProtectionRule { comment_apply: false } => {}
    }
    match scene.request.entry {
        Entry::Comment | Entry::Merge | Entry::AfterMerge => {
            refusals.extend(plans::refusals(scene));
            refusals.extend(verdicts::refusals(scene));
            refusals.extend(locks::refusals(scene));
        }
        Entry::ProtectionRule { .. } => {}
    }
    refusals.sort_by_key(|refusal| refusal.layer);
    refusals
}

/// Organisation and slug of a team written `slug`, `org/slug` or `@org/slug`; a bare slug is of the repository's owner.
pub fn team_parts(team: &str, owner: &str) -> (String, String) {
    let bare = team.strip_prefix('@').unwrap_or(team);
    match bare.split_once('/') {
        Some((organisation, slug)) => (organisation.to_owned(), slug.to_owned()),
        None => (owner.to_owned(), bare.to_owned()),
    }
}

fn refusal(topic: Topic, layer: u8, name: &str, reason: impl Into<String>) -> Refusal {
    Refusal { layer, name: name.to_owned(), reason: reason.into(), stacks: Vec::new(), help: topic.url() }
}

fn for_stacks(topic: Topic, layer: u8, name: &str, stacks: Vec<StackKey>, reason: impl Into<String>) -> Refusal {
    Refusal { stacks, ..refusal(topic, layer, name, reason) }
}
