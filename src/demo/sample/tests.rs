use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::*;
use crate::demo::s3::tests::terraform_is_missing;
use crate::demo::s3::{S3Options, S3Store};

fn on_disk(top: &Path) -> Vec<(String, Vec<u8>, bool)> {
    let mut found = Vec::new();
    let mut directories = vec![top.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a readable directory") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path.strip_prefix(top).expect("below the top").to_string_lossy().replace('\\', "/");
            found.push((name, std::fs::read(&path).expect("a readable file"), is_executable(&path)));
        }
    }
    found.sort();
    found
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().expect("a readable file").permissions().mode() & 0o100 != 0
}

#[test]
fn the_binary_brings_every_file_of_both_directories() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (directory, files) in [("demo/repository", repository_files()), ("actions", actions_files())] {
        let listed: Vec<_> =
            files.iter().map(|(path, bytes, executable)| ((*path).to_owned(), bytes.to_vec(), *executable)).collect();
        let names = |files: &[(String, Vec<u8>, bool)]| -> Vec<String> {
            files.iter().map(|(path, _, executable)| format!("{path} {executable}")).collect()
        };
        let found = on_disk(&root.join(directory));
        assert_eq!(names(&listed), names(&found), "{directory}");
        assert!(listed == found, "a file of {directory} has changed since the build");
    }
}

fn write_repository(root: &Path) {
    for (path, bytes, _) in repository_files() {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("a file has a directory")).expect("a directory");
        std::fs::write(path, bytes).expect("a file");
    }
}

struct Tool {
    root: PathBuf,
    environment: BTreeMap<String, String>,
}

impl Tool {
    /// Exit code and everything printed.
    fn run(&self, stack: &str, arguments: &[&str]) -> (i32, String) {
        let output = Command::new("terraform")
            .args(arguments)
            .current_dir(self.root.join(stack))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("CHECKPOINT_DISABLE", "1")
            .envs(&self.environment)
            .output()
            .expect("terraform runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap_or(-1), text)
    }

    fn init(&self, stack: &str, instance: Option<(&str, &str)>) {
        let mut arguments = vec!["init".to_owned(), "-input=false".to_owned(), "-no-color".to_owned()];
        if let Some((name, instance)) = instance {
            arguments.push(format!("-backend-config={}", self.root.join("infra/state.s3.tfbackend").display()));
            arguments.push(format!("-backend-config=key={name}/{instance}.tfstate"));
            arguments.push("-reconfigure".to_owned());
        }
        let (code, text) = self.run(stack, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(code, 0, "{stack}: {text}");
    }
}

/// Every stack of the sample in an order that works, with the instance's name where there is one.
const STACKS: [(&str, Option<(&str, &str)>); 9] = [
    ("stacks/prod/vpc", None),
    ("stacks/staging/vpc", None),
    ("stacks/prod/eks", None),
    ("stacks/prod/apps", None),
    ("stacks/staging/apps", None),
    ("stacks/legacy/dns", None),
    ("infra/kyc", Some(("kyc", "production"))),
    ("infra/kyc", Some(("kyc", "staging"))),
    ("infra/registry", Some(("registry", "shared"))),
];

#[test]
fn every_stack_of_the_sample_applies_and_is_then_without_changes() {
    if terraform_is_missing("every_stack_of_the_sample_applies_and_is_then_without_changes") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let store = S3Store::start(S3Options {
        root: directory.path().join("s3"),
        port: 0,
        jwks_url: None,
        issuer: None,
        roles: BTreeMap::new(),
        now: Arc::new(|| 0),
    })
    .expect("the store starts");
    store.create_bucket("stackorder-example-state").expect("a bucket");
    let root = directory.path().join("repository");
    write_repository(&root);
    let tool = Tool { root, environment: store.environment() };

    for (stack, instance) in STACKS {
        tool.init(stack, instance);
        let var_file = instance.map(|(_, name)| format!("-var-file=workspaces/{name}.tfvars.json"));
        let plan = |more: &[&str]| {
            let mut arguments = vec!["plan", "-input=false", "-no-color", "-lock=false", "-detailed-exitcode"];
            arguments.extend(var_file.as_deref());
            arguments.extend(more);
            tool.run(stack, &arguments)
        };
        let (code, text) = plan(&["-out=first.tfplan"]);
        assert_eq!(code, 2, "{stack}: {text}");
        if stack == "stacks/prod/vpc" {
            assert!(text.contains("Plan: 4 to add, 0 to change, 0 to destroy."), "{text}");
            let (_, json) = tool.run(stack, &["show", "-json", "first.tfplan"]);
            let json: serde_json::Value = serde_json::from_str(&json).expect("a plan");
            let outputs: Vec<_> = json["output_changes"].as_object().expect("outputs").keys().cloned().collect();
            assert_eq!(outputs, ["network", "vpc_id"]);
        }
        let (code, text) = tool.run(stack, &["apply", "-input=false", "-no-color", "first.tfplan"]);
        assert_eq!(code, 0, "{stack}: {text}");
        let (code, text) = plan(&[]);
        assert_eq!(code, 0, "{stack} still has changes: {text}");
    }

    let keys = store.keys("stackorder-example-state").expect("listed");
    assert_eq!(keys.len(), 9, "{keys:?}");

    // The switch is a file of the stack: the plan succeeds and the apply does not.
    std::fs::write(tool.root.join("stacks/prod/vpc/rollout.auto.tfvars"), "rollout = \"fail\"\n").expect("written");
    let (code, text) = tool.run("stacks/prod/vpc", &["plan", "-input=false", "-no-color", "-out=fail.tfplan"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("Plan: 1 to add, 0 to change, 1 to destroy."), "{text}");
    let (code, text) = tool.run("stacks/prod/vpc", &["apply", "-input=false", "-no-color", "fail.tfplan"]);
    assert_eq!(code, 1);
    assert!(text.contains("rollout failed: quota exceeded"), "{text}");
}
