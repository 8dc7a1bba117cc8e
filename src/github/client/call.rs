//! One call to GitHub as data: where it goes, as whom, with what, and whether it may be repeated.
//!
//! Addresses are only ever built here, from checked segments: no name from outside can leave its place in a path.

use reqwest::{Method, Url};
use serde::Serialize;

use crate::github::api::{GitHubError, RepoRef, Result};
use crate::github::budget::Urgency;

/// Whose token a call carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// The App itself, by a signed JWT.
    App,
    /// One installation, by its token.
    Installation(i64),
}

/// What GitHub may do with a second copy of the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    Harmless,
    /// A second copy would make a second comment, check or workflow run: after an unclear answer the caller decides.
    Never,
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub method: Method,
    pub url: Url,
    pub caller: Caller,
    pub body: Option<serde_json::Value>,
    pub accept: &'static str,
    pub repeat: Repeat,
    /// Ask with the `ETag` of the last answer, which costs no quota when nothing changed.
    pub conditional: bool,
    /// What it is written for, and so what it counts as; nothing for a read. A write that does not say is a comment.
    pub urgency: Option<Urgency>,
    /// For error messages: `pull request 7 of acme/infra`.
    pub what: String,
}

pub(super) const ACCEPT_JSON: &str = "application/vnd.github+json";
const ACCEPT_RAW: &str = "application/vnd.github.raw+json";

/// What GitHub serves on one page at most.
const PER_PAGE: &str = "100";

impl Call {
    pub fn new(method: Method, url: Url, caller: Caller, what: impl Into<String>) -> Self {
        let urgency = (method != Method::GET).then_some(Urgency::Comment);
        Self {
            method,
            url,
            caller,
            body: None,
            accept: ACCEPT_JSON,
            repeat: Repeat::Harmless,
            conditional: false,
            urgency,
            what: what.into(),
        }
    }

    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    /// A list, in the largest pages there are.
    pub fn list(self) -> Self {
        self.query("per_page", PER_PAGE)
    }

    /// Serialises one of our own request structs.
    pub fn json(mut self, body: &impl Serialize) -> Self {
        self.body = Some(serde_json::to_value(body).expect("request structs hold strings, numbers and lists only"));
        self
    }

    pub fn once(mut self) -> Self {
        self.repeat = Repeat::Never;
        self
    }

    pub fn urgency(mut self, urgency: Urgency) -> Self {
        self.urgency = Some(urgency);
        self
    }

    pub fn conditional(mut self) -> Self {
        self.conditional = true;
        self
    }

    pub fn raw(mut self) -> Self {
        self.accept = ACCEPT_RAW;
        self
    }
}

/// The root of the REST API: `https://api.github.com` or `https://host/api/v3`.
#[derive(Debug, Clone)]
pub(super) struct ApiRoot(Url);

impl ApiRoot {
    /// Refuses what no path can be appended to.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let web = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
        let bare = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
        (web && bare).then_some(Self(url))
    }

    /// Same scheme, host and port: the only addresses that ever see a token.
    pub fn is_origin_of(&self, url: &Url) -> bool {
        self.0.origin() == url.origin()
    }

    /// A call below the root. A segment that cannot be one names nothing that GitHub has.
    pub fn call(&self, method: Method, caller: Caller, segments: &[&str], what: &str) -> Result<Call> {
        if let Some(bad) = segments.iter().find(|segment| !is_segment(segment)) {
            return Err(GitHubError::NotFound { what: format!("{what}: {bad:?} cannot be part of a path") });
        }
        let mut url = self.0.clone();
        url.path_segments_mut().expect("http addresses have paths").pop_if_empty().extend(segments);
        Ok(Call::new(method, url, caller, what))
    }

    /// A call below `/repos/{owner}/{name}`, as the installation that owns the repository.
    pub fn repo_call(&self, method: Method, repo: &RepoRef, tail: &[&str], what: &str) -> Result<Call> {
        let mut segments = vec!["repos", repo.name.owner(), repo.name.name()];
        segments.extend(tail);
        let what = format!("{what} of {}", repo.name);
        self.call(method, Caller::Installation(repo.installation_id), &segments, &what)
    }
}

/// Longest segment that is worth a request: a comparison names two branches of at most 255 bytes each, encoded.
const SEGMENT_BYTES_MAX: usize = 2048;

fn is_segment(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= SEGMENT_BYTES_MAX
        && !matches!(text, "." | "..")
        && !text.chars().any(|c| c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url_of(root: &str, segments: &[&str]) -> String {
        let root = ApiRoot::parse(root).unwrap();
        root.call(Method::GET, Caller::App, segments, "it").unwrap().url.to_string()
    }

    #[test]
    fn paths_are_appended_to_both_kinds_of_root() {
        assert_eq!(url_of("https://api.github.com", &["app"]), "https://api.github.com/app");
        assert_eq!(url_of("http://127.0.0.1:8080/api/v3/", &["app"]), "http://127.0.0.1:8080/api/v3/app");
    }

    #[test]
    fn segments_are_encoded_so_that_they_stay_segments() {
        assert_eq!(
            url_of("https://ghe.test/api/v3", &["compare", "feature/a?b#c%2f...main"]),
            "https://ghe.test/api/v3/compare/feature%2Fa%3Fb%23c%252f...main"
        );
    }

    #[test]
    fn segments_that_would_leave_their_place_are_refused_before_any_request() {
        let root = ApiRoot::parse("https://api.github.com").unwrap();
        for bad in ["", ".", "..", "a\nb", "a\u{0}b"] {
            let refused = root.call(Method::GET, Caller::App, &["orgs", bad], "team");
            assert!(matches!(refused, Err(GitHubError::NotFound { .. })), "{bad:?}");
        }
    }

    #[test]
    fn roots_that_are_no_plain_web_address_are_refused() {
        for bad in ["", "api.github.com", "ftp://x", "https://x/?q=1", "https://user@x", "data:,x"] {
            assert!(ApiRoot::parse(bad).is_none(), "{bad:?}");
        }
    }
}
