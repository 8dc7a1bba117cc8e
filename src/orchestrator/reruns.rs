//! `POST /v1/runs/{id}/rerun`: what a run planned, or left undone after a merge, is planned again (spec 30 §4.7).

use serde_json::json;

use super::App;
use super::actor::Actor;
use super::runner_calls::{Answer, not_found};
use crate::api::CreateRunResponse;
use crate::ids::RunId;
use crate::run::model::{Repo, Row, Run};
use crate::run::next::Next;
use crate::run::plan_start;
use crate::run::report::Refused;
use crate::run::status::{Mode, RowStatus, RunStatus, SkipReason, Trigger};
use crate::run::waves::fresh_plan_row;

impl App {
    /// `POST /v1/runs/{id}/rerun`. Each call makes a run.
    pub async fn rerun(&self, actor: &Actor, id: &RunId) -> Answer<CreateRunResponse> {
        let (run, repo) = self.run_seen_by(actor, id).await?;
        let answer = self.rerun_seen(actor, &run, &repo).await;
        let details = json!({ "pr": run.pr_number, "run_id": id });
        self.audit_refusal((&actor.name(), "rerun"), &repo, details, answer).await
    }

    async fn rerun_seen(&self, actor: &Actor, run: &Run, repo: &Repo) -> Answer<CreateRunResponse> {
        self.may_start(actor, repo).await?;
        if repo.suspended {
            return Err(Refused::Conflict("the App installation is suspended".to_owned()).into());
        }
        let (new, requester) = (self.new_run_id(), actor.name());
        self.decide_run(run, |next| plan_again(next, &run.id, &new, &requester)).await??;
        let run = self.store.run(&new).await?.ok_or_else(|| not_found("run"))?;
        let json = self.run_json(&run, repo);
        Ok(CreateRunResponse { run_id: new, status: run.status, existing: false, run: Some(json) })
    }
}

/// A new plan run on the commit of an old run, of the stacks that want it.
fn plan_again(next: &mut Next, id: &RunId, new: &RunId, requester: &str) -> Result<(), Refused> {
    let old = next.scene.run(id).cloned().ok_or_else(|| Refused::NotFound("no such run".to_owned()))?;
    let wants = wanting(&old)?;
    if old.status == RunStatus::Superseded {
        return Err(Refused::Superseded(format!("run {id} was superseded by {}", old.superseded_by)));
    }
    if old.mode == Mode::Apply && !old.status.is_terminal() {
        return Err(Refused::Conflict(format!("run {id} is {}; let it end first", old.status)));
    }
    if next.scene.graph_of(&old).is_none() {
        return Err(Refused::Conflict(format!("run {id} has no graph")));
    }
    let rows: Vec<Row> = next
        .scene
        .rows(id)
        .filter(|row| wants(row))
        .map(|row| Row { wave: row.wave, ..fresh_plan_row(row, new, next.now) })
        .collect();
    if rows.is_empty() {
        return Err(Refused::Conflict(format!("run {id} has no stack that could be planned again")));
    }
    let run = Run {
        base_sha: old.base_sha.clone(),
        commit_message: old.commit_message.clone(),
        commit_author: old.commit_author.clone(),
        head_ref: old.head_ref.clone(),
        graph_sha: old.graph_sha.clone(),
        waves: rows.iter().map(|row| row.wave + 1).max().unwrap_or(1),
        ..plan_start::blank_run(next, new.clone(), old.sha.clone(), Mode::Plan, Trigger::Rerequest, requester)
    };
    plan_start::start(next, run, rows);
    let repo = next.scene.repo.full_name.clone();
    let details = json!({ "repo": repo, "pr": old.pr_number, "run_id": id, "new_run_id": new, "accepted": true });
    next.audit(requester, "rerun", repo.to_string(), details);
    Ok(())
}

/// Which rows of a run are planned again, for the runs of which any are.
fn wanting(run: &Run) -> Result<fn(&Row) -> bool, Refused> {
    match run.mode {
        // A row that a later upload no longer affects is skipped.
        Mode::Plan => Ok(|row| row.status != RowStatus::Skipped),
        Mode::Apply if run.is_merge_apply() => Ok(|row| {
            let selected = row.skip_reason != Some(SkipReason::NotSelected);
            selected && !matches!(row.status, RowStatus::Applied | RowStatus::Noop)
        }),
        Mode::Apply | Mode::Drift => Err(Refused::Invalid {
            field: "run_id",
            reason: "only plan runs, and applies that a merge started, can be run again".to_owned(),
        }),
    }
}
