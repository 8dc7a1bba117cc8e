//! A GitHub that says what a test wrote down, and notes what it was told to do. It has nothing else.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;

use crate::clock::Millis;
use crate::github::api::*;
use crate::ids::Sha;
use crate::run::tests::story::sha;

pub struct Script {
    pub pull: PullRequest,
    pub files: Vec<String>,
    /// `.stackorder.yaml` of every directory.
    pub stack_file: Option<&'static str>,
    /// What the default branch has that a head lacks.
    pub ahead: Comparison,
    pub trees: BTreeMap<Sha, Vec<(String, String)>>,
    pub jobs: Vec<JobFacts>,
    pub artifacts: Vec<ArtifactFacts>,
    pub issues: Vec<Issue>,
    pub plan_runs: Vec<WorkflowRunFacts>,
    /// Closing an issue fails.
    pub is_stubborn: bool,
    /// What happens while the head of a branch is asked for.
    pub meanwhile: Option<Box<dyn FnOnce() + Send>>,
    pub told: Vec<String>,
    /// Everybody else may push.
    pub permissions: BTreeMap<String, Permission>,
    /// What the default branch holds that any commit lacks.
    pub ahead: Comparison,
    pub codeowners: Option<&'static str>,
    pub workflow_runs: Vec<WorkflowRunFacts>,
    /// Reviews cannot be read.
    pub is_silent: bool,
}

pub struct Scripted(Mutex<Script>);

impl Scripted {
    pub fn new() -> Self {
        let pull = PullRequest {
            number: 1,
            title: "Change".to_owned(),
            open: true,
            merged: false,
            draft: false,
            author: "ada".to_owned(),
            head_sha: sha('a'),
            head_ref: "topic".to_owned(),
            from_fork: false,
            base_ref: "main".to_owned(),
            base_sha: sha('f'),
            mergeable: Some(true),
            mergeable_state: "clean".to_owned(),
            merge_commit_sha: None,
            merged_by: None,
        };
        Self(Mutex::new(Script {
            pull,
            files: Vec::new(),
            stack_file: None,
            ahead: Comparison::default(),
            trees: BTreeMap::new(),
            jobs: Vec::new(),
            artifacts: Vec::new(),
            issues: Vec::new(),
            plan_runs: Vec::new(),
            is_stubborn: false,
            meanwhile: None,
            told: Vec::new(),
            permissions: BTreeMap::new(),
            ahead: Comparison::default(),
            codeowners: None,
            workflow_runs: Vec::new(),
            is_silent: false,
        }))
    }

    pub fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    fn note(&self, what: String) {
        self.script().told.push(what);
    }
}

fn nothing<T>() -> Result<T> {
    Err(GitHubError::NotFound { what: "such thing in this script".to_owned() })
}

#[async_trait]
impl Api for Scripted {
    async fn bot_login(&self) -> Result<String> {
        Ok("stackorder[bot]".to_owned())
    }
    async fn installations(&self) -> Result<Vec<InstallationFacts>> {
        nothing()
    }
    async fn installation_repositories(&self, _: i64) -> Result<Vec<RepositoryFacts>> {
        nothing()
    }
    async fn repository(&self, _: &RepoRef) -> Result<RepositoryFacts> {
        nothing()
    }
    async fn file(&self, _: &RepoRef, path: &str, _: &str) -> Result<Option<Vec<u8>>> {
        let script = self.script();
        let text = match path {
            "CODEOWNERS" => script.codeowners,
            _ => script.stack_file.filter(|_| path.ends_with("/.stackorder.yaml")),
        };
        Ok(text.map(|text| text.as_bytes().to_vec()))
    }
    async fn branch_head(&self, _: &RepoRef, _: &str) -> Result<Sha> {
        if let Some(meanwhile) = self.script().meanwhile.take() {
            meanwhile();
        }
        Ok(sha('f'))
    }
    async fn commit(&self, _: &RepoRef, _: &Sha) -> Result<(String, String)> {
        Ok(("Change".to_owned(), "ada".to_owned()))
    }
    async fn compare(&self, _: &RepoRef, _: &str, _: &str) -> Result<Comparison> {
        Ok(self.script().ahead.clone())
    }
    async fn tree(&self, _: &RepoRef, sha: &Sha) -> Result<(Vec<(String, String)>, bool)> {
        Ok((self.script().trees.get(sha).cloned().unwrap_or_default(), false))
    }
    async fn pull_request(&self, _: &RepoRef, _: i64) -> Result<PullRequest> {
        Ok(self.script().pull.clone())
    }
    async fn open_pull_requests(&self, _: &RepoRef) -> Result<Vec<PullRequest>> {
        nothing()
    }
    async fn pull_request_files(&self, _: &RepoRef, _: i64) -> Result<Vec<String>> {
        Ok(self.script().files.clone())
    }
    async fn reviews(&self, _: &RepoRef, _: i64) -> Result<Vec<Review>> {
        if self.script().is_silent {
            let (what, message) = ("reviews".to_owned(), "502".to_owned());
            return Err(GitHubError::Temporary { what, message, retry_at: None });
        }
        Ok(Vec::new())
    }
    async fn permission(&self, _: &RepoRef, login: &str) -> Result<Permission> {
        Ok(self.script().permissions.get(login).copied().unwrap_or(Permission::Write))
    }
    async fn membership(&self, _: &RepoRef, _: &str, _: &str, _: &str) -> Result<Membership> {
        Ok(Membership::None)
    }
    async fn comments(&self, _: &RepoRef, _: i64) -> Result<Vec<Comment>> {
        nothing()
    }
    async fn create_comment(&self, _: &RepoRef, number: i64, _: &str) -> Result<i64> {
        self.note(format!("comment on #{number}"));
        Ok(1)
    }
    async fn edit_comment(&self, _: &RepoRef, _: i64, _: &str) -> Result<()> {
        nothing()
    }
    async fn delete_comment(&self, _: &RepoRef, _: i64) -> Result<()> {
        nothing()
    }
    async fn react(&self, _: &RepoRef, _: i64, _: Reaction) -> Result<()> {
        nothing()
    }
    async fn create_check(&self, _: &RepoRef, _: &Check) -> Result<i64> {
        nothing()
    }
    async fn update_check(&self, _: &RepoRef, _: i64, _: &Check) -> Result<()> {
        nothing()
    }
    async fn checks(&self, _: &RepoRef, _: &Sha, _: Option<&str>) -> Result<Vec<CheckRunFacts>> {
        nothing()
    }
    async fn issues(&self, _: &RepoRef, _: &str) -> Result<Vec<Issue>> {
        Ok(self.script().issues.clone())
    }
    async fn create_issue(&self, _: &RepoRef, _: &str, _: &str, _: &str) -> Result<i64> {
        nothing()
    }
    async fn edit_issue(&self, _: &RepoRef, _: i64, _: &str) -> Result<()> {
        nothing()
    }
    async fn close_issue(&self, _: &RepoRef, number: i64) -> Result<()> {
        if self.script().is_stubborn {
            return nothing();
        }
        self.note(format!("close #{number}"));
        Ok(())
    }
    async fn dispatch(&self, _: &RepoRef, request: &DispatchRequest) -> Result<Option<i64>> {
        self.note(format!("dispatch {}", request.mode));
        Ok(None)
    }
    async fn dispatched_runs(&self, _: &RepoRef, _: Millis) -> Result<Vec<WorkflowRunFacts>> {
        Ok(Vec::new())
    }
    async fn plan_runs(&self, _: &RepoRef, _: &Sha) -> Result<Vec<WorkflowRunFacts>> {
        Ok(self.script().plan_runs.clone())
    }
    async fn workflow_run(&self, _: &RepoRef, id: i64) -> Result<WorkflowRunFacts> {
        let known = self.script().workflow_runs.iter().find(|run| run.id == id).cloned();
        known.map_or_else(nothing, Ok)
    }
    async fn rerun(&self, _: &RepoRef, id: i64) -> Result<()> {
        self.note(format!("rerun {id}"));
        Ok(())
    }
    async fn jobs(&self, _: &RepoRef, _: i64) -> Result<Vec<JobFacts>> {
        Ok(self.script().jobs.clone())
    }
    async fn artifacts(&self, _: &RepoRef, _: i64) -> Result<Vec<ArtifactFacts>> {
        Ok(self.script().artifacts.clone())
    }
    async fn pending_deployments(&self, _: &RepoRef, _: i64) -> Result<Vec<String>> {
        nothing()
    }
    async fn answer_protection_rule(
        &self,
        _: &RepoRef,
        id: i64,
        environment: &str,
        approve: bool,
        comment: &str,
    ) -> Result<()> {
        let verb = if approve { "approve" } else { "reject" };
        self.note(format!("{verb} {environment} of {id}: {comment}"));
        Ok(())
    }
}
