//! The same with the real tool, where this machine has it.

use std::path::PathBuf;

use serde_json::json;

use super::world::{STACK, World, claim};
use crate::runner::apply::{ApplyRequest, apply};
use crate::runner::drift::drift;
use crate::runner::plan::{PlanRequest, plan};

const STACK_FILE: &str = r#"
terraform {
  backend "local" {}
}
variable "password" {
  sensitive = true
  default   = "planted-in-a-variable"
}
resource "terraform_data" "it" {
  input = var.password
}
"#;

/// A world with the real tool; `None` where there is none.
async fn world(test: &str) -> Option<World> {
    if !std::process::Command::new("terraform").arg("version").output().is_ok_and(|done| done.status.success()) {
        println!("not run: {test} (no terraform)");
        return None;
    }
    let mut world = World::new().await;
    world.unset("STACKORDER_TERRAFORM_BIN");
    world.write(".gitignore", ".terraform/\n*.tfstate*\n");
    Some(world)
}

#[tokio::test]
async fn a_real_plan_travels_as_a_bundle_and_is_applied() {
    let Some(mut world) = world("a_real_plan_travels_as_a_bundle_and_is_applied").await else { return };
    world.write("stackorder.yaml", "version: 1\nstacks:\n  include: [stacks/a]\n");
    world.write("stacks/a/main.tf", STACK_FILE);
    world.commit();
    world.answer_result().await;

    let request = PlanRequest { stacks: vec![STACK.to_owned()], ..PlanRequest::default() };
    let planned = plan(&world.job(), &request).await.unwrap().remove(0);
    assert!(!planned.is_failure(), "{}", world.printed());
    assert_eq!(planned.result.summary.as_ref().unwrap().added, ["terraform_data.it"]);

    let mut claim = claim(&planned.result.bundle_sha256);
    claim["row"]["plan_artifact_expires_at"] = json!("2099-01-01T00:00:00Z");
    world.answer_claim(&claim).await;
    let request = ApplyRequest { stack: STACK.to_owned(), run_id: None, bundle: Some(PathBuf::from(&planned.bundle)) };
    let applied = apply(&world.job(), &request).await;
    assert!(applied.is_ok(), "{applied:?}\n{}", world.printed());
    assert_eq!(world.results().await.last().unwrap()["status"], "success");

    let found = drift(&world.local_job(), STACK, None).await.unwrap();
    assert!(!found.has_drifted(), "{:?}", found.result);
    let posted: String = world.results().await.iter().map(ToString::to_string).collect();
    assert!(!posted.contains("planted-in-a-variable") && !world.printed().contains("planted-in-a-variable"));
}

/// The mark of a sensitive output does not travel through remote state; the upstream's own files are asked.
#[tokio::test]
async fn a_sensitive_output_of_an_upstream_is_in_nothing_that_is_posted() {
    let Some(mut world) = world("a_sensitive_output_of_an_upstream_is_in_nothing_that_is_posted").await else { return };
    let backend = "terraform {\n  backend \"local\" {}\n}\n";
    world.write("stackorder.yaml", "version: 1\nstacks:\n  include: [stacks/a, stacks/up]\n");
    world.write(
        "stacks/up/main.tf",
        &format!("{backend}output \"conn\" {{\n  value = \"upstream-planted\"\n  sensitive = true\n}}\noutput \"name\" {{\n  value = \"upstream-name\"\n}}\n"),
    );
    world.write(
        "stacks/a/main.tf",
        &format!(
            "{backend}data \"terraform_remote_state\" \"up\" {{\n  backend = \"local\"\n  config = {{\n    path = \"../up/terraform.tfstate\"\n  }}\n}}\n\
             resource \"terraform_data\" \"it\" {{\n  input = \"${{data.terraform_remote_state.up.outputs.conn}} ${{data.terraform_remote_state.up.outputs.name}}\"\n}}\n"
        ),
    );
    world.commit();
    for args in [&["init"][..], &["apply", "-auto-approve"]] {
        let chdir = format!("-chdir={}", world.root.join("stacks/up").display());
        let done =
            std::process::Command::new("terraform").arg(chdir).args(args).env_remove("TF_CLI_CONFIG_FILE").output();
        assert!(done.is_ok_and(|done| done.status.success()));
    }
    world.answer_result().await;

    let request = PlanRequest {
        stacks: vec![STACK.to_owned()],
        run_id: Some(super::world::RUN_ID.to_owned()),
        ..PlanRequest::default()
    };
    let planned = plan(&world.job(), &request).await.unwrap().remove(0);

    assert!(!planned.is_failure(), "{}", world.printed());
    let posted: String = world.results().await.iter().map(ToString::to_string).collect();
    assert!(posted.contains("*** upstream-name"), "{posted}");
    assert!(!posted.contains("upstream-planted") && !world.summary().contains("upstream-planted"));
}
