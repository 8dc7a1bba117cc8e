//! Laws under any order of events: `laws` are checked after every step of every sequence.

use proptest::prelude::*;
use proptest::sample::Index;

use super::story::{Story, key, sha};
use crate::ids::{DispatchId, RunId, Sha};
use crate::run::close;
use crate::run::plan_view::PlanView;
use crate::run::progress;
use crate::run::scene::{Changes, Effects};
use crate::run::status::{Mode, RowStatus, RunStatus, Trigger};
use crate::run::supersede;

const STACKS: [&str; 5] = ["vpc", "eks", "apps", "svpc", "web"];
const OUTCOMES: [&str; 6] = ["+1", "+2", "=", "o1", "!", "?"];

#[derive(Debug, Clone)]
enum Event {
    /// A result of the newest plan run that still works.
    Plan(Index, Index),
    /// Everything that is still to be planned succeeds.
    PlanAll(Index),
    PlanAgain(Index),
    Apply(Vec<Index>),
    /// A merge applies, with one stack behind from the start.
    ApplyMerge(Index),
    Claim(Index),
    Report(Index, Index),
    Seen(Index, bool),
    End(Index),
    Reject(Index),
    Again(Index),
    Push(Index),
    Base,
    Unlock(Index),
    Close,
    Merge,
    /// The last event once more.
    Repeat,
}

fn event() -> impl Strategy<Value = Event> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), at()).prop_map(|(stack, outcome)| Event::Plan(stack, outcome)),
        4 => at().prop_map(Event::PlanAll),
        2 => at().prop_map(Event::PlanAgain),
        4 => proptest::collection::vec(at(), 0..4).prop_map(Event::Apply),
        1 => at().prop_map(Event::ApplyMerge),
        6 => at().prop_map(Event::Claim),
        6 => (at(), at()).prop_map(|(stack, outcome)| Event::Report(stack, outcome)),
        1 => (at(), any::<bool>()).prop_map(|(stack, waits)| Event::Seen(stack, waits)),
        2 => at().prop_map(Event::End),
        1 => at().prop_map(Event::Reject),
        1 => at().prop_map(Event::Again),
        1 => at().prop_map(Event::Push),
        1 => Just(Event::Base),
        1 => at().prop_map(Event::Unlock),
        1 => Just(Event::Close),
        1 => Just(Event::Merge),
        4 => Just(Event::Repeat),
    ]
}

/// Edges go from earlier to later names, so there is no cycle.
fn shape() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<bool>(), 10).prop_map(|edges| {
        let mut text = STACKS.join(", ");
        let pairs = (0..STACKS.len()).flat_map(|to| (0..to).map(move |from| (from, to)));
        for ((from, to), kept) in pairs.zip(edges) {
            if kept {
                text.push_str(&format!(", {} <- {}", STACKS[from], STACKS[to]));
            }
        }
        text
    })
}

/// Every other stack is affected by propagation only.
const AFFECTED: &str = "vpc, eks dependent, apps, svpc reads_state, web";

fn play(story: &mut Story, event: &Event, head: &mut char) {
    let stack = |index: &Index| STACKS[index.index(STACKS.len())];
    let outcome = |index: &Index| OUTCOMES[index.index(OUTCOMES.len())];
    match event {
        Event::Plan(at, how) => {
            if let Some((id, stack)) = waiting_plan(story, at) {
                story.plan_result(&id, &stack, outcome(how)).ok();
            }
        }
        Event::PlanAll(how) => {
            while let Some((id, stack)) = waiting_plan(story, how) {
                let text = if how.index(4) == 0 { "=" } else { "+1" };
                if story.plan_result(&id, &stack, text).is_err() {
                    break;
                }
            }
        }
        Event::PlanAgain(at) => {
            if story.view(*head).rows.contains_key(stack(at)) {
                story.plan_again(*head, stack(at));
            }
        }
        Event::Apply(picks) => {
            apply(story, picks.iter().map(stack).collect(), Trigger::Comment, sha(*head), &[sha(*head)], &[]);
        }
        Event::ApplyMerge(at) => {
            let commits = [sha('f'), sha(*head)];
            apply(story, Vec::new(), Trigger::PullRequest, sha('f'), &commits, &[stack(at)]);
        }
        Event::Claim(at) => {
            if let Some((id, stack)) = dispatched(story, at) {
                story.claim_of(&id, &stack, 1).ok();
            }
        }
        Event::Report(at, how) => {
            if let Some((_, stack)) = dispatched(story, at).filter(|(id, _)| *id == story.run().id) {
                story.reports(&stack, outcome(how)).ok();
            }
        }
        Event::Seen(at, waits) => {
            if let Some((id, stack)) = dispatched(story, at) {
                let dispatch = story.dispatch_of(&id, &stack);
                let status = if *waits { "waiting" } else { "in_progress" };
                story.step(|next| progress::on_job(next, &id, Some(&dispatch), &format!("job {stack}"), status, "u"));
            }
        }
        Event::End(at) => on_dispatch(story, at, |story, id| {
            story.step(|next| progress::complete_dispatch(next, id, "success"));
        }),
        Event::Reject(at) => on_dispatch(story, at, |story, id| {
            if story.scene.dispatches[id].workflow_run_id.is_none() {
                story.step(|next| progress::reject_dispatch(next, id, 422, "no"));
            }
        }),
        Event::Again(at) => on_dispatch(story, at, |story, id| {
            if story.scene.dispatches[id].mode != Mode::Apply {
                story.step(|next| progress::dispatch_again(next, id));
            }
        }),
        Event::Push(at) => {
            *head = ['a', 'b', 'c', 'd'][at.index(4)];
            let to = sha(*head);
            story.step(|next| supersede::head_moved(next, &to));
            story.resolved(*head, if at.index(2) == 0 { "vpc, web" } else { AFFECTED });
        }
        Event::Base => {
            let to = sha(*head);
            story.step(|next| supersede::base_changed(next, &to));
        }
        Event::Unlock(at) => drop(story.step(|next| close::unlock(next, &key(stack(at)), "ada", "", false))),
        Event::Close => story.step(|next| close::closed(next, true)),
        Event::Merge => drop(story.step(|next| close::merged(next, &sha(*head), true))),
        Event::Repeat => {}
    }
}

fn waiting_plan(story: &Story, at: &Index) -> Option<(RunId, String)> {
    let waiting: Vec<(RunId, String)> = story
        .scene
        .runs
        .values()
        .filter(|run| run.mode == Mode::Plan && !run.status.is_terminal())
        .flat_map(|run| story.scene.rows(&run.id).map(move |row| (run, row)))
        .filter(|(run, row)| {
            !row.status.is_done_planning() && (run.trigger == Trigger::PullRequest || is_open(story, row))
        })
        .map(|(run, row)| (run.id.clone(), row.key.to_string()))
        .collect();
    (!waiting.is_empty()).then(|| waiting[at.index(waiting.len())].clone())
}

fn is_open(story: &Story, row: &crate::run::model::Row) -> bool {
    row.dispatch_id.as_ref().is_some_and(|id| story.scene.dispatches[id].completed_at.is_none())
}

/// A stack of the newest apply whose job has not answered.
fn working(story: &Story) -> Option<String> {
    let mut rows = story.scene.rows(&story.run().id);
    rows.find(|row| is_open(story, row) && !row.status.is_terminal()).map(|row| row.key.to_string())
}

/// What layers 3 and 5 of the gate make sure of.
fn apply(story: &mut Story, picks: Vec<&str>, trigger: Trigger, at: Sha, commits: &[Sha], behind: &[&str]) {
    let view = PlanView::of(&story.scene, &commits.iter().collect::<Vec<_>>());
    if view.graph_sha().is_none() || view.is_failed_whole() || story.scene.apply_in_flight().is_some() {
        return;
    }
    let usable = |stack: &&str| {
        view.rows.get(*stack).is_some_and(|row| {
            let used = row.used_by_run.as_ref().and_then(|run| story.scene.row(run, &row.key));
            row.status == RowStatus::Planned && used.is_none_or(|used| used.status == RowStatus::Applied)
        })
    };
    let wanted: Vec<&str> = if picks.is_empty() { STACKS.to_vec() } else { picks };
    let picks: Vec<&str> = wanted.into_iter().filter(usable).collect();
    let behind: Vec<&str> = behind.iter().copied().filter(|stack| picks.contains(stack)).collect();
    if !picks.is_empty() {
        story.apply_at(at, commits, trigger, &picks.join(" "), &behind);
    }
}

fn dispatched(story: &Story, at: &Index) -> Option<(RunId, String)> {
    let rows = story.scene.rows.values().flat_map(|rows| rows.values());
    let carried = rows.filter(|row| row.mode == Mode::Apply && row.dispatch_id.is_some());
    let mut all: Vec<(RunId, String)> = carried.map(|row| (row.run_id.clone(), row.key.to_string())).collect();
    // Mostly of the newest apply.
    if at.index(4) > 0 {
        let newest = story.scene.newest_first().into_iter().find(|run| run.mode == Mode::Apply)?.id.clone();
        all.retain(|(id, _)| *id == newest);
    }
    (!all.is_empty()).then(|| all[at.index(all.len())].clone())
}

fn on_dispatch(story: &mut Story, at: &Index, act: impl FnOnce(&mut Story, &DispatchId)) {
    let open = story.scene.dispatches.values().filter(|dispatch| dispatch.completed_at.is_none());
    let open: Vec<DispatchId> = open.map(|dispatch| dispatch.id.clone()).collect();
    if !open.is_empty() {
        act(story, &open[at.index(open.len())]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_laws_hold(shape in shape(), events in proptest::collection::vec(event(), 1..60)) {
        let mut story = Story::of(&shape);
        let mut head = 'a';
        story.resolved('a', AFFECTED);
        let mut last = Event::Repeat;
        for event in events {
            match event {
                Event::Repeat => play(&mut story, &last, &mut head),
                other => { play(&mut story, &other, &mut head); last = other; }
            }
        }
    }

    #[test]
    fn an_apply_whose_jobs_all_answer_ends(shape in shape(), outcomes in proptest::collection::vec(any::<Index>(), 60)) {
        let mut story = Story::of(&shape);
        story.resolved('a', AFFECTED);
        story.plans("vpc +1, eks =, apps +1, svpc o1, web +1");
        story.apply("");
        let mut outcomes = outcomes.into_iter().cycle();
        // Each turn answers for one job; there are at most two (a fresh plan and an apply) a stack.
        for _ in 0..3 * STACKS.len() {
            let how = outcomes.next().unwrap();
            if let Some((id, stack)) = waiting_plan(&story, &how) {
                story.plan_result(&id, &stack, OUTCOMES[how.index(OUTCOMES.len())]).unwrap();
            } else if let Some(stack) = working(&story) {
                story.claim(&stack).unwrap();
                story.reports(&stack, OUTCOMES[how.index(OUTCOMES.len())]).unwrap();
            }
        }
        prop_assert!(matches!(story.run().status, RunStatus::Applied | RunStatus::Failed), "{}", story.applied());
    }

    #[test]
    fn every_event_told_twice_changes_nothing_the_second_time(outcomes in proptest::collection::vec(any::<Index>(), 20)) {
        let mut story = Story::of("vpc <- eks <- apps, svpc <- web");
        let plan = story.resolved('a', AFFECTED);
        let mut outcomes = outcomes.into_iter().cycle();
        for stack in STACKS {
            let how = OUTCOMES[outcomes.next().unwrap().index(4)];
            twice(&mut story, |story| drop(story.plan_result(&plan, stack, how)));
        }
        story.apply("");
        let id = story.run().id.clone();
        for _ in 0..3 * STACKS.len() {
            let how = OUTCOMES[outcomes.next().unwrap().index(OUTCOMES.len())];
            if let Some((id, stack)) = waiting_plan(&story, &outcomes.next().unwrap()) {
                twice(&mut story, |story| drop(story.plan_result(&id, &stack, how)));
            } else if let Some(stack) = working(&story) {
                twice(&mut story, |story| drop(story.claim_of(&id, &stack, 1)));
                twice(&mut story, |story| drop(story.reports(&stack, how)));
                let dispatch = story.dispatch_of(&id, &stack);
                if story.scene.rows(&id).all(|row| row.dispatch_id.as_ref() != Some(&dispatch) || row.status.is_terminal()) {
                    twice(&mut story, |story| story.step(|next| progress::complete_dispatch(next, &dispatch, "success")));
                }
            }
        }
    }
}

/// The second time writes no state; rendering again is harmless.
fn twice(story: &mut Story, event: impl Fn(&mut Story)) {
    event(story);
    let before = story.scene.clone();
    event(story);
    assert_eq!(story.scene, before);
    let written = Changes { effects: Effects::default(), ..story.changes.clone() };
    assert!(written.is_empty() && story.changes.effects.audit.is_empty(), "{written:?}");
}
