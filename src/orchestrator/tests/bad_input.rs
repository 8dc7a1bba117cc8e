//! Reports, claims, events and comments that must change nothing: the exact answer of the specification, the store as it was,
//! and an audit row where spec 21 has one.

use serde_json::json;

use super::field_reports::comment_event;
use super::*;
use crate::api::{CheckVerdict, ClaimRequest, StackResult};
use crate::gate::facts::Permission;
use crate::ids::StackKey;
use crate::run::scene::Scene;
use crate::run::status::{RowStatus, VerdictStatus};

/// Status and code, as spec 20 §3 pairs them.
fn answer<T: std::fmt::Debug>(answer: std::result::Result<T, CallError>) -> (u16, &'static str) {
    match answer {
        Ok(_) => (200, ""),
        Err(CallError::Refused(Refused::Invalid { .. })) => (400, "invalid"),
        Err(CallError::Refused(Refused::Forbidden(_))) => (403, "forbidden"),
        Err(CallError::Refused(Refused::NotFound(_))) => (404, "not_found"),
        Err(CallError::Refused(Refused::Conflict(_))) => (409, "conflict"),
        Err(CallError::Refused(Refused::Superseded(_))) => (409, "superseded"),
        Err(CallError::Refused(Refused::Locked(_)) | CallError::Locked { .. }) => (423, "locked"),
        Err(CallError::Gate(_)) => (409, "refused"),
        Err(CallError::Failed(error)) => panic!("{error}"),
    }
}

/// A pull request with a superseded plan, a finished one, and an apply of `vpc` whose job has claimed and of which `eks` waits.
struct Bad {
    world: World,
    superseded: RunId,
    plan: RunId,
    apply: RunId,
}

impl Bad {
    async fn new() -> Self {
        let world = World::new().await;
        let (superseded, _) = world.plan(sha('a')).await;
        let apply = world.half_applied(sha('b')).await;
        let plan = world.runs().await.into_iter().find(|run| run.mode == Mode::Plan && run.sha == sha('b')).unwrap().id;
        world.waiting().await;
        Self { world, superseded, plan, apply }
    }

    /// A job that our dispatch started, as the one that claimed `vpc` unless something is changed.
    async fn dispatched(&self, change: impl FnOnce(&mut Claims)) -> Caller {
        let Caller::Job { mut claims, repo } = self.world.plan_job().await else { unreachable!("it is a job") };
        claims.event_name = "workflow_dispatch".to_owned();
        claims.git_ref = "refs/heads/main".to_owned();
        claims.environment = Some("default".to_owned());
        (claims.run_id, claims.run_attempt, claims.check_run_id) = (900, 1, 1);
        change(&mut claims);
        Caller::Job { claims, repo }
    }

    async fn pull_job(&self, change: impl FnOnce(&mut Claims)) -> Caller {
        let Caller::Job { mut claims, repo } = self.world.plan_job().await else { unreachable!("it is a job") };
        change(&mut claims);
        Caller::Job { claims, repo }
    }

    /// All that the store holds of the pull request, and whether anything waits to be done.
    async fn state(&self) -> (Scene, Vec<Run>, Option<Millis>) {
        let store = &self.world.app.store;
        let scene = store.pull_scene(REPO, 1).await.unwrap().unwrap();
        (scene, self.world.runs().await, store.next_due().await.unwrap())
    }

    /// Does it, and holds the store against what it was. The answer, and what the audit gained.
    async fn changes_nothing<T>(&self, what: &str, act: impl Future<Output = T>) -> (T, Vec<(String, String)>) {
        let (before, audited) = (self.state().await, self.world.audit_trail().await.len());
        let answer = act.await;
        assert!(self.state().await == before, "{what} changed something");
        let mut gained = self.world.audit_trail().await;
        gained.truncate(gained.len() - audited);
        let told = |entry: crate::run::model::AuditEntry| {
            (
                entry.action,
                entry.details.get("reason").and_then(|reason| reason.as_str()).unwrap_or_default().to_owned(),
            )
        };
        (answer, gained.into_iter().map(told).collect())
    }
}

#[tokio::test]
async fn a_report_that_is_not_of_the_job_it_belongs_to_changes_nothing() {
    let bad = Bad::new().await;
    let app = &bad.world.app;
    let unknown = app.new_run_id();
    let (planned, applied) = (result(Mode::Plan, "+2", "late"), result(Mode::Apply, "+1", ""));
    let stranger = {
        let Caller::Job { claims, mut repo } = bad.pull_job(|_| {}).await else { unreachable!("it is a job") };
        repo.id = 8;
        Caller::Job { claims, repo }
    };
    let key_of_all = Caller::Key(api_key(&["read", "apply", "unlock"], &[]));
    let key_of_others = Caller::Key(api_key(&["read", "apply", "unlock"], &["acme/apps"]));
    type Row<'a> = (&'a str, Caller, &'a RunId, &'a str, &'a StackResult, (u16, &'static str));
    let table: Vec<Row<'_>> = vec![
        ("an unknown run", bad.pull_job(|_| {}).await, &unknown, "vpc", &planned, (404, "not_found")),
        ("an unknown stack", bad.pull_job(|_| {}).await, &bad.plan, "nope", &planned, (404, "not_found")),
        ("a finished plan", bad.pull_job(|_| {}).await, &bad.plan, "vpc", &planned, (409, "conflict")),
        ("a superseded plan", bad.pull_job(|_| {}).await, &bad.superseded, "vpc", &planned, (409, "superseded")),
        ("a superseded plan, by a key", key_of_all.clone(), &bad.superseded, "vpc", &planned, (409, "superseded")),
        (
            "another pull request's plan",
            bad.pull_job(|claims| claims.git_ref = "refs/pull/2/merge".to_owned()).await,
            &bad.plan,
            "vpc",
            &planned,
            (403, "forbidden"),
        ),
        ("another repository's plan", stranger.clone(), &bad.plan, "vpc", &planned, (404, "not_found")),
        (
            "a pull request's job on an apply",
            bad.pull_job(|_| {}).await,
            &bad.apply,
            "vpc",
            &applied,
            (403, "forbidden"),
        ),
        ("a key on a plan", key_of_all.clone(), &bad.plan, "vpc", &planned, (403, "forbidden")),
        ("a key on an apply", key_of_all.clone(), &bad.apply, "vpc", &applied, (403, "forbidden")),
        ("a key of another repository", key_of_others, &bad.apply, "vpc", &applied, (404, "not_found")),
        (
            "a job that a push started",
            bad.pull_job(|claims| claims.event_name = "push".to_owned()).await,
            &bad.plan,
            "vpc",
            &planned,
            (403, "forbidden"),
        ),
        ("a plan for an apply", bad.dispatched(|_| {}).await, &bad.apply, "vpc", &planned, (400, "invalid")),
        ("a stack it did not claim", bad.dispatched(|_| {}).await, &bad.apply, "eks", &applied, (403, "forbidden")),
        (
            "another attempt",
            bad.dispatched(|claims| claims.run_attempt = 2).await,
            &bad.apply,
            "vpc",
            &applied,
            (409, "conflict"),
        ),
        (
            "another job of the workflow run",
            bad.dispatched(|claims| claims.check_run_id = 2).await,
            &bad.apply,
            "vpc",
            &applied,
            (409, "conflict"),
        ),
        (
            "another environment",
            bad.dispatched(|claims| (claims.environment, claims.check_run_id) = (Some("staging".to_owned()), 2)).await,
            &bad.apply,
            "vpc",
            &applied,
            (403, "forbidden"),
        ),
        (
            "no environment",
            bad.dispatched(|claims| (claims.environment, claims.check_run_id) = (None, 2)).await,
            &bad.apply,
            "vpc",
            &applied,
            (403, "forbidden"),
        ),
        (
            "a job of another branch",
            bad.dispatched(|claims| (claims.git_ref, claims.check_run_id) = ("refs/heads/topic".to_owned(), 2)).await,
            &bad.apply,
            "vpc",
            &applied,
            (403, "forbidden"),
        ),
        (
            "a duplicate of the dispatch",
            bad.dispatched(|claims| claims.run_id = 901).await,
            &bad.apply,
            "vpc",
            &applied,
            (403, "forbidden"),
        ),
    ];
    for (what, caller, run, stack, report, wanted) in &table {
        let stack = key(stack);
        let call = app.report_result(caller, run, &stack, report);
        let (found, audited) = bad.changes_nothing(what, call).await;
        assert_eq!(answer(found), *wanted, "{what}");
        assert_eq!(audited, [], "{what}");
    }

    let verdict = CheckVerdict {
        status: VerdictStatus::Fail,
        summary: String::new(),
        details: String::new(),
        details_url: String::new(),
    };
    for (what, caller, run, name, wanted) in [
        ("a late verdict", bad.pull_job(|_| {}).await, &bad.plan, "policy", (409, "conflict")),
        ("a verdict on a superseded plan", bad.pull_job(|_| {}).await, &bad.superseded, "policy", (409, "superseded")),
        ("a verdict named as a roll-up", bad.pull_job(|_| {}).await, &bad.plan, "Apply", (400, "invalid")),
        ("a stranger's verdict", stranger, &bad.plan, "policy", (404, "not_found")),
        ("a key's verdict", key_of_all, &bad.plan, "policy", (403, "forbidden")),
    ] {
        let vpc = key("vpc");
        let call = app.report_verdict(&caller, run, &vpc, name, &verdict);
        let (found, audited) = bad.changes_nothing(what, call).await;
        assert_eq!((answer(found), audited), (wanted, Vec::new()), "{what}");
    }
}

#[tokio::test]
async fn a_claim_that_is_not_the_rows_own_changes_nothing() {
    let bad = Bad::new().await;
    let app = &bad.world.app;
    let claim = |attempt| ClaimRequest { sha: sha('b').to_string(), workflow_run_attempt: attempt };
    let (vpc, unknown) = (key("vpc"), app.new_run_id());
    type Row<'a> = (&'a str, Caller, &'a RunId, &'a StackKey, ClaimRequest, (u16, &'static str));
    let other_sha = ClaimRequest { sha: sha('a').to_string(), ..claim(1) };
    let nope = key("nope");
    let table: Vec<Row<'_>> = vec![
        ("an unknown run", bad.dispatched(|_| {}).await, &unknown, &vpc, claim(1), (404, "not_found")),
        ("an unknown stack", bad.dispatched(|_| {}).await, &bad.apply, &nope, claim(1), (404, "not_found")),
        ("a plan", bad.dispatched(|_| {}).await, &bad.plan, &vpc, claim(1), (403, "forbidden")),
        ("a superseded run", bad.dispatched(|_| {}).await, &bad.superseded, &vpc, claim(1), (409, "superseded")),
        ("a pull request's job", bad.pull_job(|_| {}).await, &bad.apply, &vpc, claim(1), (403, "forbidden")),
        ("a key", Caller::Key(api_key(&["apply"], &[])), &bad.apply, &vpc, claim(1), (403, "forbidden")),
        ("another commit", bad.dispatched(|_| {}).await, &bad.apply, &vpc, other_sha, (409, "conflict")),
        (
            "another attempt than the token's",
            bad.dispatched(|_| {}).await,
            &bad.apply,
            &vpc,
            claim(2),
            (400, "invalid"),
        ),
        (
            "a second attempt",
            bad.dispatched(|claims| claims.run_attempt = 2).await,
            &bad.apply,
            &vpc,
            claim(2),
            (409, "conflict"),
        ),
        (
            "another environment",
            bad.dispatched(|claims| claims.environment = Some("production".to_owned())).await,
            &bad.apply,
            &vpc,
            claim(1),
            (403, "forbidden"),
        ),
        (
            "a duplicate of the dispatch",
            bad.dispatched(|claims| claims.run_id = 901).await,
            &bad.apply,
            &vpc,
            claim(1),
            (403, "forbidden"),
        ),
    ];
    for (what, caller, run, stack, request, wanted) in &table {
        let (found, audited) = bad.changes_nothing(what, app.claim(caller, run, stack, request)).await;
        assert_eq!((answer(found), audited), (*wanted, Vec::new()), "{what}");
    }
}

#[tokio::test]
async fn a_late_report_of_the_job_that_claimed_is_kept_and_moves_nothing() {
    let bad = Bad::new().await;
    let app = &bad.world.app;
    let dispatch = bad.world.dispatches().await.into_iter().find(|dispatch| dispatch.run_id == bad.apply).unwrap();
    let subject = app.subject_of(&bad.apply).await.unwrap().unwrap();
    app.decide(&subject, |next| crate::run::progress::complete_dispatch(next, &dispatch.id, "failure")).await.unwrap();
    let job = bad.dispatched(|_| {}).await;
    let applied = result(Mode::Apply, "+1", "");
    for audited in [1, 1] {
        let found = app.report_result(&job, &bad.apply, &key("vpc"), &applied).await;
        assert_eq!(answer(found), (409, "conflict"));
        let rows = app.store.rows(&bad.apply).await.unwrap();
        let vpc = rows.iter().find(|row| row.key == key("vpc")).unwrap();
        assert_eq!(vpc.status, RowStatus::Unknown);
        assert_eq!(vpc.late_evidence.as_ref().unwrap()["status"], "success");
        let told = bad.world.audit_trail().await.into_iter().filter(|entry| entry.action == "late_result").count();
        assert_eq!(told, audited, "once, however often it is told");
    }
}

#[tokio::test]
async fn a_workflow_run_with_a_forged_title_binds_nothing() {
    let bad = Bad::new().await;
    let world = &bad.world;
    world.github.script().files = vec!["vpc/main.tf".to_owned()];
    world.app.base_changed(&world.repo().await, 1, "delivery").await.unwrap();
    let dispatch = world.dispatches().await.into_iter().find(|dispatch| dispatch.workflow_run_id.is_none()).unwrap();
    world.waiting().await;
    let good = WorkflowRunFacts { id: 950, ..served(&dispatch) };
    let forged = [
        ("a push", WorkflowRunFacts { event: "push".to_owned(), ..good.clone() }),
        ("another file", WorkflowRunFacts { path: ".github/workflows/mine.yml".to_owned(), ..good.clone() }),
        ("another branch", WorkflowRunFacts { head_branch: "topic".to_owned(), ..good.clone() }),
        (
            "another run",
            WorkflowRunFacts {
                title: good.title.replace(&dispatch.run_id.to_string(), world.app.new_run_id().as_ref()),
                ..good.clone()
            },
        ),
        ("another wave", WorkflowRunFacts { title: good.title.replace("wave 0", "wave 7"), ..good.clone() }),
        ("another mode", WorkflowRunFacts { title: good.title.replace(" plan ", " apply "), ..good.clone() }),
        ("more words", WorkflowRunFacts { title: format!("{} please", good.title), ..good.clone() }),
    ];
    let repo = world.repo().await;
    for (what, facts) in forged {
        for completed in [false, true] {
            let facts = WorkflowRunFacts { completed, conclusion: "success".to_owned(), ..facts.clone() };
            let (found, audited) = bad.changes_nothing(what, world.app.workflow_run_changed(&repo, &facts)).await;
            found.unwrap();
            assert_eq!(audited, [], "{what}");
        }
    }
    assert_eq!(world.app.bind_by_title(&repo, &good).await.unwrap().unwrap().id, dispatch.id);
}

#[tokio::test]
async fn a_comment_that_may_not_command_changes_nothing() {
    let bad = Bad::new().await;
    let world = &bad.world;
    world.github.script().permissions.insert("eve".to_owned(), Permission::Read);
    let nothing: &[(&str, &str)] = &[];
    let unread = |body: &str| comment_event("created", 0, "ada", "ada", body);
    let mut elsewhere = unread("stackorder apply");
    elsewhere["repository"]["id"] = json!(99);
    let mut issue = unread("stackorder apply");
    issue["issue"].as_object_mut().unwrap().remove("pull_request");
    let table = [
        (
            "a stranger",
            comment_event("created", 0, "eve", "eve", "stackorder apply"),
            &[("command_ignored", "no write permission")][..],
        ),
        ("a bot", comment_event("created", 0, "renovate[bot]", "renovate[bot]", "stackorder apply"), nothing),
        (
            "the App itself",
            comment_event("created", 0, "stackorder[bot]", "stackorder[bot]", "stackorder apply"),
            nothing,
        ),
        (
            "an edited comment",
            comment_event("edited", 0, "ada", "ada", "stackorder apply"),
            &[("command_ignored", "an edited comment is never executed")],
        ),
        (
            "a deleted comment",
            comment_event("deleted", 0, "ada", "ada", "stackorder apply"),
            &[("command_ignored", "a deleted comment is never executed")],
        ),
        ("quoted text", unread("> stackorder apply\n\nwhy?"), nothing),
        ("a fenced block", unread("try\n```\nstackorder apply\n```"), nothing),
        ("indented code", unread("    stackorder apply"), nothing),
        ("code amid words", unread("say `stackorder apply` then"), nothing),
        ("a hidden comment", unread("<!-- stackorder apply -->"), nothing),
        ("another word first", unread("please stackorder apply"), nothing),
        ("an issue", issue, nothing),
        ("an unknown repository", elsewhere, nothing),
    ];
    for (number, (what, mut event, wanted)) in (1000..).zip(table) {
        event["comment"]["id"] = json!(number);
        let ((), audited) = bad.changes_nothing(what, world.takes_delivery("issue_comment", &event)).await;
        let wanted: Vec<(String, String)> =
            wanted.iter().map(|(action, reason)| ((*action).to_owned(), (*reason).to_owned())).collect();
        assert_eq!(audited, wanted, "{what}");
        assert!(world.github.script().reactions.is_empty(), "{what}");
    }
    // And the same words from somebody who may, said plainly, are heard.
    world.takes_delivery("issue_comment", &unread("stackorder apply")).await;
    assert_eq!(world.audit_trail().await[0].action, "command");
}
