//! Every check that should stand for a pull request (spec 24 §4, spec 30 §8, §9).
//!
//! - `resolve`: what is affected; `plans`: plans of a commit and named verdicts; `applies`: applies of a commit.
//! - `roll_up`: what `stackorder/plan` and `stackorder/apply` say; `body`: the words under a stack's check.
//!
//! Nothing in them changes with time alone: a check is sent again only when it says something else.

use std::collections::BTreeSet;

use super::check::{Check, CheckStatus, Conclusion};
use super::pull::{self, Pull, applies_at};
use super::waiting::Waiting;
use super::{Context, escape};
use crate::config::model::ApplyMode;
use crate::ids::{RunId, Sha};
use crate::run::model::Run;
use crate::run::plan_view::PlanView;
use crate::run::scene::Scene;
use crate::run::status::{Mode, RunStatus, Trigger};

mod applies;
mod body;
mod plans;
mod resolve;
pub mod roll_up;

pub use applies::approvals;
pub use body::why;

const PLAN: &str = "stackorder/plan";
const APPLY: &str = "stackorder/apply";

/// GitHub's limits (spec 24 §4).
const TITLE_BYTES_MAX: usize = 255;
const TEXT_BYTES_MAX: usize = 65_535;
/// Above this many stacks a stack's check is created once, with its result (design §8).
const EARLY_CHECKS_MAX: usize = 10;

/// All checks that should stand now, roll-ups first: at the head, at the merge commit, and at every commit that has an
/// apply which was not superseded.
pub fn desired(scene: &Scene, context: &Context) -> Vec<Check> {
    let pull = Pull::of(scene);
    let mut checks = Vec::new();
    if let Some(head) = pull.head {
        let view = PlanView::of(scene, &[head]);
        checks.extend(resolve::check(scene, head, context));
        checks.extend(plans::checks(scene, &view, context));
        if applies_at(scene, head).is_empty() {
            checks.extend(nothing_to_apply(scene, &view, context));
        }
    }
    // After a merge what is planned again is planned at the merge commit.
    if let (Some(view), Some(merge)) = (pull.view(), pull.merge)
        && pull.head != Some(merge)
        && view.runs.first().is_some_and(|run| run.sha == *merge)
    {
        checks.extend(plans::checks(scene, &view, context));
    }
    for sha in commits_with_applies(&pull) {
        checks.extend(applies::checks(&pull, sha, context));
    }
    // The budget for writes is spent in this order (design §8).
    checks.sort_by_key(|check| check.is_of_one_stack());
    checks
}

/// A required `stackorder/apply` must not block a pull request that has nothing to apply.
fn nothing_to_apply(scene: &Scene, view: &PlanView<'_>, context: &Context) -> Option<Check> {
    let before_merge = scene.repo.policy().apply.mode == ApplyMode::BeforeMerge;
    let run = view.runs.first()?;
    let nothing = view.rows.is_empty() && view.status() == Some(RunStatus::Planned);
    (before_merge && nothing).then(|| {
        let content = Content {
            status: CheckStatus::Completed(Conclusion::Success),
            title: "No stacks affected, nothing to apply".to_owned(),
            summary: "This pull request reaches no stack.".to_owned(),
            text: String::new(),
        };
        check(context, run, APPLY.to_owned(), content)
    })
}

fn commits_with_applies<'s>(pull: &Pull<'s>) -> BTreeSet<&'s Sha> {
    let applies = pull.scene.runs.values().filter(|run| run.mode == Mode::Apply && run.trigger != Trigger::Manual);
    // A superseded one is shown here only at the head; elsewhere `superseded` ends what it has written.
    applies
        .filter(|run| run.status != RunStatus::Superseded || Some(&run.sha) == pull.head)
        .map(|run| &run.sha)
        .collect()
}

/// What ends the existing checks of a commit whose runs were superseded: those of its plans neutral, those of its applies
/// cancelled, because a neutral `stackorder/apply` would let the commit merge if it became the head again.
/// Checks of a run at the commit that was not superseded are left alone, so are `stackorder/resolve` and verdicts.
pub fn superseded(scene: &Scene, run: &RunId, existing: &BTreeSet<String>, context: &Context) -> Vec<Check> {
    let Some(run) = scene.run(run) else { return Vec::new() };
    let stands = |mode: Mode| {
        scene
            .runs
            .values()
            .any(|other| other.sha == run.sha && other.mode == mode && other.status != RunStatus::Superseded)
    };
    let ended = |name: &String| {
        let conclusion = if is_of(name, PLAN) && !stands(Mode::Plan) {
            Conclusion::Neutral
        } else if is_of(name, APPLY) && !stands(Mode::Apply) {
            Conclusion::Cancelled
        } else {
            return None;
        };
        Some(check(context, run, name.clone(), superseded_content(run, conclusion)))
    };
    existing.iter().filter_map(ended).collect()
}

/// The roll-up or a stack's check, and not a verdict whose name only begins alike.
fn is_of(name: &str, roll_up: &str) -> bool {
    name.strip_prefix(roll_up).is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
}

fn superseded_content(run: &Run, conclusion: Conclusion) -> Content {
    Content {
        status: CheckStatus::Completed(conclusion),
        title: superseded_title(run),
        summary: "A newer commit, or a new base, replaced what this check was about.".to_owned(),
        text: String::new(),
    }
}

/// `Superseded by 1234567`.
pub fn superseded_title(run: &Run) -> String {
    match run.superseded_by.get(..7) {
        Some(short) => format!("Superseded by {short}"),
        None => "Superseded".to_owned(),
    }
}

/// What a check says, before GitHub's limits.
struct Content {
    status: CheckStatus,
    /// Read by GitHub as plain text.
    title: String,
    /// Markdown.
    summary: String,
    text: String,
}

/// The check of this run and at its commit, cut to GitHub's limits.
fn check(context: &Context, run: &Run, name: String, content: Content) -> Check {
    Check {
        name,
        head_sha: run.sha.clone(),
        status: content.status,
        title: title(&content.title),
        summary: escape::cut_markdown(&content.summary, TEXT_BYTES_MAX).into_owned(),
        text: escape::cut_markdown(&content.text, TEXT_BYTES_MAX).into_owned(),
        details_url: context.run_page(&run.id),
        external_id: run.id.to_string(),
    }
}

fn title(whole: &str) -> String {
    const MARK: &str = "…";
    let line = escape::plain(whole);
    if line.len() <= TITLE_BYTES_MAX {
        return line;
    }
    format!("{}{MARK}", escape::cut(&line, TITLE_BYTES_MAX - MARK.len()))
}

/// Whether stacks have checks of their own, given how many are affected (design §8).
#[derive(Clone, Copy)]
enum PerStack {
    Always,
    WithResult,
    Never,
}

impl PerStack {
    fn of(scene: &Scene, affected: usize) -> Self {
        if affected > scene.repo.policy().checks.per_stack_max as usize {
            PerStack::Never
        } else if affected > EARLY_CHECKS_MAX {
            PerStack::WithResult
        } else {
            PerStack::Always
        }
    }

    fn shows(self, has_result: bool) -> bool {
        match self {
            PerStack::Always => true,
            PerStack::WithResult => has_result,
            PerStack::Never => false,
        }
    }
}

/// All stacks as a table, for the text of a roll-up.
fn table_of(rows: &[(u32, &crate::run::model::Row)]) -> String {
    super::table::stacks(rows, &Waiting::default()).fit(TEXT_BYTES_MAX)
}

/// How a roll-up's rows are ordered when they are those of a view.
fn rows_of<'s>(scene: &Scene, view: &PlanView<'s>) -> Vec<(u32, &'s crate::run::model::Row)> {
    pull::by_wave(view, &pull::order_of(scene, view))
}
