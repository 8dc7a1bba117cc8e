//! `apply` fails closed, and says what became of it.

use std::path::PathBuf;

use serde_json::{Value, json};
use wiremock::matchers::path;
use wiremock::{Mock, ResponseTemplate};

use super::world::{RUN_ID, SECRET, STACK, World, claim, stack_path};
use crate::api::ResultStatus;
use crate::runner::apply::{Applied, ApplyRequest, apply};
use crate::runner::plan::{PlanRequest, plan};
use crate::runner::seal::tests::keys;
use crate::runner::server::RUN_RETRY_DELAYS;
use crate::runner::stop::Stop;

async fn apply_in(world: &World, bundle: Option<&str>) -> Result<Applied, Stop> {
    let request = ApplyRequest { stack: STACK.to_owned(), run_id: None, bundle: bundle.map(PathBuf::from) };
    apply(&world.job(), &request).await
}

/// Plans without a server and forgets the calls; the bundle and its digest.
async fn bundle(world: &World) -> (String, String) {
    let request = PlanRequest { stacks: vec![STACK.to_owned()], ..PlanRequest::default() };
    let planned = plan(&world.local_job(), &request).await.unwrap().remove(0);
    std::fs::remove_file(world.stub("calls")).unwrap();
    (planned.bundle, planned.result.bundle_sha256)
}

/// A claim whose artifact is still there.
fn fresh_claim(bundle_sha256: &str) -> Value {
    let mut claim = claim(bundle_sha256);
    claim["row"]["plan_artifact_expires_at"] = json!("2099-01-01T00:00:00Z");
    claim
}

/// A claim whose artifact has expired by the world's clock.
fn expired_claim() -> Value {
    let mut claim = claim("");
    claim["row"]["plan_artifact_expires_at"] = json!("1970-01-01T00:00:01Z");
    claim
}

fn refusal(applied: Result<Applied, Stop>) -> String {
    match applied {
        Err(Stop::Refused(text)) => text,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn the_approved_bundle_is_applied_and_reported() {
    let world = World::new().await;
    let (bundle, digest) = bundle(&world).await;
    world.answer_claim(&fresh_claim(&digest)).await;
    world.answer_result().await;

    let applied = apply_in(&world, Some(&bundle)).await.unwrap();

    assert_eq!(applied.stack.as_str(), STACK);
    assert_eq!(world.calls(), ["version", "init", "show", "apply"]);
    let claims = world.posted(&stack_path("claim")).await;
    assert_eq!(claims[0]["workflow_run_attempt"], 2);
    let results = world.results().await;
    assert_eq!((results.len(), &results[0]["status"], &results[0]["mode"]), (1, &json!("success"), &json!("apply")));
    assert_eq!(results[0]["summary"]["adds"], 1);
    assert_eq!(results[0]["plan_digest"].as_str().unwrap().len(), 64);
    assert!(world.output("summary").unwrap().contains("\"adds\":1"));
}

#[tokio::test]
async fn a_sealed_bundle_is_opened_with_its_key_proved_applied_and_forgotten() {
    let mut world = World::new().await;
    let (public, secret) = keys();
    world.set("STACKORDER_PLAN_RECIPIENT", &public);
    let (bundle, digest) = bundle(&world).await;
    world.answer_claim(&fresh_claim(&digest)).await;
    world.answer_result().await;
    let files = |directory: &str| -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let name = PathBuf::from(&bundle).file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(files(&bundle), [format!("{name}.tar.age")]);

    for (identity, expected) in [
        (None, "is encrypted, and STACKORDER_PLAN_IDENTITY holds no key for it"),
        (Some(keys().1), "cannot be opened"),
        (Some("nonsense".to_owned()), "one of the identities is no age secret key"),
    ] {
        if let Some(identity) = &identity {
            world.set("STACKORDER_PLAN_IDENTITY", identity);
        }
        let refused = refusal(apply_in(&world, Some(&bundle)).await);
        assert!(refused.contains(expected), "{refused}");
        assert!(identity.is_none_or(|identity| !refused.contains(&identity)), "{refused}");
        assert!(!world.calls().contains(&"apply".to_owned()));
    }

    world.set("STACKORDER_PLAN_IDENTITY", &format!("# the key of production\n{secret}\n"));
    apply_in(&world, Some(&bundle)).await.unwrap();
    assert_eq!(world.calls().last().map(String::as_str), Some("apply"));
    let parent = PathBuf::from(&bundle).parent().unwrap().to_str().unwrap().to_owned();
    let left = files(&parent);
    assert!(!left.iter().any(|entry| entry.starts_with("opened-")), "{left:?}");
}

#[tokio::test]
async fn nothing_is_applied_without_a_server() {
    let world = World::new().await;
    let request = ApplyRequest { stack: STACK.to_owned(), run_id: None, bundle: None };
    refusal(apply(&world.local_job(), &request).await);
    assert!(world.calls().is_empty(), "the tool was started");
}

#[tokio::test]
async fn case_083_failure_04_nothing_is_applied_when_the_server_does_not_answer() {
    let world = World::new().await;
    world.answer(&stack_path("claim"), 502, json!({})).await;
    assert!(refusal(apply_in(&world, None).await).contains("cannot be reached"));
    assert!(world.calls().is_empty(), "the tool was started");
    assert_eq!(world.posted(&stack_path("claim")).await.len(), 4, "one attempt and three more");
}

#[tokio::test]
async fn nothing_is_applied_when_the_claim_is_refused() {
    let world = World::new().await;
    let body = json!({"code": "locked", "message": "no lock of this run", "details": ["stacks/a: PR #9"]});
    world.answer(&stack_path("claim"), 423, body).await;
    let text = refusal(apply_in(&world, None).await);
    assert!(text.starts_with("no lock of this run\n  stacks/a: PR #9\nwhy and what to do: http"), "{text}");
    assert!(text.ends_with("#exit-3-locked"), "{text}");
    assert!(world.calls().is_empty() && world.results().await.is_empty());
}

#[tokio::test]
async fn a_checkout_at_another_commit_claims_nothing() {
    let world = World::new().await;
    world.set_event(&json!({"inputs": {"run_id": RUN_ID, "sha": "0123456789012345678901234567890123456789"}}));
    assert!(refusal(apply_in(&world, None).await).contains("the run is about"));
    assert!(world.posted(&stack_path("claim")).await.is_empty());
}

#[tokio::test]
async fn an_apply_that_is_interrupted_before_it_claims_uses_up_no_plan() {
    let world = World::new().await;
    world.answer_claim(&fresh_claim("abc")).await;
    world.interrupt();
    assert!(matches!(apply_in(&world, None).await, Err(Stop::Failed(_))));
    assert!(world.posted(&stack_path("claim")).await.is_empty());
}

#[tokio::test]
async fn a_checkout_that_git_cannot_read_is_a_refusal_in_gits_words() {
    let world = World::new().await;
    std::fs::rename(world.root.join(".git"), world.root.join("git")).unwrap();
    let text = refusal(apply_in(&world, None).await);
    assert!(text.contains("not a git repository"), "{text}");
}

#[tokio::test]
async fn case_071_failure_11_a_bundle_with_another_digest_is_refused_and_reported_as_failed() {
    let world = World::new().await;
    let (bundle, digest) = bundle(&world).await;
    std::fs::write(PathBuf::from(&bundle).join("files-added.txt"), "more").unwrap();
    world.answer_claim(&fresh_claim(&digest)).await;
    world.answer_result().await;

    let text = refusal(apply_in(&world, Some(&bundle)).await);

    assert!(text.contains("not the plan that was approved"), "{text}");
    assert!(world.calls().is_empty(), "the tool was started");
    let results = world.results().await;
    assert_eq!((results.len(), &results[0]["status"]), (1, &json!("failure")));
    assert!(results[0]["error_text"].as_str().unwrap().contains("not the plan that was approved"));
}

#[tokio::test]
async fn a_bundle_that_should_be_there_and_is_not_is_refused() {
    let world = World::new().await;
    world.answer_claim(&fresh_claim("abc")).await;
    world.answer_result().await;
    assert!(refusal(apply_in(&world, Some("/nonexistent")).await).contains("could not be fetched"));
    assert_eq!(world.results().await.len(), 1);
}

#[tokio::test]
async fn case_069_failure_10_an_expired_plan_is_made_again_and_applied_when_it_does_the_same() {
    let world = World::new().await;
    world.answer_claim(&expired_claim()).await;
    world.answer_result().await;
    world.clock.advance(10_000);

    apply_in(&world, None).await.unwrap();

    assert_eq!(world.calls(), ["version", "init", "plan", "show", "apply"]);
    assert!(world.printed().contains("planning again"), "{}", world.printed());
}

#[tokio::test]
async fn case_070_failure_10_an_expired_plan_that_comes_out_differently_is_refused_by_address() {
    let world = World::new().await;
    world.answer_claim(&expired_claim()).await;
    world.answer_result().await;
    world.clock.advance(10_000);
    world.set_plan(&["terraform_data.other"]);

    let text = refusal(apply_in(&world, None).await);

    assert!(
        text.contains("no longer add terraform_data.it") && text.contains("now add terraform_data.other"),
        "{text}"
    );
    assert!(!world.calls().contains(&"apply".to_owned()));
    assert_eq!(world.results().await[0]["status"], "failure");
}

#[tokio::test]
async fn a_lock_file_that_init_does_not_take_leads_to_a_fresh_plan() {
    let mut world = World::new().await;
    world.write("stacks/a/.terraform.lock.hcl", "own");
    world.commit();
    let (bundle, digest) = bundle(&world).await;
    world.write("stacks/a/.terraform.lock.hcl", "later");
    world.answer_claim(&fresh_claim(&digest)).await;
    world.answer_result().await;
    world.set("STUB_READONLY_EXIT", "1");

    apply_in(&world, Some(&bundle)).await.unwrap();

    assert_eq!(world.calls(), ["version", "init", "init", "plan", "show", "apply"]);
    assert_eq!(std::fs::read_to_string(world.root.join("stacks/a/.terraform.lock.hcl")).unwrap(), "later");
}

#[tokio::test]
async fn a_failed_apply_is_an_error_and_reported() {
    let mut world = World::new().await;
    let (bundle, digest) = bundle(&world).await;
    world.answer_claim(&fresh_claim(&digest)).await;
    world.answer_result().await;
    world.set("STUB_APPLY_EXIT", "1");

    assert!(matches!(apply_in(&world, Some(&bundle)).await, Err(Stop::Failed(_))));
    let results = world.results().await;
    assert_eq!((&results[0]["status"], &results[0]["exit_code"]), (&json!("failure"), &json!(1)));
}

#[tokio::test]
async fn a_failing_post_apply_hook_is_reported_as_applied_with_an_error() {
    let mut world = World::new().await;
    world.write_hook("post-apply", "echo \"cannot tell $DB_PASSWORD\" >&2; exit 1\n");
    world.commit();
    let (bundle, digest) = bundle(&world).await;
    world.answer_claim(&fresh_claim(&digest)).await;
    world.answer_result().await;

    assert!(matches!(apply_in(&world, Some(&bundle)).await, Err(Stop::Failed(_))));
    let results = world.results().await;
    assert_eq!(results[0]["status"], "success");
    assert!(results[0]["error_text"].as_str().unwrap().contains("cannot tell ***"), "{results:?}");
    assert!(!results[0].to_string().contains(SECRET));
}

#[tokio::test]
async fn an_apply_that_cannot_be_reported_is_an_error_although_it_went_well() {
    let world = World::new().await;
    let (bundle, digest) = bundle(&world).await;
    world.answer_claim(&fresh_claim(&digest)).await;
    world.answer(&stack_path("result"), 409, json!({"code": "conflict", "message": "no"})).await;
    match apply_in(&world, Some(&bundle)).await {
        Err(Stop::Failed(text)) => assert!(text.contains("was applied, but the report failed"), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_was_applied_is_told_for_longer_than_a_server_needs_to_be_replaced() {
    let waits = RUN_RETRY_DELAYS.iter().map(|delay| delay.as_secs_f64());
    assert_eq!(waits.sum::<f64>(), 68.0);
    let world = World::new().await;
    let (bundle, digest) = bundle(&world).await;
    world.answer_claim(&fresh_claim(&digest)).await;
    let unavailable = ResponseTemplate::new(503);
    Mock::given(path(stack_path("result"))).respond_with(unavailable).up_to_n_times(3).mount(&world.server).await;
    world.answer_result().await;

    let applied = apply_in(&world, Some(&bundle)).await.unwrap();

    assert_eq!(applied.result.status, ResultStatus::Success);
    assert_eq!(world.results().await.len(), 4);
}

#[tokio::test]
async fn an_interrupt_is_told_at_once_and_what_the_tool_did_follows() {
    let mut world = World::new().await;
    let (bundle, digest) = bundle(&world).await;
    world.answer_claim(&fresh_claim(&digest)).await;
    world.answer_result().await;
    world.set("STUB_APPLY_WAITS", "1");

    let (applied, ()) = tokio::join!(apply_in(&world, Some(&bundle)), async {
        world.is_applying().await;
        world.interrupt();
    });

    assert!(matches!(applied, Err(Stop::Failed(_))), "{applied:?}");
    assert!(world.printed().contains("stopping gracefully"), "the interrupt reached the tool: {}", world.printed());
    let results = world.results().await;
    let told: Vec<_> = results.iter().map(|result| (&result["status"], &result["error_text"])).collect();
    assert_eq!(told[0], (&json!("failure"), &json!("interrupted")));
    assert_eq!((told.len(), told[1].0), (2, &json!("success")), "{told:?}");
}

#[tokio::test]
async fn a_job_that_was_asked_to_end_waits_for_no_server_that_is_away() {
    let mut world = World::new().await;
    let (bundle, digest) = bundle(&world).await;
    world.answer_claim(&fresh_claim(&digest)).await;
    world.answer(&stack_path("result"), 503, json!({})).await;
    world.set("STUB_APPLY_WAITS", "1");

    let (applied, ()) = tokio::join!(apply_in(&world, Some(&bundle)), async {
        world.is_applying().await;
        world.interrupt();
    });

    assert!(matches!(applied, Err(Stop::Failed(_))), "{applied:?}");
    assert_eq!(world.results().await.len(), 4, "two reports, each tried twice");
}

#[tokio::test]
async fn a_second_interrupt_kills() {
    let mut world = World::new().await;
    let (bundle, digest) = bundle(&world).await;
    world.answer_claim(&fresh_claim(&digest)).await;
    world.answer_result().await;
    let deaf = std::fs::read_to_string(world.stub("terraform"))
        .unwrap()
        .replace("echo \"stopping gracefully\"; exit 0", "true");
    super::world::write_script(&world.stub("terraform"), &deaf);
    world.set("STUB_APPLY_WAITS", "1");

    let (applied, ()) = tokio::join!(apply_in(&world, Some(&bundle)), async {
        world.is_applying().await;
        world.interrupt();
        world.interrupt();
    });

    assert!(matches!(applied, Err(Stop::Failed(_))), "{applied:?}");
    assert_eq!(world.results().await.len(), 2);
}

#[tokio::test]
async fn bl_083_a_cancelled_apply_was_killed_without_a_chance_to_drop_its_state_lock() {
    let mut world = World::new().await;
    let (bundle, digest) = bundle(&world).await;
    world.answer_claim(&fresh_claim(&digest)).await;
    world.answer_result().await;
    world.set("STUB_APPLY_WAITS", "1");

    let (_, ()) = tokio::join!(apply_in(&world, Some(&bundle)), async {
        world.is_applying().await;
        world.interrupt();
    });

    assert!(world.printed().contains("stopping gracefully"), "the tool heard it and was waited for");
    assert_eq!(world.results().await[0]["error_text"], "interrupted", "and the row says so");
}

#[tokio::test]
async fn bl_140_another_bundle_than_the_recorded_one_was_applied() {
    let world = World::new().await;
    let (bundle, digest) = bundle(&world).await;
    world.answer_claim(&fresh_claim(&digest.replace(|digit: char| digit.is_ascii_digit(), "e"))).await;
    world.answer_result().await;
    refusal(apply_in(&world, Some(&bundle)).await);
    assert!(!world.calls().contains(&"apply".to_owned()));
}

#[tokio::test]
async fn bl_141_an_expired_plan_one_that_is_missing_and_one_that_differs_were_one_error() {
    // Past its retention: planned again, and applied because it does the same.
    let world = World::new().await;
    world.answer_claim(&expired_claim()).await;
    world.answer_result().await;
    world.clock.advance(10_000);
    apply_in(&world, None).await.unwrap();
    assert!(world.calls().contains(&"plan".to_owned()));

    // Within it, and not to be had: nothing is applied, and it is not called expired.
    let world = World::new().await;
    world.answer_claim(&fresh_claim("abc")).await;
    world.answer_result().await;
    let told = refusal(apply_in(&world, Some("/nonexistent")).await);
    assert!(told.contains("could not be fetched") && !told.contains("expired"), "{told}");
    assert!(!world.calls().contains(&"apply".to_owned()));

    // Past it, and different by now: refused by address.
    let world = World::new().await;
    world.answer_claim(&expired_claim()).await;
    world.answer_result().await;
    world.clock.advance(10_000);
    world.set_plan(&["terraform_data.it", "terraform_data.more"]);
    let told = refusal(apply_in(&world, None).await);
    assert!(told.contains("terraform_data.more"), "{told}");
}
