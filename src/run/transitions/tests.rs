//! The audit row of each kind of decision, and the law that the rows together explain every status.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::ids::{RunId, StackKey};
use crate::run::model::AuditEntry;
use crate::run::progress;
use crate::run::scene::{Changes, Scene};
use crate::run::status::Mode;
use crate::run::supersede;
use crate::run::tests::story::{Story, key, sha};

use super::{ACTION, STACKS_MAX};

/// What a reader of the audit rows believes: runs and, under a run, stacks, with their statuses.
type Believed = BTreeMap<(RunId, Option<StackKey>), String>;

fn believed(scene: &Scene) -> Believed {
    let runs = scene.runs.values().map(|run| ((run.id.clone(), None), run.status.to_string()));
    let rows = scene.rows.values().flat_map(|rows| rows.values());
    runs.chain(rows.map(|row| ((row.run_id.clone(), Some(row.key.clone())), row.status.to_string()))).collect()
}

/// Whoever knew the statuses before and reads the rows of a commit knows them after it.
pub(crate) fn explain(before: &Scene, changes: &Changes, after: &Scene) {
    let told: Vec<&AuditEntry> = changes.effects.audit.iter().filter(|entry| entry.action == ACTION).collect();
    assert!(told.len() <= 1, "one decision is one row: {told:?}");
    if told.iter().any(|entry| entry.details.contains_key("left_out")) {
        return;
    }
    let mut known = believed(before);
    for entry in told {
        assert!(!entry.actor.is_empty() && entry.details["cause"] != "", "{entry:?}");
        let moved = ["runs", "stacks"].into_iter().flat_map(|list| entry.details.get(list)).flat_map(items);
        for moved in moved {
            let run = RunId::parse(moved["run"].as_str().unwrap()).unwrap();
            let stacks = moved.get("stacks").map_or(vec![None], |stacks| items(stacks).map(key_of).collect());
            assert_ne!(moved["rule"], "", "{moved}");
            for stack in stacks {
                let old = known.insert((run.clone(), stack), moved["to"].as_str().unwrap().to_owned());
                assert_eq!(moved["from"], json!(old), "{moved}");
            }
        }
    }
    assert_eq!(known, believed(after), "every move is told, and no other");
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().unwrap().iter()
}

fn key_of(text: &Value) -> Option<StackKey> {
    Some(key(text.as_str().unwrap()))
}

/// `actor, cause: run to; stack to (rule)` of the last step.
fn told(story: &Story) -> String {
    let mut entries = story.changes.effects.audit.iter().filter(|entry| entry.action == ACTION);
    let Some(entry) = entries.next() else { return String::new() };
    let mut lines = vec![format!("{}, {}", entry.actor, entry.details["cause"].as_str().unwrap())];
    for moved in ["runs", "stacks"].into_iter().flat_map(|list| entry.details.get(list)).flat_map(items) {
        let run = &story.scene.runs[moved["run"].as_str().and_then(|id| RunId::parse(id).ok()).as_ref().unwrap()];
        let stacks: Vec<&str> =
            moved.get("stacks").into_iter().flat_map(items).map(|stack| stack.as_str().unwrap()).collect();
        let who = if stacks.is_empty() { format!("{} run", run.mode) } else { stacks.join(" ") };
        let from = moved["from"].as_str().unwrap_or("nothing");
        lines.push(format!(
            "{who}: {from} -> {} by {}",
            moved["to"].as_str().unwrap(),
            moved["rule"].as_str().unwrap()
        ));
    }
    lines.join("\n")
}

#[test]
fn a_plan_is_told_from_its_registration_to_its_last_result() {
    let mut story = Story::of("vpc <- eks");
    let run = story.registered('a');
    assert_eq!(told(&story), "ada, registration\nplan run: nothing -> pending by registering a plan run");
    story.uploaded(&run, "vpc, eks");
    assert_eq!(
        told(&story),
        "workflow_run:100, graph upload\nplan run: pending -> planning by row and run progress\n\
         eks vpc: nothing -> pending by resolve outcomes"
    );
    story.step(|next| progress::on_job(next, &run, None, "plan vpc", "in_progress", ""));
    assert_eq!(told(&story), "github, job event\nvpc: pending -> planning by row and run progress");
    story.plans("vpc +1");
    assert_eq!(told(&story), "workflow_run:100, result\nvpc: planning -> planned by result acceptance");
    story.plans("vpc +1");
    assert_eq!(told(&story), "", "a repeat moves nothing");
    story.plans("eks !");
    assert_eq!(
        told(&story),
        "workflow_run:100, result\nplan run: planning -> failed by roll-up of plan and drift runs\n\
         eks: pending -> failed by result acceptance"
    );
}

#[test]
fn an_apply_is_told_with_what_follows_from_each_result() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    story.apply("vpc eks apps");
    assert_eq!(
        told(&story),
        "ada, comment\napply run: nothing -> applying by creating the run\n\
         apps eks vpc: nothing -> planned by creating the run\nsvpc: nothing -> skipped by creating the run"
    );
    story.claim("vpc").unwrap();
    let job = format!("workflow_run:{}", story.row("vpc").claim.as_ref().unwrap().workflow_run_id);
    assert_eq!(
        told(&story),
        format!("{job}, claim\nvpc: planned -> applying by what a job must prove before it applies")
    );
    story.reports("vpc", "!").unwrap();
    assert_eq!(
        told(&story),
        format!(
            "{job}, result\napply run: applying -> failed by settle\n\
             vpc: applying -> failed by result acceptance\napps eks: planned -> blocked by settle"
        )
    );
}

#[test]
fn a_silent_end_and_a_new_head_are_told_as_what_they_are() {
    let mut story = Story::planned("vpc +1, eks =, apps =, svpc =");
    story.apply("vpc");
    let id = story.run().id.clone();
    story.dispatch_ends(&id, "vpc");
    assert_eq!(
        told(&story),
        "github, workflow run ended\napply run: applying -> failed by settle\n\
         vpc: planned -> unknown by unconfirmed and unknown"
    );

    story.apply("vpc");
    story.step(|next| supersede::head_moved(next, &sha('b')));
    assert_eq!(
        told(&story),
        "github, new head\nplan run: planned -> superseded by superseding\n\
         apply run: applying -> superseded by superseding"
    );
    let entry = &story.changes.effects.audit.iter().find(|entry| entry.action == ACTION).unwrap();
    assert_eq!(entry.target, "pr:acme/infra#1", "of several runs the row is the pull request's");
}

#[test]
fn a_rejected_dispatch_is_told_as_github_s_answer() {
    let mut story = Story::planned("vpc +1, eks =, apps =, svpc =");
    story.apply("vpc");
    let dispatch = story.dispatch_of(&story.run().id, "vpc");
    story.step(|next| progress::reject_dispatch(next, &dispatch, 404, "no such workflow"));
    assert_eq!(
        told(&story),
        "github, dispatch rejected\napply run: applying -> failed by settle\nvpc: planned -> failed by sending"
    );
}

#[test]
fn a_re_plan_and_its_taking_over_are_told_in_the_decisions_that_make_them() {
    let mut story = Story::planned("vpc +1, eks ~1, apps ~1, svpc =");
    story.apply("vpc eks");
    story.jobs("vpc +1");
    let job = format!("workflow_run:{}", story.row("vpc").claim.as_ref().unwrap().workflow_run_id);
    assert_eq!(
        told(&story),
        format!(
            "{job}, result\nplan run: nothing -> planning by plans behind an upstream\n\
             vpc: applying -> applied by result acceptance\n\
             eks: nothing -> pending by plans behind an upstream"
        )
    );
    let replan = story.replan().id.clone();
    story.plan_result(&replan, "eks", "~2").unwrap();
    let lines = told(&story);
    assert!(lines.contains("apply run: applying -> applied by settle"), "{lines}");
    assert!(lines.contains("eks: planned -> skipped by plans behind an upstream"), "{lines}");
    assert!(lines.contains("eks: pending -> planned by result acceptance"), "{lines}");
}

#[test]
fn a_row_names_a_bounded_number_of_stacks_and_counts_the_rest() {
    let stacks: Vec<String> = (0..STACKS_MAX + 44).map(|number| format!("stack{number:03}")).collect();
    let mut story = Story::of(&stacks.join(", "));
    story.resolved('a', &stacks.join(", "));
    let entry = story.changes.effects.audit.iter().find(|entry| entry.action == ACTION).unwrap();
    assert_eq!(entry.details["left_out"], 44);
    assert_eq!(entry.details["stacks"][0]["stacks"].as_array().unwrap().len(), STACKS_MAX);
}

#[test]
fn an_apply_of_twenty_stacks_writes_at_most_three_rows_a_stack() {
    let stacks: Vec<String> = (0..20).map(|number| format!("stack{number:02}")).collect();
    let mut story = Story::of(&stacks.join(", "));
    story.resolved('a', &stacks.join(", "));
    story.plans(&stacks.iter().map(|stack| format!("{stack} +1")).collect::<Vec<_>>().join(", "));
    story.apply("");
    let mut rows = story.changes.effects.audit.len();
    assert_eq!(rows, 1, "the request");
    for stack in &stacks {
        story.claim(stack).unwrap();
        rows += story.changes.effects.audit.len();
        story.reports(stack, "+1").unwrap();
        rows += story.changes.effects.audit.len();
    }
    assert_eq!(story.newest(|run| run.mode == Mode::Apply).status.as_str(), "applied");
    // Claimed, moved by the claim, moved by the result; the run ends within the last one.
    assert_eq!(rows, 1 + 3 * 20);
}
