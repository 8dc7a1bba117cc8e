//! `stackorder unlock`: releases orchestration locks, whoever holds them (spec 12 §6.6).

use super::Job;
use super::stop::Stop;
use crate::api::UnlockRequest;
use crate::graph::resolution::LockInfo;
use crate::ids::StackKey;

/// Asks the server to release the lock of each key; per key what was released.
pub async fn unlock(
    job: &Job,
    keys: &[String],
    reason: &str,
    force_state: bool,
) -> Result<Vec<(StackKey, Vec<LockInfo>)>, Stop> {
    let Some(server) = &job.server else {
        return Err(Stop::failed(
            "unlock needs a server and an API key: set STACKORDER_SERVER_URL and STACKORDER_API_KEY",
        ));
    };
    if job.facts.repo.is_empty() {
        return Err(Stop::failed(
            "the repository is not known: origin names none on GitHub, and GITHUB_REPOSITORY is unset",
        ));
    }
    let parse = |key: &String| StackKey::parse(key).map_err(|error| Stop::failed(error.to_string()));
    let keys: Vec<StackKey> = keys.iter().map(parse).collect::<Result<_, _>>()?;
    let mut released = Vec::new();
    for key in keys {
        let request = UnlockRequest {
            repo: job.facts.repo.clone(),
            stack_key: key.to_string(),
            reason: reason.to_owned(),
            force_state,
        };
        let answer = server.unlock(&request).await.map_err(|error| error.or_failed())?;
        released.push((key, answer.released));
    }
    Ok(released)
}
