//! How the App and its repositories are set up: the calls of `admin doctor`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::fmt::rfc2822;
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use super::GitHubClient;
use super::call::Caller;
use super::transport::NoAnswer;
use crate::clock::{Millis, parse_rfc3339};
use crate::github::api::{GitHubError, RepoRef, Result};
use crate::github::setup::{Attempt, Environment, Granted, Hook, Permissions, Registered, RequiredCheck};

/// Attempts of the delivery log that are looked at: its newest page.
const ATTEMPTS: &str = "100";

impl GitHubClient {
    pub async fn registered(&self) -> Result<Registered> {
        #[derive(Deserialize)]
        struct App {
            slug: String,
            #[serde(default)]
            permissions: BTreeMap<String, Value>,
            #[serde(default)]
            events: BTreeSet<String>,
        }
        let app: App = self.read(self.root.call(Method::GET, Caller::App, &["app"], "App of this key")?).await?;
        Ok(Registered { slug: app.slug, permissions: levels(app.permissions), events: app.events })
    }

    /// By account.
    pub async fn granted(&self) -> Result<Vec<Granted>> {
        #[derive(Deserialize)]
        struct Installation {
            account: Option<Account>,
            suspended_at: Option<String>,
            #[serde(default)]
            permissions: BTreeMap<String, Value>,
            #[serde(default)]
            events: BTreeSet<String>,
        }
        /// An enterprise has a slug instead of a login.
        #[derive(Deserialize)]
        struct Account {
            login: Option<String>,
            slug: Option<String>,
        }
        let call = self.root.call(Method::GET, Caller::App, &["app", "installations"], "installations")?;
        let pages: Vec<Vec<Installation>> = self.pages(call.list()).await?;
        let granted = |installation: Installation| Granted {
            account: installation.account.and_then(|account| account.login.or(account.slug)).unwrap_or_default(),
            suspended: installation.suspended_at.is_some(),
            permissions: levels(installation.permissions),
            events: installation.events,
        };
        let mut all: Vec<Granted> = pages.into_iter().flatten().map(granted).collect();
        all.sort_by(|a, b| a.account.cmp(&b.account));
        Ok(all)
    }

    pub async fn hook(&self) -> Result<Hook> {
        #[derive(Deserialize)]
        struct Config {
            url: Option<String>,
            content_type: Option<String>,
            /// `"0"`, or a number.
            insecure_ssl: Option<Value>,
        }
        let call = self.root.call(Method::GET, Caller::App, &["app", "hook", "config"], "the webhook's address")?;
        let config: Config = self.read(call).await?;
        let insecure = config.insecure_ssl.is_some_and(|value| value == "1" || value == 1);
        Ok(Hook {
            url: config.url.unwrap_or_default(),
            content_type: config.content_type.unwrap_or_else(|| "form".to_owned()),
            insecure,
        })
    }

    /// The newest attempts to deliver a webhook, newest first.
    pub async fn delivery_attempts(&self) -> Result<Vec<Attempt>> {
        #[derive(Deserialize)]
        struct Logged {
            guid: String,
            event: String,
            status_code: u16,
            #[serde(default)]
            status: String,
            delivered_at: String,
        }
        let segments = ["app", "hook", "deliveries"];
        let call = self.root.call(Method::GET, Caller::App, &segments, "the delivery log")?.query("per_page", ATTEMPTS);
        let logged: Vec<Logged> = self.read(call).await?;
        let attempt = |one: Logged| Attempt {
            guid: one.guid,
            event: one.event,
            status_code: one.status_code,
            status: one.status,
            at: parse_rfc3339(&one.delivered_at).unwrap_or_default(),
        };
        let mut attempts: Vec<Attempt> = logged.into_iter().map(attempt).collect();
        // Stable, so that attempts of one second stay in GitHub's own order.
        attempts.sort_by_key(|attempt| std::cmp::Reverse(attempt.at));
        Ok(attempts)
    }

    /// By how much this machine's clock is ahead of GitHub's, to the second. Any answer tells, a refusal too: a clock that is
    /// off is one reason for refusals.
    pub async fn clock_ahead_by(&self) -> Result<Millis> {
        let call = self.root.call(Method::GET, Caller::App, &["app"], "the time")?;
        let token = self.token(Caller::App).await?;
        let asked = self.clock.now();
        let answer = self.transport.attempt(&call, &call.url, &token, None).await.map_err(|error| {
            let message = match error {
                NoAnswer::Network(message) => message,
                NoAnswer::TooLarge => "the answer is too large".to_owned(),
            };
            GitHubError::Temporary { what: call.what.clone(), message }
        })?;
        let here = asked + (self.clock.now() - asked) / 2;
        let there = answer.header("date").and_then(|date| rfc2822::parse(date).ok());
        let there = there.ok_or_else(|| GitHubError::NotFound { what: "date in its answer".to_owned() })?;
        // The header is cut to a second: half of one is the best guess for the rest.
        Ok(here - there.timestamp().as_millisecond() - 500)
    }

    /// Checks that a branch requires by branch protection or by rulesets, each once.
    pub async fn required_checks(&self, repo: &RepoRef, branch: &str) -> Result<Vec<RequiredCheck>> {
        let mut checks = self.checks_of_rulesets(repo, branch).await?;
        checks.extend(self.checks_of_protection(repo, branch).await?);
        checks.sort();
        checks.dedup();
        Ok(checks)
    }

    async fn checks_of_rulesets(&self, repo: &RepoRef, branch: &str) -> Result<Vec<RequiredCheck>> {
        #[derive(Deserialize)]
        struct Rule {
            r#type: String,
            parameters: Option<Value>,
        }
        #[derive(Deserialize)]
        struct Parameters {
            #[serde(default)]
            required_status_checks: Vec<Check>,
        }
        #[derive(Deserialize)]
        struct Check {
            context: String,
            integration_id: Option<i64>,
        }
        let segments: Vec<&str> = ["rules", "branches"].into_iter().chain(branch.split('/')).collect();
        let call = self.root.repo_call(Method::GET, repo, &segments, &format!("rules of {branch}"))?;
        let pages: Vec<Vec<Rule>> = self.pages(call.list()).await?;
        let rules = pages.into_iter().flatten().filter(|rule| rule.r#type == "required_status_checks");
        let parameters = rules.filter_map(|rule| serde_json::from_value::<Parameters>(rule.parameters?).ok());
        let checks = parameters.flat_map(|parameters| parameters.required_status_checks);
        Ok(checks.map(|check| required(check.context, check.integration_id)).collect())
    }

    async fn checks_of_protection(&self, repo: &RepoRef, branch: &str) -> Result<Vec<RequiredCheck>> {
        #[derive(Deserialize)]
        struct Branch {
            protection: Option<Protection>,
        }
        #[derive(Deserialize)]
        struct Protection {
            required_status_checks: Option<Required>,
        }
        #[derive(Deserialize)]
        struct Required {
            #[serde(default)]
            checks: Vec<Check>,
        }
        #[derive(Deserialize)]
        struct Check {
            context: String,
            app_id: Option<i64>,
        }
        let segments: Vec<&str> = std::iter::once("branches").chain(branch.split('/')).collect();
        let call = self.root.repo_call(Method::GET, repo, &segments, &format!("branch {branch}"))?;
        let branch: Branch = self.read(call).await?;
        let checks = branch.protection.and_then(|protection| protection.required_status_checks);
        let checks = checks.map(|required| required.checks).unwrap_or_default();
        Ok(checks.into_iter().map(|check| required(check.context, check.app_id)).collect())
    }

    /// By name.
    pub async fn environments(&self, repo: &RepoRef) -> Result<Vec<Environment>> {
        #[derive(Deserialize)]
        struct Page {
            #[serde(default)]
            environments: Vec<Named>,
        }
        #[derive(Deserialize)]
        struct Named {
            name: String,
            #[serde(default)]
            protection_rules: Vec<Rule>,
            deployment_branch_policy: Option<Value>,
        }
        #[derive(Deserialize)]
        struct Rule {
            #[serde(default)]
            r#type: String,
        }
        let call = self.root.repo_call(Method::GET, repo, &["environments"], "environments")?;
        let pages: Vec<Page> = self.pages(call.list()).await?;
        let environment = |named: Named| Environment {
            has_reviewers: named.protection_rules.iter().any(|rule| rule.r#type == "required_reviewers"),
            has_branch_policy: named.deployment_branch_policy.is_some_and(|policy| !policy.is_null()),
            name: named.name,
        };
        let mut all: Vec<Environment> = pages.into_iter().flat_map(|page| page.environments).map(environment).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}

/// GitHub writes "any source" as nothing, as null, or as -1.
fn required(name: String, app_id: Option<i64>) -> RequiredCheck {
    RequiredCheck { name, app_id: app_id.filter(|id| *id > 0) }
}

fn levels(permissions: BTreeMap<String, Value>) -> Permissions {
    permissions.into_iter().filter_map(|(name, level)| Some((name, level.as_str()?.to_owned()))).collect()
}
