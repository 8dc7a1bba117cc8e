//! The bodies of events, and the state's ways to send them.

use serde_json::{Value, json};

use crate::actions::model::{Job, WorkflowRun};
use crate::git::{Commit, NO_COMMIT};
use crate::shapes::{self, extend, iso};
use crate::state::State;
use crate::state::repositories::Repository;
use std::sync::Arc;

/// One ref that moved.
pub struct RefMove<'a> {
    /// `refs/heads/main`.
    pub name: &'a str,
    pub before: &'a str,
    pub after: &'a str,
    pub forced: bool,
    /// Newest first.
    pub commits: &'a [Arc<Commit>],
}

impl State {
    /// The members every event of a repository has.
    fn about(&self, repo: &Repository, action: &str, sender: &str) -> Value {
        let mut payload = json!({
            "action": action,
            "repository": shapes::repository(self, repo),
            "sender": shapes::user(self, sender),
        });
        if let Some(owner) = self.account(&repo.owner)
            && owner.kind == crate::state::accounts::Kind::Organization
        {
            payload["organization"] = shapes::organization(self, owner);
        }
        payload
    }

    /// `pull_request`; `more` adds what only some actions have. The payload, for `github.event`.
    pub fn emit_pull_request(&mut self, repo: &str, number: i64, action: &str, sender: &str, more: Value) -> Value {
        let Some((found, (issue, pull))) = self.repository(repo).zip(self.pull(repo, number)) else {
            return Value::Null;
        };
        let mut payload = self.about(found, action, sender);
        let mut shape = shapes::pull(self, found, issue, pull);
        // The test merge is computed afterwards; GitHub's payloads say so.
        if matches!(action, "opened" | "synchronize" | "reopened") {
            shape = shapes::forget_mergeability(shape);
        }
        extend(&mut shape, json!({"allow_auto_merge": false, "allow_update_branch": false}));
        payload["number"] = json!(number);
        payload["pull_request"] = shape;
        extend(&mut payload, more);
        self.emit("pull_request", Some(repo), payload.clone());
        payload
    }

    pub fn emit_review(&mut self, repo: &str, number: i64, review: i64, action: &str, sender: &str) {
        let Some((found, (issue, pull))) = self.repository(repo).zip(self.pull(repo, number)) else { return };
        let Some(given) = pull.reviews.iter().find(|given| given.id == review) else { return };
        let mut payload = self.about(found, action, sender);
        payload["review"] = shapes::review(self, found, number, given);
        payload["review"]["state"] = json!(given.state.to_lowercase());
        payload["pull_request"] = shapes::simple_pull(self, found, issue, pull);
        self.emit("pull_request_review", Some(repo), payload);
    }

    pub fn emit_comment(&mut self, comment: i64, action: &str, sender: &str, changes: Option<Value>) {
        let Some(given) = self.comments.get(&comment).cloned() else { return };
        let Some((found, issue)) = self.repository(&given.repo).zip(self.issue(&given.repo, given.number)) else {
            return;
        };
        let mut payload = self.about(found, action, sender);
        payload["issue"] = shapes::issue(self, found, issue);
        payload["comment"] = shapes::comment(self, &given);
        if let Some(changes) = changes {
            payload["changes"] = changes;
        }
        self.emit("issue_comment", Some(&given.repo), payload);
    }

    pub fn emit_issue(&mut self, repo: &str, number: i64, action: &str, sender: &str) {
        let Some((found, issue)) = self.repository(repo).zip(self.issue(repo, number)) else { return };
        let mut payload = self.about(found, action, sender);
        payload["issue"] = shapes::issue(self, found, issue);
        self.emit("issues", Some(repo), payload);
    }

    /// `push`; the payload, for `github.event`.
    pub fn emit_push(&mut self, repo: &str, moved: &RefMove, pusher: &str) -> Value {
        let Some(found) = self.repository(repo) else { return Value::Null };
        let (created, deleted) = (moved.before == NO_COMMIT, moved.after == NO_COMMIT);
        let compare = if created {
            format!("{}/{repo}/commit/{}", self.site.web, moved.after)
        } else {
            format!("{}/{repo}/compare/{}...{}", self.site.web, short(moved.before), short(moved.after))
        };
        // GitHub lists the oldest first, 2,048 at most; each costs a diff here, so a long history is cut sooner.
        const COMMITS_MAX: usize = 100;
        let commits: Vec<Value> = moved
            .commits
            .iter()
            .take(COMMITS_MAX)
            .rev()
            .map(|commit| shapes::pushed_commit(self, repo, commit))
            .collect();
        let head = (!deleted).then(|| self.site.git.commit(repo, moved.after)).flatten();
        let mut repository = shapes::repository(self, found);
        extend(
            &mut repository,
            json!({
                "created_at": found.created_at / 1000, "pushed_at": found.pushed_at / 1000, "master_branch": found.default_branch,
                "stargazers": 0,
            }),
        );
        let account = self.account(pusher);
        let mut payload = self.about(found, "", pusher);
        if let Some(members) = payload.as_object_mut() {
            members.remove("action");
        }
        extend(
            &mut payload,
            json!({
                "ref": moved.name,
                "before": moved.before,
                "after": moved.after,
                "base_ref": null,
                "created": created,
                "deleted": deleted,
                "forced": moved.forced,
                "compare": compare,
                "commits": commits,
                "head_commit": head.map(|commit| shapes::pushed_commit(self, repo, &commit)),
                "pusher": {"name": pusher, "email": account.map(|account| account.email())},
                "repository": repository,
            }),
        );
        self.emit("push", Some(repo), payload.clone());
        payload
    }

    pub fn emit_check_run(&mut self, check: i64, action: &str, sender: &str) {
        let Some(run) = self.check_runs.get(&check) else { return };
        let (app, name) = (run.app, run.repo.clone());
        let Some(found) = self.repository(&name) else { return };
        let mut payload = self.about(found, action, sender);
        let mut shape = shapes::check_run(self, run);
        // This event knows no `waiting`, though the API does.
        if run.status == "waiting" {
            shape["status"] = json!("queued");
        }
        if let Some(suite) = self.check_suites.get(&run.suite) {
            let full = shapes::check_suite(self, found, suite);
            let members =
                ["id", "node_id", "head_branch", "head_sha", "status", "conclusion", "url", "before", "after"];
            for member in members.into_iter().chain(["pull_requests", "app", "created_at", "updated_at", "repository"])
            {
                shape["check_suite"][member] = full[member].clone();
            }
        }
        payload["check_run"] = shape;
        match action {
            // A request to run again goes only to the app whose check it is.
            "rerequested" | "requested_action" => {
                let Some(installation) = self.installation_of(app, &name).map(|installation| installation.id) else {
                    return;
                };
                let repository = self.repository(&name).map(|repo| repo.id);
                payload["installation"] = shapes::installation_reference(installation);
                self.queue_delivery(app, "check_run", Some(installation), repository, payload);
            }
            _ => self.emit("check_run", Some(&name), payload),
        }
    }

    pub fn emit_check_suite(&mut self, suite: i64, action: &str, sender: &str) {
        let Some(known) = self.check_suites.get(&suite) else { return };
        let (app, name) = (known.app, known.repo.clone());
        let Some(found) = self.repository(&name) else { return };
        let mut payload = self.about(found, action, sender);
        payload["check_suite"] = shapes::check_suite(self, found, known);
        let Some(installation) = self.installation_of(app, &name) else { return };
        if !installation.events.iter().any(|event| event == "check_suite") {
            return;
        }
        let (installation, repository) = (installation.id, found.id);
        payload["installation"] = shapes::installation_reference(installation);
        self.queue_delivery(app, "check_suite", Some(installation), Some(repository), payload);
    }

    pub fn emit_workflow_run(&mut self, run: &WorkflowRun, action: &str) {
        let Some(found) = self.repository(&run.repo) else { return };
        let mut payload = self.about(found, action, &run.triggering_actor);
        let facts = crate::actions::model::WorkflowFacts {
            id: run.workflow_id,
            repo: run.repo.clone(),
            path: run.path.clone(),
            name: run.workflow_name.clone(),
        };
        payload["workflow_run"] = shapes::workflow_run(self, found, run);
        payload["workflow"] = shapes::workflow(self, found, &facts);
        self.emit("workflow_run", Some(&run.repo), payload);
    }

    pub fn emit_workflow_job(&mut self, run: &WorkflowRun, job: &Job, action: &str) {
        let Some(found) = self.repository(&run.repo) else { return };
        let mut payload = self.about(found, action, &run.triggering_actor);
        payload["workflow_job"] = shapes::job(self, job);
        self.emit("workflow_job", Some(&run.repo), payload);
    }

    /// Asks the app behind an environment's custom protection rule.
    pub fn emit_protection_rule(&mut self, run: &WorkflowRun, job: &Job) {
        let Some(name) = job.environment.as_deref() else { return };
        let Some(found) = self.repository(&run.repo) else { return };
        if !found.environment(name).is_some_and(|stored| stored.rules.protection_rule_app) {
            return;
        }
        let mut payload = self.about(found, "requested", &run.triggering_actor);
        let pulls: Vec<Value> = run
            .pull_request
            .and_then(|number| self.pull(&run.repo, number))
            .map(|(issue, pull)| shapes::simple_pull(self, found, issue, pull))
            .into_iter()
            .collect();
        extend(
            &mut payload,
            json!({
                "environment": name,
                "event": run.event,
                "sha": run.sha,
                "ref": run.git_ref,
                "deployment_callback_url": format!(
                    "{}/actions/runs/{}/deployment_protection_rule", shapes::repository_url(self, &run.repo), run.id
                ),
                "pull_requests": pulls,
            }),
        );
        // One question per environment, however many jobs of a matrix wait for the answer.
        if self.asked_rules.insert((run.id, name.to_lowercase())) {
            self.emit("deployment_protection_rule", Some(&run.repo), payload);
        }
    }

    /// `installation` events go to the app itself, subscribed or not.
    pub fn emit_installation(&mut self, installation: i64, action: &str, sender: &str) {
        let Some(known) = self.installations.get(&installation) else { return };
        let app = known.app;
        let mut payload = json!({
            "action": action,
            "installation": shapes::installation(self, known),
            "sender": shapes::user(self, sender),
        });
        if matches!(action, "created" | "deleted") {
            payload["repositories"] = json!(self.repository_stubs(&self.installed_repositories(known)));
            payload["requester"] = Value::Null;
        }
        self.queue_delivery(app, "installation", Some(installation), None, payload);
    }

    pub fn emit_installation_repositories(
        &mut self,
        installation: i64,
        added: &[String],
        removed: &[String],
        sender: &str,
    ) {
        let Some(known) = self.installations.get(&installation) else { return };
        let app = known.app;
        let payload = json!({
            "action": if added.is_empty() { "removed" } else { "added" },
            "installation": shapes::installation(self, known),
            "repository_selection": if known.repositories.is_some() { "selected" } else { "all" },
            "repositories_added": self.repository_stubs(added),
            "repositories_removed": self.repository_stubs(removed),
            "requester": null,
            "sender": shapes::user(self, sender),
        });
        self.queue_delivery(app, "installation_repositories", Some(installation), None, payload);
    }

    pub fn emit_ping(&mut self, app: i64) {
        let Some(record) = self.apps.get(&app) else { return };
        let payload = json!({
            "zen": "Anything added dilutes everything else.",
            "hook_id": record.hook_id,
            "hook": {
                "type": "App",
                "id": record.hook_id,
                "name": "web",
                "active": true,
                "events": record.events,
                "config": {
                    "content_type": "json", "insecure_ssl": "0", "secret": "********",
                    "url": record.webhook_url.clone().unwrap_or_default(),
                },
                "updated_at": iso(record.created_at),
                "created_at": iso(record.created_at),
                "app_id": record.id,
                "deliveries_url": format!("{}/app/hook/deliveries", self.site.api()),
            },
        });
        self.queue_delivery(app, "ping", None, None, payload);
    }

    fn repository_stubs(&self, names: &[String]) -> Vec<Value> {
        let found = names.iter().filter_map(|name| self.repository(name));
        found
            .map(|repo| {
                json!({
                    "id": repo.id, "node_id": shapes::node_id("Repository", repo.id), "name": repo.name,
                    "full_name": repo.full_name, "private": repo.private,
                })
            })
            .collect()
    }
}

fn short(sha: &str) -> &str {
    sha.get(..12).unwrap_or(sha)
}
