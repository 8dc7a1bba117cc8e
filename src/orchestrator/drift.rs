//! Drift: checks on a schedule, and one issue per drifted stack (spec 30 §12).

use std::collections::BTreeMap;

use serde_json::json;

use super::bells::Queue;
use super::{App, Result, Subject, repo_ref};
use crate::clock::{MINUTE_MS, Millis, rfc3339};
use crate::github::api::{Issue, RepoRef};
use crate::graph::resolution::AffectedStack;
use crate::ids::{RunId, StackId, StackKey};
use crate::render;
use crate::run::model::{Repo, Run};
use crate::run::scene::{JobKind, NewJob};
use crate::run::status::{Mode, RunStatus, Trigger};
use crate::run::{once, plan_start};
use crate::store::RunFilter;

/// Label and title by which an issue is found again.
pub const DRIFT_LABEL: &str = "stackorder-drift";

pub fn drift_title(key: &StackKey) -> String {
    format!("Drift detected in {key}")
}

impl App {
    /// Spreads one check per live stack over the hour; those come first whose last check is the longest ago.
    pub(super) async fn schedule_drift(&self, repo: &Repo, fire: Millis) -> Result<()> {
        let graph = self.current_graph(repo).await?;
        let Some(graph) = graph else { return Ok(()) };
        let mut keys: Vec<StackKey> = graph
            .stacks
            .iter()
            .filter(|stack| !stack.external)
            .filter_map(|stack| StackKey::parse(&stack.key).ok())
            .collect();
        let records = self.store.stacks(repo.id).await?.into_iter();
        let checked_at: BTreeMap<StackKey, Millis> =
            records.filter_map(|record| Some((record.key, record.drift?.checked_at))).collect();
        keys.sort_by(|a, b| (checked_at.get(a), a).cmp(&(checked_at.get(b), b)));
        let step =
            if keys.is_empty() { 0 } else { 60 * MINUTE_MS / Millis::try_from(keys.len()).unwrap_or(Millis::MAX) };
        for (key, number) in keys.iter().zip(0..) {
            let due_at = fire + number * step;
            let stack_id = StackId::of(repo.id, key.as_str());
            let name = once::drift_check(&stack_id, due_at);
            let payload = json!({ "repo_id": repo.id, "key": key });
            self.store.add_job(&NewJob::keyed(JobKind::DriftStack, name, payload, due_at)).await?;
        }
        self.bells.ring(Queue::Outbox);
        Ok(())
    }

    /// One drift run of one stack at the default-branch head; reused within the hour, skipped while the stack is locked.
    pub(super) async fn drift_stack(&self, repo: &Repo, key: &StackKey) -> Result<()> {
        if repo.suspended {
            return Ok(());
        }
        let locked = self.store.locks(Some(repo.id)).await?.into_iter().any(|lock| lock.key == *key);
        if locked {
            tracing::info!(repo = %repo.full_name, %key, "drift check skipped: the stack is locked");
            return Ok(());
        }
        let graph = self.current_graph(repo).await?;
        let Some(stack) = graph.as_ref().and_then(|graph| graph.stacks.iter().find(|stack| stack.key == key.as_str()))
        else {
            return Ok(());
        };
        let now = self.now();
        let once = once::drift_check(&StackId::of(repo.id, key.as_str()), now);
        if self.store.was_claimed(&once).await? {
            return Ok(());
        }
        let head = self.github.branch_head(&repo_ref(repo), &repo.default_branch).await?;
        let affected = AffectedStack::requested_alone(stack, "default");
        let id: RunId = self.new_run_id();
        let subject = Subject::Pull { repo_id: repo.id, number: 0 };
        self.decide(&subject, |next| {
            // An apply may have begun while GitHub was asked.
            if next.scene.locks.contains_key(key) {
                return;
            }
            let mut run =
                plan_start::blank_run(next, id.clone(), head.clone(), Mode::Drift, Trigger::Schedule, "stackorder");
            run.waves = 1;
            run.graph_sha.clone_from(&next.scene.repo.default_graph);
            let rows = plan_start::pending_row(&run, &affected, next.now).into_iter().collect();
            next.effects.once.push(once.clone());
            plan_start::start(next, run, rows);
        })
        .await?;
        Ok(())
    }

    /// Opens, updates or closes the stack's issue by what its newest check saw.
    pub(super) async fn write_drift_issue(&self, repo: &Repo, key: &StackKey) -> Result<()> {
        let stack_id = StackId::of(repo.id, key.as_str());
        let records = self.store.stacks(repo.id).await?;
        let Some(record) = records.into_iter().find(|record| record.id == stack_id) else { return Ok(()) };
        let Some(seen) = record.drift else { return Ok(()) };
        let github = repo_ref(repo);
        let title = drift_title(key);
        let body = render::drift::issue_body(repo.full_name.as_str(), key, &seen, &self.addresses.base_url);
        let mut open = self.open_issues(&github, &title).await?;
        let mut new = None;
        if seen.drifted && open.is_empty() {
            new = Some(self.github.create_issue(&github, &title, &body, DRIFT_LABEL).await?);
            // Another server may have looked at the same moment and opened one, too: whoever looks last sees both.
            open = self.open_issues(&github, &title).await?;
        }
        let (kept, closed) = open.split_at(usize::from(seen.drifted).min(open.len()));
        let kept = kept.first();
        let reason = match kept {
            Some(kept) => format!("Duplicate of #{}.", kept.number),
            None => format!("No drift any more, as checked at {}.", rfc3339(seen.checked_at)),
        };
        if let Some(issue) = kept
            && issue.body != body
        {
            self.github.edit_issue(&github, issue.number, &body).await?;
        }
        for issue in closed {
            // A try that got no further than the comment must not leave a second one.
            let once = format!("drift_closed:{stack_id}:{}:{}", seen.run_id, issue.number);
            let subject = Subject::Pull { repo_id: repo.id, number: 0 };
            if self.decide(&subject, |next| next.effects.once.push(once.clone())).await?.is_some() {
                self.github.create_comment(&github, issue.number, &reason).await?;
            }
            self.github.close_issue(&github, issue.number).await?;
        }
        Ok(self.store.save_drift_issue(&stack_id, kept.map(|issue| issue.number).or(new)).await?)
    }

    /// Open drift issues of this title, the first one first.
    async fn open_issues(&self, repo: &RepoRef, title: &str) -> Result<Vec<Issue>> {
        let mut open = self.github.issues(repo, DRIFT_LABEL).await?;
        open.retain(|issue| issue.title == title);
        open.sort_by_key(|issue| issue.number);
        Ok(open)
    }

    /// The drift run a stack has in flight, for pages.
    pub async fn drift_in_flight(&self, repo_id: i64) -> Result<Vec<Run>> {
        let filter = RunFilter {
            repo_id: Some(repo_id),
            mode: Some(Mode::Drift),
            open_only: true,
            limit: 200,
            ..RunFilter::default()
        };
        let runs = self.store.runs(&filter).await?;
        Ok(runs.into_iter().filter(|run| run.status != RunStatus::Planned).collect())
    }
}
