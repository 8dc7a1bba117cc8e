//! Plans in other repositories, after the stacks they depend on were applied here (spec 30 §13).

use std::collections::BTreeSet;

use serde_json::json;

use super::{App, Result, Subject, repo_ref};
use crate::graph::downstream::downstream_of;
use crate::graph::resolution::{AffectedStack, Reason};
use crate::ids::{RunId, StackKey};
use crate::run::model::{Repo, Run};
use crate::run::plan_start;
use crate::run::status::{Mode, RowStatus, Trigger};

impl App {
    /// One plan run in each repository of the installation with stacks that depend on what this run applied. What cannot be
    /// planned in one repository keeps none of the others from it, and is tried again.
    pub(super) async fn plan_downstream(&self, upstream: &Repo, run: &RunId) -> Result<()> {
        let applied: BTreeSet<StackKey> = self
            .store
            .rows(run)
            .await?
            .into_iter()
            .filter(|row| row.status == RowStatus::Applied && row.applied_by_run.is_none())
            .map(|row| row.key)
            .collect();
        let mut failed = None;
        for repo in self.store.repos().await? {
            let is_candidate =
                repo.id != upstream.id && repo.installation_id == upstream.installation_id && !repo.suspended;
            if is_candidate && let Err(error) = self.plan_after(&repo, upstream, run, &applied).await {
                tracing::warn!(repo = %repo.full_name, error = crate::causes::chain(&error), "not planned after its upstream");
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn plan_after(&self, repo: &Repo, upstream: &Repo, run: &RunId, applied: &BTreeSet<StackKey>) -> Result<()> {
        let once = format!("cross_repo:{run}:{}", repo.id);
        if self.store.was_claimed(&once).await? {
            return Ok(());
        }
        let Some(graph) = self.current_graph(repo).await? else {
            tracing::debug!(repo = %repo.full_name, "no graph yet, so nothing is known to depend on another repository");
            return Ok(());
        };
        let dependents = downstream_of(&graph, &upstream.full_name, applied);
        if dependents.is_empty() {
            return Ok(());
        }
        let head = self.github.branch_head(&repo_ref(repo), &repo.default_branch).await?;
        let graph_sha = match &repo.default_graph {
            Some(sha) => Some(sha.clone()),
            None => self.store.newest_graph(repo.id).await?,
        };
        let id = self.new_run_id();
        let page = format!("{}/runs/{run}", self.addresses.base_url);
        let subject = Subject::Pull { repo_id: repo.id, number: 0 };
        self.decide(&subject, |next| {
            let blank = plan_start::blank_run(next, id.clone(), head.clone(), Mode::Plan, Trigger::Push, "stackorder");
            let mut plan = Run { graph_sha: graph_sha.clone(), waves: 1, ..blank };
            plan.warn(format!("planned because {} applied what these stacks depend on: {page}", upstream.full_name));
            let rows = dependents.iter().filter_map(|(stack, via)| {
                let affected = AffectedStack {
                    reasons: vec![Reason::Dependent],
                    via: via.iter().map(|key| (*key).to_owned()).collect(),
                    ..AffectedStack::requested_alone(stack, "default")
                };
                plan_start::pending_row(&plan, &affected, next.now)
            });
            let rows: Vec<_> = rows.collect();
            let stacks: Vec<&StackKey> = rows.iter().map(|row| &row.key).collect();
            let details = json!({ "repo": repo.full_name, "stacks": stacks, "upstream_run": run, "new_run_id": id });
            next.audit("stackorder", "cross_repo_plan", format!("run:{run}:{}", repo.full_name), details);
            next.effects.once.push(once.clone());
            plan_start::start(next, plan, rows);
        })
        .await?;
        Ok(())
    }
}
