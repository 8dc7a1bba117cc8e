//! Plan runs that the server starts: `stackorder plan`, a re-run, a changed base (spec 30 §4.7).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::comments::{CommandComment, NO_WRITE_PERMISSION, Outcome, refused_text};
use super::{App, Result, Subject, repo_ref};
use crate::github::api::PullRequest;
use crate::github::webhook::CheckRunEvent;
use crate::graph::model::Graph;
use crate::graph::resolve::{ResolveRequest, resolve};
use crate::guide::Topic;
use crate::ids::{RunId, Sha, StackKey, normalise_key};
use crate::run::locks;
use crate::run::model::{Repo, Row, Run};
use crate::run::next::Next;
use crate::run::plan_start;
use crate::run::plan_view::PlanView;
use crate::run::scene::Scene;
use crate::run::status::{Mode, RunStatus, Trigger};
use crate::run::supersede;
use crate::run::waves::fresh_plan_row;
use crate::store::RunFilter;

/// Which stacks of the head to plan again, and on whose word.
#[derive(Debug, Clone)]
pub(super) struct PlanRequest {
    pub id: RunId,
    pub trigger: Trigger,
    pub requested_by: String,
    /// As named; empty means every stack of the plan view, or what the files reach.
    pub keys: Vec<String>,
    /// Files of the pull request, for a head without a plan view.
    pub files: Vec<String>,
    /// Resolve from the files even if there is a plan view: its base has changed.
    pub from_files: bool,
}

impl App {
    pub(super) async fn plan_commented(&self, repo: &Repo, comment: &CommandComment) -> Result<()> {
        let github = repo_ref(repo);
        let pull = self.github.pull_request(&github, comment.number).await?;
        let refuse = |reason: &str| Outcome::refused(reason, refused_text(&comment.command, reason));
        if !pull.open {
            return self.decide_comment(repo, comment, |_| refuse("the pull request is closed")).await;
        }
        if pull.from_fork {
            return self.decide_comment(repo, comment, |_| refuse("the pull request comes from a fork")).await;
        }
        if !self.has_graph(repo, &pull).await? {
            return self.plan_workflow_again(repo, comment, &pull.head_sha).await;
        }
        let request = PlanRequest {
            id: self.new_run_id(),
            trigger: Trigger::Comment,
            requested_by: comment.author.clone(),
            keys: comment.command.keys.clone(),
            files: self.github.pull_request_files(&github, comment.number).await?,
            from_files: false,
        };
        self.decide_comment(repo, comment, |next| match start_plan(next, &request, &pull) {
            Ok(id) => Outcome::started(&id),
            Err(reason) => refuse(&reason),
        })
        .await
    }

    /// The base is another one: what was planned against the old one is superseded, and planned again. One decision, once for
    /// each delivery, so that a repeated one does not do away with the fresh plan.
    pub(super) async fn base_changed(&self, repo: &Repo, number: i64, delivery: &str) -> Result<()> {
        let once = format!("base_changed:{}:{number}:{delivery}", repo.id);
        if self.store.was_claimed(&once).await? {
            return Ok(());
        }
        let github = repo_ref(repo);
        let pull = self.github.pull_request(&github, number).await?;
        let planned = pull.open && !pull.from_fork;
        let request = PlanRequest {
            id: self.new_run_id(),
            trigger: Trigger::Rerequest,
            requested_by: pull.author.clone(),
            keys: Vec::new(),
            files: if planned { self.github.pull_request_files(&github, number).await? } else { Vec::new() },
            from_files: true,
        };
        let subject = Subject::Pull { repo_id: repo.id, number };
        let started = self.decide(&subject, |next| {
            next.effects.once.push(once.clone());
            supersede::base_changed(next, &pull.head_sha);
            planned.then(|| start_plan(next, &request, &pull))
        });
        if let Some(Some(Err(reason))) = started.await? {
            tracing::info!(repo = %repo.full_name, number, reason, "nothing to plan after the base changed");
        }
        Ok(())
    }

    /// "Re-run" on a plan check: that stack, or all of them, once for each delivery.
    pub(super) async fn check_rerequested(&self, repo: &Repo, event: &CheckRunEvent, delivery: &str) -> Result<()> {
        let CheckRunEvent { name, head_sha, sender, .. } = event;
        let once = format!("check_rerequested:{}:{delivery}", repo.id);
        let keys = match name.strip_prefix("stackorder/plan") {
            Some("") => Vec::new(),
            Some(rest) => match rest.strip_prefix(": ") {
                Some(key) => vec![key.to_owned()],
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        let github = repo_ref(repo);
        if self.store.was_claimed(&once).await? {
            return Ok(());
        }
        if !self.github.permission(&github, sender).await?.can_push() {
            let subject = Subject::Pull { repo_id: repo.id, number: 0 };
            self.decide(&subject, |next| {
                next.effects.once.push(once.clone());
                let details = serde_json::json!({
                    "repo": repo.full_name, "check": name, "accepted": false, "reason": NO_WRITE_PERMISSION,
                });
                next.audit(sender, "rerun", repo.full_name.to_string(), details);
            })
            .await?;
            return Ok(());
        }
        let filter = RunFilter {
            repo_id: Some(repo.id),
            sha: Some(head_sha.clone()),
            mode: Some(Mode::Plan),
            limit: 1,
            ..RunFilter::default()
        };
        let Some(run) = self.store.runs(&filter).await?.into_iter().next() else { return Ok(()) };
        if run.pr_number == 0 {
            return Ok(());
        }
        let pull = self.github.pull_request(&github, run.pr_number).await?;
        if !pull.open || pull.head_sha != run.sha {
            return Ok(());
        }
        let request = PlanRequest {
            id: self.new_run_id(),
            trigger: Trigger::Rerequest,
            requested_by: sender.clone(),
            keys,
            files: Vec::new(),
            from_files: false,
        };
        let subject = Subject::Pull { repo_id: repo.id, number: run.pr_number };
        self.decide(&subject, |next| {
            next.effects.once.push(once.clone());
            next.caused_by(sender, "check re-run");
            let started = start_plan(next, &request, &pull);
            let target = next.scene.repo.full_name.to_string();
            let details = serde_json::json!({
                "repo": next.scene.repo.full_name, "pr": pull.number, "check": name, "accepted": started.is_ok(),
                "new_run_id": started.as_ref().ok(), "reason": started.as_ref().err(),
            });
            next.audit(sender, "rerun", target, details);
        })
        .await?;
        Ok(())
    }

    async fn has_graph(&self, repo: &Repo, pull: &PullRequest) -> Result<bool> {
        let scene = self.store.pull_scene(repo.id, pull.number).await?;
        Ok(scene.is_some_and(|scene| planned_before(&scene, &pull.head_sha).is_some()))
    }
}

/// The newest plan run of this head whose graph is known. A superseded one counts: a changed base does away with its plans, and
/// what the head consists of stays.
fn planned_before<'s>(scene: &'s Scene, head: &Sha) -> Option<(&'s Run, &'s Arc<Graph>)> {
    let runs = scene.newest_first().into_iter().filter(|run| run.mode == Mode::Plan && run.sha == *head);
    let (gone, current): (Vec<&Run>, Vec<&Run>) = runs.partition(|run| run.status == RunStatus::Superseded);
    current.into_iter().chain(gone).find_map(|run| Some((run, scene.graph_of(run)?)))
}

/// Starts a dispatched plan run of the head, or says in words why not.
fn start_plan(next: &mut Next, request: &PlanRequest, pull: &PullRequest) -> std::result::Result<RunId, String> {
    let head = &pull.head_sha;
    let view = PlanView::of(&next.scene, &[head]);
    let (before, graph) = planned_before(&next.scene, head).ok_or("there is no graph of this head yet")?;
    let mut run = Run {
        commit_message: before.commit_message.clone(),
        commit_author: before.commit_author.clone(),
        head_ref: pull.head_ref.clone(),
        graph_sha: before.graph_sha.clone(),
        ..plan_start::blank_run(
            next,
            request.id.clone(),
            head.clone(),
            Mode::Plan,
            request.trigger,
            &request.requested_by,
        )
    };
    let known: BTreeMap<StackKey, Row> = view.rows.iter().map(|(key, row)| (key.clone(), (*row).clone())).collect();
    let wanted: BTreeSet<String> =
        request.keys.iter().map(|key| normalise_key(key)).filter(|key| !key.is_empty()).collect();
    let named = !request.keys.is_empty();

    let rows = if named || known.is_empty() || request.from_files {
        let resolution = resolve(
            graph,
            &next.policy,
            &ResolveRequest {
                changed_paths: request.files.clone(),
                requested: request.keys.clone(),
                applied: locks::applied(next),
                sha: head.to_string(),
                ..ResolveRequest::default()
            },
        );
        if !resolution.cycles.is_empty() {
            return Err("the stacks form a dependency cycle".to_owned());
        }
        for key in &wanted {
            if !graph.stacks.iter().any(|stack| stack.key == *key && !stack.external) {
                run.warn_about(Topic::NoSuchStack.anchor(), format!("{key} is no stack of this head"));
            }
        }
        resolution
            .affected
            .iter()
            .filter_map(|affected| plan_start::pending_row(&run, affected, next.now))
            .map(|row| match known.get(&row.key) {
                // A targeted re-plan keeps why the stack is affected.
                Some(earlier) if !request.from_files => fresh_plan_row(earlier, &run.id, next.now),
                Some(_) | None => row,
            })
            .collect::<Vec<_>>()
    } else {
        known.values().map(|row| fresh_plan_row(row, &run.id, next.now)).collect()
    };
    if rows.is_empty() {
        return Err(if named {
            "none of the named keys is a stack of this head".to_owned()
        } else {
            "this pull request reaches no stack".to_owned()
        });
    }
    let waves: BTreeMap<StackKey, u32> = known.iter().map(|(key, row)| (key.clone(), row.wave)).collect();
    let rows: Vec<Row> =
        rows.into_iter().map(|row| Row { wave: waves.get(&row.key).copied().unwrap_or(row.wave), ..row }).collect();
    run.waves = rows.iter().map(|row| row.wave + 1).max().unwrap_or(1);
    Ok(plan_start::start(next, run, rows))
}
