//! The story checked by what it left behind, without believing its report (design §6).
//!
//! Everything is derived from the journal of the fake GitHub, the state objects and the server's database.
//! `left` reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::path::Path;

use aho_corasick::AhoCorasick;
use serde_json::Value;

use crate::story::{self, Story};
use left::{number, text};

pub use left::Evidence;

mod left;

const PLANTED_SECRET: &str = "hunter2-correct-horse-battery";
const STATE: &str = "s3/stackorder-example-state";

type Check = fn(&Evidence, &Story);

/// One test, so that only one thread waits for the story while the others go on; every broken claim is told.
#[test]
fn what_the_story_left_proves_what_it_says() {
    let checks: [(&str, Check); 9] = [
        ("applies follow the graph", applies_follow_the_graph),
        ("a dispatch has one workflow run that claims", a_dispatch_has_one_workflow_run_that_claims),
        ("a plan is claimed at most once", a_plan_is_claimed_at_most_once),
        ("a stack has one lock at a time", a_stack_has_one_lock_at_a_time),
        ("every state was written by the applies that GitHub saw", states_were_written_by_the_applies),
        ("who is refused is told why, on GitHub", refusals_are_told_on_github),
        ("what was refused is in the audit", refusals_are_audited),
        ("the planted secret stays where secrets are", the_planted_secret_stays_where_secrets_are),
        ("without workflow events every apply ended too", webhooks_were_lost_and_yet_every_apply_ended),
    ];
    let story = story::with_the_stand_in();
    let evidence = Evidence::of(&story.dir);
    let broken: Vec<&str> = checks
        .iter()
        .filter(|(_, check)| std::panic::catch_unwind(AssertUnwindSafe(|| check(&evidence, story))).is_err())
        .map(|(claim, _)| *claim)
        .collect();
    assert!(broken.is_empty(), "not true of {}: {broken:#?}", story.dir.display());
}

/// A job claims its stack only after everything that the stack depends on has ended well in the same run.
fn applies_follow_the_graph(evidence: &Evidence, _: &Story) {
    let (calls, starts) = (evidence.dispatch_calls(), evidence.jobs("job_start"));
    let mut compared = 0;
    for row in evidence.claimed() {
        let (run, key) = (text(&row["run_id"]), text(&row["key"]));
        let graph = &evidence.graphs[text(&evidence.runs[run]["graph_sha"])];
        let upstream = upstream_of(graph, key);
        for before in evidence.rows_of(run).filter(|before| upstream.contains(text(&before["key"]))) {
            let pair = format!("{} before {key} in {run}", before["key"]);
            assert!(["applied", "noop"].contains(&text(&before["status"])), "{pair}: {}", before["status"]);
            assert!(number(&before["finished_at"]) <= number(&row["claim"]["at"]), "{pair}");
            compared += 1;
            // GitHub saw the same order: the job before had started when this stack was dispatched.
            if before["claim"].is_object() {
                let workflow_run = number(&before["claim"]["workflow_run_id"]);
                let started = starts.iter().find(|job| job.workflow_run == workflow_run).expect("a job claimed it");
                let this = number(&row["claim"]["workflow_run_id"]);
                let call = calls.iter().find(|call| call.workflow_run == this).expect("a dispatch started it");
                assert!(started.line < call.line, "{pair}: dispatched too early");
            }
        }
    }
    assert!(compared >= 3, "the story compares too little: {compared}");
}

/// Everything the stack depends on, however far away.
fn upstream_of(graph: &Value, key: &str) -> BTreeSet<String> {
    let edges: Vec<(&str, &str)> = graph["edges"]
        .as_array()
        .expect("a graph has edges")
        .iter()
        .filter(|edge| edge["from"]["kind"] == "stack" && edge["to"]["kind"] == "stack")
        .map(|edge| (text(&edge["from"]["key"]), text(&edge["to"]["key"])))
        .collect();
    let mut found = BTreeSet::new();
    let mut next = vec![key];
    while let Some(here) = next.pop() {
        for (_, to) in edges.iter().filter(|(from, _)| *from == here) {
            if found.insert((*to).to_owned()) {
                next.push(to);
            }
        }
    }
    found
}

/// I6 and I7, from both sides: what GitHub was asked for, and which workflow run claimed.
fn a_dispatch_has_one_workflow_run_that_claims(evidence: &Evidence, _: &Story) {
    let calls = evidence.dispatch_calls();
    let served: Vec<&Value> = evidence.dispatches.values().filter(|one| one["workflow_run_id"].is_i64()).collect();
    let bound: BTreeMap<i64, &Value> = served.iter().map(|one| (number(&one["workflow_run_id"]), *one)).collect();
    assert_eq!(bound.len(), served.len(), "a workflow run serves two dispatches");

    // A dispatch may be asked for twice after a lost answer; of the runs that came of it one is accepted.
    let mut accepted: BTreeMap<(&str, &str, u64, &[String]), Vec<i64>> = BTreeMap::new();
    for call in &calls {
        let of_this = accepted.entry((&call.run, &call.mode, call.wave, &call.stacks)).or_default();
        let Some(dispatch) = bound.get(&call.workflow_run) else { continue };
        of_this.push(call.workflow_run);
        let named = (text(&dispatch["run_id"]), text(&dispatch["mode"]), dispatch["wave"].as_u64());
        assert_eq!(named, (call.run.as_str(), call.mode.as_str(), Some(call.wave)));
    }
    for (asked, runs) in &accepted {
        assert_eq!(runs.len(), 1, "workflow runs accepted for {asked:?}");
    }
    // The clock ran away from checks for drift that waited to be sent: those are given up, and what is given up is not sent.
    let unserved: Vec<&Value> = evidence.dispatches.values().filter(|one| one["workflow_run_id"].is_null()).collect();
    for dispatch in &unserved {
        assert!(dispatch["mode"] == "drift" && dispatch["conclusion"] == "timed_out", "{dispatch}");
        assert!(dispatch["sent_at"].is_null(), "{dispatch}");
        assert!(calls.iter().all(|call| dispatch["run_id"] != call.run.as_str()), "given up and sent: {dispatch}");
    }
    assert_eq!(
        accepted.len() + unserved.len(),
        evidence.dispatches.len(),
        "a dispatch that GitHub never saw, or of nobody"
    );

    let mut claiming: BTreeMap<(&str, i64, &str, i64), BTreeSet<i64>> = BTreeMap::new();
    for row in evidence.claimed() {
        let dispatch = &evidence.dispatches[text(&row["dispatch_id"])];
        let workflow_run = number(&row["claim"]["workflow_run_id"]);
        assert_eq!(dispatch["workflow_run_id"], workflow_run, "{} was claimed by another's job", row["key"]);
        let call = calls.iter().find(|call| call.workflow_run == workflow_run).expect("a dispatch started it");
        assert!(call.stacks.iter().any(|key| row["key"] == key.as_str()), "{} was not dispatched", row["key"]);
        let identity = (
            text(&dispatch["run_id"]),
            number(&dispatch["wave"]),
            text(&dispatch["environment"]),
            number(&dispatch["chunk"]),
        );
        claiming.entry(identity).or_default().insert(workflow_run);
    }
    assert!(claiming.len() >= 8, "the story claims too little: {claiming:?}");
    for (identity, runs) in claiming {
        assert_eq!(runs.len(), 1, "claimed for {identity:?}");
    }
}

/// I17.
fn a_plan_is_claimed_at_most_once(evidence: &Evidence, _: &Story) {
    let mut plans = BTreeSet::new();
    let mut bundles = BTreeSet::new();
    let mut claims = BTreeSet::new();
    for row in evidence.claimed() {
        let (run, key) = (text(&row["run_id"]), text(&row["key"]));
        let plan_run = text(&row["from_plan_run"]);
        assert!(plans.insert((plan_run, key)), "the plan of {key} by {plan_run} was claimed twice");
        let bundle = (number(&row["plan_run_id"]), text(&row["plan_artifact"]));
        assert!(bundles.insert(bundle), "the bundle {bundle:?} was claimed twice");
        let plan = evidence.rows_of(plan_run).find(|plan| plan["key"] == key).expect("the plan is stored");
        assert_eq!(plan["used_by_run"], run, "the plan of {key} names another apply");
        assert_eq!(row["has_changes"], true, "{key} was dispatched with nothing to apply");
        claims.insert((format!("run:{run}"), key));
    }
    let audited: Vec<(String, &str)> = evidence
        .audit
        .iter()
        .filter(|entry| entry.action == "claimed")
        .map(|entry| (entry.target.clone(), text(&entry.details["stack"])))
        .collect();
    assert_eq!(audited.len(), claims.len());
    assert_eq!(audited.into_iter().collect::<BTreeSet<_>>(), claims);
}

/// I1, replayed: an accepted apply takes all stacks of its run, a manual run its own, an `unlock` row gives one back.
fn a_stack_has_one_lock_at_a_time(evidence: &Evidence, _: &Story) {
    let mut held: BTreeMap<String, i64> = BTreeMap::new();
    let mut taken = 0;
    for entry in &evidence.audit {
        let pull = entry.details["pr"].as_i64().unwrap_or(0);
        let keys: Vec<&str> = match entry.action.as_str() {
            "command" if entry.details["accepted"] == true && entry.details["run_id"].is_string() => {
                let run = text(&entry.details["run_id"]);
                if evidence.runs[run]["mode"] != "apply" {
                    continue;
                }
                evidence.rows_of(run).map(|row| text(&row["key"])).collect()
            }
            "manual_apply" => {
                entry.details["stacks"].as_array().expect("a manual run names its stacks").iter().map(text).collect()
            }
            "unlock" => {
                let holder = held.remove(text(&entry.details["stack"]));
                assert_eq!(holder, Some(pull), "{} released what it did not hold", entry.target);
                continue;
            }
            _ => continue,
        };
        for key in keys {
            let before = held.insert(key.to_owned(), pull);
            assert!(before.is_none_or(|before| before == pull && pull != 0), "{key}: {before:?}, then {pull}");
            taken += 1;
        }
    }
    assert!(taken >= 20, "the story locks too little: {taken}");
    assert_eq!(held, evidence.locks, "the table of locks is not what its history says");
}

/// A state's serial grows by one with each apply that changes something. How often a job that failed or was killed has
/// written cannot be told from outside: it may or may not have come to that. Hence two bounds, equal for most stacks.
fn states_were_written_by_the_applies(evidence: &Evidence, _: &Story) {
    let newest = evidence.graphs.values().next().expect("a graph is stored");
    let mut exact = 0;
    for stack in newest["stacks"].as_array().expect("a graph has stacks") {
        let key = text(&stack["key"]);
        let file = evidence.dir.join(STATE).join(text(&stack["backend"]["key"]));
        let state: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let manual = evidence
            .rows
            .iter()
            .filter(|row| row["key"] == key && row["status"] == "applied")
            .filter(|row| evidence.runs[text(&row["run_id"])]["trigger"] == "manual")
            .count();
        let jobs: Vec<_> =
            evidence.jobs("job_start").into_iter().filter(|job| job.mode == "apply" && job.stack == key).collect();
        let ends = evidence.jobs("job_end");
        let succeeded = jobs
            .iter()
            .filter(|job| {
                ends.iter().any(|end| {
                    (end.workflow_run, &end.stack, end.conclusion.as_deref())
                        == (job.workflow_run, &job.stack, Some("success"))
                })
            })
            .count();
        let serial = usize::try_from(number(&state["serial"])).unwrap();
        let bounds = manual + succeeded..=manual + jobs.len();
        assert!(bounds.contains(&serial), "{key} has serial {serial}, outside {bounds:?}");
        exact += usize::from(succeeded == jobs.len());
    }
    assert!(exact >= 8, "only {exact} stacks have a serial that is known exactly");
}

fn refusals_are_told_on_github(evidence: &Evidence, _: &Story) {
    let refusals = refusals(evidence);
    let of_layer = |layer: &str| -> Vec<(i64, &str)> {
        let named = format!("- **Layer {layer}**");
        refusals.iter().copied().filter(|(_, body)| body.contains(&named)).collect()
    };

    let approvals = of_layer("2, approvals");
    assert!(approvals.iter().any(|(_, body)| body.contains("has 0 approvals that count")), "{approvals:?}");

    let locks = of_layer("5, locks");
    assert!(!locks.is_empty());
    for (issue, body) in locks {
        let (before, _) = body.split_once(" has held the lock since ").expect("the refusal says since when");
        let holder: i64 = before.rsplit_once('#').expect("it names the holder").1.parse().unwrap();
        assert_ne!(holder, issue);
        let applied = |run: &&Value| run["mode"] == "apply" && run["pr_number"] == holder;
        assert!(evidence.runs.values().any(|run| applied(&run)), "#{holder} never applied anything");
    }

    let mut ends = BTreeSet::new();
    for (_, body) in of_layer("3, plans for the head commit") {
        let (stack, rest) =
            body.split_once("(`").and_then(|(_, rest)| rest.split_once("`)")).expect("it names a stack");
        let (_, rest) = rest.split_once("its plan was used by apply run ").expect("it says that the plan was used");
        let (run, rest) = rest.split_once(", which ended ").expect("it names the run and how it ended");
        let (end, _) = rest.split_once(';').expect("it says what to do");
        let row = evidence.rows_of(run).find(|row| row["key"] == stack).expect("the run has the stack");
        assert!(row["claim"].is_object() && row["status"] == end, "{stack} of {run} is {}", row["status"]);
        ends.insert(end);
    }
    assert_eq!(ends, BTreeSet::from(["failed", "unknown"]));
}

/// As many refusals as answers, and none of them made a run.
fn refusals_are_audited(evidence: &Evidence, _: &Story) {
    let commands = || evidence.audit.iter().filter(|entry| entry.action == "command");
    let refused: Vec<_> = commands().filter(|entry| entry.details["accepted"] == false).collect();
    assert_eq!(refused.len(), refusals(evidence).len());
    for entry in refused {
        assert!(entry.details["run_id"].is_null() && entry.details["reason"].is_string(), "{}", entry.details);
        assert_ne!(entry.actor, "rita");
    }
    let applies = evidence.runs.values().filter(|run| run["mode"] == "apply" && run["trigger"] == "comment").count();
    let accepted = commands().filter(|entry| entry.details["accepted"] == true && entry.details["verb"] == "apply");
    assert_eq!(accepted.count(), applies);
    let ignored: Vec<&str> = evidence
        .audit
        .iter()
        .filter(|entry| entry.action == "command_ignored")
        .map(|entry| entry.actor.as_str())
        .collect();
    assert_eq!(ignored, ["rita"], "she may only read");
}

fn refusals(evidence: &Evidence) -> Vec<(i64, &str)> {
    evidence.comments().into_iter().filter(|(_, body)| body.contains("**Refused: `stackorder apply`.**")).collect()
}

/// It may be in the repository and whatever shows or copies it, in state, and in the plan bundles; nowhere else.
fn the_planted_secret_stays_where_secrets_are(evidence: &Evidence, story: &Story) {
    let secret = secret_in_all_its_forms();
    assert!(!secret.is_match(&story.transcript));
    let mut in_state = 0;
    for file in files_below(&evidence.dir) {
        let name = file.strip_prefix(&evidence.dir).unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&file).unwrap();
        if name == "github.ndjson" || !secret.is_match(&bytes) {
            continue;
        }
        let is_repository = name.starts_with("github/git/")
            || ["clone-", "runner/work/"].iter().any(|copies| name.starts_with(copies))
                && name.ends_with("/stacks/prod/apps/settings.auto.tfvars");
        let is_state = name.starts_with("s3/");
        in_state += usize::from(is_state);
        assert!(is_repository || is_state || name.starts_with("runner/artifacts/"), "the planted secret is in {name}");
    }
    assert!(in_state > 0, "the secret was never planted");

    for entry in &evidence.journal {
        let mut entry = entry.clone();
        // GitHub's own answer about a commit shows what was committed.
        let path = entry["path"].as_str().unwrap_or_default();
        let shows_files =
            ["/commits/", "/compare/", "/contents/"].iter().any(|part| path.contains(part)) || path.ends_with("/files");
        if entry["method"] == "GET" && shows_files {
            entry["response"] = Value::Null;
        }
        let entry = entry.to_string();
        assert!(!secret.is_match(&entry), "the planted secret was sent: {entry:.2000}");
    }
}

/// As it is, and in base64 at each of the three offsets at which it can start there.
fn secret_in_all_its_forms() -> AhoCorasick {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    let mut forms = vec![PLANTED_SECRET.to_owned()];
    for offset in 0..3 {
        let encoded = STANDARD_NO_PAD.encode(format!("{}{PLANTED_SECRET}", &"   "[..offset]));
        // The first and the last characters depend on what stands around it.
        forms.push(encoded[4..encoded.len() - 4].to_owned());
    }
    AhoCorasick::new(forms).unwrap()
}

fn files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        // A link leads to what is looked at where it is, or to this very program.
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files.extend(files_below(&entry.path())),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

/// Workflow events were lost, and every apply still ended.
fn webhooks_were_lost_and_yet_every_apply_ended(evidence: &Evidence, _: &Story) {
    let lost = evidence.journal.iter().filter(|entry| entry["kind"] == "webhook" && entry["lost"] == true);
    assert!(lost.count() > 0, "nothing was lost");
    for (id, run) in evidence.runs.iter().filter(|(_, run)| run["mode"] == "apply") {
        assert!(["applied", "failed"].contains(&text(&run["status"])), "{id} is {}", run["status"]);
    }
    for dispatch in evidence.dispatches.values().filter(|dispatch| dispatch["mode"] == "apply") {
        assert!(dispatch["completed_at"].is_i64(), "{dispatch}");
    }
}
