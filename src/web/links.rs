//! Addresses of pages: ours are paths, GitHub's are built from its web address, foreign ones are checked.

use std::fmt::Write as _;

use super::parts::Link;
use crate::ids::{RepoName, RunId, Sha, StackKey};
use crate::run::model::{Lock, Run};

pub fn run(id: &RunId) -> String {
    format!("/runs/{id}")
}

/// One stack of a run with everything that is known of it.
pub fn stack(id: &RunId, key: &StackKey) -> String {
    format!("/runs/{id}?stack={}", encoded(key.as_str()))
}

pub fn repository(name: &RepoName) -> String {
    format!("/repos/{name}")
}

pub fn graph(name: &RepoName) -> String {
    format!("/repos/{name}/graph")
}

/// A part of a query as it may stand in an address. `/` and `:` may, and keys stay readable.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' => out.push(byte as char),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

/// An address from outside, when a page may link to it.
pub fn web_address(url: &str) -> Option<String> {
    let lower = url.get(..8).unwrap_or(url).to_ascii_lowercase();
    let web = lower.starts_with("https://") || lower.starts_with("http://");
    (web && !url.chars().any(|c| c.is_control() || c.is_whitespace())).then(|| url.to_owned())
}

/// GitHub's own pages.
#[derive(Debug, Clone, Copy)]
pub struct GitHub<'w> {
    web_url: &'w str,
}

impl<'w> GitHub<'w> {
    pub fn at(web_url: &'w str) -> Self {
        Self { web_url: web_url.trim_end_matches('/') }
    }

    pub fn repository(self, repo: &RepoName) -> String {
        format!("{}/{repo}", self.web_url)
    }

    pub fn commit(self, repo: &RepoName, sha: &Sha) -> Link {
        Link::to(sha.short(), format!("{}/{repo}/commit/{sha}", self.web_url))
    }

    pub fn pull(self, repo: &RepoName, number: i64) -> Link {
        Link::to(format!("#{number}"), format!("{}/{repo}/pull/{number}", self.web_url))
    }

    pub fn issue(self, repo: &RepoName, number: i64) -> Link {
        Link::to(format!("issue #{number}"), format!("{}/{repo}/issues/{number}", self.web_url))
    }

    /// Where jobs run, and where a deployment is approved.
    pub fn workflow_run(self, repo: &RepoName, id: i64) -> String {
        format!("{}/{repo}/actions/runs/{id}", self.web_url)
    }

    /// A person; keys and the scheduler have no page.
    pub fn person(self, login: &str) -> Link {
        let is_login = !login.is_empty() && login.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if is_login && login != "stackorder" {
            Link::to(login, format!("{}/{login}", self.web_url))
        } else {
            Link::nowhere(login)
        }
    }

    /// Who holds a lock: the pull request, or the manual run.
    pub fn holder(self, repo: &RepoName, lock: &Lock) -> Link {
        match lock.pr_number {
            0 => Link::to("a manual run", run(&lock.run_id)),
            number => self.pull(repo, number),
        }
    }

    /// The pull request of a run, if it has one.
    pub fn pull_of(self, repo: &RepoName, run: &Run) -> Option<Link> {
        (run.pr_number > 0).then(|| self.pull(repo, run.pr_number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_linked() {
        assert!(web_address("https://ci.example.com/1?a=b#c").is_some());
        for bad in ["javascript:alert(1)", "data:text/html,x", "//host", "", "https://a b", "ht\ntps://x", "é"] {
            assert_eq!(web_address(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn keys_stay_readable_in_addresses() {
        assert_eq!(encoded("live/net:prod"), "live/net:prod");
        assert_eq!(encoded("a b&c<\"é"), "a%20b%26c%3C%22%C3%A9");
    }
}
