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

#[tokio::test]
async fn a_real_plan_travels_as_a_bundle_and_is_applied() {
    if !std::process::Command::new("terraform").arg("version").output().is_ok_and(|done| done.status.success()) {
        println!("not run: a_real_plan_travels_as_a_bundle_and_is_applied (no terraform)");
        return;
    }
    let mut world = World::new().await;
    world.unset("STACKORDER_TERRAFORM_BIN");
    world.write("stackorder.yaml", "version: 1\nstacks:\n  include: [stacks/a]\n");
    world.write("stacks/a/main.tf", STACK_FILE);
    world.write(".gitignore", ".terraform/\n*.tfstate*\n");
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
