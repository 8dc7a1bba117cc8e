use std::sync::{Arc, Mutex};

use super::*;
use crate::demo::s3::{S3Options, S3Store};
use crate::demo::sample::repository_files;

const BUCKET: &str = "stackorder-example-state";

/// The sample repository on disk with a store behind it.
struct Sample {
    directory: tempfile::TempDir,
    store: S3Store,
}

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sample {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for (path, bytes, _) in repository_files() {
            let path = directory.path().join("repository").join(path);
            std::fs::create_dir_all(path.parent().expect("a file has a directory")).expect("a directory");
            std::fs::write(path, bytes).expect("a file");
        }
        let store = S3Store::start(S3Options {
            root: directory.path().join("s3"),
            port: 0,
            jwks_url: None,
            issuer: None,
            roles: BTreeMap::new(),
            now: Arc::new(|| 0),
        })
        .expect("the store starts");
        store.create_bucket(BUCKET).expect("a bucket");
        Self { directory, store }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join("repository").join(path)
    }

    fn replace(&self, path: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path(path)).expect("a file of the sample");
        assert!(text.contains(from), "{path} has no {from:?}");
        std::fs::write(self.path(path), text.replace(from, to)).expect("written");
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let mut environment = self.store.environment();
        environment.insert("PATH".to_owned(), std::env::var("PATH").unwrap_or_default());
        environment
    }

    /// Exit code and everything printed by the stand-in.
    fn run(&self, stack: &str, arguments: &[&str]) -> (i32, String) {
        let printed = Captured::default();
        let invocation = Invocation {
            arguments: arguments.iter().map(|it| (*it).to_owned()).collect(),
            directory: self.path(stack),
            environment: self.environment(),
            now: 1_900_000_000_000,
        };
        let code = super::run(invocation, printed.clone(), printed.clone());
        let text = String::from_utf8_lossy(&printed.0.lock().expect("nobody panicked")).into_owned();
        (code, text)
    }

    fn succeeds(&self, stack: &str, arguments: &[&str]) -> String {
        let (code, text) = self.run(stack, arguments);
        assert_eq!(code, 0, "{stack} {arguments:?}: {text}");
        text
    }

    fn init(&self, stack: &str) {
        self.succeeds(stack, &["init", "-input=false", "-no-color"]);
    }

    fn plan(&self, stack: &str) -> (i32, String) {
        let arguments = ["plan", "-input=false", "-no-color", "-lock=false", "-detailed-exitcode", "-out=p.tfplan"];
        self.run(stack, &arguments)
    }

    fn plan_json(&self, stack: &str) -> serde_json::Value {
        serde_json::from_str(&self.succeeds(stack, &["show", "-json", "p.tfplan"])).expect("a plan")
    }

    fn apply(&self, stack: &str) -> (i32, String) {
        self.run(stack, &["apply", "-input=false", "-no-color", "-lock-timeout=5m", "p.tfplan"])
    }

    fn deploy(&self, stack: &str) {
        self.init(stack);
        let (code, text) = self.plan(stack);
        assert_eq!(code, 2, "{stack}: {text}");
        let (code, text) = self.apply(stack);
        assert_eq!(code, 0, "{stack}: {text}");
    }

    fn serial(&self, key: &str) -> u64 {
        let bytes = self.store.get(BUCKET, key).expect("readable").expect("a state");
        State::parse(&bytes).expect("a state").serial
    }
}

fn actions(plan: &serde_json::Value) -> Vec<String> {
    let changes = plan["resource_changes"].as_array().expect("changes").iter();
    let shown = changes
        .filter(|it| it["change"]["actions"][0] != "no-op")
        .map(|it| format!("{} {}", it["change"]["actions"], it["address"].as_str().unwrap_or_default()));
    shown.collect()
}

#[test]
fn the_first_plan_of_the_network_is_the_one_the_documents_show() {
    let sample = Sample::new();
    sample.init("stacks/prod/vpc");
    let (code, text) = sample.plan("stacks/prod/vpc");
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("Plan: 4 to add, 0 to change, 0 to destroy."), "{text}");
    let plan = sample.plan_json("stacks/prod/vpc");
    assert_eq!(
        actions(&plan),
        [
            r#"["create"] module.vpc.terraform_data.routes"#,
            r#"["create"] module.vpc.terraform_data.subnet["a"]"#,
            r#"["create"] module.vpc.terraform_data.subnet["b"]"#,
            r#"["create"] module.vpc.terraform_data.vpc"#,
        ]
    );
    assert_eq!(plan["output_changes"].as_object().expect("outputs").len(), 2);
    assert_eq!(plan["output_changes"]["network"]["after_unknown"]["subnet_ids"], json!({"a": true, "b": true}));
    insta::assert_snapshot!(text);
}

#[test]
fn every_stack_of_the_sample_applies_and_is_then_without_changes() {
    let sample = Sample::new();
    for stack in ["prod/vpc", "staging/vpc", "prod/eks", "prod/apps", "staging/apps", "legacy/dns"] {
        let stack = format!("stacks/{stack}");
        sample.deploy(&stack);
        assert_eq!(sample.plan(&stack).0, 0, "{stack}");
    }
    for (stack, instance) in [("kyc", "production"), ("kyc", "staging"), ("registry", "shared")] {
        let directory = format!("infra/{stack}");
        let key = format!("-backend-config=key={stack}/{instance}.tfstate");
        let file = format!("-backend-config={}", sample.path("infra/state.s3.tfbackend").display());
        sample.succeeds(&directory, &["init", &file, &key, "-reconfigure"]);
        let var_file = format!("-var-file=workspaces/{instance}.tfvars.json");
        sample.succeeds(&directory, &["plan", &var_file, "-out=p.tfplan"]);
        assert_eq!(sample.apply(&directory).0, 0);
        assert_eq!(sample.run(&directory, &["plan", &var_file, "-detailed-exitcode"]).0, 0);
    }
    assert_eq!(sample.store.keys(BUCKET).expect("listed").len(), 9, "nine states and no lock");
}

#[test]
fn an_output_that_changes_reaches_the_stack_that_reads_it() {
    let sample = Sample::new();
    sample.deploy("stacks/prod/vpc");
    sample.deploy("stacks/prod/apps");
    sample.replace("stacks/prod/vpc/main.tf", "10.10.0.0/16", "10.11.0.0/16");
    assert_eq!(sample.plan("stacks/prod/apps").0, 0, "nothing to do before the network was applied");
    assert_eq!(sample.plan("stacks/prod/vpc").0, 2);
    assert_eq!(actions(&sample.plan_json("stacks/prod/vpc")), [r#"["update"] module.vpc.terraform_data.vpc"#]);
    assert_eq!(sample.apply("stacks/prod/vpc").0, 0);
    assert_eq!(sample.plan("stacks/prod/apps").0, 2);
    assert_eq!(actions(&sample.plan_json("stacks/prod/apps")), [r#"["update"] terraform_data.firewall"#]);
}

#[test]
fn a_reader_without_an_upstream_state_cannot_be_planned() {
    let sample = Sample::new();
    sample.init("stacks/prod/apps");
    let (code, text) = sample.plan("stacks/prod/apps");
    assert_eq!(code, 1);
    assert!(text.contains("Unable to find remote state"), "{text}");
}

#[test]
fn sensitive_values_are_marked_and_never_printed() {
    let sample = Sample::new();
    sample.deploy("stacks/prod/vpc");
    sample.init("stacks/prod/apps");
    let (_, text) = sample.plan("stacks/prod/apps");
    assert!(text.contains("key = (sensitive value)") && !text.contains("example-session-key"), "{text}");
    let plan = sample.plan_json("stacks/prod/apps");
    let changes = plan["resource_changes"].as_array().expect("changes");
    let session = changes.iter().find(|it| it["name"] == "session").expect("the session");
    assert_eq!(session["change"]["after_sensitive"], json!({"input": {"key": true}}));
    assert_eq!(plan["variables"]["session_key"]["value"], "example-session-key-7f3c");
}

#[test]
fn a_failed_rollout_leaves_a_tainted_resource_and_no_lock() {
    let sample = Sample::new();
    let stack = "stacks/staging/vpc";
    sample.deploy(stack);
    let serial = sample.serial("staging/vpc.tfstate");
    sample.replace("stacks/staging/vpc/rollout.auto.tfvars", "ok", "fail");
    assert_eq!(sample.plan(stack).0, 2);
    let (code, text) = sample.apply(stack);
    assert_eq!(code, 1);
    assert!(text.contains("rollout failed: quota exceeded"), "{text}");
    assert_eq!(sample.serial("staging/vpc.tfstate"), serial + 1, "what was done is in the state");
    assert_eq!(sample.store.keys(BUCKET).expect("listed"), ["staging/vpc.tfstate"]);

    sample.replace("stacks/staging/vpc/rollout.auto.tfvars", "fail", "ok");
    assert_eq!(sample.plan(stack).0, 2);
    assert_eq!(actions(&sample.plan_json(stack)), [r#"["delete","create"] module.vpc.terraform_data.routes"#]);
    assert_eq!(sample.apply(stack).0, 0);
    assert_eq!(sample.plan(stack).0, 0);
}

#[test]
fn a_plan_of_an_older_state_is_stale() {
    let sample = Sample::new();
    sample.deploy("stacks/prod/vpc");
    let (code, text) = sample.apply("stacks/prod/vpc");
    assert_eq!(code, 1);
    assert!(text.contains("Saved plan is stale"), "{text}");
}

#[test]
fn a_held_state_lock_refuses_an_apply_until_it_is_broken() {
    let sample = Sample::new();
    let stack = "stacks/prod/vpc";
    sample.init(stack);
    sample.plan(stack);
    sample.store.put(BUCKET, "prod/vpc.tfstate.tflock", br#"{"ID":"abc","Who":"dead@job"}"#.to_vec()).expect("written");
    let (code, text) = sample.apply(stack);
    assert_eq!(code, 1);
    assert!(text.contains("Error acquiring the state lock") && text.contains("dead@job"), "{text}");
    assert_eq!(sample.run(stack, &["force-unlock", "-force", "other"]).0, 1);
    sample.succeeds(stack, &["force-unlock", "-force", "abc"]);
    assert_eq!(sample.apply(stack).0, 0);
}

#[test]
fn removed_resources_are_deleted_and_workspaces_have_states_of_their_own() {
    let sample = Sample::new();
    let stack = "stacks/staging/apps";
    sample.init(stack);
    sample.succeeds(stack, &["workspace", "select", "-or-create", "blue"]);
    sample.plan(stack);
    assert_eq!(sample.apply(stack).0, 0);
    assert_eq!(sample.store.keys(BUCKET).expect("listed"), ["env:/blue/staging/apps.tfstate"]);
    sample.replace("stacks/staging/apps/main.tf", "count = 2", "count = 1");
    assert_eq!(sample.plan(stack).0, 2);
    assert_eq!(actions(&sample.plan_json(stack)), [r#"["delete"] terraform_data.app[1]"#]);
    assert_eq!(sample.apply(stack).0, 0);
    let outputs: serde_json::Value = serde_json::from_str(&sample.succeeds(stack, &["output", "-json"])).expect("JSON");
    assert_eq!(outputs["apps"]["value"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_it_cannot_do_is_refused_by_name() {
    let sample = Sample::new();
    let stack = "stacks/prod/vpc";
    for (arguments, expected) in [
        (vec!["import", "a", "b"], "the command import is not played here"),
        (vec!["plan", "-target=x"], "the flag -target is not played here"),
        (vec!["plan"], "Backend initialization required"),
    ] {
        let (code, text) = sample.run(stack, &arguments);
        assert_eq!(code, 1);
        assert!(text.contains(expected), "{text}");
    }
    sample.init(stack);
    for (source, expected) in [
        ("resource \"aws_vpc\" \"a\" {}\n", "resource aws_vpc a is not played here"),
        ("output \"x\" {\n  value = sha256(\"a\")\n}\n", "the function sha256 with 1 arguments is not played here"),
        ("output \"x\" {\n  value = local.a\n}\nlocals {\n  a = local.b\n  b = local.a\n}\n", "Cycle: local."),
        ("output \"x\" {\n  value = terraform_data.nothing.id\n}\n", "undeclared resource: terraform_data.nothing"),
        ("moved {\n  from = a.b\n  to = a.c\n}\n", "moved  is not played here"),
        ("output \"x\" {\n", "extra.tf"),
    ] {
        std::fs::write(sample.path("stacks/prod/vpc/extra.tf"), source).expect("written");
        let (code, text) = sample.run(stack, &["plan"]);
        assert_eq!(code, 1, "{source}");
        assert!(text.contains(expected), "{source}: {text}");
    }
}

#[test]
fn the_script_survives_a_quote_in_the_path_of_the_binary() {
    let expected = "#!/bin/sh\nexec '/opt/it'\\''s/stackorder' demo standin-tool -- \"$@\"\n";
    assert_eq!(script(Path::new("/opt/it's/stackorder")), expected);
}

#[test]
fn it_says_what_it_is() {
    let sample = Sample::new();
    assert!(sample.succeeds(".", &["version"]).contains("stackorder stand-in"));
    let version: serde_json::Value = serde_json::from_str(&sample.succeeds(".", &["version", "-json"])).expect("JSON");
    assert_eq!(version["terraform_version"], "1.11.4-standin");
}

/// States of the two tools are one format, but for maps of a declared type and marks, which only the real one keeps.
#[test]
fn the_real_tool_finds_nothing_to_change_after_the_stand_in() {
    use std::process::Command;
    if crate::demo::s3::tests::terraform_is_missing("the_real_tool_finds_nothing_to_change_after_the_stand_in") {
        return;
    }
    let sample = Sample::new();
    let real = |stack: &str, arguments: &[&str]| {
        let output = Command::new("terraform")
            .args(arguments)
            .current_dir(sample.path(stack))
            .env_clear()
            .env("CHECKPOINT_DISABLE", "1")
            .envs(sample.environment())
            .output()
            .expect("terraform runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap_or(-1), text)
    };
    for stack in ["stacks/prod/vpc", "stacks/prod/eks", "stacks/staging/apps"] {
        sample.deploy(stack);
        let (code, text) = real(stack, &["init", "-input=false", "-no-color", "-reconfigure"]);
        assert_eq!(code, 0, "{text}");
        let (code, text) = real(stack, &["plan", "-input=false", "-no-color", "-detailed-exitcode"]);
        assert_eq!(code, 0, "{stack}: {text}");
    }
    // And the other way round.
    sample.replace("stacks/prod/vpc/main.tf", "10.10.16.0/20", "10.10.32.0/20");
    let (code, text) = real("stacks/prod/vpc", &["apply", "-auto-approve", "-no-color"]);
    assert_eq!(code, 0, "{text}");
    sample.succeeds("stacks/prod/vpc", &["init", "-reconfigure"]);
    assert_eq!(sample.plan("stacks/prod/vpc").0, 0);
}
