//! `POST /v1/unlock`: an API key frees a stack, whoever holds it (spec 20 §5.8).

use serde_json::json;

use super::runner_calls::{Answer, Caller, forbidden, invalid, not_found};
use super::{App, Subject};
use crate::api::{UnlockRequest, UnlockResponse, lock_info};
use crate::ids::StackKey;
use crate::run::close;
use crate::run::model::Lock;
use crate::store::ApiKey;

impl App {
    /// `POST /v1/unlock`.
    pub async fn unlock(&self, key: &ApiKey, request: &UnlockRequest) -> Answer<UnlockResponse> {
        if request.repo.is_empty() {
            return Err(invalid("repo", "is required"));
        }
        if request.stack_key.is_empty() {
            return Err(invalid("stack_key", "is required"));
        }
        let stack = StackKey::parse(&request.stack_key).map_err(|error| invalid("stack_key", error.to_string()))?;
        let repo = self.repo_seen_by(key, &request.repo).await?;
        let actor = format!("apikey:{}", key.name);
        if !(Caller::Key(key.clone())).may("unlock", &repo.full_name) {
            let refused = Err(forbidden("this key may not unlock in this repository"));
            let details = json!({ "stack": stack, "reason_given": request.reason });
            return self.audit_refusal((&actor, "unlock_refused"), &repo, details, refused).await;
        }
        let known = self.store.stacks(repo.id).await?.into_iter().any(|record| record.key == stack);
        if !known {
            return Err(not_found("stack"));
        }
        let holder = self.store.locks(Some(repo.id)).await?.into_iter().find(|lock| lock.key == stack);
        let subject = Subject::Pull { repo_id: repo.id, number: holder.map_or(0, |lock| lock.pr_number) };
        let released = self.decide(&subject, |next| {
            let released = close::unlock(next, &stack, &actor, &request.reason, request.force_state);
            if let Some(lock) = &released
                && next.scene.runs.contains_key(&lock.run_id)
            {
                let name = format!("unlock:{}:{}", lock.run_id, next.now);
                next.comment(name, unlocked_text(lock, &actor, request));
                next.render(&lock.run_id);
            }
            released
        });
        let released = released.await?.flatten();
        Ok(UnlockResponse { released: released.iter().map(lock_info).collect() })
    }
}

fn unlocked_text(lock: &Lock, actor: &str, request: &UnlockRequest) -> String {
    use crate::render::escape;
    let mut text = format!(
        "**Unlocked {} by {}.** It had been held since {}.",
        escape::code(lock.key.as_str()),
        escape::text(actor),
        crate::clock::rfc3339(lock.taken_at)
    );
    if !request.reason.is_empty() {
        text.push_str(&format!(" Reason: {}", escape::text(&request.reason)));
    }
    if request.force_state {
        text.push_str(
            "\n\nA runner may have died mid-apply: look at the backend's own state lock before you apply again.",
        );
    }
    text.push_str("\n\nState locks in S3 are not affected.");
    text
}
