//! What broke for others in the jobs themselves: state locks, prompts, hangs, exit codes, and jobs beside each other.

use serde_json::json;

use super::world::{STACK, World, write_script};
use crate::runner::drift::drift;
use crate::runner::plan::{PlanRequest, plan};

fn of(stack: &str) -> PlanRequest {
    PlanRequest { stacks: vec![stack.to_owned()], ..PlanRequest::default() }
}

/// What the tool was asked to do, in full.
fn asked(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.stub("calls")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Makes the stub's `plan` do this instead.
fn planning_does(world: &World, text: &str) {
    let stub = std::fs::read_to_string(world.stub("terraform")).unwrap();
    let changed = stub.replace("  plan)\n", &format!("  plan)\n    {text}\n"));
    assert_ne!(stub, changed);
    write_script(&world.stub("terraform"), &changed);
}

#[tokio::test]
async fn bl_083_a_cancelled_plan_left_a_state_lock() {
    let world = World::new().await;
    plan(&world.local_job(), &of(STACK)).await.unwrap();
    drift(&world.local_job(), STACK, None).await.unwrap();
    let plans: Vec<String> = asked(&world).into_iter().filter(|call| call.starts_with("plan ")).collect();
    assert_eq!(plans.len(), 2);
    assert!(plans.iter().all(|call| call.contains(" -lock=false ")), "there is none to leave behind: {plans:?}");
}

#[tokio::test]
async fn bl_083_the_next_command_says_whose_state_lock_stands_in_its_way_and_how_to_free_it() {
    let world = World::new().await;
    world.answer_result().await;
    planning_does(
        &world,
        "printf 'Error: Error acquiring the state lock\\n\\nLock Info:\\n  ID:  6fb3\\n  Who: runner@vm\\n  Created: 2026-11-29\\n' >&2; exit 1",
    );
    plan(&world.job(), &of(STACK)).await.unwrap();
    let told = world.results().await[0]["error_text"].as_str().unwrap().to_owned();
    for words in ["Who: runner@vm", "Created: 2026-11-29", "terraform force-unlock 6fb3", "in stacks/a"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[tokio::test]
async fn bl_110_an_exit_code_was_taken_for_the_result() {
    let world = World::new().await;
    // What changed outside of the tool is a note and no drift, whatever the exit code says.
    let outside = json!({
        "format_version": "1.2", "terraform_version": "1.11.4", "variables": {}, "planned_values": {},
        "resource_changes": [], "output_changes": {}, "configuration": {},
        "resource_drift": [{
            "address": "terraform_data.it", "mode": "managed", "type": "terraform_data", "name": "it",
            "change": { "actions": ["update"], "before": { "id": "1" }, "after": { "id": "2" } },
        }],
    });
    std::fs::write(world.stub("plan.json"), outside.to_string()).unwrap();
    let clean = drift(&world.local_job(), STACK, None).await.unwrap();
    assert!(!clean.has_drifted());
    assert_eq!(world.output("exit-code").as_deref(), Some("0"));
    assert!(clean.result.plan_text.is_some(), "the tool's own words hold the note");
}

#[tokio::test]
async fn bl_110_exit_code_0_with_changes_is_drift_and_1_is_a_failure() {
    let world = World::new().await;
    planning_does(
        &world,
        "for arg in \"$@\"; do case \"$arg\" in -out=*) echo p > \"${arg#-out=}\" ;; esac; done; exit 0",
    );
    assert!(drift(&world.local_job(), STACK, None).await.unwrap().has_drifted(), "the plan JSON has a change");

    planning_does(&world, "exit 1");
    assert!(drift(&world.local_job(), STACK, None).await.is_err(), "neither drifted nor clean");
}

#[tokio::test]
async fn bl_149_cleaning_up_after_one_job_broke_another_in_the_same_workspace() {
    let mut world = World::new().await;
    for stack in ["a", "b"] {
        let backend = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"KEY\"\n  }\n}\n";
        world.write(&format!("stacks/{stack}/main.tf"), &backend.replace("KEY", stack));
        world.write(&format!("stacks/{stack}/.stackorder.yaml"), "workspace: prod\n");
    }
    world.commit();
    let (first, second) = (world.local_job(), world.local_job());
    let (one, two) = (of("stacks/a"), of("stacks/b"));
    let (a, b) = tokio::join!(plan(&first, &one), plan(&second, &two));
    let bundles = [a.unwrap().remove(0).bundle, b.unwrap().remove(0).bundle];
    assert_ne!(bundles[0], bundles[1]);

    // Planned again, one of them cleans up what it left before, and nothing else.
    plan(&first, &one).await.unwrap();
    for bundle in &bundles {
        assert!(std::fs::read_dir(bundle).unwrap().count() > 0, "{bundle}");
    }
}

#[tokio::test]
async fn bl_150_a_provider_that_asked_for_a_value_was_waited_for_without_end() {
    let world = World::new().await;
    world.answer_result().await;
    planning_does(&world, "read -r answer && exit 0; echo 'Error: nobody answered' >&2; exit 1");
    let planned = plan(&world.job(), &of(STACK)).await.unwrap().remove(0);
    assert!(planned.is_failure(), "its standard input is closed");
    assert!(world.results().await[0]["error_text"].as_str().unwrap().contains("nobody answered"));
    let mut asks = asked(&world).into_iter().filter(|call| call.starts_with("init ") || call.starts_with("plan "));
    assert!(asks.all(|call| call.contains(" -input=false ")));
}

#[tokio::test]
async fn bl_150_a_command_that_hung_kept_its_job_for_ever() {
    let world = World::new().await;
    world.answer_result().await;
    planning_does(&world, "trap 'exit 1' INT; while true; do sleep 0.05; done");
    let mut job = world.job();
    job.limits.cap = Some((tokio::time::Instant::now() + std::time::Duration::from_millis(300), "350m".to_owned()));
    let planned = plan(&job, &of(STACK)).await.unwrap().remove(0);
    assert!(planned.is_failure());
    let told = world.results().await[0]["error_text"].as_str().unwrap().to_owned();
    assert!(told.contains("ended by the time limit of 350m"), "{told}");
}
