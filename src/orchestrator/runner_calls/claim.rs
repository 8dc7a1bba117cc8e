//! `POST …/claim`: how an apply job proves that it may apply, once (spec 20 §5.3a).

use sha2::{Digest, Sha256};

use super::{Answer, CallError, Caller, dispatched, forbidden};
use crate::api::{ClaimRequest, ClaimResponse, RunStackJson, lock_info};
use crate::ids::{RunId, StackKey, hex};
use crate::orchestrator::App;
use crate::plan::summary::Addresses;
use crate::run::binding;
use crate::run::model::Claim;
use crate::run::report::{self, Refused};
use crate::run::status::RunStatus;

impl App {
    /// `POST …/claim`: the last proof before an apply.
    pub async fn claim(
        &self,
        caller: &Caller,
        id: &RunId,
        key: &StackKey,
        request: &ClaimRequest,
    ) -> Answer<ClaimResponse> {
        let Caller::Job { claims, .. } = caller else {
            return Err(forbidden("only a dispatched apply job claims"));
        };
        if claims.event_name != "workflow_dispatch" {
            return Err(forbidden("only a dispatched apply job claims"));
        }
        let (run, repo) = self.visible_run(caller, id).await?;
        let token = format!("jt_{}", hex(&self.random_bytes::<32>()));
        let token_hash = hex(&Sha256::digest(token.as_bytes()));
        let claimed = self.decide_run(&run, |next| {
            if next.scene.row(id, key).is_none() {
                return Err(Refused::NotFound(format!("run {id} has no stack {key}")));
            }
            if next.scene.runs[id].status == RunStatus::Superseded {
                return Err(Refused::Superseded(format!("run {id} was superseded")));
            }
            let job = dispatched(claims);
            binding::bind_job(next, id, &job, Some(key))?;
            if request.workflow_run_attempt != job.attempt {
                let reason = format!("the token is of attempt {}", job.attempt);
                return Err(Refused::Invalid { field: "workflow_run_attempt", reason });
            }
            let claim = Claim {
                at: next.now,
                workflow_run_id: job.workflow_run_id,
                attempt: job.attempt,
                check_run_id: job.check_run_id,
            };
            report::on_claim(next, id, key, &claim, &request.sha, token_hash.clone())?;
            let row = next.scene.row(id, key).expect("on_claim found it").clone();
            let lock = next.scene.locks.get(key).expect("on_claim found it").clone();
            Ok((row, lock))
        });
        let (row, lock) = match claimed.await? {
            Ok(claimed) => claimed,
            Err(Refused::Locked(message)) => {
                let locks = self.store.locks(Some(repo.id)).await?;
                let conflicts = locks.iter().filter(|lock| lock.key == *key).map(lock_info).collect();
                return Err(CallError::Locked { message, conflicts });
            }
            Err(refused) => return Err(refused.into()),
        };
        let summary = row.summary.clone().unwrap_or_default();
        Ok(ClaimResponse {
            lock: lock_info(&lock),
            bundle_sha256: row.bundle_sha256.clone(),
            plan_digest: row.plan_digest.clone(),
            actions_digest: row.actions_digest.clone(),
            addresses: Addresses {
                added: summary.added.into_iter().collect(),
                changed: summary.changed.into_iter().collect(),
                destroyed: summary.destroyed.into_iter().collect(),
                replaced: summary.replaced.into_iter().collect(),
            },
            row: RunStackJson::of(&row),
            job_token: token,
        })
    }
}
