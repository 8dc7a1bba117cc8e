//! `POST …/result` and `POST …/checks/{name}`: what became of one stack (spec 20 §5.3, §5.4).

use super::{Answer, Caller, dispatched, pull_number};
use crate::api::{CheckJson, CheckVerdict, RunStackJson, StackResult};
use crate::ids::{RunId, StackKey};
use crate::orchestrator::App;
use crate::run::binding::{self, DispatchedJob};
use crate::run::next::Next;
use crate::run::report::{self, Refused, Reporter};
use crate::run::status::RunStatus;

impl App {
    /// `POST …/result`.
    pub async fn report_result(
        &self,
        caller: &Caller,
        id: &RunId,
        key: &StackKey,
        result: &StackResult,
    ) -> Answer<RunStackJson> {
        let (run, _) = self.visible_run(caller, id).await?;
        let reported = self.decide_run(&run, |next| {
            let reporter = reporter(next, caller, id, key)?;
            let outcome = report::on_result(next, id, key, &reporter, result);
            let row = next.scene.row(id, key).cloned();
            // A late report is kept although it is refused: the refusal is part of the committed decision.
            outcome.map(|()| RunStackJson::of(&row.expect("on_result found it")))
        });
        Ok(reported.await??)
    }

    /// `POST …/checks/{name}`.
    pub async fn report_verdict(
        &self,
        caller: &Caller,
        id: &RunId,
        key: &StackKey,
        name: &str,
        verdict: &CheckVerdict,
    ) -> Answer<CheckJson> {
        let (run, _) = self.visible_run(caller, id).await?;
        let reported = self.decide_run(&run, |next| {
            let reporter = reporter(next, caller, id, key)?;
            report::on_verdict(next, id, key, &reporter, name, verdict)
        });
        Ok(CheckJson::of(&reported.await??))
    }
}

/// Who reports on this stack, binding a dispatched job on the way. A superseded run is refused before anything else.
fn reporter(next: &mut Next, caller: &Caller, id: &RunId, key: &StackKey) -> Result<Reporter, Refused> {
    let run = &next.scene.runs[id];
    if run.status == RunStatus::Superseded {
        return Err(Refused::Superseded(format!("run {id} was superseded by {}", run.superseded_by)));
    }
    match caller {
        // Seeing a run takes less than telling what became of it.
        Caller::Key(_) if !caller.may("apply", &next.scene.repo.full_name) => {
            Err(Refused::Forbidden("this key may not report: that takes the scope apply".to_owned()))
        }
        Caller::Key(api_key) => Ok(Reporter::ApiKey { name: api_key.name.clone() }),
        Caller::Job { claims, .. } if claims.event_name == "pull_request" => {
            let number = pull_number(&claims.git_ref)
                .ok_or_else(|| Refused::Forbidden(format!("{} is no pull request's ref", claims.git_ref)))?;
            Ok(Reporter::PullRequestJob { number, workflow_run_id: claims.run_id, attempt: claims.run_attempt })
        }
        Caller::Job { claims, .. } if claims.event_name == "workflow_dispatch" => {
            if next.scene.row(id, key).is_none() {
                return Err(Refused::NotFound(format!("run {id} has no stack {key}")));
            }
            let job = dispatched(claims);
            match binding::bind_job(next, id, &job, Some(key)) {
                Ok(_) => {}
                // A claimed job reports even after its dispatch was closed: late evidence is kept.
                Err(_) if is_claimed_by(next, id, key, &job) => {}
                Err(refused) => return Err(refused),
            }
            Ok(Reporter::DispatchedJob {
                workflow_run_id: job.workflow_run_id,
                attempt: job.attempt,
                check_run_id: job.check_run_id,
            })
        }
        Caller::Job { claims, .. } => {
            Err(Refused::Forbidden(format!("jobs started by {} report nothing", claims.event_name)))
        }
    }
}

fn is_claimed_by(next: &Next, id: &RunId, key: &StackKey, job: &DispatchedJob) -> bool {
    next.scene.row(id, key).and_then(|row| row.claim.as_ref()).is_some_and(|claim| {
        claim.workflow_run_id == job.workflow_run_id
            && claim.attempt == job.attempt
            && claim.check_run_id == job.check_run_id
    })
}
