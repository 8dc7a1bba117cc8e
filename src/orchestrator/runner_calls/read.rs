//! `GET /v1/runs/{id}`: a run with its rows (spec 20 §5.5).

use super::{Answer, Caller, dispatched, forbidden, not_found, pull_of};
use crate::api::{CheckJson, QueueJson, RunJson, RunStackJson, lock_info};
use crate::ids::RunId;
use crate::orchestrator::App;
use crate::render::pull::Pull;
use crate::run::binding;
use crate::run::model::{Repo, Run};
use crate::run::report::Refused;
use crate::run::scene::Scene;
use crate::run::status::{Mode, RunStatus, Trigger};

impl App {
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
                "workflow_dispatch" => {
                    self.decide_run(&run, |next| binding::bind_job(next, id, &dispatched(claims), None).map(drop))
                        .await??
                }
                other => return Err(forbidden(format!("jobs started by {other} read no run"))),
            }
        }
        let scene = self.store.scene(id).await?.ok_or_else(|| not_found("run"))?;
        Ok(self.full_run_json(&scene, id, &repo))
    }

    /// A run with its rows, their checks and their locks.
    pub fn full_run_json(&self, scene: &Scene, id: &RunId, repo: &Repo) -> RunJson {
        let run = &scene.runs[id];
        let mut json = self.run_json(run, repo);
        let pull = Pull::of(scene);
        if run.mode != Mode::Drift && run.pr_number != 0 && pull.is_at(&run.sha) {
            json.plan_set_digest = pull.view().map(|view| view.digest(scene)).unwrap_or_default();
        }
        json.queue = QueueJson::of(scene, run);
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

    pub fn run_json(&self, run: &Run, repo: &Repo) -> RunJson {
        RunJson::of(run, repo.full_name.as_str(), &self.addresses.base_url)
    }
}
