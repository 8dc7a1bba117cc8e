//! Check runs, and people's decisions about deployments.

use crate::hub::Hub;
use crate::state::checks::CheckRun;

impl Hub {
    /// Stores a check run that an app created or changed, and tells the apps.
    pub(crate) fn store_check_run(&self, run: CheckRun, created: bool, sender: &str) {
        self.act(|state| {
            let (id, suite, completed) = (run.id, run.suite, run.status == "completed");
            let was_completed = state.check_runs.get(&id).is_some_and(|before| before.status == "completed");
            let now = state.now();
            state.check_runs.insert(id, run);
            if let Some(suite) = state.check_suites.get_mut(&suite) {
                suite.updated_at = now;
            }
            if created {
                state.emit_check_run(id, "created", sender);
            }
            if completed && !was_completed {
                state.emit_check_run(id, "completed", sender);
            }
        });
    }

    /// A person presses "Re-run" beside a check.
    pub fn rerequest_check(&self, check: i64, by: &str) -> bool {
        self.act(|state| {
            let known = state.check_runs.contains_key(&check);
            if known {
                state.emit_check_run(check, "rerequested", by);
            }
            known
        })
    }

    /// The newest check run of each name and app at a commit, by name.
    pub fn check_runs(&self, repo: &str, sha: &str) -> Vec<CheckRun> {
        let state = self.lock();
        let mut runs: Vec<CheckRun> = state.latest_check_runs(repo, sha).into_iter().cloned().collect();
        runs.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        runs
    }

    /// Every check run of a commit, older ones of the same name included, by id.
    pub fn all_check_runs(&self, repo: &str, sha: &str) -> Vec<CheckRun> {
        let state = self.lock();
        state.check_runs.values().filter(|run| run.repo == repo && run.head_sha == sha).cloned().collect()
    }

    /// A reviewer approves what an environment holds of a run, or says why that is not theirs to do.
    pub fn approve_deployments(&self, repo: &str, run: i64, environment: &str, by: &str) -> Result<(), String> {
        self.review_deployments(repo, run, &[environment.to_owned()], true, by, "")
    }

    pub fn reject_deployments(&self, repo: &str, run: i64, environment: &str, by: &str) -> Result<(), String> {
        self.review_deployments(repo, run, &[environment.to_owned()], false, by, "")
    }

    pub(crate) fn review_deployments(
        &self,
        repo: &str,
        run: i64,
        environments: &[String],
        approved: bool,
        by: &str,
        comment: &str,
    ) -> Result<(), String> {
        let found = self.engine().run(run).filter(|found| found.repo == repo).ok_or("no such run")?;
        let pending = self.engine().pending(run);
        for name in environments {
            let held = pending.iter().find(|held| held.environment.eq_ignore_ascii_case(name));
            let held = held.ok_or_else(|| format!("{name} is not waiting for an approval"))?;
            let state = self.lock();
            if !held.reviewers.iter().any(|reviewer| state.is_reviewer(repo, reviewer, by)) {
                return Err(format!("{by} is not a required reviewer of {name}"));
            }
            let rules = state.repository(repo).and_then(|repo| repo.environment(name));
            if rules.is_some_and(|stored| stored.rules.prevent_self_review) && found.triggering_actor == by {
                return Err(format!("{by} started this run and may not review it"));
            }
        }
        if self.engine().review(run, environments, approved, by, comment).is_empty() {
            return Err("nothing was waiting for this review".to_owned());
        }
        Ok(())
    }
}
