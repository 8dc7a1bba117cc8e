//! Environments with the App as their protection rule, and what a key asks for over the API: a real server, and the fake
//! GitHub that asks it before it lets a job go on.

use std::time::{Duration, Instant};

use fake_github::actions::model::{Conclusion, Environment, Status, Trigger, WorkflowRun};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api_refusals::world::{REPOSITORY, World, sent};
use crate::workflows::run_workflow;

const PATIENCE: Duration = Duration::from_secs(120);
const CONFIGURATION: &str = "version: 1\nenvironments:\n  \"stacks/\": production\napply:\n  from_plan: false\n";

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_asks_the_server_before_it_lets_a_job_go_on() {
    let world = World::new().await;
    world.hear();
    let guarded =
        |name: &str| Environment { name: name.to_owned(), protection_rule_app: true, ..Environment::default() };
    for environment in ["default", "production"] {
        world.github.set_environment(REPOSITORY, guarded(environment));
    }
    let file = |text: &str| Some(text.as_bytes().to_vec());
    let files = [
        (".github/workflows/stackorder-run.yml", file(&run_workflow("timeout-minutes: 5", "echo goes on"))),
        ("stackorder.yaml", file(CONFIGURATION)),
        ("stacks/vpc/main.tf", file("# before\n")),
    ];
    let main = world.github.commit(REPOSITORY, "main", "Stacks", "alice", &files).unwrap();
    world.quiet().await;
    let key = world.key("ci", &["--scope", "read", "--scope", "apply"]).await;
    let head = world
        .github
        .commit(REPOSITORY, "topic", "Change", "alice", &[("stacks/vpc/main.tf", file("# after\n"))])
        .unwrap();
    let number = world.github.open_pull_request(REPOSITORY, "topic", "main", "Change", "", "alice").unwrap();
    let plan = world.planned(number, &head).await;

    // A plan made anew only reads.
    let again = world.asks(&key, &plan, "rerun", None).await;
    assert_eq!((again.0, &again.1["existing"], &again.1["run"]["trigger"]), (201, &json!(false), &json!("rerequest")));
    let run = world.ended(again.1["run_id"].as_str().unwrap()).await;
    assert_eq!(run.conclusion, Some(Conclusion::Success));

    // Its job did not report, so the plan counts no more, and the gate says so.
    let refused = world.asks(&key, &plan, "apply", Some(world.seen(&key, &plan).await)).await;
    assert_eq!((refused.0, &refused.1["code"]), (409, &json!("refused")), "{refused:?}");
    let failures = refused.1["details"]["failures"].as_array().unwrap();
    let [failure] = &failures[..] else { panic!("{failures:?}") };
    assert_eq!((&failure["layer"], &failure["name"]), (&json!(3), &json!("plans for the head commit")));
    assert_eq!(failure["reason"], "planning did not succeed; repair it and plan again");
    assert_eq!(failure["stacks"], json!(["stacks/vpc"]));
    assert!(failure["help"].as_str().unwrap().ends_with("#refused-planning-did-not-succeed"), "{failure:?}");
    let files = [("stacks/vpc/main.tf", file("# after all\n"))];
    let head = world.github.push(REPOSITORY, number, "Change more", "alice", &files).unwrap();
    let plan = world.planned(number, &head).await;
    let stale = json!({ "plan_set_digest": "0".repeat(64) });
    let refused = world.asks(&key, &plan, "apply", Some(stale)).await;
    assert_eq!(refused.1["details"]["failures"][0]["reason"], "the plans changed after they were reviewed");

    // An apply goes on by the layers of the gate.
    let started = world.asks(&key, &plan, "apply", Some(world.seen(&key, &plan).await)).await;
    assert_eq!((started.0, &started.1["run"]["requested_by"]), (201, &json!("apikey:ci")), "{started:?}");
    let run = world.ended(started.1["run_id"].as_str().unwrap()).await;
    assert_eq!(run.conclusion, Some(Conclusion::Success));

    // What people start by hand, and what they start again, does not.
    let by_hand = Trigger::Dispatch {
        repo: REPOSITORY.to_owned(),
        file: "stackorder-run.yml".to_owned(),
        git_ref: "refs/heads/main".to_owned(),
        sha: main,
        inputs: run.inputs.clone(),
        actor: "alice".to_owned(),
    };
    let forged = world.github.engine().dispatch(by_hand).unwrap();
    assert_eq!(world.completed(forged).await.conclusion, Some(Conclusion::Failure));
    world.quiet().await;
    world.github.engine().rerun(run.id, false, "alice").unwrap();
    assert_eq!(world.completed(run.id).await.conclusion, Some(Conclusion::Failure));
    world.quiet().await;

    let expected = [
        "deployment_approved read_only default",
        "deployment_approved gate production",
        "deployment_rejected not_dispatched production",
        "deployment_rejected run_again production",
    ];
    assert_eq!(world.rulings(&key).await, expected);
    assert!(world.github.unexpected_requests().is_empty(), "{:?}", world.github.unexpected_requests());
}

impl World {
    /// Registers the plan run of a head and reports its plan, as jobs would; the id of the run.
    async fn planned(&self, number: i64, head: &str) -> String {
        let job = |path: &str, body: Value| {
            let token =
                self.token_with(json!({ "ref": format!("refs/pull/{number}/merge"), "run_id": head_number(head) }));
            self.post(path).bearer_auth(token).json(&body)
        };
        let body = json!({ "repo": REPOSITORY, "sha": head, "pr_number": number, "mode": "plan" });
        let registered = sent(job("/v1/runs", body)).await;
        assert_eq!(registered.status.as_u16(), 201, "{}", registered.text);
        let run: Value = serde_json::from_str(&registered.text).unwrap();
        let id = run["run_id"].as_str().unwrap().to_owned();
        let graph =
            json!({ "repo": REPOSITORY, "sha": head, "stacks": [{ "key": "stacks/vpc", "path": "stacks/vpc" }] });
        let upload = json!({ "graph": graph, "changed_paths": ["stacks/vpc/main.tf"] });
        let result = json!({
            "mode": "plan", "status": "success", "has_changes": true, "plan_digest": head,
            "summary": { "adds": 1, "changes": 0, "destroys": 0, "replaces": 0, "imports": 0 },
        });
        for (path, body) in [("graph", upload), ("stacks/stacks%2Fvpc/result", result)] {
            let answer = sent(job(&format!("/v1/runs/{id}/{path}"), body)).await;
            assert_eq!(answer.status.as_u16(), 200, "{path}: {}", answer.text);
        }
        self.quiet().await;
        id
    }

    /// What a caller who looks at a run is bound to.
    async fn seen(&self, key: &str, run: &str) -> Value {
        let answer = sent(self.get(&format!("/v1/runs/{run}")).bearer_auth(key)).await;
        let run: Value = serde_json::from_str(&answer.text).unwrap();
        json!({ "plan_set_digest": run["plan_set_digest"] })
    }

    async fn asks(&self, key: &str, run: &str, what: &str, body: Option<Value>) -> (u16, Value) {
        let request = self.request(Method::POST, &format!("/v1/runs/{run}/{what}")).bearer_auth(key);
        let answer = sent(match body {
            Some(body) => request.json(&body),
            None => request,
        })
        .await;
        let body = serde_json::from_str(&answer.text).unwrap_or_else(|_| panic!("{}", answer.text));
        (answer.status.as_u16(), body)
    }

    /// The workflow run that served a run of ours, at its end.
    async fn ended(&self, run: &str) -> WorkflowRun {
        let named = || self.github.engine().runs(REPOSITORY).into_iter().find(|known| known.title.contains(run));
        let started = Instant::now();
        let found = loop {
            match named() {
                Some(found) => break found.id,
                None => assert!(started.elapsed() < PATIENCE, "run {run} was not dispatched: {}", self.log()),
            }
            tokio::task::yield_now().await;
        };
        let ended = self.completed(found).await;
        self.quiet().await;
        ended
    }

    async fn completed(&self, id: i64) -> WorkflowRun {
        let started = Instant::now();
        loop {
            let run = self.github.engine().run(id).unwrap();
            if run.status == Status::Completed {
                return run;
            }
            assert!(started.elapsed() < PATIENCE, "workflow run {id} is {:?}: {}", run.status, self.log());
            tokio::task::yield_now().await;
        }
    }

    /// Nothing is on its way between GitHub and the server.
    async fn quiet(&self) {
        self.github.idle().await;
        self.settled().await;
        self.github.idle().await;
    }

    /// Every ruling of the audit log, oldest first, with its rule and its environment.
    async fn rulings(&self, key: &str) -> Vec<String> {
        let answer = sent(self.get("/v1/audit?limit=500").bearer_auth(key)).await;
        let page: Value = serde_json::from_str(&answer.text).unwrap();
        let mut rulings: Vec<String> = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["action"].as_str().unwrap().starts_with("deployment_"))
            .map(|entry| {
                let texts = [&entry["action"], &entry["details"]["rule"], &entry["details"]["environment"]];
                texts.map(|text| text.as_str().unwrap()).join(" ")
            })
            .collect();
        rulings.reverse();
        rulings
    }
}

/// A workflow run of its own for each head.
fn head_number(head: &str) -> String {
    u32::from_str_radix(&head[..7], 16).unwrap().to_string()
}
