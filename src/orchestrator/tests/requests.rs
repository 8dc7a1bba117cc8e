//! What people and keys ask for over the API: to plan a run again, and to apply what they have seen.

use super::*;
use crate::api::RequestApplyRequest;
use crate::gate::Refusal;
use crate::gate::facts::{Comparison, Permission};
use crate::github::webhook::{CheckRunEvent, EventRepository};
use crate::orchestrator::actor::Actor;
use crate::run::binding::{self, DispatchedJob};
use crate::run::model::Claim;
use crate::run::report::{self, Reporter};

fn ci() -> Actor {
    Actor::Key(api_key(&["read", "apply"], &[]))
}

fn person(login: &str) -> Actor {
    Actor::Person { login: login.to_owned() }
}

fn gate<T: std::fmt::Debug>(answer: std::result::Result<T, CallError>) -> Vec<Refusal> {
    match answer {
        Err(CallError::Gate(refusals)) => refusals,
        other => panic!("not refused by the gate: {other:?}"),
    }
}

impl World {
    async fn applies_on_merge(&self) {
        self.configure(|config| config.apply.mode = ApplyMode::OnMerge).await;
    }

    async fn newest_of(&self, mode: Mode) -> Run {
        let filter = RunFilter { mode: Some(mode), limit: 1, ..RunFilter::default() };
        self.app.store.runs(&filter).await.unwrap().pop().expect("a run of this mode")
    }

    /// The digest of what a caller sees of a run.
    async fn digest_of(&self, id: &RunId) -> String {
        let key = Caller::Key(api_key(&["read"], &[]));
        self.app.read_run(&key, id).await.unwrap().plan_set_digest
    }

    async fn requests_apply(&self, actor: &Actor, id: &RunId, stacks: &[&str]) -> std::result::Result<Run, CallError> {
        self.clock.advance(1000);
        let request = RequestApplyRequest {
            plan_set_digest: self.digest_of(id).await,
            stacks: stacks.iter().map(ToString::to_string).collect(),
        };
        let answer = self.app.request_apply(actor, id, &request).await?;
        assert!(!answer.existing);
        Ok(self.app.store.run(&answer.run_id).await.unwrap().unwrap())
    }

    async fn reruns(&self, actor: &Actor, id: &RunId) -> std::result::Result<Run, CallError> {
        self.clock.advance(1000);
        let answer = self.app.rerun(actor, id).await?;
        assert!(!answer.existing);
        Ok(self.app.store.run(&answer.run_id).await.unwrap().unwrap())
    }

    /// The job of a dispatched stack claims it if it applies, and reports.
    async fn job_reports(&self, run: &RunId, stack: &str, outcome: &str) {
        self.clock.advance(1000);
        let scene = self.app.store.scene(run).await.unwrap().unwrap();
        let row = scene.row(run, &key(stack)).unwrap();
        let dispatch = &scene.dispatches[row.dispatch_id.as_ref().expect("it is dispatched")];
        let served = scene.dispatches.values().filter(|other| other.workflow_run_id.is_some()).count();
        let job = DispatchedJob {
            git_ref: "refs/heads/main".to_owned(),
            workflow_run_id: dispatch.workflow_run_id.unwrap_or(900 + i64::try_from(served).unwrap()),
            attempt: 1,
            environment: dispatch.environment.clone(),
            check_run_id: 1,
        };
        let claim = Claim { at: self.app.now(), workflow_run_id: job.workflow_run_id, attempt: 1, check_run_id: 1 };
        let reporter = Reporter::DispatchedJob { workflow_run_id: job.workflow_run_id, attempt: 1, check_run_id: 1 };
        let (mode, at) = (scene.runs[run].mode, scene.runs[run].sha.clone());
        let report = result(mode, outcome, &format!("{run}-{stack}"));
        if mode == Mode::Plan {
            let name = report.plan_artifact.clone();
            self.github.script().artifacts.push(ArtifactFacts { id: 1, name, expired: false, expires_at: None });
        }
        let subject = self.app.subject_of(run).await.unwrap().unwrap();
        let reported = self.app.decide(&subject, |next| {
            binding::bind_job(next, run, &job, Some(&key(stack)))?;
            if mode == Mode::Apply {
                report::on_claim(next, run, &key(stack), &claim, at.as_str(), String::new())?;
            }
            report::on_result(next, run, &key(stack), &reporter, &report)
        });
        reported.await.unwrap().unwrap().unwrap();
    }

    /// `eks planned, vpc applied` of a run.
    async fn rows_of(&self, run: &RunId) -> String {
        let mut rows: Vec<String> = Vec::new();
        for row in self.app.store.rows(run).await.unwrap() {
            rows.push(format!("{} {}", row.key, row.status));
        }
        rows.sort();
        rows.join(", ")
    }

    /// The newest audit row of an action.
    async fn last_audited(&self, action: &str) -> crate::run::model::AuditEntry {
        let audit = self.app.store.audit(100, None).await.unwrap();
        audit.into_iter().map(|(_, entry)| entry).find(|entry| entry.action == action).expect("it is in the audit log")
    }
}

// -- re-runs --------------------------------------------------------------------------------------

#[tokio::test]
async fn bl_131_a_plan_is_dispatched_anew_and_its_workflow_run_is_never_run_again() {
    let world = World::new().await;
    let (old, _) = world.plan(sha('a')).await;

    let new = world.reruns(&ci(), &old).await.unwrap();

    assert_eq!((new.trigger, new.requested_by.as_str(), &new.sha), (Trigger::Rerequest, "apikey:ci", &sha('a')));
    assert_eq!(new.status, RunStatus::Planning);
    assert_eq!(world.rows_of(&new.id).await, "eks pending, vpc pending");
    world.work_off().await;
    let told = world.github.script().told.clone();
    assert!(
        told.contains(&"dispatch plan".to_owned()) && !told.iter().any(|told| told.starts_with("rerun")),
        "{told:?}"
    );
    let entry = world.last_audited("rerun").await;
    assert_eq!((entry.actor.as_str(), entry.target.as_str()), ("apikey:ci", "acme/infra"));
    assert_eq!(
        (&entry.details["run_id"], &entry.details["new_run_id"]),
        (&old.as_str().into(), &new.id.as_str().into())
    );

    // Each call makes a run, and what was planned again counts.
    assert_ne!(world.reruns(&person("bob"), &old).await.unwrap().id, new.id);
    world.job_reports(&new.id, "vpc", "+2").await;
    assert_eq!(world.last_audited("rerun").await.actor, "bob");
}

#[tokio::test]
async fn who_may_not_run_a_plan_again_changes_nothing() {
    let world = World::new().await;
    let (old, _) = world.plan(sha('a')).await;
    world.github.script().permissions =
        [("eve".to_owned(), Permission::Read), ("mallory".to_owned(), Permission::None)].into();
    let before = world.runs().await;
    let nobody = RunId::parse("99999999-0000-4000-8000-000000000000").unwrap();

    let missing = refused(world.app.rerun(&ci(), &nobody).await);
    assert!(matches!(missing, Refused::NotFound(_)));
    // Hidden and missing are the same answer.
    for stranger in [Actor::Key(api_key(&["read", "apply"], &["acme/apps"])), person("mallory")] {
        assert_eq!(refused(world.app.rerun(&stranger, &old).await), missing);
        assert_eq!(refused(world.requests_apply(&stranger, &old, &[]).await), missing);
    }
    for reader in [Actor::Key(api_key(&["read"], &[])), person("eve")] {
        assert!(matches!(refused(world.app.rerun(&reader, &old).await), Refused::Forbidden(_)));
        assert!(matches!(refused(world.requests_apply(&reader, &old, &[]).await), Refused::Forbidden(_)));
        for action in ["rerun", "apply_requested"] {
            let entry = world.last_audited(action).await;
            assert_eq!((entry.actor, &entry.details["accepted"]), (reader.name(), &false.into()), "{action}");
        }
    }
    assert_eq!(world.last_audited("rerun").await.details["reason"], "this takes write access to acme/infra");
    assert_eq!(world.runs().await, before);
}

#[tokio::test]
async fn what_cannot_be_run_again_is_refused_by_what_it_is() {
    let world = World::new().await;
    let (old, _) = world.plan(sha('a')).await;
    world.plan(sha('b')).await;
    assert!(matches!(refused(world.app.rerun(&ci(), &old).await), Refused::Superseded(_)));
    let entry = world.last_audited("rerun").await;
    assert_eq!((&entry.details["run_id"], &entry.details["pr"]), (&old.as_str().into(), &1.into()));

    // An apply of a comment, and one by hand.
    world.app.commented(&world.repo().await, 1, 5, "ada", "stackorder apply eks").await.unwrap();
    let apply = world.newest_of(Mode::Apply).await;
    let manual = world.app.create_run(&Caller::Key(api_key(&["apply"], &[])), &manual()).await.unwrap().run_id;
    for id in [&apply.id, &manual] {
        let Refused::Invalid { field, .. } = refused(world.app.rerun(&ci(), id).await) else { panic!("{id}") };
        assert_eq!(field, "run_id");
    }

    // A head that was registered and never resolved.
    world.github.script().pull.head_sha = sha('c');
    let request = CreateRunRequest {
        repo: "acme/infra".to_owned(),
        sha: sha('c').to_string(),
        pr_number: 1,
        ..CreateRunRequest::default()
    };
    let pending = world.app.create_run(&world.plan_job().await, &request).await.unwrap().run_id;
    let before = world.runs().await;
    assert!(matches!(refused(world.app.rerun(&ci(), &pending).await), Refused::Conflict(_)));
    assert_eq!(world.runs().await, before);
}

#[tokio::test]
async fn what_a_merge_left_undone_is_planned_again_at_the_merge_commit_and_applied_on_request() {
    let world = World::new().await;
    world.applies_on_merge().await;
    world.plan(sha('a')).await;
    world.merged_as_d().await;
    let first = world.newest_of(Mode::Apply).await;
    assert!(matches!(refused(world.app.rerun(&ci(), &first.id).await), Refused::Conflict(_)), "it still runs");
    world.job_reports(&first.id, "vpc", "=").await;
    world.job_reports(&first.id, "eks", "!").await;
    assert_eq!(world.rows_of(&first.id).await, "eks failed, vpc applied");

    // Its plan is used: nothing may be applied from it again.
    let refusals = gate(world.requests_apply(&ci(), &first.id, &[]).await);
    let used =
        format!("its plan was used by apply run {}, which ended failed; plan it again from the run page", first.id);
    assert_eq!(refusals.iter().map(|refusal| refusal.reason.as_str()).collect::<Vec<_>>(), [used]);

    let plan = world.reruns(&ci(), &first.id).await.unwrap();
    assert_eq!((plan.mode, &plan.sha, plan.trigger), (Mode::Plan, &sha('d'), Trigger::Rerequest));
    assert_eq!(world.rows_of(&plan.id).await, "eks pending");
    // A late event of the pull request does not do away with it.
    world.app.head_moved(&world.repo().await, 1).await.unwrap();
    world.job_reports(&plan.id, "eks", "+1").await;

    let second = world.requests_apply(&person("bob"), &first.id, &[]).await.unwrap();
    assert_eq!((second.trigger, &second.sha, second.requested_by.as_str()), (Trigger::PullRequest, &sha('d'), "bob"));
    assert_eq!(world.rows_of(&second.id).await, "eks planned, vpc applied");
    world.job_reports(&second.id, "eks", "+1").await;
    assert_eq!(world.newest_of(Mode::Apply).await.status, RunStatus::Applied);
    assert!(world.app.store.locks(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_re_run_asked_for_on_a_check_that_comes_twice_is_one() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    let event = CheckRunEvent {
        action: "rerequested".to_owned(),
        repo: EventRepository {
            id: REPO,
            name: RepoName::parse("acme/infra").unwrap(),
            installation_id: None,
            default_branch: None,
        },
        name: "stackorder/plan: eks".to_owned(),
        head_sha: sha('a'),
        sender: "bob".to_owned(),
        sender_is_bot: false,
        app_id: 1,
    };
    world.clock.advance(1000);
    for delivery in ["d", "d", "e"] {
        world.app.check_rerequested(&world.repo().await, &event, delivery).await.unwrap();
    }
    assert_eq!(world.runs().await.len(), 3);
    assert_eq!(world.rows_of(&world.newest_of(Mode::Plan).await.id).await, "eks pending");

    // Silence for who may not push.
    world.github.script().permissions = [("bob".to_owned(), Permission::Read)].into();
    world.app.check_rerequested(&world.repo().await, &event, "f").await.unwrap();
    assert_eq!(world.runs().await.len(), 3);
}

// -- requests to apply ----------------------------------------------------------------------------

#[tokio::test]
async fn a_request_before_the_merge_does_what_a_comment_does() {
    let world = World::new().await;
    let (plan, _) = world.plan(sha('a')).await;

    let run = world.requests_apply(&ci(), &plan, &["vpc"]).await.unwrap();

    assert_eq!((run.trigger, run.requested_by.as_str(), &run.sha), (Trigger::Comment, "apikey:ci", &sha('a')));
    assert_eq!(world.rows_of(&run.id).await, "eks skipped, vpc planned");
    let entry = world.last_audited("apply_requested").await;
    assert_eq!((entry.actor.as_str(), &entry.details["accepted"]), ("apikey:ci", &true.into()));
    assert_eq!(entry.details["new_run_id"], run.id.as_str());

    // Once more while it runs: refused, and that is kept, too.
    let refusals = gate(world.requests_apply(&person("bob"), &plan, &["nowhere"]).await);
    assert_eq!(refusals.iter().map(|refusal| refusal.layer).collect::<Vec<_>>(), [3, 5]);
    let entry = world.last_audited("apply_requested").await;
    assert_eq!((entry.actor.as_str(), &entry.details["accepted"]), ("bob", &false.into()));
    assert_eq!(entry.details["failures"][1]["layer"], 5);
}

#[tokio::test]
async fn a_request_is_bound_to_the_plans_that_were_seen() {
    let world = World::new().await;
    let (plan, _) = world.plan(sha('a')).await;
    let seen = world.digest_of(&plan).await;
    let again = world.reruns(&ci(), &plan).await.unwrap();
    world.job_reports(&again.id, "vpc", "+2").await;
    world.job_reports(&again.id, "eks", "+1").await;
    assert_ne!(world.digest_of(&plan).await, seen);

    let request = RequestApplyRequest { plan_set_digest: seen, stacks: Vec::new() };
    let refusals = gate(world.app.request_apply(&ci(), &plan, &request).await);
    assert_eq!(refusals.len(), 1);
    assert_eq!((refusals[0].layer, refusals[0].reason.as_str()), (3, "the plans changed after they were reviewed"));
    assert!(world.app.store.locks(None).await.unwrap().is_empty());

    let unbound = RequestApplyRequest::default();
    let Refused::Invalid { field, .. } = refused(world.app.request_apply(&ci(), &plan, &unbound).await) else {
        panic!("an unbound request")
    };
    assert_eq!(field, "plan_set_digest");
    assert!(world.requests_apply(&ci(), &plan, &[]).await.is_ok());
}

#[tokio::test]
async fn what_nobody_can_apply_is_refused_by_what_it_is() {
    let world = World::new().await;
    let (old, _) = world.plan(sha('a')).await;
    let (plan, _) = world.plan(sha('b')).await;
    let bound = RequestApplyRequest { plan_set_digest: "seen".to_owned(), stacks: Vec::new() };
    assert!(matches!(refused(world.app.request_apply(&ci(), &old, &bound).await), Refused::Superseded(_)));

    let apply = Caller::Key(api_key(&["apply"], &[]));
    let manual = world.app.create_run(&apply, &manual()).await.unwrap().run_id;
    assert!(matches!(
        refused(world.app.request_apply(&ci(), &manual, &bound).await),
        Refused::Invalid { field: "run_id", .. }
    ));

    // The head moved, and nobody has told yet.
    world.github.script().pull.head_sha = sha('c');
    assert!(matches!(refused(world.app.request_apply(&ci(), &plan, &bound).await), Refused::Superseded(_)));
    world.github.script().pull.head_sha = sha('b');

    world.applies_on_merge().await;
    let before = world.runs().await;
    assert!(matches!(refused(world.app.request_apply(&ci(), &plan, &bound).await), Refused::Conflict(_)), "not merged");
    {
        let pull = &mut world.github.script().pull;
        (pull.open, pull.merged, pull.base_ref) = (false, true, "release".to_owned());
    }
    assert!(matches!(refused(world.app.request_apply(&ci(), &plan, &bound).await), Refused::Conflict(_)), "elsewhere");
    assert_eq!(world.runs().await, before);
}

#[tokio::test]
async fn case_119_a_merge_refused_by_another_layer_is_asked_for_again_by_somebody_who_passes_it() {
    let world = World::new().await;
    world.applies_on_merge().await;
    let (plan, _) = world.plan(sha('a')).await;
    world.github.script().permissions = [("ada".to_owned(), Permission::Read)].into();
    world.merged_as_d().await;
    assert!(world.runs().await.iter().all(|run| run.mode == Mode::Plan), "the merge was refused");

    assert!(matches!(refused(world.requests_apply(&person("ada"), &plan, &[]).await), Refused::Forbidden(_)));
    let run = world.requests_apply(&person("bob"), &plan, &[]).await.unwrap();

    assert_eq!((run.trigger, &run.sha, run.requested_by.as_str()), (Trigger::PullRequest, &sha('d'), "bob"));
    assert_eq!(world.rows_of(&run.id).await, "eks planned, vpc planned");
    // Nothing but the locks is left to say about the same wish once more.
    let refusals = gate(world.requests_apply(&ci(), &plan, &[]).await);
    assert_eq!(refusals.iter().map(|refusal| refusal.layer).collect::<Vec<_>>(), [5]);
}

#[tokio::test]
async fn case_135_a_stack_whose_plan_the_merge_changed_waits_for_a_request_from_the_run_page() {
    let world = World::new().await;
    let first = world.waiting_after_its_merge().await;

    let run = world.requests_apply(&person("bob"), &first, &[]).await.unwrap();

    assert_eq!((run.trigger, &run.sha), (Trigger::PullRequest, &sha('d')));
    assert_eq!(world.rows_of(&run.id).await, "eks planned, vpc planned");
    let scene = world.app.store.scene(&run.id).await.unwrap().unwrap();
    assert!(scene.row(&run.id, &key("vpc")).unwrap().behind.is_empty(), "its fresh plan is of the merge commit");
    world.job_reports(&run.id, "vpc", "+2").await;
    assert_eq!(world.rows_of(&run.id).await, "eks planned, vpc applied");
}

#[tokio::test]
async fn case_136_a_later_merge_that_reaches_the_stack_refuses_the_request_for_the_older_one() {
    let world = World::new().await;
    let first = world.waiting_after_its_merge().await;
    world.github.script().ahead =
        Comparison { files: vec!["vpc/main.tf".to_owned()], truncated: false, commits: vec![sha('e').to_string()] };

    let refusals = gate(world.requests_apply(&person("bob"), &first, &["vpc"]).await);

    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert_eq!((refusals[0].layer, refusals[0].name.as_str()), (2, "base branch"));
    assert_eq!(refusals[0].stacks, [key("vpc")]);
}

impl World {
    /// The merge commit has another `vpc`, whose fresh plan does more than was reviewed: the apply of the merge ended and
    /// left it, and what depends on it, waiting.
    async fn waiting_after_its_merge(&self) -> RunId {
        self.applies_on_merge().await;
        self.plan(sha('a')).await;
        let tree = |blob: &str| vec![("vpc/main.tf".to_owned(), blob.to_owned())];
        self.github.script().trees = [(sha('a'), tree("1")), (sha('d'), tree("2"))].into();
        self.merged_as_d().await;
        let first = self.newest_of(Mode::Apply).await.id;
        let scene = self.app.store.scene(&first).await.unwrap().unwrap();
        let replan = scene.replan_of(&first, 0).expect("vpc is planned again").id.clone();
        self.job_reports(&replan, "vpc", "+2").await;
        assert_eq!(self.rows_of(&first).await, "eks skipped, vpc skipped");
        assert_eq!(self.app.store.run(&first).await.unwrap().unwrap().status, RunStatus::Applied);
        first
    }
}
