//! A GitHub that says what a test wrote down, and keeps what it was told to write. It has nothing else.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;

use crate::clock::Millis;
use crate::github::api::*;
use crate::ids::Sha;
use crate::run::tests::story::sha;

pub struct Script {
    pub pull: PullRequest,
    /// Other pull requests, by number.
    pub more_pulls: BTreeMap<i64, PullRequest>,
    /// Times a pull request is read before GitHub knows whether it merges.
    pub reads_until_mergeable: u32,
    pub files: Vec<String>,
    /// `.stackorder.yaml` of every directory.
    pub stack_file: Option<&'static str>,
    /// `stackorder.yaml` of every commit.
    pub root_file: Option<&'static str>,
    pub trees: BTreeMap<Sha, Vec<(String, String)>>,
    pub jobs: Vec<JobFacts>,
    pub artifacts: Vec<ArtifactFacts>,
    pub issues: Vec<Issue>,
    pub plan_runs: Vec<WorkflowRunFacts>,
    /// The log of the App's webhook, and which attempts it was asked to repeat.
    pub deliveries: Vec<HookDelivery>,
    pub redelivered: Vec<i64>,
    /// Shortest time between two edits of one comment or check.
    pub edit_every: Millis,
    /// Runs of the dispatched workflow.
    pub dispatched: Vec<WorkflowRunFacts>,
    /// What the answer to a dispatch says.
    pub answer_to_dispatch: Answer,
    /// Of comments and checks.
    pub last_id: i64,
    /// By pull request or issue, in the order they were written.
    pub comments: Vec<(i64, Comment)>,
    /// By their ids.
    pub checks: BTreeMap<i64, Check>,
    pub reactions: Vec<(i64, Reaction)>,
    /// The App may not write checks.
    pub forbids_checks: bool,
    /// Every write is answered with 502.
    pub is_down: bool,
    /// It writes checks, and its answers are lost.
    pub is_unheard: bool,
    /// So are the questions for the head of a branch and for the open pull requests.
    pub is_mute: bool,
    /// The open pull requests may not be asked for before this time.
    pub limited_until: Option<Millis>,
    /// Each workflow run is gone when it is asked for by its id.
    pub forgets_runs: bool,
    /// Closing an issue fails.
    pub is_stubborn: bool,
    /// Another server opens this one at the moment when we open ours.
    pub rival_issue: Option<Issue>,
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

impl Script {
    fn new_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }
}

/// How GitHub answers a dispatch.
#[derive(Clone, Copy)]
pub enum Answer {
    /// Taken, without a word about the workflow run.
    Taken,
    TakenBy(i64),
    /// Started all the same, but the answer was lost.
    Lost,
    Rejected,
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
            more_pulls: BTreeMap::new(),
            reads_until_mergeable: 0,
            files: Vec::new(),
            stack_file: None,
            root_file: None,
            trees: BTreeMap::new(),
            jobs: Vec::new(),
            artifacts: Vec::new(),
            issues: Vec::new(),
            plan_runs: Vec::new(),
            deliveries: Vec::new(),
            redelivered: Vec::new(),
            edit_every: 0,
            dispatched: Vec::new(),
            answer_to_dispatch: Answer::Taken,
            last_id: 0,
            comments: Vec::new(),
            checks: BTreeMap::new(),
            reactions: Vec::new(),
            forbids_checks: false,
            is_down: false,
            is_unheard: false,
            is_mute: false,
            limited_until: None,
            forgets_runs: false,
            is_stubborn: false,
            rival_issue: None,
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

    /// What a test may write to, unless GitHub is down.
    fn writable(&self) -> Result<MutexGuard<'_, Script>> {
        let script = self.script();
        if script.is_down {
            return Err(temporary("a write"));
        }
        Ok(script)
    }
}

fn temporary(what: &str) -> GitHubError {
    GitHubError::Temporary { what: what.to_owned(), message: "502".to_owned() }
}

fn nothing<T>() -> Result<T> {
    Err(GitHubError::NotFound { what: "such thing in this script".to_owned() })
}

#[async_trait]
impl Api for Scripted {
    fn edit_every(&self, _: &RepoRef) -> Millis {
        self.script().edit_every
    }
    async fn hook_deliveries(&self, since: Millis) -> Result<Vec<HookDelivery>> {
        Ok(self.script().deliveries.iter().filter(|attempt| attempt.delivered_at >= since).cloned().collect())
    }
    async fn redeliver(&self, attempt: i64) -> Result<()> {
        let mut script = self.script();
        if !script.deliveries.iter().any(|known| known.id == attempt) {
            return nothing();
        }
        script.redelivered.push(attempt);
        Ok(())
    }
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
            "stackorder.yaml" => script.root_file,
            _ => script.stack_file.filter(|_| path.ends_with("/.stackorder.yaml")),
        };
        Ok(text.map(|text| text.as_bytes().to_vec()))
    }
    async fn branch_head(&self, _: &RepoRef, _: &str) -> Result<Sha> {
        if let Some(meanwhile) = self.script().meanwhile.take() {
            meanwhile();
        }
        // Whoever else has something to do gets on with it.
        tokio::task::yield_now().await;
        if self.script().is_mute {
            return Err(temporary("the head of a branch"));
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
    async fn pull_request(&self, _: &RepoRef, number: i64) -> Result<PullRequest> {
        let mut script = self.script();
        let mut pull = script.more_pulls.get(&number).unwrap_or(&script.pull).clone();
        if script.reads_until_mergeable > 0 {
            script.reads_until_mergeable -= 1;
            pull.mergeable = None;
        }
        Ok(pull)
    }
    async fn open_pull_requests(&self, _: &RepoRef) -> Result<Vec<PullRequest>> {
        let script = self.script();
        if script.is_mute {
            return Err(temporary("the open pull requests"));
        }
        if let Some(until) = script.limited_until {
            return Err(GitHubError::Deferred { what: "the open pull requests".to_owned(), until });
        }
        let all = std::iter::once(&script.pull).chain(script.more_pulls.values());
        Ok(all.filter(|pull| pull.open).cloned().collect())
    }
    async fn pull_request_files(&self, _: &RepoRef, _: i64) -> Result<Vec<String>> {
        Ok(self.script().files.clone())
    }
    async fn reviews(&self, _: &RepoRef, _: i64) -> Result<Vec<Review>> {
        if self.script().is_silent {
            let (what, message) = ("reviews".to_owned(), "502".to_owned());
            return Err(GitHubError::Temporary { what, message });
        }
        Ok(Vec::new())
    }
    async fn permission(&self, _: &RepoRef, login: &str) -> Result<Permission> {
        Ok(self.script().permissions.get(login).copied().unwrap_or(Permission::Write))
    }
    async fn membership(&self, _: &RepoRef, _: &str, _: &str, _: &str) -> Result<Membership> {
        Ok(Membership::None)
    }
    async fn comments(&self, _: &RepoRef, number: i64) -> Result<Vec<Comment>> {
        let comments = self.script().comments.clone();
        Ok(comments.into_iter().filter(|(at, _)| *at == number).map(|(_, comment)| comment).collect())
    }
    async fn create_comment(&self, _: &RepoRef, number: i64, body: &str) -> Result<i64> {
        let mut script = self.writable()?;
        script.told.push(format!("comment on #{number}"));
        let id = script.new_id();
        script.comments.push((number, Comment { id, author: "stackorder[bot]".to_owned(), body: body.to_owned() }));
        Ok(id)
    }
    async fn edit_comment(&self, _: &RepoRef, id: i64, body: &str) -> Result<()> {
        let mut script = self.writable()?;
        let found = script.comments.iter_mut().find(|(_, comment)| comment.id == id);
        found.map(|(_, comment)| body.clone_into(&mut comment.body)).map_or_else(nothing, Ok)
    }
    async fn delete_comment(&self, _: &RepoRef, id: i64) -> Result<()> {
        self.writable()?.comments.retain(|(_, comment)| comment.id != id);
        Ok(())
    }
    async fn react(&self, _: &RepoRef, comment_id: i64, reaction: Reaction) -> Result<()> {
        self.writable()?.reactions.push((comment_id, reaction));
        Ok(())
    }
    async fn create_check(&self, _: &RepoRef, check: &Check) -> Result<i64> {
        let mut script = self.writable()?;
        if script.forbids_checks {
            let (what, message) = ("a check".to_owned(), "Resource not accessible by integration".to_owned());
            return Err(GitHubError::Permanent { status: 403, what, message });
        }
        let id = script.new_id();
        script.checks.insert(id, check.clone());
        if script.is_unheard { Err(temporary("the answer")) } else { Ok(id) }
    }
    async fn update_check(&self, _: &RepoRef, id: i64, check: &Check) -> Result<()> {
        let mut script = self.writable()?;
        let known = script.checks.get_mut(&id).map(|known| *known = check.clone());
        if script.is_unheard {
            return Err(temporary("the answer"));
        }
        known.map_or_else(nothing, Ok)
    }
    async fn checks(&self, _: &RepoRef, sha: &Sha, name: Option<&str>) -> Result<Vec<CheckRunFacts>> {
        let script = self.script();
        let wanted = script
            .checks
            .iter()
            .filter(|(_, check)| check.head_sha == *sha && name.is_none_or(|name| check.name == name));
        let facts = |(id, check): (&i64, &Check)| CheckRunFacts {
            id: *id,
            name: check.name.clone(),
            app_slug: "stackorder".to_owned(),
            completed: matches!(check.status, CheckStatus::Completed(_)),
            conclusion: match check.status {
                CheckStatus::Completed(conclusion) => conclusion.as_str().to_owned(),
                CheckStatus::Queued | CheckStatus::InProgress => String::new(),
            },
        };
        Ok(wanted.map(facts).collect())
    }
    async fn issues(&self, _: &RepoRef, _: &str) -> Result<Vec<Issue>> {
        Ok(self.script().issues.clone())
    }
    async fn create_issue(&self, _: &RepoRef, title: &str, body: &str, _: &str) -> Result<i64> {
        let mut script = self.writable()?;
        let rival = script.rival_issue.take();
        script.issues.extend(rival);
        script.issues.push(Issue { number: 40, title: title.to_owned(), body: body.to_owned() });
        script.told.push(format!("open {title}"));
        Ok(40)
    }
    async fn edit_issue(&self, _: &RepoRef, number: i64, body: &str) -> Result<()> {
        let mut script = self.writable()?;
        script.told.push(format!("edit #{number}"));
        let found = script.issues.iter_mut().find(|issue| issue.number == number);
        found.map(|issue| body.clone_into(&mut issue.body)).map_or_else(nothing, Ok)
    }
    async fn close_issue(&self, _: &RepoRef, number: i64) -> Result<()> {
        if self.script().is_stubborn {
            return nothing();
        }
        self.note(format!("close #{number}"));
        self.script().issues.retain(|issue| issue.number != number);
        Ok(())
    }
    async fn dispatch(&self, _: &RepoRef, request: &DispatchRequest) -> Result<Option<i64>> {
        self.note(format!("dispatch {}", request.mode));
        let answer = self.script().answer_to_dispatch;
        match answer {
            Answer::Taken => Ok(None),
            Answer::TakenBy(id) => Ok(Some(id)),
            Answer::Lost => Err(temporary("a dispatch")),
            Answer::Rejected => {
                let (what, message) = ("a dispatch".to_owned(), "no such workflow".to_owned());
                Err(GitHubError::Permanent { status: 422, what, message })
            }
        }
    }
    async fn dispatched_runs(&self, _: &RepoRef, _: Millis) -> Result<Vec<WorkflowRunFacts>> {
        Ok(self.script().dispatched.clone())
    }
    async fn plan_runs(&self, _: &RepoRef, _: &Sha) -> Result<Vec<WorkflowRunFacts>> {
        Ok(self.script().plan_runs.clone())
    }
    async fn workflow_run(&self, _: &RepoRef, id: i64) -> Result<WorkflowRunFacts> {
        let script = self.script();
        if script.forgets_runs {
            return nothing();
        }
        let mut known = script.workflow_runs.iter().chain(&script.plan_runs).chain(&script.dispatched);
        known.find(|facts| facts.id == id).cloned().map_or_else(nothing, Ok)
    }
    async fn rerun(&self, _: &RepoRef, id: i64) -> Result<()> {
        self.writable()?.told.push(format!("rerun {id}"));
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
