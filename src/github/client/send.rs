//! From a call to an answer that stands: tokens, retries, redirects, pages.

use std::sync::PoisonError;

use reqwest::{Method, Url};
use secrecy::SecretString;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::GitHubClient;
use super::call::{Call, Caller, Repeat};
use super::pages::{PAGES_MAX, next_page};
use super::retry::{self, Verdict};
use super::transport::{Answer, NoAnswer};
use crate::clock::{HOUR_MS, Millis, SECOND_MS, parse_rfc3339};
use crate::github::api::{GitHubError, Result};
use crate::github::app_token::InstallationToken;
use crate::github::budget::Quota;

impl GitHubClient {
    /// Sends a call and reads its JSON answer.
    pub(super) async fn read<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        parse(&self.send(&call).await?, &call.what)
    }

    /// Sends a call of which only the success matters.
    pub(super) async fn tell(&self, call: Call) -> Result<()> {
        self.send(&call).await.map(drop)
    }

    /// All pages of a list, each as the type `Page`.
    pub(super) async fn pages<Page: DeserializeOwned>(&self, call: Call) -> Result<Vec<Page>> {
        let what = call.what.clone();
        // One more than it may have.
        let pages = self.pages_until(call, PAGES_MAX + 1, |_| false).await?;
        if pages.len() > PAGES_MAX {
            let message = format!("the list has more than {PAGES_MAX} pages");
            return Err(GitHubError::Permanent { status: 200, what, message });
        }
        Ok(pages)
    }

    /// Pages of a list up to the first that is enough, and no more than so many.
    pub(super) async fn pages_until<Page: DeserializeOwned>(
        &self,
        mut call: Call,
        most: usize,
        is_enough: impl Fn(&Page) -> bool,
    ) -> Result<Vec<Page>> {
        let mut pages = Vec::new();
        while pages.len() < most {
            let answer = self.send(&call).await?;
            let page = parse(&answer, &call.what)?;
            let enough = is_enough(&page);
            pages.push(page);
            let Some(next) = answer.header("link").and_then(next_page).filter(|_| !enough) else { break };
            call.url = self.on_origin(&call.url, next, &call.what)?;
        }
        Ok(pages)
    }

    /// An address that GitHub named, if it is one of its own: only there may a token go.
    fn on_origin(&self, from: &Url, named: &str, what: &str) -> Result<Url> {
        let url = from.join(named).ok().filter(|url| self.root.is_origin_of(url));
        url.ok_or_else(|| GitHubError::Permanent {
            status: 0,
            what: what.to_owned(),
            message: "it names an address outside the API".to_owned(),
        })
    }

    /// Sends a call until an answer stands; the tries are few and short.
    pub(super) async fn send(&self, call: &Call) -> Result<Answer> {
        let mut url = call.url.clone();
        let (mut retries, mut redirects, mut renewed) = (0, 0, false);
        loop {
            self.admit(call)?;
            let token = self.token(call.caller).await?;
            let kept = if call.conditional { self.etags.find(url.as_str()) } else { None };
            let etag = kept.as_ref().map(|(etag, _)| etag);
            let answer = match self.transport.attempt(call, &url, &token, etag).await {
                Ok(answer) => answer,
                Err(NoAnswer::TooLarge) => return Err(permanent(200, call, "the answer is too large")),
                Err(NoAnswer::Network(message)) => {
                    self.wait_for_retry(call, &mut retries, message).await?;
                    continue;
                }
            };
            self.note_quota(call.caller, &answer);
            match (retry::judge(&answer, self.clock.now()), kept) {
                (Verdict::Fine, _) => {
                    if call.conditional {
                        self.etags.keep(url.as_str(), &answer);
                    }
                    return Ok(answer);
                }
                (Verdict::NotModified, Some((_, kept))) => return Ok(kept),
                (Verdict::Redirect, _) if call.method == Method::GET && redirects < REDIRECTS_MAX => {
                    redirects += 1;
                    url = self.on_origin(&url, answer.header("location").unwrap_or_default(), &call.what)?;
                }
                (Verdict::Refused, _) if !renewed && call.caller != Caller::App => {
                    renewed = true;
                    self.forget(call.caller, &token).await;
                }
                // A clock that is off, or a key that is just being replaced: both pass.
                (Verdict::Refused, _) => return Err(temporary(call, format!("401 {}", retry::message(&answer)))),
                (Verdict::Limited(until), _) => return Err(self.close(call, until, &retry::message(&answer))),
                (Verdict::Broken, _) => {
                    let message = format!("{} {}", answer.status.as_u16(), retry::message(&answer));
                    self.wait_for_retry(call, &mut retries, message).await?;
                }
                (Verdict::NotFound, _) => return Err(GitHubError::NotFound { what: call.what.clone() }),
                (Verdict::NotModified | Verdict::Redirect | Verdict::Permanent, _) => {
                    return Err(permanent(answer.status.as_u16(), call, &retry::message(&answer)));
                }
            }
        }
    }

    /// Waits before the next try, or fails when there is none.
    async fn wait_for_retry(&self, call: &Call, retries: &mut u32, message: String) -> Result<()> {
        if call.repeat == Repeat::Never || *retries >= retry::RETRIES_MAX {
            return Err(temporary(call, message));
        }
        self.pause.pause(retry::back_off(*retries)).await;
        *retries += 1;
        Ok(())
    }

    pub(super) async fn token(&self, caller: Caller) -> Result<SecretString> {
        match caller {
            Caller::App => self.tokens.jwt().map_err(|error| GitHubError::Permanent {
                status: 0,
                what: "a token of the App".to_owned(),
                message: error.to_string(),
            }),
            // Boxed, because the exchange is itself a call.
            Caller::Installation(id) => self.tokens.installation(id, || Box::pin(self.exchange(id))).await,
        }
    }

    async fn forget(&self, caller: Caller, refused: &SecretString) {
        if let Caller::Installation(id) = caller {
            self.tokens.forget(id, refused).await;
        }
    }

    async fn exchange(&self, installation_id: i64) -> Result<InstallationToken> {
        #[derive(Deserialize)]
        struct Token {
            token: String,
            expires_at: String,
        }
        let id = installation_id.to_string();
        let segments = ["app", "installations", &id, "access_tokens"];
        let what = format!("a token for installation {id}");
        let call = self.root.call(Method::POST, Caller::App, &segments, &what)?;
        let token: Token = match self.read(call).await {
            // The installation is gone. Passed on as it is, it would read as "no such file" or "no permission".
            Err(GitHubError::NotFound { what }) => {
                let message = "there is no such installation".to_owned();
                return Err(GitHubError::Permanent { status: 404, what, message });
            }
            token => token?,
        };
        // GitHub's tokens last an hour; an unreadable end must not make one that is never renewed.
        let expires_at = parse_rfc3339(&token.expires_at).unwrap_or_else(|| self.clock.now());
        Ok(InstallationToken { secret: token.token.into(), expires_at: expires_at.min(self.clock.now() + HOUR_MS) })
    }

    /// Lets a call go and counts what it writes, or says when it may.
    fn admit(&self, call: &Call) -> Result<()> {
        let Caller::Installation(id) = call.caller else { return Ok(()) };
        let (quota, now) = (self.quota(id), self.clock.now());
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let budget = budgets.entry(id).or_default();
        let admitted = match (budget.closed_until(now), call.urgency) {
            (Some(until), _) => Err(until),
            (None, Some(urgency)) => budget.spend(urgency, self.writes, quota, now),
            (None, None) => Ok(()),
        };
        admitted.map_err(|until| GitHubError::Deferred { what: call.what.clone(), until })
    }

    /// GitHub wants to hear nothing of this installation until then: who goes on asking is shut out longer.
    fn close(&self, call: &Call, until: Millis, message: &str) -> GitHubError {
        tracing::warn!(what = call.what, message, "GitHub limits us");
        let until = until.max(self.clock.now() + SECOND_MS);
        if let Caller::Installation(id) = call.caller {
            self.budgets.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default().close(until);
        }
        GitHubError::Deferred { what: call.what.clone(), until }
    }

    fn note_quota(&self, caller: Caller, answer: &Answer) {
        let Caller::Installation(id) = caller else { return };
        let number = |name| answer.header(name).and_then(|text| text.parse::<u32>().ok());
        let (Some(limit), Some(remaining), Some(reset)) =
            (number("x-ratelimit-limit"), number("x-ratelimit-remaining"), number("x-ratelimit-reset"))
        else {
            return;
        };
        let quota = Quota { limit, remaining, resets_at: i64::from(reset) * SECOND_MS };
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner).insert(id, quota);
    }
}

/// Most hops of one redirected read: a renamed repository needs one.
pub(super) const REDIRECTS_MAX: u32 = 5;

fn temporary(call: &Call, message: String) -> GitHubError {
    GitHubError::Temporary { what: call.what.clone(), message }
}

fn permanent(status: u16, call: &Call, message: &str) -> GitHubError {
    GitHubError::Permanent { status, what: call.what.clone(), message: message.to_owned() }
}

fn parse<T: DeserializeOwned>(answer: &Answer, what: &str) -> Result<T> {
    serde_json::from_slice(&answer.body).map_err(|error| unreadable(what, error))
}

/// GitHub answered, but not what its documentation says.
pub(super) fn unreadable(what: &str, error: impl std::fmt::Display) -> GitHubError {
    GitHubError::Permanent { status: 200, what: what.to_owned(), message: format!("the answer is unreadable: {error}") }
}
