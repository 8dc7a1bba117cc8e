//! A run in words: its head, what it is related to, and its stacks by wave.

use std::collections::BTreeMap;

use super::links::{self, GitHub};
use super::parts::{self, Badge, Link, Sentence, When};
use super::stack_view::StackView;
use crate::clock::Millis;
use crate::ids::StackKey;
use crate::render::words;
use crate::run::model::{Repo, Row, Run};
use crate::run::scene::Scene;
use crate::run::status::{Mode, RowStatus, RunStatus, Trigger};

/// Identity first: what a list and the head of the page show alike.
pub struct RunHead {
    pub id: String,
    pub url: String,
    pub title: String,
    /// First line of the commit message.
    pub message: String,
    pub badge: Badge,
    pub trigger: &'static str,
    pub repository: Link,
    pub commit: Link,
    pub branch: String,
    pub author: String,
    pub pull: Option<Link>,
    pub requester: Link,
    pub created: When,
    pub took: Option<String>,
}

impl RunHead {
    pub fn of(run: &Run, repo: &Repo, github: GitHub<'_>, now: Millis) -> Self {
        let name = &repo.full_name;
        Self {
            id: run.id.to_string(),
            url: links::run(&run.id),
            title: title(run),
            message: run.commit_message.lines().next().unwrap_or("").to_owned(),
            badge: Badge::of_run(run),
            trigger: trigger(run.trigger),
            repository: Link::to(name.as_str(), links::repository(name)),
            commit: github.commit(name, &run.sha),
            branch: run.head_ref.clone(),
            author: run.commit_author.clone(),
            pull: github.pull_of(name, run),
            requester: github.person(&run.requested_by),
            created: When::at(run.created_at, now),
            took: parts::took(run.started_at, run.finished_at),
        }
    }
}

/// `Apply of #42 by octocat`, `Plan of #42`, `New plan of #42 after wave 0`.
pub fn title(run: &Run) -> String {
    let subject = if run.pr_number > 0 { format!("#{}", run.pr_number) } else { run.sha.short().to_owned() };
    match (run.mode, run.for_run.is_some()) {
        (Mode::Plan, true) => format!("New plan of {subject} before wave {}", run.for_wave),
        (Mode::Plan, false) => format!("Plan of {subject}"),
        (Mode::Apply, _) => format!("Apply of {subject} by {}", run.requested_by),
        (Mode::Drift, _) => format!("Drift check at {subject}"),
    }
}

fn trigger(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::PullRequest => "the pull request",
        Trigger::Comment => "a comment",
        Trigger::Push => "a push",
        Trigger::Schedule => "the schedule",
        Trigger::Rerequest => "a re-run on GitHub",
        Trigger::Manual => "somebody's request",
        Trigger::Upstream => "an apply that changed an upstream stack",
    }
}

/// What else of the pull request belongs to this run.
pub fn relations(scene: &Scene, run: &Run) -> Vec<Sentence> {
    let mut out = Vec::new();
    let mut say = |text: &str, other: &Run| {
        let name = format!("{} ({})", title(other), words::run_status(other.status));
        out.push(Sentence::with(text, Link::to(name, links::run(&other.id))));
    };
    if let Some(apply) = run.for_run.as_ref().and_then(|id| scene.run(id)) {
        say("Planned again for", apply);
    }
    let plans: Vec<&Run> = plan_runs(scene, run);
    for plan in plans {
        say("Applies the plans of", plan);
    }
    let mut others = scene.newest_first();
    others.reverse();
    for other in others {
        if other.for_run.as_ref() == Some(&run.id) {
            say(&format!("Before wave {} it planned again in", other.for_wave), other);
        } else if other.mode == Mode::Apply && run.mode == Mode::Plan && plan_runs(scene, other).contains(&run) {
            say("Applied by", other);
        }
    }
    out
}

/// The plan runs whose rows an apply carries, oldest first.
fn plan_runs<'s>(scene: &'s Scene, apply: &Run) -> Vec<&'s Run> {
    let mut plans: Vec<&Run> =
        scene.rows(&apply.id).filter_map(|row| row.from_plan_run.as_ref()).filter_map(|id| scene.run(id)).collect();
    plans.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    plans.dedup_by(|a, b| a.id == b.id);
    plans
}

/// Stacks that may run at the same time.
pub struct WaveView {
    pub number: u32,
    /// `3 stacks: 2 applied, 1 applying`.
    pub tally: String,
    pub current: bool,
    pub stacks: Vec<StackView>,
}

/// The waves of a run; `view` makes a stack's view.
pub fn waves(scene: &Scene, run: &Run, mut view: impl FnMut(&Row) -> StackView) -> Vec<WaveView> {
    let mut by_wave: BTreeMap<u32, Vec<&Row>> = BTreeMap::new();
    for row in scene.rows(&run.id) {
        by_wave.entry(row.wave).or_default().push(row);
    }
    let running = run.mode == Mode::Apply && run.status == RunStatus::Applying;
    by_wave
        .into_iter()
        .map(|(number, rows)| WaveView {
            number,
            tally: format!(
                "{}: {}",
                words::count(rows.len(), "stack"),
                words::tally(rows.iter().copied(), RowStatus::ALL)
            ),
            current: running && number == run.current_wave,
            stacks: rows.into_iter().map(&mut view).collect(),
        })
        .collect()
}

/// Everything the run's plans do, or did: `4 to add, …`; nothing while nothing is known.
pub fn totals(scene: &Scene, run: &Run) -> String {
    let planned = || scene.rows(&run.id).filter(|row| row.summary.is_some() && words::is_selected(row));
    if planned().next().is_none() {
        return String::new();
    }
    let totals = words::totals(planned());
    if totals.is_empty() { "no changes".to_owned() } else { totals.counts_text() }
}

/// Keys of stacks, as a sentence lists them: the first few, and how many more.
pub fn some_keys<'k>(keys: impl IntoIterator<Item = &'k StackKey>) -> String {
    const SHOWN_MAX: usize = 5;
    let keys: Vec<&StackKey> = keys.into_iter().collect();
    let shown: Vec<&str> = keys.iter().take(SHOWN_MAX).map(|key| key.as_str()).collect();
    match keys.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
