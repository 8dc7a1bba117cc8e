//! Writing checks and comments: the newest content wins, equal content is not sent (spec 24 §4–§5, I14).
//!
//! One writer at a time per pull request: a lease row, because no transaction may span a call to GitHub.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::bells::Queue;
use super::workers::{LEASE_MS, RENEW_EVERY, while_held};
use super::{App, Error, Result, repo_ref};
use crate::clock::Millis;
use crate::github::api::{Check, GitHubError, Reaction, RepoRef};
use crate::ids::{RunId, Sha, StackKey, hex};
use crate::render::{self, Context};
use crate::run::model::Repo;
use crate::run::scene::{NewJob, Scene};
use crate::run::status::{Mode, RunStatus};
use crate::store::{Rendered, RunFilter};

/// Most plan texts loaded for one rendering; the comment has no room for more.
const PLAN_TEXTS_MAX: usize = 60;
/// The newest plans of a repository among which locks are shown: more pull requests are hardly ever open at a time.
const PLANS_LOOKED_AT: u32 = 200;
/// Name of the sticky comment among what was rendered.
const STICKY: &str = "sticky";

/// In place of the id of a check that is being created: it may be there, or not.
const BEING_CREATED: i64 = -1;

/// What came too early to be written now: the rendering goes on with the rest and comes back for it.
#[derive(Debug, Default)]
struct Later {
    earliest: Option<Millis>,
}

impl Later {
    /// Keeps when it may be tried again; other failures end the rendering.
    fn take(&mut self, written: Result<Option<Millis>>) -> Result<()> {
        let until = match written {
            Err(Error::GitHub(GitHubError::Deferred { until, .. })) => Some(until),
            written => written?,
        };
        self.earliest = self.earliest.into_iter().chain(until).min();
        Ok(())
    }

    fn end(self) -> Result<()> {
        self.earliest.map_or(Ok(()), |until| Err(deferred("a rendering", until)))
    }
}

/// The App lacks a permission: nothing that a retry could mend.
fn is_forbidden(error: &Error) -> bool {
    // An archived repository is answered with 403, too.
    matches!(error, Error::GitHub(GitHubError::Permanent { status: 403, message, .. }) if message.contains("not accessible"))
}

fn deferred(what: &str, until: Millis) -> Error {
    Error::GitHub(GitHubError::Deferred { what: what.to_owned(), until })
}

/// Whether a rendering was done, or somebody else is at it.
pub(super) enum Turn {
    Done,
    Busy,
}

impl App {
    /// Checks and comments of a pull request.
    pub(super) async fn render_pull(&self, repo: &Repo, number: i64, holder: &str) -> Result<Turn> {
        let lease = format!("render:pr:{}:{number}", repo.id);
        let take = || self.store.take_lease(&lease, holder, self.now(), LEASE_MS);
        if !take().await? {
            return Ok(Turn::Busy);
        }
        let rendering = self.render_pull_now(repo, number);
        let Some(done) = while_held(RENEW_EVERY, take, rendering).await else { return Ok(Turn::Busy) };
        let held = self.store.lease(&lease).await?.is_some_and(|lease| lease.holder == holder);
        self.store.release_lease(&lease, holder).await?;
        done?;
        // Somebody else had the lease meanwhile and may have written before this did: what is newest is written once more.
        Ok(if held { Turn::Done } else { Turn::Busy })
    }

    /// Asks for a rendering of each pull request whose newest plan has one of these stacks: who locks them has changed.
    pub(super) async fn show_locks(&self, repo: &Repo, keys: &BTreeSet<StackKey>) -> Result<()> {
        let filter = RunFilter {
            repo_id: Some(repo.id),
            mode: Some(Mode::Plan),
            status: Some(RunStatus::Planned),
            limit: PLANS_LOOKED_AT,
            ..RunFilter::default()
        };
        let mut numbers = BTreeSet::new();
        for plan in self.store.runs(&filter).await?.into_iter().filter(|plan| plan.pr_number != 0) {
            if numbers.contains(&plan.pr_number) {
                continue;
            }
            if self.store.rows(&plan.id).await?.iter().any(|row| keys.contains(&row.key)) {
                numbers.insert(plan.pr_number);
            }
        }
        for number in numbers {
            self.store.add_job(&NewJob::rendering(repo.id, number, self.now())).await?;
        }
        self.bells.ring(Queue::Outbox);
        Ok(())
    }

    async fn render_pull_now(&self, repo: &Repo, number: i64) -> Result<()> {
        let Some(scene) = self.store.pull_scene(repo.id, number).await? else { return Ok(()) };
        if scene.runs.is_empty() || scene.repo.suspended {
            return Ok(());
        }
        let mut context = self.context(&scene).await?;
        let github = repo_ref(&scene.repo);
        let mut later = Later::default();
        // What a merge waits for, then what everybody reads, then what says the same once more (design §8).
        let (of_stacks, roll_ups): (Vec<Check>, Vec<Check>) =
            render::checks::desired(&scene, &context).into_iter().partition(Check::is_of_one_stack);
        let written = self.write_checks(&github, &roll_ups).await;
        context.checks_refused = written.as_ref().is_err_and(is_forbidden);
        if context.checks_refused {
            self.render_comments(&github, &scene, &context, &mut later).await?;
            return later.end();
        }
        later.take(written)?;
        for (sha, run) in superseded_commits(&scene) {
            let existing = self.store.rendered_in(&checks_scope(&github, &sha)).await?;
            let names: BTreeSet<String> = existing.into_keys().collect();
            let superseded = render::checks::superseded(&scene, &run, &names, &context);
            later.take(self.write_checks(&github, &superseded).await)?;
        }
        self.render_comments(&github, &scene, &context, &mut later).await?;
        later.take(self.write_checks(&github, &of_stacks).await)?;
        later.end()
    }

    async fn render_comments(
        &self,
        github: &RepoRef,
        scene: &Scene,
        context: &Context,
        later: &mut Later,
    ) -> Result<()> {
        let number = scene.pr_number;
        if let Some(body) = render::sticky::comment(scene, context) {
            later.take(self.write_own_comment(github, number, STICKY, render::sticky::MARKER, &body, true).await)?;
        }
        for run in scene.runs.values().filter(|run| run.mode == Mode::Apply) {
            if let Some(body) = render::run_comment::comment(scene, &run.id, context) {
                let marker = render::run_comment::marker(&run.id);
                let name = format!("run:{}", run.id);
                later.take(self.write_own_comment(github, number, &name, &marker, &body, false).await)?;
            }
        }
        Ok(())
    }

    async fn context(&self, scene: &Scene) -> Result<Context> {
        let mut plan_texts = BTreeMap::new();
        let shown = scene.runs.values().filter(|run| run.mode == Mode::Plan && run.status != RunStatus::Superseded);
        let rows = shown.flat_map(|run| scene.rows(&run.id)).filter(|row| row.has_plan_text && row.has_changes);
        for row in rows.take(PLAN_TEXTS_MAX) {
            if let Some(text) = self.store.plan_text(&row.run_id, &row.stack_id).await? {
                plan_texts.insert((row.run_id.clone(), row.key.clone()), text);
            }
        }
        let mut pending: BTreeMap<RunId, Vec<(String, i64)>> = BTreeMap::new();
        let waiting = scene.dispatches.values().filter(|dispatch| {
            let held = scene
                .rows(&dispatch.run_id)
                .any(|row| row.waiting_for_approval && row.dispatch_id.as_ref() == Some(&dispatch.id));
            held && dispatch.completed_at.is_none()
        });
        for dispatch in waiting {
            if let Some(workflow_run_id) = dispatch.workflow_run_id {
                pending
                    .entry(dispatch.run_id.clone())
                    .or_default()
                    .push((dispatch.environment.clone(), workflow_run_id));
            }
        }
        Ok(Context {
            base_url: self.addresses.base_url.clone(),
            web_url: self.addresses.web_url.clone(),
            now: self.now(),
            plan_texts,
            pending,
            checks_refused: false,
        })
    }

    /// In their order; when the first that came too early may be written. What was noted of all checks of a commit is read at
    /// once: most of them are as they were.
    pub(super) async fn write_checks(&self, github: &RepoRef, checks: &[Check]) -> Result<Option<Millis>> {
        let mut too_early = None;
        let mut known: BTreeMap<&Sha, BTreeMap<String, Rendered>> = BTreeMap::new();
        for check in checks {
            if !known.contains_key(&check.head_sha) {
                let scope = checks_scope(github, &check.head_sha);
                known.insert(&check.head_sha, self.store.rendered_in(&scope).await?);
            }
            let until = self.write_check(github, check, known[&check.head_sha].get(&check.name)).await?;
            too_early = too_early.into_iter().chain(until).min();
        }
        Ok(too_early)
    }

    /// When something written before may be edited again, if that is not now.
    fn too_early(&self, github: &RepoRef, known: &Rendered) -> Option<Millis> {
        let until = known.written_at + self.github.edit_every(github);
        (until > self.now()).then_some(until)
    }

    /// Updates by id, creates when unknown or gone, and sends nothing that GitHub already has. When it may, if that is too
    /// early now.
    ///
    /// That it is about to be written is noted first: whoever comes after a writer that died knows that what was noted as
    /// written before may not be what GitHub shows.
    async fn write_check(&self, github: &RepoRef, check: &Check, known: Option<&Rendered>) -> Result<Option<Millis>> {
        let scope = checks_scope(github, &check.head_sha);
        let digest = digest_of_check(check);
        if known.is_some_and(|known| known.digest == digest) {
            return Ok(None);
        }
        let id = known.map(|known| known.github_id);
        if id != Some(BEING_CREATED)
            && let Some(until) = known.and_then(|known| self.too_early(github, known))
        {
            return Ok(Some(until));
        }
        let begun = Rendered { github_id: id.unwrap_or(BEING_CREATED), digest: String::new(), written_at: self.now() };
        self.store.save_rendered(&scope, &check.name, &begun).await?;
        let id = match id {
            Some(BEING_CREATED) => self.find_own_check(github, check).await?,
            id => id,
        };
        let updated = match id {
            Some(id) => match self.github.update_check(github, id, check).await {
                Ok(()) => Some(id),
                Err(GitHubError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            },
            None => None,
        };
        let id = match updated {
            Some(id) => id,
            None => self.github.create_check(github, check).await?,
        };
        let written = Rendered { github_id: id, digest, written_at: self.now() };
        self.store.save_rendered(&scope, &check.name, &written).await?;
        Ok(None)
    }

    /// The check that a writer may have created before it died.
    async fn find_own_check(&self, github: &RepoRef, check: &Check) -> Result<Option<i64>> {
        let bot = self.github.bot_login().await?;
        let slug = bot.strip_suffix("[bot]").unwrap_or(&bot);
        let found = self.github.checks(github, &check.head_sha, Some(&check.name)).await?;
        let own = found.into_iter().filter(|one| one.name == check.name && one.app_slug.eq_ignore_ascii_case(slug));
        Ok(own.map(|one| one.id).max())
    }

    /// One comment of ours, found by id, else by marker and author. A deleted one comes back only if `recreate`. When it may be
    /// written, if that is too early now.
    async fn write_own_comment(
        &self,
        github: &RepoRef,
        number: i64,
        name: &str,
        marker: &str,
        body: &str,
        recreate: bool,
    ) -> Result<Option<Millis>> {
        let scope = format!("pr:{}:{number}", github.id);
        let digest = digest_of(body);
        let known = self.store.rendered(&scope, name).await?;
        if known.as_ref().is_some_and(|known| known.digest == digest || (known.github_id == 0 && !recreate)) {
            return Ok(None);
        }
        if let Some(until) = known.as_ref().and_then(|known| self.too_early(github, known)) {
            return Ok(Some(until));
        }
        if let Some(known) = &known {
            let begun = Rendered { digest: String::new(), ..known.clone() };
            self.store.save_rendered(&scope, name, &begun).await?;
        }
        let id = match known.filter(|known| known.github_id != 0) {
            Some(known) => match self.github.edit_comment(github, known.github_id, body).await {
                Ok(()) => known.github_id,
                Err(GitHubError::NotFound { .. }) if recreate => {
                    self.github.create_comment(github, number, body).await?
                }
                Err(GitHubError::NotFound { .. }) => 0,
                Err(error) => return Err(error.into()),
            },
            // A crash may have lost the id of a comment that was written.
            None => match self.find_own_comment(github, number, marker).await? {
                Some(id) => {
                    self.github.edit_comment(github, id, body).await?;
                    id
                }
                None => self.github.create_comment(github, number, body).await?,
            },
        };
        let written = Rendered { github_id: id, digest, written_at: self.now() };
        self.store.save_rendered(&scope, name, &written).await?;
        Ok(None)
    }

    /// The oldest comment of ours with this first line; later duplicates are deleted.
    async fn find_own_comment(&self, github: &RepoRef, number: i64, marker: &str) -> Result<Option<i64>> {
        let bot = self.github.bot_login().await?;
        let comments = self.github.comments(github, number).await?;
        let mut own = comments.into_iter().filter(|comment| {
            comment.author.eq_ignore_ascii_case(&bot) && comment.body.lines().next().map(str::trim) == Some(marker)
        });
        let first = own.next().map(|comment| comment.id);
        for duplicate in own {
            match self.github.delete_comment(github, duplicate.id).await {
                Ok(()) | Err(GitHubError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(first)
    }

    /// Posts one comment, once: its marker finds an earlier try whose answer was lost.
    pub(super) async fn post_comment(&self, repo: &Repo, number: i64, name: &str, body: &str) -> Result<()> {
        let marker = format!("<!-- stackorder:note:{name} -->");
        let body =
            format!("{marker}\n{}", render::escape::cut_markdown(body, render::COMMENT_BYTES_MAX - marker.len() - 1));
        let name = format!("note:{name}");
        match self.write_own_comment(&repo_ref(repo), number, &name, &marker, &body, false).await? {
            Some(until) => Err(deferred("a comment", until)),
            None => Ok(()),
        }
    }

    /// The comment that tells how an apply ended, and a look at its pull request if it still holds locks.
    pub(super) async fn post_outcome(&self, repo: &Repo, number: i64, id: &RunId) -> Result<()> {
        let Some(scene) = self.store.scene(id).await? else { return Ok(()) };
        let context = self.context(&scene).await?;
        let body = render::outcome::comment(&scene, id, &context);
        self.post_comment(repo, number, &format!("outcome:{id}"), &body).await?;
        // A merge that was told while this apply was let through found no lock to free.
        let was_told = scene.runs[id].release_at_end.is_some();
        if !was_told && scene.locks.values().any(|lock| lock.run_id == *id) {
            self.pull_request_closed(repo, number).await?;
        }
        Ok(())
    }

    pub(super) async fn react_now(&self, repo: &Repo, comment_id: i64, reaction: Reaction) -> Result<()> {
        match self.github.react(&repo_ref(repo), comment_id, reaction).await {
            Ok(()) | Err(GitHubError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Commits whose plan run or apply was superseded and that no current run is of.
fn superseded_commits(scene: &Scene) -> Vec<(Sha, RunId)> {
    let current: BTreeSet<&Sha> =
        scene.runs.values().filter(|run| run.status != RunStatus::Superseded).map(|run| &run.sha).collect();
    let mut commits: BTreeMap<Sha, RunId> = BTreeMap::new();
    for run in scene.newest_first() {
        if run.status == RunStatus::Superseded && !current.contains(&run.sha) {
            commits.entry(run.sha.clone()).or_insert_with(|| run.id.clone());
        }
    }
    commits.into_iter().collect()
}

fn checks_scope(github: &RepoRef, sha: &Sha) -> String {
    format!("checks:{}:{sha}", github.id)
}

fn digest_of_check(check: &Check) -> String {
    let Check { name, head_sha, status, title, summary, text, details_url, external_id } = check;
    let status = format!("{status:?}");
    let mut digest = Sha256::new();
    for part in [name, head_sha.as_str(), &status, title, summary, text, details_url, external_id] {
        // With its length, so that no two checks read the same.
        digest.update(part.len().to_le_bytes());
        digest.update(part.as_bytes());
    }
    hex(&digest.finalize())
}

fn digest_of(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}
