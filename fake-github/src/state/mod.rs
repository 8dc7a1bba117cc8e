//! Everything the fake remembers, as plain data under one mutex, with the rules that need nothing but that data.
//!
//! - `accounts`: users, bots, organisations, teams; `roles`: what they may do in a repository.
//! - `repositories`: repositories, environments, variables, branch protection.
//! - `issues`: issues, pull requests, comments, reviews.
//! - `checks`: check suites and check runs. `merging`: whether a pull request may be merged.
//! - `apps`: apps, installations, tokens, deliveries.

pub mod accounts;
pub mod apps;
pub mod checks;
pub mod issues;
pub mod merging;
pub mod repositories;
pub mod roles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::actions::model::Trigger;
use crate::git::GitStore;

/// What never changes while the fake runs: addresses, the clock, the repositories on disk, the source of ids.
pub struct Site {
    /// `http://127.0.0.1:PORT`, without a trailing slash.
    pub web: String,
    pub git: GitStore,
    clock: crate::server::Clock,
    ids: AtomicI64,
}

impl Site {
    pub fn new(web: String, git: GitStore, clock: crate::server::Clock) -> Site {
        // Above the ids that GitHub reserves for its own objects here, such as the Actions app.
        const FIRST_ID: i64 = 100_001;
        Site { web, git, clock, ids: AtomicI64::new(FIRST_ID) }
    }

    pub fn api(&self) -> String {
        format!("{}/api/v3", self.web)
    }

    pub fn oidc_issuer(&self) -> String {
        format!("{}/_services/token", self.web)
    }

    pub fn now(&self) -> i64 {
        (self.clock)()
    }

    pub fn next_id(&self) -> i64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

/// What has to happen after the lock is released.
pub enum Effect {
    Deliver { app: i64, delivery: i64 },
    Start(Trigger),
}

pub struct State {
    pub site: Arc<Site>,
    pub accounts: BTreeMap<String, accounts::Account>,
    /// Key: organisation and slug.
    pub teams: BTreeMap<(String, String), accounts::Team>,
    /// Key: `owner/name`.
    pub repositories: BTreeMap<String, repositories::Repository>,
    pub comments: BTreeMap<i64, issues::Comment>,
    pub check_runs: BTreeMap<i64, checks::CheckRun>,
    pub check_suites: BTreeMap<i64, checks::CheckSuite>,
    pub apps: BTreeMap<i64, apps::AppRecord>,
    pub installations: BTreeMap<i64, apps::Installation>,
    pub tokens: BTreeMap<String, apps::Grant>,
    pub deliveries: BTreeMap<i64, apps::Delivery>,
    /// Codes of the OAuth and manifest flows that were not exchanged yet.
    pub codes: BTreeMap<String, apps::Code>,
    /// Environments (in lower case) of runs about which an app was asked and has not answered.
    pub asked_rules: BTreeSet<(i64, String)>,
    pub effects: Vec<Effect>,
}

impl State {
    pub fn new(site: Arc<Site>) -> State {
        let mut state = State {
            site,
            accounts: BTreeMap::new(),
            teams: BTreeMap::new(),
            repositories: BTreeMap::new(),
            comments: BTreeMap::new(),
            check_runs: BTreeMap::new(),
            check_suites: BTreeMap::new(),
            apps: BTreeMap::new(),
            installations: BTreeMap::new(),
            tokens: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            codes: BTreeMap::new(),
            asked_rules: BTreeSet::new(),
            effects: Vec::new(),
        };
        state.add_account("github", accounts::Kind::Organization);
        state.add_account(apps::ACTIONS_BOT, accounts::Kind::Bot);
        state.apps.insert(apps::ACTIONS_APP, apps::AppRecord::actions(state.now()));
        state
    }

    pub fn now(&self) -> i64 {
        self.site.now()
    }

    pub fn next_id(&self) -> i64 {
        self.site.next_id()
    }

    /// A repository by its full name in any letter case, as GitHub finds it.
    pub fn repository(&self, full_name: &str) -> Option<&repositories::Repository> {
        self.repositories
            .get(full_name)
            .or_else(|| self.repositories.values().find(|repo| repo.full_name.eq_ignore_ascii_case(full_name)))
    }

    pub fn repository_by_id(&self, id: i64) -> Option<&repositories::Repository> {
        self.repositories.values().find(|repo| repo.id == id)
    }

    pub fn issue(&self, repo: &str, number: i64) -> Option<&issues::Issue> {
        self.repository(repo)?.issues.get(&number)
    }

    pub fn issue_mut(&mut self, repo: &str, number: i64) -> Option<&mut issues::Issue> {
        self.repositories.get_mut(repo)?.issues.get_mut(&number)
    }

    pub fn pull(&self, repo: &str, number: i64) -> Option<(&issues::Issue, &issues::PullRequest)> {
        let issue = self.issue(repo, number)?;
        Some((issue, issue.pull.as_ref()?))
    }

    pub fn pull_mut(&mut self, repo: &str, number: i64) -> Option<&mut issues::PullRequest> {
        self.issue_mut(repo, number)?.pull.as_mut()
    }
}
