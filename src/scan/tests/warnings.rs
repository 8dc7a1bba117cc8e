//! The warnings of spec 11 §15 that a scan gives: each with what it must name and every field that is known.

use super::scanned;
use crate::graph::model::Warning;
use crate::scan::{EntryKind, MemoryFiles};

const S3: &str = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"k\"\n  }\n}\n";
const MORE: &str = "terraform {\n  backend \"s3\" {}\n}\n";

/// Where a warning points: file, line and stack, empty or 0 for what is not known.
type Place<'a> = (&'a str, u32, &'a str);

/// Asserts that the checkout gives exactly one warning of this code, there, and that it names all this.
fn gives(files: &MemoryFiles, code: &str, place: Place<'_>, names: &[&str]) {
    let graph = scanned(files);
    let all = graph.warnings.iter().chain(graph.stacks.iter().flat_map(|stack| &stack.warnings));
    let found: Vec<&Warning> = all.filter(|warning| warning.code == code).collect();
    let [warning] = found.as_slice() else { panic!("{code}: {found:?} of {:?}", graph.warnings) };
    assert_eq!((warning.file.as_str(), warning.line.unwrap_or_default(), warning.stack.as_str()), place, "{code}");
    let text = format!("{warning} {}", warning.stack);
    for name in names {
        assert!(text.contains(name), "{code}: {name:?} in {text:?}");
    }
}

fn stack(text: &str) -> MemoryFiles {
    MemoryFiles::default().with("stacks/a/main.tf", format!("{S3}{text}"))
}

#[test]
fn s15_an_unreadable_file_or_bad_link_names_path_and_reason() {
    let bad = |reason: &str| EntryKind::BadLink { reason: reason.to_owned() };
    for reason in ["the link dangles or loops", "the link leads out of the checkout"] {
        for path in ["stacks/a/link.tf", "stacks/a/x.auto.tfvars", "elsewhere/y.tfbackend"] {
            gives(&stack("").with_entry(path, bad(reason)), "file_unreadable", (path, 0, ""), &[path, reason]);
        }
    }
}

#[test]
fn s15_a_syntax_or_label_error_names_its_position_once() {
    let place = ("stacks/a/more.tf", 2, "");
    gives(&stack("").with("stacks/a/more.tf", "\nlocals {"), "syntax", place, &["\"locals\" is never closed"]);
    gives(&stack("").with("stacks/a/more.tf", "\nmodule {}"), "syntax", place, &["needs exactly one label"]);
    let json = stack("").with("stacks/a/more.tf.json", "{\n\"module\": }");
    gives(&json, "syntax", ("stacks/a/more.tf.json", 2, ""), &["JSON value was expected"]);
    // A directory of several instances is read once, and so is its mistake.
    let instances = stack("locals {").with("stacks/a/.stackorder.yaml", "instances: [x, y]\n");
    gives(&instances, "syntax", ("stacks/a/main.tf", 7, ""), &["stacks/a/main.tf:7"]);
}

#[test]
fn s15_an_include_entry_that_is_missing_names_the_entry() {
    let files = stack("").with("stackorder.yaml", "stacks: { include: [./gone] }\n");
    gives(&files, "include_missing", ("stackorder.yaml", 0, ""), &["\"gone\"", "not a directory"]);
}

#[test]
fn s15_an_include_entry_that_is_excluded_names_the_entry() {
    let files = stack("").with("stackorder.yaml", "stacks: { include: [stacks/a], exclude: ['stacks/*'] }\n");
    gives(&files, "include_excluded", ("stackorder.yaml", 0, ""), &["stacks/a", "stacks.exclude"]);
}

#[test]
fn s15_an_included_directory_without_s3_is_named() {
    let config = "stacks: { include: [extra/x] }\n";
    for (text, why) in [("", "no s3 backend"), ("terraform {\n  backend \"gcs\" {}\n}\n", "no s3 backend")] {
        let files = MemoryFiles::default().with("stackorder.yaml", config).with("extra/x/main.tf", text);
        gives(&files, "include_without_backend", ("extra/x", 0, ""), &["extra/x", why]);
    }
    let only = MemoryFiles::default().with("stackorder.yaml", config).with("extra/x/override.tf", "");
    gives(&only, "include_without_backend", ("extra/x", 0, ""), &["only override files"]);
}

#[test]
fn s15_a_discovered_directory_with_another_backend_names_directory_and_type() {
    let files = MemoryFiles::default().with("stacks/a/main.tf", "terraform {\n  backend \"azurerm\" {}\n}\n");
    gives(&files, "backend_other", ("stacks/a", 0, ""), &["stacks/a", "azurerm"]);
}

#[test]
fn s15_a_repository_root_that_would_be_a_stack_is_named_with_the_advice() {
    let config = "stacks: { discover: ['**'] }\n";
    let files = MemoryFiles::default().with("stackorder.yaml", config).with("main.tf", S3);
    gives(&files, "root_is_stack", (".", 0, ""), &["move its files into a directory"]);
}

#[test]
fn s15_second_backend_block_names_both_positions() {
    let files = stack("").with("stacks/a/more.tf", MORE);
    gives(&files, "backend_second", ("stacks/a/more.tf", 2, ""), &["stacks/a/more.tf:2", "stacks/a/main.tf:2"]);
}

#[test]
fn s15_a_backend_attribute_that_is_not_known_names_position_and_attribute() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", "terraform {\n  backend \"s3\" {\n    key = var.nobody\n  }\n}\n");
    gives(&files, "backend_not_literal", ("stacks/a/main.tf", 3, ""), &["\"key\"", "left empty"]);
}

#[test]
fn s15_an_attribute_of_a_backend_file_that_is_no_literal_names_position_and_attribute() {
    let files = stack("")
        .with("stacks/a/.stackorder.yaml", "backend_config: [x.tfbackend]\n")
        .with("x.tfbackend", "region = \"r\"\nkey = local.x\n");
    gives(&files, "backend_not_literal", ("x.tfbackend", 2, ""), &["\"key\"", "skipped"]);
}

#[test]
fn s15_use_lockfile_that_is_no_boolean_names_stack_and_text() {
    let files = stack("").with("stacks/a/.stackorder.yaml", "instances: [x]\nbackend_config: [use_lockfile=perhaps]\n");
    gives(&files, "use_lockfile_not_boolean", ("", 0, "stacks/a:x"), &["stacks/a:x", "perhaps"]);
}

#[test]
fn s15_a_shared_state_names_its_stacks_and_the_object() {
    let files = stack("").with("stacks/b/main.tf", S3);
    gives(&files, "state_shared", ("", 0, ""), &["stacks/a, stacks/b", "s3://b/k"]);
}

#[test]
fn s15_a_var_file_that_is_missing_names_stack_and_file() {
    let files = stack("").with("stacks/a/.stackorder.yaml", "var_files: [../x.tfvars]\n");
    gives(&files, "var_file_missing", ("stacks/x.tfvars", 0, "stacks/a"), &["stacks/x.tfvars", "stacks/a"]);
}

#[test]
fn s15_a_var_file_outside_the_repository_names_stack_and_file() {
    let files = stack("").with("stacks/a/.stackorder.yaml", "var_files: [../../../x.tfvars]\n");
    gives(&files, "var_file_outside", ("", 0, "stacks/a"), &["../../../x.tfvars", "not watched"]);
}

#[test]
fn s15_a_matched_var_file_that_the_tool_loads_itself_is_named() {
    let files = stack("")
        .with("stackorder.yaml", "stacks: { instances: { from_var_files: '*.tfvars' } }\n")
        .with("stacks/a/x.auto.tfvars", "");
    gives(&files, "var_file_auto_loaded", ("stacks/a/x.auto.tfvars", 0, ""), &["stacks/a/x.auto.tfvars"]);
}

#[test]
fn s15_a_matched_var_file_of_an_undeclared_instance_names_file_instance_and_stack_file() {
    let files = stack("")
        .with("stackorder.yaml", "stacks: { instances: { from_var_files: '*.tfvars' } }\n")
        .with("stacks/a/.stackorder.yaml", "instances: [y]\n")
        .with("stacks/a/x.tfvars", "");
    let names = ["\"x\"", "stacks/a/.stackorder.yaml"];
    gives(&files, "var_file_undeclared_instance", ("stacks/a/x.tfvars", 0, ""), &names);
}

#[test]
fn s15_a_module_call_that_leads_nowhere_names_position_module_and_source() {
    for (source, code, says) in [
        (None, "module_no_source", "no source"),
        (Some(" "), "module_no_source", "empty"),
        (Some("s3::x"), "module_unsupported", "not supported"),
        (Some("../../../out"), "module_outside", "leads out of the repository"),
        (Some("./"), "module_itself", "the calling directory itself"),
        (Some("./none"), "module_not_directory", "not a directory"),
        (Some("./${var.x}"), "module_unresolved", "var.x has no known value"),
    ] {
        let argument = source.map(|source| format!("  source = \"{source}\"\n")).unwrap_or_default();
        let line = if source.is_some() { 8 } else { 7 };
        let files = stack(&format!("module \"net\" {{\n{argument}}}\n"));
        let shown = source.filter(|source| !source.contains("${")).unwrap_or_default().trim();
        gives(&files, code, ("stacks/a/main.tf", line, ""), &["module \"net\"", says, shown]);
    }
}

#[test]
fn s15_a_module_key_that_is_local_and_git_names_position_module_source_and_key() {
    let source = "github.com/acme/infra//modules/m";
    let files = stack(&format!("module \"net\" {{\n  source = \"{source}\"\n}}\n")).with("modules/m/main.tf", "");
    let names = ["\"net\"", source, "acme/infra//modules/m"];
    gives(&files, "module_local_and_git", ("stacks/a/main.tf", 8, ""), &names);
}

#[test]
fn s15_a_stack_that_depends_on_itself_is_named() {
    let files = stack("").with("stacks/a/.stackorder.yaml", "depends_on: [stacks/a]\n");
    gives(&files, "depends_on_itself", ("stacks/a/.stackorder.yaml", 0, "stacks/a"), &["stacks/a", "dropped"]);
}

#[test]
fn s15_a_dependency_on_an_unknown_stack_names_stack_and_target() {
    let files = stack("").with("stacks/a/.stackorder.yaml", "depends_on: [stacks/none]\n");
    let names = ["stacks/a", "stacks/none"];
    gives(&files, "depends_on_unknown", ("stacks/a/.stackorder.yaml", 0, "stacks/a"), &names);
}

#[test]
fn s15_a_remote_state_that_cannot_be_inferred_names_position_block_attribute_and_why() {
    let block = "data \"terraform_remote_state\" \"net\" {\n  backend = \"s3\"\n  config = {\n    bucket = \"b\"\n    key = var.nobody\n  }\n}\n";
    let names = ["cannot infer", "\"net\"", "\"key\"", "var.nobody has no known value"];
    gives(&stack(block), "remote_state_unresolved", ("stacks/a/main.tf", 11, ""), &names);
}

#[test]
fn s15_a_suppressed_edge_names_both_stacks() {
    let block = "data \"terraform_remote_state\" \"net\" {\n  backend = \"s3\"\n  config = { bucket = \"b\", key = \"net\" }\n}\n";
    let files = stack(block)
        .with("stacks/a/.stackorder.yaml", "ignore_inferred: [stacks/net]\n")
        .with("stacks/net/main.tf", S3.replace("\"k\"", "\"net\""));
    gives(&files, "inferred_ignored", ("", 0, "stacks/a"), &["stacks/a", "stacks/net"]);
}

#[test]
fn s15_a_variable_in_a_backend_under_terraform_is_what_terraform_refuses() {
    let text = "variable \"k\" { default = \"x\" }\nterraform {\n  backend \"s3\" {\n    key = var.k\n  }\n}\n";
    let files = MemoryFiles::default().with("stacks/a/main.tf", text);
    gives(&files, "backend_refused", ("stacks/a/main.tf", 4, ""), &["\"key\"", "Terraform refuses this"]);
}

#[test]
fn s15_a_missing_lock_file_names_the_stack_and_what_may_differ() {
    for text in ["provider \"aws\" {}\n", "terraform {\n  required_providers {}\n}\n"] {
        let names = ["stacks/a", "plan and apply may pick different provider versions"];
        gives(&stack(text), "no_lock_file", ("", 0, "stacks/a"), &names);
    }
}

#[test]
fn s15_an_archive_without_plan_files_names_its_position_and_the_key() {
    let files = stack("data \"archive_file\" \"f\" {}\n");
    gives(&files, "archive_without_plan_files", ("stacks/a/main.tf", 7, "stacks/a"), &["stacks.plan_files"]);
}

#[test]
fn entries_of_the_configuration_that_match_nothing_are_named_with_their_line() {
    let config = "version: 1\nstacks:\n  exclude: [\"stacks/old/**\", \"docs\"]\nenvironments:\n  \"stacks/a\": one\n  \"stakcs/a\": two\n  \":blue\": three\n";
    let files = stack("").with("docs/readme.md", "").with("stackorder.yaml", config);
    let graph = scanned(&files);
    let texts: Vec<String> = graph.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "stackorder.yaml:6: environments: \"stakcs/a\" matches no stack",
            "stackorder.yaml:7: environments: \":blue\" matches no stack",
            "stackorder.yaml:3: stacks.exclude: \"stacks/old/**\" matches no directory",
        ]
    );
}
