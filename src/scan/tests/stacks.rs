//! Which directories are stacks, and what they watch (spec 11 §3–§5).

use super::{edges, scanned, warnings};
use crate::graph::model::Graph;
use crate::scan::{EntryKind, MemoryFiles, ScanOptions, scan};

const S3: &str = "terraform {\n  backend \"s3\" {}\n}\n";
const GCS: &str = "terraform {\n  backend \"gcs\" {}\n}\n";

fn keys(graph: &Graph) -> Vec<&str> {
    graph.stacks.iter().map(|stack| stack.key.as_str()).collect()
}

fn errors(files: &MemoryFiles) -> Vec<String> {
    let errors = scan(files, &ScanOptions::new("acme/infra", "")).expect_err("the checkout is invalid");
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn directories_become_stacks_as_the_table_says() {
    let files = MemoryFiles::default()
        .with(
            "stackorder.yaml",
            "stacks:\n  include: [extra/a, extra/gcs, stacks/bare, gone, stacks/out]\n  exclude: [stacks/out]\n",
        )
        .with("stacks/s3/main.tf", S3)
        .with("stacks/gcs/main.tf", GCS)
        .with("stacks/cloud/main.tf", "terraform {\n  cloud {}\n}\n")
        .with("stacks/none/main.tf", "locals {}\n")
        .with("stacks/bare/main.tf", "locals {}\n")
        .with("stacks/out/main.tf", S3)
        .with("extra/a/main.tf", S3)
        .with("extra/gcs/main.tf", GCS)
        .with("extra/unlisted/main.tf", S3)
        .with("modules/m/main.tf", S3)
        .with("stacks/only/override.tf.json", "{\"terraform\": {\"backend\": {\"s3\": {}}}}")
        .with("stacks/s3/.hidden/main.tf", S3)
        .with("stacks/s3/node_modules/x/main.tf", S3)
        .with("stacks/text/main.tf~", S3)
        .with("main.tf", "locals {}\n");
    let graph = scanned(&files);
    assert_eq!(keys(&graph), ["extra/a", "extra/gcs", "stacks/bare", "stacks/s3"]);
    assert_eq!(
        warnings(&graph),
        [
            "stacks/gcs: stacks/gcs is not a stack: its backend is \"gcs\", not s3",
            "stackorder.yaml: stacks.include: \"stacks/out\" is excluded by stacks.exclude",
            "stackorder.yaml: stacks.include: \"gone\" is not a directory; it is ignored",
            "extra/gcs: extra/gcs is included as a stack, but it has no s3 backend",
            "stacks/bare: stacks/bare is included as a stack, but it has no s3 backend",
        ]
    );
    assert!(graph.stacks[1].backend.is_none());
}

#[test]
fn the_repository_root_is_never_a_stack() {
    let files = MemoryFiles::default().with("stackorder.yaml", "stacks: { discover: ['**'] }\n").with("main.tf", S3);
    let graph = scanned(&files);
    assert_eq!(keys(&graph), Vec::<&str>::new());
    assert_eq!(warnings(&graph), [".: the repository root cannot be a stack; move its files into a directory"]);
}

#[test]
fn the_first_backend_counts_and_an_override_replaces_it() {
    let files = MemoryFiles::default()
        .with("stacks/a/a.tf", "terraform {\n  backend \"s3\" { key = \"one\" }\n}\n")
        .with("stacks/a/b.tf", "terraform {\n\n  backend \"s3\" { key = \"two\" }\n}\n")
        .with("stacks/b/a.tf", "terraform {\n  backend \"s3\" { key = \"one\" }\n}\n")
        .with(
            "stacks/b/a_override.tf.json",
            r#"{"terraform": [{"backend": {"s3": {"key": "json", "use_lockfile": true}}}]}"#,
        );
    let graph = scanned(&files);
    let backends: Vec<&str> = graph.stacks.iter().map(|stack| stack.backend.as_ref().unwrap().key.as_str()).collect();
    assert_eq!(backends, ["one", "json"]);
    assert_eq!(warnings(&graph), ["stacks/a/b.tf:3: second backend block; the one at stacks/a/a.tf:2 counts"]);
}

#[test]
fn files_of_the_configuration_are_laid_over_the_backend_in_order() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", S3)
        .with("stacks/a/.stackorder.yaml", "backend_config: [one.tfbackend, two.json, region=last, use_lockfile=perhaps]\nvar_files: [own.tfvars, ../shared.tfvars, ../../../out.tfvars]\n")
        .with("stacks/a/own.tfvars", "")
        .with("one.tfbackend", "bucket = \"one\"\nkey = \"one\"\nregion = var.x\nprofile = local.p\n")
        .with("two.json", "{\"key\": \"two\", \"dynamodb_table\": \"t\"}");
    let graph = scanned(&files);
    let backend = graph.stacks[0].backend.clone().unwrap();
    assert_eq!((backend.bucket.as_str(), backend.key.as_str(), backend.region.as_str()), ("one", "two", "last"));
    assert_eq!(graph.stacks[0].watch_paths, ["one.tfbackend", "stacks/shared.tfvars", "two.json"]);
    assert_eq!(
        warnings(&graph),
        [
            "one.tfbackend:3: backend attribute \"region\" is not a literal; it is skipped",
            "stacks/a: use_lockfile=\"perhaps\" is neither true nor false; it is skipped",
            "stacks/shared.tfvars: the var file of stacks/a is missing",
            "stacks/a: var file \"../../../out.tfvars\" is outside the repository; it is not watched",
        ]
    );
}

#[test]
fn missing_backend_files_and_broken_configuration_stop_the_scan_together() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", S3)
        .with("stacks/a/.stackorder.yaml", "backend_config: [gone.tfbackend]\n")
        .with("stacks/b/main.tf", S3)
        .with("stacks/b/.stackorder.yaml", "colour: blue\n")
        .with("stacks/c/main.tf", S3)
        .with_entry("stacks/c/.stackorder.yaml", EntryKind::BadLink { reason: "leads outside the repository".into() });
    let errors = errors(&files);
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].contains("stacks/b/.stackorder.yaml"), "{errors:?}");
    assert_eq!(errors[1], "stacks/c/.stackorder.yaml: leads outside the repository");
    assert_eq!(errors[2], "stacks/a: backend_config file \"gone.tfbackend\": no such file");
}

#[test]
fn an_undecodable_backend_file_costs_its_values_only() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", S3)
        .with("stacks/a/.stackorder.yaml", "backend_config: [latin.tfbackend]\n")
        .with("latin.tfbackend", b"bucket = \"\xe9\"\n".to_vec());
    let graph = scanned(&files);
    assert_eq!(keys(&graph), ["stacks/a"]);
    assert_eq!(warnings(&graph), ["latin.tfbackend:1: the file is not UTF-8; its values are skipped"]);
}

#[test]
fn stacks_that_share_a_state_are_named_together() {
    let body = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"k\"\n  }\n}\n";
    let files = MemoryFiles::default().with("stacks/a/main.tf", body).with("stacks/b/main.tf", body);
    assert_eq!(warnings(&scanned(&files)), ["stacks/a, stacks/b share the state s3://b/k"]);
}

#[test]
fn unreadable_files_and_bad_links_are_warnings() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", S3)
        .with_entry("stacks/a/link.tf", EntryKind::BadLink { reason: "leads outside the repository".into() });
    assert_eq!(warnings(&scanned(&files)), ["stacks/a/link.tf: leads outside the repository"]);
}

#[test]
fn what_matters_only_when_a_stack_is_planned_stays_with_the_stack() {
    let known = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"k\"\n  }\n}\n";
    let body = format!("{known}provider \"aws\" {{}}\ndata \"archive_file\" \"f\" {{}}\n");
    let files = MemoryFiles::default().with("stacks/a/main.tf", body.clone());
    let graph = scanned(&files);
    assert_eq!(warnings(&graph), Vec::<String>::new());
    let codes: Vec<&str> = graph.stacks[0].warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["archive_without_plan_files", "no_lock_file"]);
    let quiet =
        files.with("stacks/a/.terraform.lock.hcl", "").with("stackorder.yaml", "stacks: { plan_files: ['*.zip'] }\n");
    assert_eq!(scanned(&quiet).stacks[0].warnings, []);
}

#[test]
fn explicit_dependencies_become_edges() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", S3)
        .with("stacks/a/.stackorder.yaml", "depends_on: [stacks/b, ./stacks/b/, stacks/a, stacks/none, acme/net//live/tgw:prod, ACME/infra//stacks/c]\n")
        .with("stacks/b/main.tf", S3)
        .with("stacks/c/main.tf", S3);
    let graph = scanned(&files);
    assert_eq!(
        edges(&graph),
        [
            "stacks/a depends_on acme/net//live/tgw:prod",
            "stacks/a depends_on stacks/b",
            "stacks/a depends_on stacks/c",
            "stacks/a depends_on stacks/none",
        ]
    );
    assert_eq!(
        warnings(&graph),
        [
            "stacks/a/.stackorder.yaml: stacks/a depends on itself; the entry is dropped",
            "stacks/a/.stackorder.yaml: stacks/a depends on \"stacks/none\", which is not a known stack",
        ]
    );
    let external = &graph.stacks[0];
    assert!(external.external);
    assert_eq!(
        (external.path.as_str(), external.instance.as_str(), external.repo.as_str()),
        ("live/tgw", "prod", "acme/net")
    );
}

#[test]
fn every_instance_of_a_reader_gets_an_edge_to_every_writer_but_itself() {
    let body = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"k\"\n  }\n}\ndata \"terraform_remote_state\" \"s\" {\n  backend = \"s3\"\n  workspace = \"x\"\n  config = { bucket = \"b\", key = \"k\" }\n}\n";
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", body)
        .with("stacks/a/.stackorder.yaml", "workspace: '{{ .Instance }}'\ninstances: [x, y]\n");
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a:y reads_state stacks/a:x"]);
    assert_eq!(graph.edges[0].meta["key"], "env:/x/k");
}

#[test]
fn a_directory_and_an_instance_with_one_key_are_refused() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", "terraform {\n  backend \"s3\" {}\n}\n")
        .with("stacks/a/.stackorder.yaml", "instances: [b]\n")
        .with("stacks/a:b/main.tf", "terraform {\n  backend \"s3\" {}\n}\n");
    let message = "stacks/a:b: the directory has the key of the instance \"b\" of \"stacks/a\"; rename one of them";
    assert_eq!(errors(&files), [message]);
}

#[test]
fn only_files_make_instances() {
    let files = MemoryFiles::default()
        .with("stackorder.yaml", "stacks: { instances: { from_var_files: 'envs/*' } }\n")
        .with("stacks/a/main.tf", S3)
        .with("stacks/a/envs/dev.tfvars", "")
        .with("shared/x/y.tfvars", "")
        .with_entry("stacks/a/envs/linked", EntryKind::DirectoryLink { target: "shared/x".into() })
        .with_entry("stacks/a/envs/vendor", EntryKind::Submodule)
        .with_entry("stacks/a/envs/prd.tfvars", EntryKind::FileLink { target: "shared/x/y.tfvars".into() });
    assert_eq!(keys(&scanned(&files)), ["stacks/a:dev", "stacks/a:prd"]);
    let settings = crate::scan::configuration::stack_settings(&files, &ScanOptions::new("acme/infra", "")).unwrap();
    assert_eq!(settings.iter().map(|it| it.stack.as_str()).collect::<Vec<_>>(), ["stacks/a:dev", "stacks/a:prd"]);
}

#[test]
fn a_var_file_that_cannot_be_read_is_named_and_still_an_instance() {
    let bad = EntryKind::BadLink { reason: "the link dangles or loops".into() };
    let files = MemoryFiles::default()
        .with("stackorder.yaml", "stacks: { instances: { from_var_files: 'envs/*' } }\n")
        .with("stacks/a/main.tf", S3);
    let linked = files.clone().with_entry("stacks/a/envs/dev.vars", bad);
    let graph = scanned(&linked);
    assert_eq!(keys(&graph), ["stacks/a:dev"]);
    assert_eq!(
        warnings(&graph),
        ["stacks/a/envs/dev.vars: the var file of stacks/a:dev cannot be read: the link dangles or loops"]
    );
    assert_ne!(graph.tree_hash, scanned(&files).tree_hash, "a match that cannot be read counts by its name");
}
