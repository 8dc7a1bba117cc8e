//! What the doctor looks at; whatever could not be found out says why.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Millis;
use crate::config::model::RepoConfig;
use crate::github::setup::{Attempt, Environment, Granted, Hook, Registered, RequiredCheck};
use crate::ids::RepoName;
use crate::store::{Lease, Queued, Schema};

/// A fact, or in words why there is none.
pub type Known<T> = Result<T, String>;

#[derive(Debug, Clone)]
pub struct Facts {
    pub now: Millis,
    pub base_url: String,
    pub audience: String,
    /// An Enterprise Server: it has no deployment protection rules for us.
    pub is_enterprise: bool,
    pub app_id: i64,
    pub database: Known<DatabaseFacts>,
    pub clock_ahead_by: Known<Millis>,
    pub registered: Known<Registered>,
    pub granted: Known<Vec<Granted>>,
    pub hook: Known<Hook>,
    /// Newest first.
    pub attempts: Known<Vec<Attempt>>,
    pub repositories: Vec<RepositoryFacts>,
}

#[derive(Debug, Clone)]
pub struct DatabaseFacts {
    pub schema: Schema,
    /// `None` where the schema is too old to hold one.
    pub leader: Option<Lease>,
    pub dead: Vec<Queued>,
}

#[derive(Debug, Clone)]
pub struct RepositoryFacts {
    pub name: RepoName,
    pub default_branch: String,
    pub policy: Arc<RepoConfig>,
    /// The two workflow files of the default branch; `None` when there is no such file.
    pub plan_workflow: Known<Option<Vec<u8>>>,
    pub run_workflow: Known<Option<Vec<u8>>>,
    pub required_checks: Known<Vec<RequiredCheck>>,
    pub environments: Known<Vec<Environment>>,
    /// Environments that applies run under, each with a stack that does.
    pub applied_under: BTreeMap<String, String>,
}
