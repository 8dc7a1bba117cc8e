//! What follows from variables, locals and the workspace, for each instance (spec 11 §17).

use super::{edges, scanned, warnings};
use crate::scan::MemoryFiles;

const BACKEND: &str = "variable \"env\" { type = string }\nlocals { key = \"${var.env}/net.tfstate\" }\nterraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = local.key\n  }\n}\n";

#[test]
fn backends_are_worked_out_for_each_instance_and_terraform_refuses_them() {
    let files = MemoryFiles::default()
        .with("stackorder.yaml", "tool: tofu\n")
        .with("stacks/net/main.tf", BACKEND)
        .with(
            "stacks/net/.stackorder.yaml",
            "env: { TF_VAR_env: from-env }\ninstances:\n  dev: { var_files: [dev.tfvars] }\n  prd: {}\n",
        )
        .with("stacks/net/dev.tfvars", "env = \"dev\"\n");
    let graph = scanned(&files);
    let keys: Vec<&str> = graph.stacks.iter().filter_map(|stack| Some(stack.backend.as_ref()?.key.as_str())).collect();
    assert_eq!(keys, ["dev/net.tfstate", "from-env/net.tfstate"]);
    assert_eq!(warnings(&graph), Vec::<String>::new());

    let refused = scanned(&files.with("stackorder.yaml", "tool: terraform\n"));
    assert_eq!(refused.stacks[0].backend.as_ref().map(|backend| backend.key.as_str()), Some("dev/net.tfstate"));
    assert_eq!(
        warnings(&refused),
        [
            "stacks/net/main.tf:6: backend attribute \"key\" is not a literal: Terraform refuses this, only OpenTofu takes it"
        ]
    );
}

#[test]
fn states_that_modules_read_are_those_of_the_stack_that_calls_them() {
    let read = "variable \"env\" {}\ndata \"terraform_remote_state\" \"net\" {\n  backend = \"s3\"\n  config = { bucket = \"b\", key = \"${var.env}/net.tfstate\" }\n}\n";
    let writer = |env: &str| {
        format!("terraform {{\n  backend \"s3\" {{\n    bucket = \"b\"\n    key = \"{env}/net.tfstate\"\n  }}\n}}\n")
    };
    let app = "terraform {\n  backend \"s3\" {}\n}\nvariable \"env\" {}\nmodule \"outer\" {\n  source = \"../../modules/outer\"\n  name = var.env\n}\n";
    let files = MemoryFiles::default()
        .with("stacks/dev/main.tf", writer("dev"))
        .with("stacks/prd/main.tf", writer("prd"))
        .with("stacks/app/main.tf", app)
        .with(
            "stacks/app/.stackorder.yaml",
            "instances:\n  dev: { env: { TF_VAR_env: dev } }\n  prd: { env: { TF_VAR_env: prd } }\n",
        )
        .with(
            "modules/outer/main.tf",
            "variable \"name\" {}\nmodule \"inner\" {\n  source = \"../inner\"\n  env = var.name\n}\n",
        )
        .with("modules/inner/main.tf", read);
    let graph = scanned(&files);
    let reads: Vec<String> = edges(&graph).into_iter().filter(|edge| edge.contains("reads_state")).collect();
    assert_eq!(reads, ["stacks/app:dev reads_state stacks/dev", "stacks/app:prd reads_state stacks/prd"]);
    assert_eq!(warnings(&graph), Vec::<String>::new());
}

#[test]
fn variables_take_their_values_in_the_order_of_the_tool() {
    let app = |values: &[(&str, &str)]| {
        let mut files = MemoryFiles::default()
            .with("stackorder.yaml", "tool: tofu\n")
            .with("stacks/a/main.tf", "variable \"k\" {\n  type = string\n  default = 1.50\n  nullable = false\n}\nterraform {\n  backend \"s3\" { key = var.k }\n}\n");
        for (path, text) in values {
            files.insert(&format!("stacks/a/{path}"), *text);
        }
        scanned(&files).stacks[0].backend.as_ref().map(|backend| backend.key.clone()).unwrap_or_default()
    };
    let env = (".stackorder.yaml", "env: { TF_VAR_k: env }\n");
    let with_file = (".stackorder.yaml", "env: { TF_VAR_k: env }\nvar_files: [v.tfvars]\n");
    let first = ("terraform.tfvars", "k = \"first\"\n");
    assert_eq!(app(&[]), "1.5");
    assert_eq!(app(&[env]), "env");
    assert_eq!(app(&[env, first]), "first");
    assert_eq!(app(&[env, first, ("terraform.tfvars.json", "{\"k\": \"${json}\"}")]), "${json}");
    assert_eq!(app(&[env, first, ("b.auto.tfvars", "k = true"), ("a.auto.tfvars", "k = \"a\"")]), "true");
    assert_eq!(app(&[with_file, first, ("v.tfvars", "k = \"v\"")]), "v");
    assert_eq!(app(&[with_file, first, ("v.tfvars", "k = null")]), "1.5");
    assert_eq!(app(&[with_file, first, ("v.tfvars", "k = lower(\"V\")")]), "");
    // A file that is not there may say anything once it is.
    assert_eq!(app(&[with_file, first]), "");
}

#[test]
fn sources_may_differ_between_instances_and_need_no_value_in_other_branches() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", "terraform {\n  backend \"s3\" {}\n}\nmodule \"m\" { source = terraform.workspace == \"blue\" ? \"../../modules/blue\" : \"../../modules/other\" }\n")
        .with("stacks/a/.stackorder.yaml", "workspace: '{{ .Instance }}'\ninstances: [blue, green]\n")
        .with("modules/blue/main.tf", "")
        .with("modules/other/main.tf", "");
    assert_eq!(
        edges(&scanned(&files)),
        ["stacks/a:blue uses_module acme/infra//modules/blue", "stacks/a:green uses_module acme/infra//modules/other",]
    );
}

#[test]
fn declarations_of_json_and_override_files_count() {
    let files = MemoryFiles::default()
        .with("stackorder.yaml", "tool: tofu\n")
        .with("stacks/a/main.tf", "terraform {\n  backend \"s3\" { key = \"${local.a}-${local.b}-${var.c}\" }\n}\nlocals { a = \"1\" }\nvariable \"c\" { default = \"x\" }\n")
        .with("stacks/a/more.tf.json", "{\"locals\": {\"b\": \"${local.a}2\"}}")
        .with("stacks/a/override.tf", "locals { a = \"9\" }\nvariable \"c\" { default = \"y\" }\n");
    let graph = scanned(&files);
    assert_eq!(graph.stacks[0].backend.as_ref().map(|backend| backend.key.as_str()), Some("9-92-y"));
}

#[test]
fn a_value_is_what_the_type_of_its_variable_makes_of_it() {
    let files = MemoryFiles::default()
        .with("stackorder.yaml", "tool: tofu\n")
        .with("stacks/a/main.tf", "terraform {\n  backend \"s3\" { key = join(\"-\", concat(tolist(var.zones), [var.names.b])) }\n}\nvariable \"zones\" { type = set(string) }\nvariable \"names\" {\n  type = object({\n    a = string # why\n    b = optional(string, \"x\")\n  })\n}\n")
        .with("stacks/a/terraform.tfvars", "zones = [\"b\", \"a\", \"b\"]\nnames = { a = 1 }\n");
    let graph = scanned(&files);
    assert_eq!(graph.stacks[0].backend.as_ref().map(|backend| backend.key.as_str()), Some("a-b-x"));
}

#[test]
fn what_a_repeated_module_call_passes_on_is_not_known_for_each() {
    let read = "variable \"env\" {}\ndata \"terraform_remote_state\" \"net\" {\n  backend = \"s3\"\n  config = { bucket = \"b\", key = \"${var.env}/net.tfstate\" }\n}\n";
    for (repeated, value) in [("for_each = toset([\"dev\"])", "each.key"), ("count = 2", "\"dev${count.index}\"")] {
        let call = format!(
            "terraform {{\n  backend \"s3\" {{}}\n}}\nmodule \"m\" {{\n  source = \"../../modules/m\"\n  {repeated}\n  env = {value}\n}}\n"
        );
        let files = MemoryFiles::default().with("stacks/app/main.tf", call).with("modules/m/main.tf", read);
        let found = warnings(&scanned(&files));
        assert_eq!(
            found,
            [
                "modules/m/main.tf:4: remote state \"net\": cannot infer what it reads: \"key\" of its config is not known: var.env has no known value"
            ]
        );
    }
}
