//! GitHub asks whether a job may go on to an environment (spec 30 §14).

use super::*;
use crate::config::model::RequireUpToDate;
use crate::gate::facts::Comparison;
use crate::run::progress;
use crate::run::status::RowStatus;
use crate::store::Retention;

const KEEP: Retention = Retention { plan_text_ms: 1, events_ms: 1, drift_ms: 1 };

impl World {
    pub(super) async fn configure(&self, change: impl FnOnce(&mut RepoConfig)) {
        let mut config = RepoConfig::clone(&self.repo().await.policy());
        change(&mut config);
        self.app.store.save_config(REPO, Some(&config), "").await.unwrap();
    }

    /// `stackorder apply` of `vpc <- eks` by bob, planned by ada. The dispatch of its first wave, which carries `vpc`, is
    /// served by workflow run 900.
    async fn applying_as_bob(&self) -> Dispatch {
        self.plan(sha('a')).await;
        self.app.commented(&self.repo().await, 1, 5, "bob", "stackorder apply").await.unwrap();
        let dispatch = self.dispatches().await.remove(0);
        self.is_served_by_900(&dispatch, "apply").await;
        dispatch
    }

    /// Workflow run 900 serves the dispatch, as GitHub's answer said.
    async fn is_served_by_900(&self, dispatch: &Dispatch, mode: &str) {
        let title = format!("stackorder {mode} {} wave 0", dispatch.run_id);
        self.github.script().workflow_runs = vec![WorkflowRunFacts { title, ..served(dispatch) }];
        let subject = self.app.subject_of(&dispatch.run_id).await.unwrap().unwrap();
        self.app.decide(&subject, |next| progress::bind(next, &dispatch.id, 900, 1)).await.unwrap();
    }

    /// GitHub asks about a workflow run, in a delivery of this name, and is answered if that is decided.
    async fn github_asks(&self, delivery: &str, workflow_run_id: i64, environment: &str) -> Vec<String> {
        let payload = serde_json::json!({
            "action": "requested", "environment": environment, "event": "workflow_dispatch",
            "deployment_callback_url":
                format!("https://api.github.test/repos/acme/infra/actions/runs/{workflow_run_id}/deployment_protection_rule"),
            "repository": { "id": REPO, "full_name": "acme/infra", "default_branch": "main" },
        });
        let (event, payload) = ("deployment_protection_rule", payload.to_string());
        self.app.store.store_delivery(delivery, event, &payload, self.app.now()).await.unwrap();
        self.work_off().await;
        self.deployment_answers()
    }

    /// Merged as commit `d` by ada, and what follows.
    pub(super) async fn merged_as_d(&self) {
        {
            let pull = &mut self.github.script().pull;
            (pull.open, pull.merged, pull.merge_commit_sha) = (false, true, Some(sha('d')));
            pull.merged_by = Some("ada".to_owned());
        }
        self.app.pull_request_closed(&self.repo().await, 1).await.unwrap();
    }

    /// Works off what is due.
    pub(super) async fn work_off(&self) {
        while work_one(&self.app, "worker", &KEEP).await.unwrap() {}
    }

    /// What GitHub was told about deployments.
    fn deployment_answers(&self) -> Vec<String> {
        let told = self.github.script().told.clone();
        told.into_iter().filter(|told| told.starts_with("approve ") || told.starts_with("reject ")).collect()
    }

    /// `action rule` of each audit row about deployments, oldest first.
    async fn deployment_rulings(&self) -> Vec<String> {
        let mut audit = self.app.store.audit(100, None).await.unwrap();
        audit.reverse();
        let rulings = audit.into_iter().map(|(_, entry)| entry).filter(|entry| entry.action.starts_with("deployment_"));
        rulings
            .map(|entry| {
                assert_eq!(entry.actor, "stackorder");
                assert!(entry.target.starts_with("workflow_run:acme/infra:"), "{}", entry.target);
                format!("{} {}", entry.action, entry.details["rule"].as_str().unwrap())
            })
            .collect()
    }
}

fn only(answers: Vec<String>) -> String {
    let [answer] = answers.as_slice() else { panic!("{answers:#?}") };
    answer.clone()
}

#[tokio::test]
async fn a_job_of_an_apply_goes_on_while_the_first_two_layers_pass() {
    let world = World::new().await;
    let dispatch = world.applying_as_bob().await;

    let answer = only(world.github_asks("d", 900, "Default").await);

    let run = &dispatch.run_id;
    let expected = format!(
        "approve Default of 900: Approved for `vpc`: layers 1 (authorization) and 2 (approvals) pass of apply run {run} \
         ([run page](https://so.test/runs/{run}))."
    );
    assert_eq!(answer, expected);
    assert_eq!(world.deployment_rulings().await, ["deployment_approved gate"]);
    let (_, entry) = world.app.store.audit(1, None).await.unwrap().remove(0);
    assert_eq!(entry.target, "workflow_run:acme/infra:900");
    for (name, value) in [("run_id", run.as_str()), ("requested_by", "bob"), ("environment", "Default")] {
        assert_eq!(entry.details[name], value, "{name}");
    }
    assert_eq!((&entry.details["pr"], &entry.details["stacks"]), (&1.into(), &serde_json::json!(["vpc"])));
}

#[tokio::test]
async fn case_112_only_the_stacks_that_the_dispatch_carries_are_judged_and_named() {
    for (codeowners, approved) in [("/eks/ @carol", true), ("/vpc/ @carol", false)] {
        let world = World::new().await;
        world.applying_as_bob().await;
        // Since the apply started, an owner's review is wanted.
        world.configure(|config| config.apply.require_codeowner_review = true).await;
        world.github.script().codeowners = Some(codeowners);

        let answer = only(world.github_asks("d", 900, "default").await);

        assert_eq!(answer.starts_with("approve "), approved, "{answer}");
        assert!(answer.contains("`vpc`") && !answer.contains("`eks`"), "{answer}");
        let bullet =
            "- **Layer 2, code owner review** (`vpc`): no approval on the head commit by a code owner (`@carol`)";
        assert_eq!(answer.contains(bullet), !approved, "{answer}");
    }
}

#[tokio::test]
async fn case_081_a_workflow_run_that_is_run_again_is_rejected() {
    let world = World::new().await;
    let dispatch = world.applying_as_bob().await;
    // GitHub knows of another attempt, and its event that the first one ended was lost.
    world.github.script().workflow_runs[0].attempt = 2;
    assert!(only(world.github_asks("d", 900, "default").await).starts_with("reject default of 900: "));

    world.github.script().workflow_runs[0].attempt = 1;
    let facts = WorkflowRunFacts { completed: true, conclusion: "success".to_owned(), ..served(&dispatch) };
    world.app.close_dispatch(&world.repo().await, &dispatch, &facts).await.unwrap();
    let answers = world.github_asks("e", 900, "default").await;
    assert!(answers[1].contains("running it again applies nothing"), "{answers:#?}");
    assert_eq!(world.deployment_rulings().await, ["deployment_rejected run_again", "deployment_rejected run_again"]);
}

#[tokio::test]
async fn what_only_reads_goes_on_and_what_nobody_dispatched_does_not() {
    let world = World::new().await;
    let dispatch = world.dispatched().await;
    world.is_served_by_900(&dispatch, "plan").await;
    let other = WorkflowRunFacts { id: 901, ..served(&dispatch) };
    let forged = WorkflowRunFacts { id: 902, head_branch: "topic".to_owned(), ..served(&dispatch) };
    world.github.script().workflow_runs.extend([other, forged]);

    for (number, (workflow_run, environment)) in
        [(900, "default"), (900, "production"), (901, "default"), (902, "default")].into_iter().enumerate()
    {
        world.github_asks(&number.to_string(), workflow_run, environment).await;
    }

    let expected = [
        "deployment_approved read_only",
        "deployment_rejected other_environment",
        "deployment_rejected not_dispatched",
        "deployment_rejected not_dispatched",
    ];
    assert_eq!(world.deployment_rulings().await, expected);
    let answers = world.deployment_answers();
    assert!(answers[0].contains("is a plan, which only reads"), "{answers:#?}");
    assert!(answers[1].contains("was started for `default`, not for `production`"), "{answers:#?}");
    assert_eq!(answers[2], "reject default of 901: Rejected: Stackorder did not start this workflow run.");
}

#[tokio::test]
async fn a_workflow_run_that_nothing_is_bound_to_is_found_by_its_title() {
    let world = World::new().await;
    let dispatch = world.dispatched().await;
    world.github.script().workflow_runs = vec![served(&dispatch)];

    assert!(only(world.github_asks("d", 900, "default").await).starts_with("approve "));
    let bound = world.app.store.dispatch_by_workflow_run(900).await.unwrap().unwrap();
    assert_eq!(bound.id, dispatch.id);
}

#[tokio::test]
async fn a_request_that_comes_twice_is_answered_once() {
    let world = World::new().await;
    world.applying_as_bob().await;
    for _ in 0..2 {
        world.app.deployment_requested(&world.repo().await, 900, "default", "d").await.unwrap();
        world.work_off().await;
    }
    assert_eq!(world.deployment_answers().len(), 1);
    assert_eq!(world.deployment_rulings().await.len(), 1);

    // Another question is another one.
    assert_eq!(world.github_asks("e", 900, "default").await.len(), 2);
}

#[tokio::test]
async fn while_github_cannot_be_asked_nothing_goes_on() {
    let world = World::new().await;
    world.applying_as_bob().await;
    world.github.script().is_silent = true;
    assert!(world.github_asks("d", 900, "default").await.is_empty());
    assert!(world.deployment_rulings().await.is_empty());

    // The delivery is tried again, and so is one about a workflow run that GitHub does not show.
    world.github.script().is_silent = false;
    world.clock.advance(2 * crate::clock::MINUTE_MS);
    world.work_off().await;
    assert!(only(world.deployment_answers()).starts_with("approve "));
    assert_eq!(world.github_asks("e", 1234, "default").await.len(), 1);
    assert_eq!(world.deployment_rulings().await, ["deployment_approved gate"]);
}

#[tokio::test]
async fn an_apply_of_a_comment_needs_its_approvals_still_and_one_of_a_merge_does_not() {
    let world = World::new().await;
    world.applying_as_bob().await;
    world.configure(|config| config.apply.require_approvals = 1).await;
    // What the default branch got since then does not count here.
    world.github.script().ahead =
        Comparison { files: vec!["vpc/main.tf".to_owned()], truncated: false, commits: vec![sha('c').to_string()] };
    let answer = only(world.github_asks("d", 900, "default").await);
    assert!(answer.contains("- **Layer 2, approvals**: head commit aaaaaaa has 0 approvals that count"), "{answer}");
    assert!(!answer.contains("base branch"), "{answer}");
    let (_, entry) = world.app.store.audit(1, None).await.unwrap().remove(0);
    assert_eq!(entry.details["failures"][0]["layer"], 2, "{:?}", entry.details);

    let world = World::new().await;
    world
        .configure(|config| {
            (config.apply.mode, config.apply.require_approvals) = (ApplyMode::OnMerge, 1);
            config.apply.require_up_to_date = RequireUpToDate::Off;
        })
        .await;
    world.plan(sha('a')).await;
    world.merged_as_d().await;
    let dispatch = world.dispatches().await.remove(0);
    world.is_served_by_900(&dispatch, "apply").await;
    let answer = only(world.github_asks("d", 900, "default").await);
    assert!(answer.contains("layer 1 (authorization) passes"), "{answer}");

    // The person who merged has left since.
    world.github.script().permissions.insert("ada".to_owned(), crate::gate::facts::Permission::None);
    let answers = world.github_asks("e", 900, "default").await;
    assert!(answers[1].contains("- **Layer 1, authorization**: ada only has none permission"), "{answers:#?}");
}

#[tokio::test]
async fn case_133_the_job_of_a_superseded_apply_is_rejected() {
    let world = World::new().await;
    world.applying_as_bob().await;
    world.github.script().pull.head_sha = sha('b');
    world.app.head_moved(&world.repo().await, 1).await.unwrap();

    let answer = only(world.github_asks("d", 900, "default").await);

    assert!(answer.contains("is superseded already"), "{answer}");
    assert_eq!(world.deployment_rulings().await, ["deployment_rejected run_ended"]);
}

#[tokio::test]
async fn bl_132_a_rejected_deployment_ends_the_run_blocks_later_waves_and_keeps_the_lock() {
    let world = World::new().await;
    let dispatch = world.applying_as_bob().await;
    world.configure(|config| config.apply.four_eyes = true).await;
    world.github.script().pull.author = "bob".to_owned();
    let repo = world.repo().await;
    world.app.workflow_job_changed(&repo, 900, 1, "apply wave 0 vpc", "waiting", "").await.unwrap();
    let waits = world.app.store.rows(&dispatch.run_id).await.unwrap();
    assert!(waits.iter().any(|row| row.waiting_for_approval && row.status == RowStatus::Applying));

    let answer = only(world.github_asks("d", 900, "default").await);
    assert!(answer.contains("- **Layer 2, four eyes**: bob authored this pull request"), "{answer}");
    let facts = WorkflowRunFacts { completed: true, conclusion: "failure".to_owned(), ..served(&dispatch) };
    world.app.close_dispatch(&repo, &dispatch, &facts).await.unwrap();

    let run = world.app.store.run(&dispatch.run_id).await.unwrap().unwrap();
    let mut rows: Vec<String> = Vec::new();
    for row in world.app.store.rows(&run.id).await.unwrap() {
        rows.push(format!("{} {} {}", row.key, row.status, row.note).trim().to_owned());
    }
    rows.sort();
    assert_eq!(
        (run.status, rows),
        (RunStatus::Failed, vec!["eks blocked".to_owned(), "vpc unknown nothing was applied".to_owned()])
    );
    assert_eq!(world.app.store.locks(None).await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_answer_is_never_longer_than_github_takes() {
    let world = World::new().await;
    let dispatch = world.applying_as_bob().await;
    let name = "e".repeat(255);
    let asked = only(world.github_asks("d", 900, &name).await);
    assert!(asked.len() < 2 * 255 + crate::render::deployment::ANSWER_BYTES_MAX);

    let scene = world.app.store.scene(&dispatch.run_id).await.unwrap().unwrap();
    let stacks: Vec<_> = (0..256).map(|number| key(&format!("stacks/{}/{number}", "long".repeat(20)))).collect();
    let refusals: Vec<_> = stacks
        .iter()
        .map(|stack| crate::gate::Refusal {
            layer: 2,
            name: "code owner review".to_owned(),
            reason: "no approval ".repeat(200),
            stacks: vec![stack.clone()],
            help: crate::guide::Topic::NoOwnerApproval.url(),
        })
        .collect();
    let deployment = crate::gate::deployment::Deployment { workflow_run_id: 1, attempt: 1, environment: name };
    let entry = crate::gate::deployment::entry(Trigger::Comment);
    for refusals in [Vec::new(), refusals] {
        let ruling = crate::gate::deployment::Ruling::Gate {
            run: scene.runs.keys().next().unwrap().clone(),
            entry,
            stacks: stacks.clone(),
            refusals,
        };
        let text = crate::render::deployment::answer(&ruling, &deployment, &crate::render::Context::default());
        assert!(text.len() <= crate::render::deployment::ANSWER_BYTES_MAX, "{}", text.len());
        assert!(text.contains("256 stacks"), "{text}");
        assert_eq!(text.contains("… and 255 more"), !ruling.approves(), "{text}");
    }
}
