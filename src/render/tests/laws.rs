//! What holds for every scene: limits, no foreign markup, same input same bytes.

use proptest::prelude::*;

use super::scenes::*;
use crate::graph::resolution::RemovedStack;
use crate::ids::{RunId, StackKey};
use crate::plan::summary::PlanSummary;
use crate::render::{COMMENT_BYTES_MAX, Context, checks, drift, outcome, refusal, run_comment, sticky};
use crate::run::model::DriftSeen;
use crate::run::scene::Scene;
use crate::run::status::{Mode, RowStatus, RunStatus, SkipReason, Trigger, VerdictStatus};

/// What an attacker writes wherever a text of theirs is shown.
const HOSTILE: &str =
    "x` ``` | <img src=x> </details> @acme/admins #13 **b** [l](javascript:1) https://evil.test\n# h\n```\n";

/// A scene in which everything foreign is hostile, with this many stacks.
fn hostile(stacks: usize, text: &str, plan_bytes: usize, statuses: &[RowStatus]) -> (Scene, RunId, Context) {
    let mut scene = scene();
    let mut context = context();
    let plan = add_run(&mut scene, Mode::Plan, Trigger::PullRequest, 'a', RunStatus::Planned);
    let apply = add_run(&mut scene, Mode::Apply, Trigger::Comment, 'a', RunStatus::Failed);
    let plan_text = text.repeat(plan_bytes / text.len().max(1) + 1);
    for at in 0..stacks {
        let name = text.replace(['\n', ':'], " ");
        // A key that ends so would be another key when it is read again.
        let stack = format!("s{at}/{}", name.trim_end_matches([' ', '/', '\\']));
        let key = StackKey::parse(&stack).unwrap();
        for run in [&plan, &apply] {
            let status = statuses[at % statuses.len()];
            let row = add_row(&mut scene, run, &stack, (at % 5) as u32, status);
            row.environment = text.to_owned();
            row.via = vec![text.to_owned(); 30];
            row.note = text.to_owned();
            row.error_text = if at == 0 { plan_text.clone() } else { text.to_owned() };
            row.job_url = format!("https://github.test/{text}");
            row.plan_artifact = text.to_owned();
            row.blocked_by = vec![text.to_owned()];
            row.behind = vec![text.to_owned()];
            row.has_changes = true;
            row.skip_reason = Some([SkipReason::PlanChanged, SkipReason::Waits, SkipReason::NotSelected][at % 3]);
            row.summary = Some(PlanSummary { adds: 40, added: vec![text.to_owned(); 40], ..PlanSummary::default() });
        }
        verdict(&mut scene, &plan, key.as_str(), "policy", VerdictStatus::Fail, text);
        lock(&mut scene, key.as_str(), 7);
        // No more are ever loaded for one rendering.
        if at < 60 {
            context.plan_texts.insert((plan.clone(), key), plan_text.clone());
        }
    }
    for run in scene.runs.values_mut() {
        run.requested_by = text.to_owned();
        run.warnings = vec![text.to_owned(); 100];
        run.external = vec![text.to_owned(); 100];
        let removed = RemovedStack {
            key: text.to_owned(),
            path: String::new(),
            state: text.to_owned(),
            renamed_to: String::new(),
        };
        run.removed = vec![removed; 100];
    }
    context.pending.insert(apply.clone(), vec![(text.to_owned(), 7); 3]);
    (scene, apply, context)
}

/// Every comment and the texts of every check.
fn texts(scene: &Scene, apply: &RunId, context: &Context) -> Vec<String> {
    let mut all = vec![
        sticky::comment(scene, context).unwrap(),
        run_comment::comment(scene, apply, context).unwrap(),
        outcome::comment(scene, apply, context),
    ];
    all.extend(checks::desired(scene, context).into_iter().flat_map(|check| [check.summary, check.text]));
    all
}

/// The Markdown without its code blocks and code spans, whose content GitHub shows as it is.
fn outside_of_code(markdown: &str) -> String {
    let mut lines = Vec::new();
    let mut fence: Option<usize> = None;
    for line in markdown.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            Some(length) if ticks >= length && line.trim_start_matches('`').is_empty() => fence = None,
            Some(_) => {}
            None if ticks >= 3 && !line[ticks..].contains('`') => fence = Some(ticks),
            None => lines.push(without_spans(line)),
        }
    }
    assert_eq!(fence, None, "a code block is left open");
    lines.join("\n")
}

fn without_spans(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let escaped = rest[..start].ends_with('\\');
        let ticks = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        let after = start + ticks;
        if escaped {
            out.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        }
        out.push_str(&rest[..start]);
        let close = closing(&rest[after..], ticks);
        rest = close.map_or(&rest[after..], |close| &rest[after + close + ticks..]);
    }
    out + rest
}

fn closing(text: &str, ticks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        if run == ticks {
            return Some(start);
        }
        at = start + run;
    }
    None
}

#[test]
fn nothing_foreign_is_read_as_markup() {
    for status in RowStatus::ALL {
        let (scene, apply, context) = hostile(3, HOSTILE, 2_000, &[*status]);
        for text in texts(&scene, &apply, &context) {
            let shown = outside_of_code(&text);
            for markup in ["<img", "@acme", "](javascript", "#13", "**b**", "\n# h", " https://evil"] {
                assert!(!shown.contains(markup), "{status}: {markup} in\n{shown}");
            }
            assert_eq!(shown.matches("<details>").count(), shown.matches("</details>").count(), "{shown}");
            for line in shown.lines().filter(|line| line.starts_with("| 0 |")) {
                assert!(!line.contains("\\\\|"), "{line}");
            }
        }
    }
}

#[test]
fn bl_129_three_hundred_stacks_with_long_plans_stay_within_the_limits_and_say_what_is_left_out() {
    let (mut scene, apply, context) = hostile(300, HOSTILE, 262_144, &[RowStatus::Planned]);
    policy(&mut scene, |config| config.checks.per_stack_max = 1_000);
    for text in texts(&scene, &apply, &context) {
        assert!(text.len() <= 65_535, "{}", text.len());
        outside_of_code(&text);
    }
    let body = sticky::comment(&scene, &context).unwrap();
    assert!(body.len() <= COMMENT_BYTES_MAX);
    assert!(body.contains("The table leaves out") && body.contains("No room here for"), "{body}");
    assert!(body.ends_with("`stackorder help` explains\n"));
    assert!(run_comment::comment(&scene, &apply, &context).unwrap().len() <= COMMENT_BYTES_MAX);
    assert!(outcome::comment(&scene, &apply, &context).len() <= COMMENT_BYTES_MAX);
}

#[test]
fn the_table_is_whole_before_a_plan_is_shown_in_full() {
    let (mut scene, mut context) = (scene(), context());
    let plan = add_run(&mut scene, Mode::Plan, Trigger::PullRequest, 'a', RunStatus::Planned);
    for at in 0..300 {
        let stack = format!("stacks/production/region-{at:03}/network");
        with_counts(add_row(&mut scene, &plan, &stack, 0, RowStatus::Planned), 1, 0);
        context.plan_texts.insert((plan.clone(), key(&stack)), "  + resource\n".repeat(20_000));
    }
    let body = sticky::comment(&scene, &context).unwrap();
    assert!(body.len() <= COMMENT_BYTES_MAX && body.len() > COMMENT_BYTES_MAX * 9 / 10, "{}", body.len());
    assert_eq!(body.matches("| 0 | `stacks/").count(), 300);
    assert!(body.contains("Cut here; the whole output is in the job log."));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn limits_hold_and_the_same_scene_gives_the_same_bytes(
        stacks in 1_usize..30,
        text in "[a-z`|<@#\\\\ é\n]{1,60}",
        plan_bytes in 0_usize..80_000,
        status in prop::sample::select(RowStatus::ALL),
        other in prop::sample::select(RowStatus::ALL),
    ) {
        let (mut scene, apply, context) = hostile(stacks, &text, plan_bytes, &[status, other]);
        policy(&mut scene, |config| config.checks.per_stack_max = 1_000);
        let all = texts(&scene, &apply, &context);
        prop_assert!(all[..3].iter().all(|text| text.len() <= COMMENT_BYTES_MAX));
        prop_assert!(all.iter().all(|text| text.len() <= 65_535));
        let checks = checks::desired(&scene, &context);
        prop_assert!(checks.iter().all(|check| check.title.len() <= 255 && !check.title.contains('\n')));
        let mut names: Vec<_> = checks.iter().map(|check| (&check.head_sha, &check.name)).collect();
        names.sort();
        let number = names.len();
        names.dedup();
        prop_assert_eq!(names.len(), number, "two checks of one name");
        let later = Context { now: context.now + 1, ..context.clone() };
        prop_assert_eq!(texts(&scene, &apply, &later), all);
        prop_assert_eq!(checks::desired(&scene, &later), checks);
    }

    #[test]
    fn refusals_and_drift_issues_stay_within_the_limit(text in "[a-z`|<@é\n]{1,40}", times in 1_usize..4_000) {
        let long = text.repeat(times);
        let refusal = crate::gate::Refusal { layer: 1, name: text.clone(), reason: long.clone(), stacks: Vec::new(), help: crate::guide::Topic::NoPlan.url() };
        prop_assert!(refusal::comment(&long, &vec![refusal; 60]).len() <= COMMENT_BYTES_MAX);
        let summary = PlanSummary { adds: 40, added: vec![long; 40], ..PlanSummary::default() };
        let seen = DriftSeen {
            stack_id: crate::ids::StackId::of(1, "vpc"), repo_id: 1, key: key("vpc"), run_id: id(1), checked_at: 1,
            drifted: true, summary: Some(summary),
        };
        prop_assert!(drift::issue_body("acme/infra", &key("vpc"), &seen, "https://so.test").len() <= COMMENT_BYTES_MAX);
    }
}
