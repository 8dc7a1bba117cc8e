//! Who waits for whom, and whose turn it is (spec 30 §7.6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::story::{Story, key, sha};
use crate::ids::{RunId, StackId, StackKey};
use crate::run::close;
use crate::run::model::{Lock, Run};
use crate::run::queue::{self, Hold, Line};
use crate::run::status::{RunStatus, Trigger};
use crate::run::supersede;

fn keys(text: &str) -> BTreeSet<StackKey> {
    text.split_whitespace().map(key).collect()
}

fn id(number: usize) -> RunId {
    RunId::parse(&format!("00000000-0000-4000-8000-{number:012}")).unwrap()
}

/// `#7: vpc eks` locks these two; the queue is read from left to right.
fn line(locks: &str, queue: &str) -> Line {
    let mut template = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let apply = template.apply("");
    let template: Run = template.scene.runs[&apply].clone();
    let parse = |text: &str| -> Vec<(i64, BTreeSet<StackKey>)> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts
            .map(|part| {
                let (number, stacks) = part.split_once(':').unwrap();
                (number.trim_start_matches('#').parse().unwrap(), keys(stacks))
            })
            .collect()
    };
    let lock = |number: i64, key: &StackKey| Lock {
        stack_id: StackId::of(7, key.as_str()),
        key: key.clone(),
        repo_id: 7,
        run_id: apply.clone(),
        pr_number: number,
        taken_at: 5,
        reason: String::new(),
    };
    let locks = parse(locks);
    let locks = locks.iter().flat_map(|(number, keys)| keys.iter().map(|key| (key.clone(), lock(*number, key))));
    let queued = |(at, (pr_number, wants)): (usize, (i64, BTreeSet<StackKey>))| Run {
        id: id(at),
        pr_number,
        status: RunStatus::Pending,
        wants: wants.into_iter().collect(),
        created_at: i64::try_from(at).unwrap(),
        ..template.clone()
    };
    Line {
        locks: Arc::new(locks.collect()),
        queue: parse(queue).into_iter().enumerate().map(queued).collect(),
        changed_at: Arc::default(),
    }
}

/// `vpc locked by #7, eks after #3`.
fn told(holds: &BTreeMap<StackKey, Hold<'_>>) -> String {
    let words = holds.iter().map(|(key, hold)| match hold {
        Hold::Locked(lock) => format!("{key} locked by {}", lock.holder()),
        Hold::Waits(run) => format!("{key} after #{}", run.pr_number),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The pull requests whose turn it is.
fn turns(line: &Line) -> Vec<i64> {
    line.queue.iter().filter(|run| line.holds_of(&run.id).is_empty()).map(|run| run.pr_number).collect()
}

#[test]
fn a_later_apply_never_overtakes_an_earlier_one_on_a_shared_stack() {
    let line = line("#7: vpc", "#1: vpc eks, #2: eks, #3: apps, #4: apps");
    assert_eq!(told(&line.holds_of(&id(0))), "vpc locked by #7");
    assert_eq!(told(&line.holds_of(&id(1))), "eks after #1", "free, but not its turn");
    assert_eq!(turns(&line), [3]);
    assert_eq!([0, 1, 2, 3].map(|at| line.place_of(&id(at)).unwrap()), [1, 2, 1, 2]);
    assert_eq!(told(&line.holds(9, &keys("eks svpc"))), "eks after #1");
}

#[test]
fn a_pull_requests_own_locks_hold_nobody_up_but_others() {
    let line = line("#1: vpc, #0: svpc", "#1: vpc");
    assert_eq!(turns(&line), [1]);
    assert_eq!(told(&line.holds(2, &keys("vpc svpc"))), "svpc locked by a manual run, vpc locked by #1");
    assert_eq!(told(&line.holds(0, &keys("vpc svpc"))), "svpc locked by a manual run, vpc locked by #1");
}

#[test]
fn who_waits_for_this_pull_request_does_not_come_before_it() {
    // #2 waits for the lock of #1, and #3 for #2: neither can start before #1 is merged.
    let line = line("#1: vpc", "#2: vpc eks, #3: eks apps, #4: svpc");
    assert!(line.holds(1, &keys("eks apps")).is_empty());
    assert_eq!(told(&line.holds(1, &keys("apps svpc"))), "svpc after #4");
    assert_eq!(told(&line.holds(5, &keys("apps"))), "apps after #3");
}

#[test]
fn waiting_that_would_never_end_is_seen() {
    let line = line("#1: vpc, #2: eks, #3: apps", "#2: vpc, #3: eks");
    assert!(line.closes_a_circle(1, &keys("eks")), "#2 waits for #1");
    assert!(line.closes_a_circle(1, &keys("apps")), "#3 waits for #2, which waits for #1");
    assert!(!line.closes_a_circle(1, &keys("svpc")));
    assert!(!line.closes_a_circle(4, &keys("vpc eks apps")), "nobody waits for #4");
}

#[test]
fn who_waits_for_a_locked_stack_before_counts_in_a_circle_as_its_holder_does() {
    // #4 lets `vpc` go one day, but then #2 comes first, which waits for #3, which waits for #1.
    let line = line("#1: apps, #4: vpc, #3: eks", "#3: apps, #2: vpc eks");
    assert_eq!(told(&line.holds(1, &keys("vpc"))), "vpc locked by #4");
    assert!(line.closes_a_circle(1, &keys("vpc")));
    assert!(!line.closes_a_circle(5, &keys("vpc")));
}

#[test]
fn a_queued_apply_gives_way_to_a_newer_head_and_ends_with_its_pull_request() {
    let mut queued = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let run = queued.enqueue("vpc eks");
    assert_eq!((queued.locks().as_str(), queued.dispatched()), ("", vec![]));
    assert_eq!(queue::own(&queued.scene).unwrap().wants, [key("eks"), key("vpc")]);

    let mut pushed = queued.clone();
    pushed.step(|next| supersede::head_moved(next, &sha('b')));
    assert_eq!(pushed.scene.runs[&run].status, RunStatus::Superseded);
    assert!(pushed.comments()[0].contains("It had waited in the queue"), "{:?}", pushed.comments());

    let mut closed = queued.clone();
    closed.step(|next| close::closed(next, true));
    assert_eq!(closed.scene.runs[&run].status, RunStatus::Failed);

    let mut merged = queued;
    merged.step(|next| close::merged(next, &sha('a'), true));
    assert_eq!(merged.scene.runs[&run].status, RunStatus::Failed);
    assert_eq!(merged.comments(), ["**Apply of aaaaaaa abandoned before it began:** the pull request is merged."]);
}

#[test]
fn who_came_before_stays_before_whatever_its_clock_said() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let mut before = line("", "#2: vpc").queue.remove(0);
    before.created_at = story.now + 60_000;
    story.scene.queue.push(before);
    let run = story.enqueue("vpc");
    assert_eq!(Line::of(&story.scene).place_of(&run), Some(2));
}

#[test]
fn a_promoted_apply_takes_its_locks_and_opens_its_first_wave() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let run = story.enqueue("vpc eks");
    story.step(|next| queue::promote(next, &run));

    assert_eq!(story.locks(), "eks #1, vpc #1");
    assert_eq!(story.scene.runs[&run].status, RunStatus::Applying);
    assert!(!story.scene.runs[&run].is_queued() && !story.scene.runs[&run].wants.is_empty());
    assert_eq!(story.dispatched().len(), 1);
    assert_eq!(story.audited(), [format!("apply_promoted run:{run}")]);
}

#[test]
fn case_137_a_promoted_apply_is_planned_again_behind_what_the_one_before_it_applied() {
    let mut story = Story::planned("vpc +1, eks ~1, apps +1, svpc +1");
    let run = story.enqueue("eks");
    // Another pull request applies `vpc` while this one waits.
    story.now += 1_000;
    story.scene.changed_at_mut().insert(key("vpc"), story.now);
    story.step(|next| queue::promote(next, &run));

    assert_eq!(story.replan().for_run, Some(run.clone()));
    assert_eq!(story.row("eks").behind, ["vpc"]);
    assert_eq!(story.locks(), "eks #1", "it waits for its new plan under its lock");
    story.plans("eks ~1");
    story.jobs("eks ~1");
    assert_eq!(story.scene.runs[&run].status, RunStatus::Applied);
}

#[test]
fn a_promotion_whose_plans_changed_starts_nothing() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let run = story.enqueue("vpc eks");
    story.plan_again('a', "vpc");
    story.plans("vpc +2");
    story.step(|next| queue::promote(next, &run));

    assert_eq!((story.scene.runs[&run].status, story.locks().as_str()), (RunStatus::Failed, ""));
    assert_eq!(story.comments(), ["**Apply of aaaaaaa abandoned before it began:** the plans of vpc changed."]);
}

#[test]
fn a_queued_merge_apply_is_superseded_by_nothing() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let run = story.enqueue_at(sha('f'), &[sha('f'), sha('a')], Trigger::PullRequest, "vpc");
    story.step(|next| supersede::head_moved(next, &sha('a')));
    story.step(|next| close::merged(next, &sha('a'), false));
    assert!(story.scene.runs[&run].is_queued());
    story.step(|next| queue::promote(next, &run));
    assert_eq!(story.locks(), "vpc #1");
}

/// A pull request asks for stacks, or ends and frees what it holds.
#[derive(Debug, Clone)]
enum Move {
    Ask(i64, BTreeSet<StackKey>),
    End(i64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let stacks = proptest::sample::subsequence(vec!["vpc", "eks", "apps", "svpc"], 1..=3);
    let ask = (1_i64..6, stacks).prop_map(|(number, stacks)| Move::Ask(number, stacks.into_iter().map(key).collect()));
    proptest::collection::vec(prop_oneof![3 => ask, 2 => (1_i64..6).prop_map(Move::End)], 1..40)
}

proptest! {
    /// Everyone who waits is served in the end, and nobody before somebody who came first and could have gone.
    #[test]
    fn the_line_is_fair_and_empties(moves in moves()) {
        let template = line("#1: vpc", "#2: vpc");
        let (lock, run) = (template.locks[&key("vpc")].clone(), template.queue[0].clone());
        let mut line = Line { locks: Arc::default(), queue: Vec::new(), changed_at: Arc::default() };
        let take = |line: &mut Line, number: i64, wants: &BTreeSet<StackKey>| {
            for key in wants {
                let taken = Lock { key: key.clone(), pr_number: number, ..lock.clone() };
                let before = Arc::make_mut(&mut line.locks).insert(key.clone(), taken);
                assert!(before.as_ref().is_none_or(|before| before.pr_number == number), "a lock was taken from {before:?}");
            }
        };
        let serve = |line: &mut Line| {
            while let Some(at) = line.queue.iter().position(|run| line.holds_of(&run.id).is_empty()) {
                let run = line.queue.remove(at);
                let wants: BTreeSet<StackKey> = run.wants.iter().cloned().collect();
                let waits_for_it = |before: &Run| line.locks.values().any(|lock| lock.pr_number == run.pr_number)
                    && !line.holds_of(&before.id).is_empty();
                for before in &line.queue[..at] {
                    let shares = before.wants.iter().any(|key| wants.contains(key));
                    assert!(!shares || waits_for_it(before), "#{} overtook #{}", run.pr_number, before.pr_number);
                }
                take(line, run.pr_number, &wants);
            }
        };
        for (at, step) in moves.into_iter().enumerate() {
            match step {
                Move::Ask(number, wants) if line.queue.iter().all(|run| run.pr_number != number) => {
                    if line.holds(number, &wants).is_empty() {
                        take(&mut line, number, &wants);
                    } else if !line.closes_a_circle(number, &wants) {
                        let wants = wants.into_iter().collect();
                        line.queue.push(Run { id: id(at), pr_number: number, wants, created_at: at as i64, ..run.clone() });
                    }
                }
                Move::Ask(..) => {}
                Move::End(number) => {
                    // One that waits cannot be merged.
                    if line.queue.iter().all(|run| run.pr_number != number) {
                        Arc::make_mut(&mut line.locks).retain(|_, lock| lock.pr_number != number);
                    }
                }
            }
            serve(&mut line);
        }
        for _ in 0..=line.queue.len() {
            for number in 1..6 {
                if line.queue.iter().all(|run| run.pr_number != number) {
                    Arc::make_mut(&mut line.locks).retain(|_, lock| lock.pr_number != number);
                }
            }
            serve(&mut line);
        }
        prop_assert!(line.queue.is_empty(), "somebody waits for ever: {:?}", line.queue.iter().map(|run| run.pr_number).collect::<Vec<_>>());
    }
}
