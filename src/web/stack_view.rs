//! One stack of a run in words: where it stands, why it is there, what its plan does, who holds it.

use std::collections::BTreeMap;

use super::links::{self, GitHub};
use super::parts::{self, Badge, Link, Sentence, Tone, When};
use crate::clock::Millis;
use crate::config::model::PlanOutput;
use crate::ids::StackKey;
use crate::render::escape::cut;
use crate::render::words;
use crate::run::model::{Row, Verdict};
use crate::run::scene::Scene;
use crate::run::status::{Mode, RowStatus, VerdictStatus};

/// A stack as a page shows it.
pub struct StackView {
    pub key: String,
    /// The page of this stack alone.
    pub url: String,
    pub badge: Badge,
    /// `blocked by eks`, or what was noted beside the status.
    pub note: String,
    pub environment: String,
    pub tool: String,
    pub why: String,
    pub counts: String,
    pub destroys: bool,
    pub job: Option<Link>,
    pub took: Option<String>,
    /// Only one that somebody else holds, or that outlived its run.
    pub lock: Option<LockView>,
    /// What a person does about it.
    pub advice: String,
    pub error: String,
    pub verdicts: Vec<VerdictView>,
    pub relations: Vec<Sentence>,
    pub plan: PlanView,
}

impl StackView {
    /// Whether there is more than fits into its line.
    pub fn has_more(&self) -> bool {
        !self.advice.is_empty()
            || !self.error.is_empty()
            || !self.verdicts.is_empty()
            || !self.relations.is_empty()
            || self.lock.is_some()
            || self.plan.is_shown()
    }
}

pub struct LockView {
    pub own: bool,
    pub holder: Link,
    pub since: When,
    pub reason: String,
}

pub struct VerdictView {
    pub name: String,
    pub badge: Badge,
    pub summary: String,
    pub details: String,
    pub link: Option<Link>,
}

/// What is shown of a plan's text.
pub enum PlanView {
    Missing,
    /// The setting keeps it on the runner.
    Withheld,
    /// On the stack's own page.
    Elsewhere,
    Here {
        text: String,
        /// Cut by the page or by the runner.
        cut: bool,
    },
}

impl PlanView {
    fn is_shown(&self) -> bool {
        match self {
            PlanView::Missing => false,
            PlanView::Withheld | PlanView::Elsewhere | PlanView::Here { .. } => true,
        }
    }
}

/// Bytes of foreign text that a page still takes.
pub struct Room {
    left: usize,
    /// For each text.
    each_max: usize,
}

impl Room {
    pub fn new(total: usize, each_max: usize) -> Self {
        Self { left: total, each_max }
    }

    /// The text as far as there is room, and whether something of it is missing.
    fn take(&mut self, text: &str) -> (String, bool) {
        let shown = cut(text, self.each_max.min(self.left));
        self.left -= shown.len();
        let missing = shown.len() < text.len();
        (shown.into_owned(), missing)
    }
}

/// What a stack's view is made of.
pub struct Sources<'s> {
    pub scene: &'s Scene,
    pub github: GitHub<'s>,
    pub now: Millis,
    pub plan_texts: BTreeMap<StackKey, String>,
    /// The run's verdicts by stack.
    verdicts: BTreeMap<&'s StackKey, Vec<&'s Verdict>>,
}

impl<'s> Sources<'s> {
    pub fn new(scene: &'s Scene, run: &crate::ids::RunId, github: GitHub<'s>, now: Millis) -> Self {
        let mut verdicts: BTreeMap<&StackKey, Vec<&Verdict>> = BTreeMap::new();
        for verdict in scene.verdicts.values().filter(|verdict| verdict.run_id == *run) {
            verdicts.entry(&verdict.key).or_default().push(verdict);
        }
        Self { scene, github, now, plan_texts: BTreeMap::new(), verdicts }
    }

    /// One line only: for runs with very many stacks.
    pub fn line(&self, row: &Row) -> StackView {
        let failed = self.of(row).filter(|verdict| verdict.status == VerdictStatus::Fail).count();
        let mut notes = vec![note(row)];
        if failed > 0 {
            notes.push(format!("{} failed", words::count(failed, "check")));
        }
        if let Some(lock) = self.lock(row).filter(|lock| !lock.own) {
            notes.push(format!("locked by {}", lock.holder.text));
        }
        notes.retain(|note| !note.is_empty());
        StackView {
            key: row.key.to_string(),
            url: links::stack(&row.run_id, &row.key),
            badge: Badge::of_row(row),
            note: notes.join("; "),
            environment: row.environment.clone(),
            tool: tool(row),
            why: why(row),
            counts: counts(row),
            destroys: row.summary.as_ref().is_some_and(|summary| summary.destroys + summary.replaces > 0),
            job: (!row.job_url.is_empty()).then(|| Link::foreign("job", &row.job_url)),
            took: parts::took(row.started_at, row.finished_at),
            lock: None,
            advice: String::new(),
            error: String::new(),
            verdicts: Vec::new(),
            relations: Vec::new(),
            plan: PlanView::Missing,
        }
    }

    /// Everything, with texts as far as there is room.
    pub fn full(&self, row: &Row, room: &mut Room) -> StackView {
        let verdicts = self.of(row).map(|verdict| VerdictView {
            name: verdict.name.clone(),
            badge: Badge::of_verdict(verdict.status),
            summary: verdict.summary.clone(),
            details: room.take(&verdict.details).0,
            link: links::web_address(&verdict.details_url).map(|url| Link::to("details", url)),
        });
        let verdicts = verdicts.collect();
        StackView {
            note: note(row),
            lock: self.lock(row),
            advice: advice(row),
            error: room.take(&row.error_text).0,
            verdicts,
            relations: relations(row),
            plan: self.plan(row, room),
            ..self.line(row)
        }
    }

    fn of(&self, row: &Row) -> impl Iterator<Item = &'s Verdict> + use<'_, 's> {
        self.verdicts.get(&row.key).into_iter().flatten().copied()
    }

    fn lock(&self, row: &Row) -> Option<LockView> {
        let lock = self.scene.locks.get(&row.key)?;
        let pr_number = self.scene.pr_number;
        Some(LockView {
            own: lock.run_id == row.run_id || (pr_number > 0 && lock.pr_number == pr_number),
            holder: self.github.holder(&self.scene.repo.full_name, lock),
            since: When::at(lock.taken_at, self.now),
            reason: lock.reason.clone(),
        })
    }

    fn plan(&self, row: &Row, room: &mut Room) -> PlanView {
        let planned = row.summary.is_some() || row.has_plan_text;
        if row.plan_output == PlanOutput::Summary {
            return if planned { PlanView::Withheld } else { PlanView::Missing };
        }
        match self.plan_texts.get(&row.key) {
            None if row.has_plan_text => PlanView::Elsewhere,
            None => PlanView::Missing,
            Some(text) => match room.take(text) {
                (shown, _) if shown.is_empty() => PlanView::Elsewhere,
                (text, cut) => PlanView::Here { text, cut: cut || row.truncated },
            },
        }
    }
}

fn tool(row: &Row) -> String {
    format!("{} {}", row.tool.as_str(), row.tool_version).trim_end().to_owned()
}

/// Why the change reaches the stack, and through what.
pub fn why(row: &Row) -> String {
    let reasons: Vec<&str> = row.reasons.iter().map(|reason| words::reason(*reason)).collect();
    let mut out = reasons.join("; ");
    if !row.via.is_empty() {
        out.push_str(&format!(", via {}", row.via.join(", ")));
    }
    out
}

fn counts(row: &Row) -> String {
    match (row.mode, row.status) {
        (Mode::Apply, RowStatus::Applied) => words::applied(row),
        _ if row.summary.is_some() => words::planned(row),
        _ => String::new(),
    }
}

/// What stands beside the badge, unless the badge says it already.
fn note(row: &Row) -> String {
    let badge = words::status(row);
    if row.status == RowStatus::Blocked && row.blocked_by.len() > 1 {
        return format!("waits for {}", row.blocked_by.join(", "));
    }
    if badge.ends_with(&row.note) { String::new() } else { row.note.clone() }
}

fn relations(row: &Row) -> Vec<Sentence> {
    let mut out = Vec::new();
    if let Some(earlier) = &row.applied_by_run {
        out.push(Sentence::with("Applied by", Link::to("an earlier run", links::run(earlier))));
    }
    if row.mode == Mode::Apply
        && let Some(plan) = &row.from_plan_run
    {
        out.push(Sentence::with("Applies", Link::to("this plan", links::stack(plan, &row.key))));
    }
    if let Some(apply) = &row.used_by_run {
        out.push(Sentence::with("Used by", Link::to("an apply", links::stack(apply, &row.key))));
    }
    if !row.plan_digest.is_empty() {
        out.push(Sentence::new(format!("Plan digest {}", row.plan_digest)));
    }
    if !row.bundle_sha256.is_empty() {
        out.push(Sentence::new(format!("Bundle {}, which its job proves before it applies", row.bundle_sha256)));
    }
    if !row.behind.is_empty() {
        out.push(Sentence::new(format!("Planned again because {} changed first", row.behind.join(", "))));
    }
    if row.late_evidence.is_some() {
        out.push(Sentence::new("A report came after this had ended; it changed nothing."));
    }
    out
}

/// What a person does next about this stack.
fn advice(row: &Row) -> String {
    let plan = format!("stackorder plan {}", row.key);
    match (row.mode, row.status) {
        (Mode::Apply, RowStatus::Unknown) if row.claim.is_none() && row.behind.is_empty() => {
            "Its job never started; nothing was applied. Ask for the apply again.".to_owned()
        }
        (Mode::Apply, RowStatus::Unknown) if row.claim.is_none() => {
            format!("Nothing was applied. Comment “{plan}”, then ask for the apply again.")
        }
        (Mode::Apply, RowStatus::Unknown) => format!(
            "Nobody knows what its job did; the state may be partly changed. Read the job log, check the state lock and \
             release it with the tool if the runner died, run “stackorder unlock --force-state {}”, then comment “{plan}”.",
            row.key
        ),
        (Mode::Apply, RowStatus::Failed) if row.claim.is_some() => {
            format!("Its plan counts as used. Read the job log, then comment “{plan}” before the next apply.")
        }
        (Mode::Plan | Mode::Drift, RowStatus::Unknown) => {
            format!("Its job ended without a result. Comment “{plan}” to plan it again.")
        }
        (Mode::Plan, RowStatus::Failed) => format!("Repair it and push, or comment “{plan}” to plan it again."),
        (_, RowStatus::Unconfirmed) => {
            format!("The server could not be reached while the job worked, so nothing confirms it. Comment “{plan}”.")
        }
        (_, RowStatus::Skipped) if words::waits_for_request(row) => {
            let after = row.behind.join(", ");
            format!(
                "It was planned again after {after} was applied. Review the new plan, then ask for the apply again."
            )
        }
        (Mode::Plan | Mode::Apply | Mode::Drift, _) => String::new(),
    }
}

/// The tone a graph paints a stack in.
pub fn tone(row: &Row) -> Tone {
    Tone::of_row(row)
}
