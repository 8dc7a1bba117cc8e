//! `check` and `unlock`.

use serde_json::json;

use super::world::{SECRET, STACK, World, stack_path};
use crate::guide::Topic;
use crate::run::status::VerdictStatus;
use crate::runner::check::{CheckRequest, check};
use crate::runner::stop::Stop;
use crate::runner::unlock::unlock;

fn request(name: &str) -> CheckRequest {
    CheckRequest {
        stack: STACK.to_owned(),
        run_id: None,
        name: name.to_owned(),
        status: VerdictStatus::Warn,
        summary: format!("costs more, says {SECRET}"),
        details_file: None,
        details_url: String::new(),
    }
}

#[tokio::test]
async fn a_verdict_is_posted_redacted_and_cut() {
    let world = World::new().await;
    let stored = json!({"name": "cost", "status": "warn", "updated_at": "2026-11-29T00:00:00Z"});
    world.answer(&stack_path("checks/cost"), 200, stored).await;
    let details = world.stub("details");
    std::fs::write(&details, format!("{SECRET}\n").repeat(20_000)).unwrap();

    let (key, stored) =
        check(&world.job(), &CheckRequest { details_file: Some(details), ..request("cost") }).await.unwrap();

    assert_eq!((key.as_str(), stored.name.as_str()), (STACK, "cost"));
    let posted = &world.posted(&stack_path("checks/cost")).await[0];
    assert_eq!(posted["summary"], "costs more, says ***");
    assert!(posted["details"].as_str().unwrap().len() <= 64 * 1024);
    assert!(!posted.to_string().contains(SECRET));
}

#[tokio::test]
async fn of_a_details_file_without_end_only_the_beginning_is_read() {
    let world = World::new().await;
    let stored = json!({"name": "cost", "status": "warn", "updated_at": "2026-11-29T00:00:00Z"});
    world.answer(&stack_path("checks/cost"), 200, stored).await;
    let endless = CheckRequest { details_file: Some("/dev/zero".into()), ..request("cost") };
    check(&world.job(), &endless).await.unwrap();
    let posted = &world.posted(&stack_path("checks/cost")).await[0];
    assert_eq!(posted["details"].as_str().unwrap().len(), 64 * 1024);
}

#[tokio::test]
async fn an_address_of_details_is_redacted_too() {
    let world = World::new().await;
    let stored = json!({"name": "cost", "status": "warn", "updated_at": "2026-11-29T00:00:00Z"});
    world.answer(&stack_path("checks/cost"), 200, stored).await;
    let details_url = format!("https://cost.example.com/report?key={SECRET}");
    check(&world.job(), &CheckRequest { details_url, ..request("cost") }).await.unwrap();
    let posted = &world.posted(&stack_path("checks/cost")).await[0];
    assert_eq!(posted["details_url"], "https://cost.example.com/report?key=***");
}

#[tokio::test]
async fn names_of_the_servers_own_checks_and_names_that_are_none_are_refused() {
    let world = World::new().await;
    for name in ["plan", "apply", "resolve", "", "a b", "../x", &"x".repeat(65)] {
        assert!(matches!(check(&world.job(), &request(name)).await, Err(Stop::Failed(_))), "{name}");
    }
    assert!(matches!(check(&world.local_job(), &request("cost")).await, Err(Stop::Failed(_))));
}

#[tokio::test]
async fn an_unreachable_server_is_an_error_for_a_verdict_and_a_refusal_is_one() {
    let world = World::new().await;
    world.answer(&stack_path("checks/down"), 500, json!({})).await;
    world.answer(&stack_path("checks/late"), 409, json!({"code": "conflict", "message": "planned"})).await;
    assert!(matches!(check(&world.job(), &request("down")).await, Err(Stop::Failed(_))));
    let late = check(&world.job(), &request("late")).await.unwrap_err();
    assert_eq!(late, Stop::refused(Topic::ServerConflict, "planned"));
}

#[tokio::test]
async fn a_laptop_unlocks_with_its_api_key() {
    let mut world = World::new().await;
    world.unset("GITHUB_ACTIONS");
    world.set("STACKORDER_API_KEY", "sk_planted");
    world.git(&["remote", "add", "origin", "git@github.com:acme/infra.git"]);
    world.answer("/v1/unlock", 200, json!({"released": []})).await;

    let released = unlock(&world.job(), &[STACK.to_owned()], "gone", true).await.unwrap();

    assert_eq!((released.len(), released[0].1.len()), (1, 0));
    let expected = json!({"repo": "acme/infra", "stack_key": STACK, "reason": "gone", "force_state": true});
    assert_eq!(world.posted("/v1/unlock").await, [expected]);
    assert!(world.posted("/oidc").await.is_empty());
}
