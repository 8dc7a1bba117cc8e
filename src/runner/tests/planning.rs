//! `plan` and `drift`.

use serde_json::json;
use wiremock::matchers::path;
use wiremock::{Mock, ResponseTemplate};

use super::world::{RUN_ID, SECRET, STACK, World, stack_path};
use crate::api::ResultStatus;
use crate::ids::{RunId, StackKey};
use crate::run::status::Mode;
use crate::runner::apply::{ApplyRequest, apply};
use crate::runner::drift::drift;
use crate::runner::fallback::tell_unconfirmed;
use crate::runner::plan::{PlanRequest, PlannedStack, plan};
use crate::runner::report::{Posted, Report};
use crate::runner::server::Server;
use crate::runner::stop::Stop;

fn of_stack() -> PlanRequest {
    PlanRequest { stacks: vec![STACK.to_owned()], run_id: Some(RUN_ID.to_owned()), ..PlanRequest::default() }
}

async fn planned(world: &World) -> PlannedStack {
    plan(&world.job(), &of_stack()).await.unwrap().remove(0)
}

#[tokio::test]
async fn a_plan_posts_its_result_and_leaves_a_bundle_for_the_apply() {
    let world = World::new().await;
    world.answer_result().await;

    let planned = planned(&world).await;

    assert!(!planned.is_failure() && !planned.is_refused() && !planned.unconfirmed, "{}", world.printed());
    assert_eq!(world.calls(), ["version", "init", "plan", "show", "show"]);
    let results = world.results().await;
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["status"], "success");
    assert_eq!(results[0]["exit_code"], 2);
    assert_eq!(results[0]["summary"]["added"], json!(["terraform_data.it"]));
    assert_eq!(results[0]["job_url"], "https://github.com/acme/infra/actions/runs/77");
    assert_eq!(results[0]["backend"]["bucket"], "b");
    let bundle = std::path::Path::new(&planned.bundle);
    assert_eq!(results[0]["bundle_sha256"], crate::runner::bundle::digest(bundle).unwrap());
    assert_eq!(results[0]["plan_artifact"], bundle.file_name().unwrap().to_str().unwrap());
    assert_eq!(world.output("has-changes").as_deref(), Some("true"));
    assert_eq!(world.output("bundle"), Some(planned.bundle.clone()));
    assert_eq!(world.output("unconfirmed").as_deref(), Some("false"));
    assert!(world.output("artifact").unwrap().starts_with("stackorder-plan-stacks-a-"));
    assert!(world.summary().contains("1 to add"), "{}", world.summary());
}

#[tokio::test]
async fn case_034_a_planted_secret_is_in_nothing_that_leaves_the_job() {
    let mut world = World::new().await;
    world.write_hook("post-plan", "echo \"hook says $DB_PASSWORD\"\n");
    world.commit();
    world.answer_result().await;

    planned(&world).await;
    world.set("STUB_PLAN_ERROR", "cannot log in with");
    planned(&world).await;

    let posted: String = world.results().await.iter().map(ToString::to_string).collect();
    assert!(posted.contains("cannot log in with ***"), "{posted}");
    assert!(posted.contains(r#"+ password = \"***\", other = ***"#), "{posted}");
    assert!(world.printed().contains("hook says ***"), "{}", world.printed());
    assert!(world.masked(), "the job's log must know the secret before the tool runs");
    for text in [posted, world.printed(), world.summary(), world.output("summary").unwrap()] {
        assert!(!text.contains(SECRET) && !text.contains("planted-sensitive"), "{text}");
    }
}

#[tokio::test]
async fn a_job_waits_long_for_its_server_once_and_not_for_each_stack() {
    let world = World::new().await;
    let away = || Mock::given(path(stack_path("result"))).respond_with(ResponseTemplate::new(503)).with_priority(1);
    away().up_to_n_times(6).mount(&world.server).await;
    world.answer_result().await;
    let job = world.job();
    let run_id = RunId::parse(RUN_ID).unwrap();
    let report = Report::new(&job, StackKey::parse(STACK).unwrap(), Mode::Plan, Some(run_id));
    let post = async || report.post(&job, &report.blank(&job, ResultStatus::Success)).await;
    for attempts in [4, 6] {
        assert!(matches!(post().await, Posted::Unconfirmed(_)));
        assert_eq!(world.results().await.len(), attempts);
    }

    // It is there again, and later away again.
    assert!(matches!(post().await, Posted::Confirmed));
    away().mount(&world.server).await;
    assert!(matches!(post().await, Posted::Unconfirmed(_)));
    assert_eq!(world.results().await.len(), 7 + 4);
}

#[tokio::test]
async fn failure_03_an_unreachable_server_leaves_a_plan_unconfirmed_with_a_neutral_check() {
    let world = World::new().await;
    world.answer(&stack_path("result"), 503, json!({})).await;
    world.answer("/repos/acme/infra/check-runs", 201, json!({})).await;

    let planned = planned(&world).await;

    assert!(planned.unconfirmed && !planned.is_failure());
    assert_eq!(world.results().await.len(), 4, "one attempt and three more");
    assert_eq!(world.posted("/oidc").await.len(), 4, "each attempt has a token of its own");
    let checks = world.posted("/repos/acme/infra/check-runs").await;
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0]["name"], "stackorder/plan: stacks/a");
    assert_eq!(checks[0]["conclusion"], "neutral");
    assert!(world.printed().contains("::warning::stackorder/plan: stacks/a: unconfirmed"));
    assert_eq!(world.output("unconfirmed").as_deref(), Some("true"));
}

#[tokio::test]
async fn a_plan_without_a_server_is_unconfirmed_and_still_a_plan() {
    let world = World::new().await;
    let planned = plan(&world.local_job(), &of_stack()).await.unwrap().remove(0);
    assert!(planned.unconfirmed && !planned.is_failure());
    assert!(world.results().await.is_empty());
}

#[tokio::test]
async fn a_refused_result_is_a_refusal_with_the_servers_words() {
    let world = World::new().await;
    let body = json!({"code": "superseded", "message": "a newer commit is planned", "details": {"by": "abc"}});
    world.answer(&stack_path("result"), 409, body).await;

    let planned = planned(&world).await;

    assert!(planned.is_refused() && !planned.is_failure());
    assert_eq!(world.results().await.len(), 1, "a refusal is never tried again");
    assert!(world.printed().contains("a newer commit is planned%0A  by: abc"), "{}", world.printed());
}

#[tokio::test]
async fn case_117_failure_16_a_forbidden_plan_fails_and_is_not_softened_into_an_unconfirmed_one() {
    let world = World::new().await;
    for (status, code) in [(401, "unauthorized"), (403, "forbidden")] {
        world.server.reset().await;
        world.answer_oidc().await;
        world.answer(&stack_path("result"), status, json!({"code": code, "message": "not this token"})).await;
        world.answer("/repos/acme/infra/check-runs", 201, json!({})).await;

        let planned = planned(&world).await;

        assert!((planned.is_refused() || planned.is_failure()) && !planned.unconfirmed, "{status}: its job fails");
        assert_eq!(world.results().await.len(), 1, "{status}: it is not tried again");
        assert!(world.posted("/repos/acme/infra/check-runs").await.is_empty(), "{status}");
        assert_eq!(world.output("unconfirmed").as_deref(), Some("false"), "{status}");
    }
}

#[tokio::test]
async fn case_118_an_empty_server_url_is_no_server_so_plans_are_unconfirmed_and_applies_refused() {
    let mut world = World::new().await;
    world.set("STACKORDER_SERVER_URL", "");
    assert!(Server::of(Some(""), &world.env).unwrap().is_none() && Server::of(None, &world.env).unwrap().is_none());

    let planned = plan(&world.local_job(), &of_stack()).await.unwrap().remove(0);
    assert!(planned.unconfirmed && !planned.is_failure());
    let request = ApplyRequest { stack: STACK.to_owned(), run_id: None, bundle: Some(planned.bundle.into()) };
    assert!(matches!(apply(&world.local_job(), &request).await, Err(Stop::Refused(_))));
    assert!(!world.calls().contains(&"apply".to_owned()));
}

#[tokio::test]
async fn a_failed_plan_is_posted_with_the_tools_own_words() {
    let mut world = World::new().await;
    world.answer_result().await;
    world.set("STUB_PLAN_ERROR", "no such region");

    let planned = planned(&world).await;

    assert!(planned.is_failure());
    assert_eq!(planned.bundle, "");
    let results = world.results().await;
    assert_eq!((&results[0]["status"], &results[0]["exit_code"]), (&json!("failure"), &json!(1)));
    assert!(results[0]["error_text"].as_str().unwrap().contains("Error: no such region"), "{results:?}");
    assert_eq!(world.output("summary").as_deref(), Some("null"));
}

#[tokio::test]
async fn a_hook_without_the_executable_bit_is_an_error_not_a_skip() {
    let mut world = World::new().await;
    world.write(".stackorder/hooks/pre-plan.sh", "true\n");
    world.commit();
    world.answer_result().await;

    let planned = planned(&world).await;

    assert!(planned.is_failure());
    assert!(planned.result.error_text.contains("pre-plan.sh is not executable"), "{}", planned.result.error_text);
    assert_eq!(world.calls(), ["version"]);
}

#[tokio::test]
async fn a_failing_hook_fails_the_plan_and_sees_the_plan_files() {
    let mut world = World::new().await;
    world.write_hook("post-plan", "test -f \"$STACKORDER_PLAN_FILE\" && test -f \"$STACKORDER_PLAN_JSON\" && exit 9\n");
    world.commit();
    world.answer_result().await;

    let planned = planned(&world).await;

    assert_eq!((planned.result.exit_code, planned.is_failure()), (9, true));
    assert!(planned.result.error_text.starts_with("hook post-plan.sh failed with exit code 9"));
}

#[tokio::test]
async fn several_stacks_are_planned_one_after_another_though_one_fails() {
    let mut world = World::new().await;
    world.write("stacks/b/main.tf", "terraform {\n  backend \"s3\" {\n    key = \"b\"\n  }\n}\n");
    world.write("stacks/b/.stackorder.yaml", "var_files: [missing.tfvars]\n");
    world.commit();
    let request = PlanRequest {
        stacks: vec!["stacks/b".to_owned(), STACK.to_owned()],
        artifact: Some("stackorder-plan-chunk-1-abc".to_owned()),
        ..PlanRequest::default()
    };

    let planned = plan(&world.local_job(), &request).await.unwrap();

    assert!(planned[0].is_failure() && !planned[1].is_failure());
    assert!(planned[0].result.error_text.contains("stacks/b/missing.tfvars does not exist"));
    assert_eq!(planned[1].result.plan_artifact, "stackorder-plan-chunk-1-abc");
    assert_eq!(world.output("artifact").as_deref(), Some("stackorder-plan-chunk-1-abc"));
    let bundle = std::path::PathBuf::from(world.output("bundle").unwrap());
    assert!(bundle.ends_with("stackorder-plan-chunk-1-abc"));
    assert!(std::path::Path::new(&planned[1].bundle).starts_with(&bundle));
    assert_eq!(world.output("summary").unwrap().matches("\"adds\"").count(), 1);
}

#[tokio::test]
async fn a_stack_that_fails_leaves_no_plan_to_be_uploaded_beside_the_others() {
    let mut world = World::new().await;
    world.write_hook("post-plan", "test \"$STACKORDER_STACK\" != stacks/b\n");
    world.write("stacks/b/main.tf", "terraform {\n  backend \"s3\" {\n    key = \"b\"\n  }\n}\n");
    world.commit();
    let request = PlanRequest { stacks: vec!["stacks/b".to_owned(), STACK.to_owned()], ..PlanRequest::default() };

    let planned = plan(&world.local_job(), &request).await.unwrap();

    assert!(planned[0].is_failure() && !planned[1].is_failure());
    let uploaded = std::fs::read_dir(world.output("bundle").unwrap()).unwrap();
    let uploaded: Vec<_> = uploaded.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(uploaded, [std::path::PathBuf::from(&planned[1].bundle)]);
}

#[tokio::test]
async fn nothing_is_planned_when_one_of_the_keys_is_none() {
    let world = World::new().await;
    let request = PlanRequest { stacks: vec![STACK.to_owned(), "../b".to_owned()], ..PlanRequest::default() };
    assert!(matches!(plan(&world.local_job(), &request).await, Err(Stop::Failed(_))));
    assert!(world.calls().is_empty(), "the tool was started");
}

#[tokio::test]
async fn a_copy_of_a_plan_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new().await;
    let out = world.root.join("copy.tfplan");
    plan(&world.local_job(), &PlanRequest { out: Some(out.clone()), ..of_stack() }).await.unwrap();
    let found = std::fs::metadata(&out).unwrap();
    assert_eq!((found.len(), found.permissions().mode() & 0o777), (7, 0o600));
}

#[tokio::test]
async fn a_secret_that_is_part_of_an_address_does_not_leave_the_job() {
    let world = World::new().await;
    world.answer_result().await;
    let address = format!("terraform_data.it[\"{SECRET}\"]");
    world.set_plan(&[&address]);

    let planned = planned(&world).await;

    let results = world.results().await;
    assert_eq!(results[0]["summary"]["added"], json!(["terraform_data.it[\"***\"]"]));
    let digest = planned.result.summary.unwrap().actions_digest;
    assert_ne!(digest, Some(crate::plan::digest::actions_digest(&Default::default())), "it is of the plan as it is");
    for text in [results[0].to_string(), world.summary(), world.output("summary").unwrap()] {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[tokio::test]
async fn what_a_proxy_says_for_the_server_is_redacted_in_the_neutral_check() {
    let world = World::new().await;
    world.answer("/repos/acme/infra/check-runs", 201, json!({})).await;
    tell_unconfirmed(&world.job(), "stackorder/resolve", &format!("no {SECRET} here")).await;
    let checks = world.posted("/repos/acme/infra/check-runs").await;
    assert!(checks[0]["output"]["summary"].as_str().unwrap().starts_with("no *** here"), "{checks:?}");
    assert!(!world.printed().contains(SECRET));
}

#[tokio::test]
async fn another_tool_than_the_wanted_one_is_asked_for_its_name_and_warned_of() {
    let mut world = World::new().await;
    world.set("STUB_OUTDATED", "");
    world.set("STUB_NAME", "OpenTofu");
    let planned = plan(&world.local_job(), &of_stack()).await.unwrap().remove(0);
    assert_eq!(planned.result.tool_version, "1.11.4");
    assert_eq!(world.calls()[..3], ["version", "version", "init"]);
    assert!(world.printed().contains("is tofu, the stack wants terraform"), "{}", world.printed());
}

#[tokio::test]
async fn an_interrupt_reaches_what_a_hook_waits_for() {
    let mut world = World::new().await;
    world.write_hook("pre-plan", ": >\"$STUB_DIR/applying\"\nsleep 600\n");
    world.commit();
    world.answer_result().await;

    let ends = tokio::time::timeout(std::time::Duration::from_secs(60), planned(&world));
    let (planned, ()) = tokio::join!(ends, async {
        world.is_applying().await;
        world.interrupt();
    });

    assert!(planned.expect("the hook's sleep was never told").is_failure());
    assert_eq!(world.calls(), ["version"]);
}

#[tokio::test]
async fn a_plan_that_cannot_be_encrypted_fails_before_anything_is_made() {
    let mut world = World::new().await;
    world.set("STACKORDER_PLAN_RECIPIENT", "age1xyz");
    let planned = plan(&world.local_job(), &of_stack()).await.unwrap().remove(0);
    assert!(planned.is_failure());
    let told = &planned.result.error_text;
    assert!(told.starts_with("STACKORDER_PLAN_RECIPIENT: one of the recipients is no age public key"), "{told}");
    assert!(!world.calls().contains(&"plan".to_owned()), "{:?}", world.calls());
}

#[tokio::test]
async fn drift_is_what_the_plan_json_says() {
    let world = World::new().await;
    let found = drift(&world.local_job(), STACK, None).await.unwrap();
    assert!(found.has_drifted());
    assert_eq!(world.output("exit-code").as_deref(), Some("2"));
    world.set_plan(&[]);
    assert!(!drift(&world.local_job(), STACK, None).await.unwrap().has_drifted());
}

#[tokio::test]
async fn case_156_a_drift_check_that_exits_with_2_and_an_empty_plan_is_clean_and_says_so() {
    let world = World::new().await;
    world.set_plan(&[]);
    world.answer_result().await;

    let found = drift(&world.job(), STACK, Some(RUN_ID)).await.unwrap();

    assert!(!found.has_drifted());
    let reported = &world.results().await[0];
    assert_eq!((&reported["exit_code"], &reported["has_changes"]), (&json!(2), &json!(false)));
    assert!(world.printed().contains("the tool reports changes, its plan JSON holds none"), "{}", world.printed());
}

#[tokio::test]
async fn plan_files_travel_and_links_do_not() {
    let mut world = World::new().await;
    world.write("stackorder.yaml", "version: 1\nstacks:\n  plan_files: ['build/*.zip']\n");
    world.write("stacks/a/build/f.zip", "archive");
    world.commit();
    let first = plan(&world.local_job(), &of_stack()).await.unwrap().remove(0);
    assert_eq!(std::fs::read(std::path::Path::new(&first.bundle).join("files/build/f.zip")).unwrap(), b"archive");

    std::os::unix::fs::symlink("/etc/passwd", world.root.join("stacks/a/build/l.zip")).unwrap();
    let second = plan(&world.local_job(), &of_stack()).await.unwrap().remove(0);
    assert!(second.is_failure());
    assert!(second.result.error_text.contains("l.zip"), "{}", second.result.error_text);
}

#[tokio::test]
async fn an_artifact_name_cannot_lead_out_of_the_plan_directory() {
    let world = World::new().await;
    let request = PlanRequest { artifact: Some("../x".to_owned()), ..of_stack() };
    assert!(matches!(plan(&world.local_job(), &request).await, Err(Stop::Failed(_))));
}

#[tokio::test]
async fn after_an_interrupt_nothing_is_started_and_every_stack_is_told_of_it() {
    let world = World::new().await;
    world.answer_result().await;
    world.interrupt();
    let planned = planned(&world).await;
    assert!(planned.is_failure());
    assert!(world.calls().is_empty());
    assert_eq!(world.results().await[0]["error_text"], "interrupted");
}

#[tokio::test]
async fn failure_21_a_job_over_its_time_starts_nothing_and_names_the_limit() {
    let world = World::new().await;
    world.answer_result().await;
    let mut job = world.job();
    job.limits.cap = Some((tokio::time::Instant::now(), "350m".to_owned()));
    let planned = plan(&job, &of_stack()).await.unwrap().remove(0);
    assert!(planned.is_failure());
    assert!(world.calls().is_empty());
    assert_eq!(world.results().await[0]["error_text"], "ended by the time limit of 350m");
}
