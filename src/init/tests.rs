use super::*;
use crate::config::model::Tool;
use crate::scan::MemoryFiles;
use crate::scan::configuration::check;
use crate::scan::tests::sample::sample;

const S3: &str = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key    = \"k\"\n  }\n}\n";

fn options() -> ScanOptions {
    ScanOptions::new("acme/infra", "")
}

fn proposed(files: &MemoryFiles) -> Proposal {
    propose(files, &options(), &Account::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn configuration(files: &MemoryFiles) -> String {
    proposed(files).files.swap_remove(0).content
}

/// The checkout with the files that were proposed for it.
fn with_files(files: &MemoryFiles, proposal: &Proposal) -> MemoryFiles {
    let new = proposal.files.iter();
    new.fold(files.clone(), |files, file| files.with(&file.path, file.content.as_str()))
}

/// What is written is right as it stands, and finds the stacks that it was made from.
fn is_right_at_once(files: &MemoryFiles) -> Proposal {
    let proposal = proposed(files);
    let after = with_files(files, &proposal);
    assert_eq!(check(&after, &options()).problems, [], "{}", proposal.files[0].content);
    let graph = scan(&after, &options()).expect("the check found nothing").graph;
    let keys: Vec<&String> = graph.stacks.iter().filter(|stack| !stack.external).map(|stack| &stack.key).collect();
    assert_eq!(keys, proposal.stacks.keys().collect::<Vec<_>>());
    proposal
}

#[test]
fn what_is_written_for_the_sample_repository_is_right_at_once() {
    let mut files = sample();
    files.remove("stackorder.yaml");
    let proposal = is_right_at_once(&files);
    let paths: Vec<&str> = proposal.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        ["stackorder.yaml", ".github/workflows/stackorder-plan.yml", ".github/workflows/stackorder-run.yml"]
    );
    let text = &proposal.files[0].content;
    for line in [
        "  discover: [\"infra/**\", \"stacks/**\"]\n",
        "environments:\n  \"stacks/prod/\": \"prod\"\n  \"stacks/staging/\": \"staging\"\n",
        "#   instances:\n#     from_var_files: \"workspaces/*.tfvars.json\"\n",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let names: Vec<&str> = proposal.roles.iter().map(|role| role.name.as_str()).collect();
    assert_eq!(names, ["plan", "apply-default", "apply-prod", "apply-shared", "apply-staging"]);
}

#[test]
fn a_checkout_that_the_defaults_fit_gets_no_key_it_does_not_need() {
    let files = MemoryFiles::default().with("stacks/net/main.tf", S3).with("modules/m/main.tf", "");
    let proposal = is_right_at_once(&files);
    let active: Vec<&str> =
        proposal.files[0].content.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(active, ["version: 1", "tool: terraform"]);
    assert!(proposal.questions.iter().any(|question| question.contains("`default`")), "{:?}", proposal.questions);
}

#[test]
fn a_backend_without_bucket_or_key_is_asked_for() {
    let open = "terraform {\n  backend \"s3\" {}\n}\n";
    let files = MemoryFiles::default().with("stacks/a/main.tf", open).with("state.s3.tfbackend", "bucket = \"b\"\n");
    let text = is_right_at_once(&files).files.swap_remove(0).content;
    assert!(text.contains("# ? Where does the state of these stacks lie?"), "{text}");
    assert!(text.contains("# backend_config:\n#   - \"state.s3.tfbackend\"\n#   - 'key="), "{text}");
    // The suggestion itself is a configuration.
    let uncommented = text.replace("# backend_config:", "backend_config:").replace("\n#   - ", "\n  - ");
    let config = parse_repo_config(ROOT_FILE, uncommented.as_bytes()).unwrap();
    assert_eq!(config.backend_config.len(), 2);
}

#[test]
fn every_question_stands_in_the_file() {
    let proposal = proposed(&sample());
    let flat = proposal.files[0].content.replace("\n# ", " ");
    for question in &proposal.questions {
        assert!(flat.contains(&format!("# ? {question}")) || flat.contains(&format!(" ? {question}")), "{question}");
    }
}

/// Takes the comment sign from every suggestion, as somebody would who agrees with all of them.
fn with_every_suggestion(text: &str) -> String {
    let is_suggestion = |line: &&str| {
        let key = line.trim_start().split(':').next().unwrap_or_default();
        line.starts_with("  ") && (line.contains(": ") || line.ends_with(':') || line.trim_start().starts_with("- "))
            || key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') && line.contains(':')
    };
    let lines = text.lines().map(|line| line.strip_prefix("# ").filter(is_suggestion).unwrap_or(line));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_suggestion_can_be_taken_as_it_stands() {
    let open = "terraform {\n  backend \"s3\" {}\n}\n";
    let files = MemoryFiles::default()
        .with("live/prod/net/main.tf", open)
        .with("live/test/net/main.tf", open)
        .with("live/other/main.tf", format!("{S3}module \"m\" {{\n  source = \"../../modules/m\"\n}}\n"))
        .with("live/other/env/a.tfvars", "")
        .with("live/other/env/b.tfvars", "")
        .with("modules/m/main.tf", S3)
        .with("s.tfbackend", "");
    for files in [files, sample(), MemoryFiles::default().with("stacks/a/main.tf", S3)] {
        let text = with_every_suggestion(&configuration(&files));
        let config =
            parse_repo_config(ROOT_FILE, text.as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
        assert_eq!(config.apply.require_approvals, 1, "{text}");
        assert!(!config.environments.is_empty(), "{text}");
    }
}

#[test]
fn the_tool_is_the_one_that_the_files_prove() {
    let with = |path: &str, text: &str| MemoryFiles::default().with("stacks/a/main.tf", S3).with(path, text);
    let lock = |host: &str| format!("provider \"{host}/hashicorp/aws\" {{\n  version = \"5.0.0\"\n}}\n");
    for (files, expected) in [
        (with("stacks/a/x.tofu", ""), "tool: tofu\n"),
        (with(".opentofu-version", "1.10.0\n"), "tool: tofu\ntool_version: \"1.10.0\"\n"),
        (with(".terraform-version", "1.11.4"), "tool: terraform\ntool_version: \"1.11.4\"\n"),
        (with(".tool-versions", "nodejs 20\nterraform 1.9.8\n"), "tool: terraform\ntool_version: \"1.9.8\"\n"),
        (with("stacks/a/.terraform.lock.hcl", &lock("registry.opentofu.org")), "tool: tofu\n"),
        (with("stacks/a/.terraform.lock.hcl", &lock("registry.terraform.io")), "tool: terraform\n"),
        (with(".terraform-version", "latest:^1.9"), "tool: terraform\n# ?"),
        (with(".terraform-version", "1.9.0\ntool: tofu\n"), "tool: terraform\n# ?"),
    ] {
        let text = configuration(&files);
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
}

#[test]
fn a_disputed_tool_and_several_versions_are_asked_for() {
    let files = MemoryFiles::default().with("stacks/a/main.tf", S3).with(".terraform-version", "1.9.0");
    let text = configuration(&files.clone().with(".opentofu-version", "1.10.0"));
    assert!(text.contains("# ? Which tool runs here"), "{text}");
    assert!(!text.contains("\ntool:"), "{text}");
    let text = configuration(&files.with("stacks/a/.terraform-version", "1.11.0"));
    assert!(text.contains("# ? Several versions are asked for (1.11.0, 1.9.0)."), "{text}");
    assert_eq!(Tool::default(), Tool::Terraform);
}

#[test]
fn modules_beside_stacks_are_covered_and_never_become_stacks() {
    let call = |source: &str| format!("{S3}module \"m\" {{\n  source = \"{source}\"\n}}\n");
    let files = MemoryFiles::default()
        .with("live/net/main.tf", call("../../lib/vpc"))
        .with("live/app/main.tf", call("./inner"))
        .with("live/app/inner/main.tf", "")
        .with("lib/vpc/main.tf", S3);
    let proposal = is_right_at_once(&files);
    assert_eq!(proposal.stacks.keys().collect::<Vec<_>>(), ["live/app", "live/net"]);
    let text = &proposal.files[0].content;
    assert!(text.contains("modules:\n  paths: [\"lib/**\", \"live/app/inner/**\"]\n"), "{text}");
    assert!(text.contains("# ? These have an s3 backend but are modules or lie among them: lib/vpc."), "{text}");
}

#[test]
fn environments_come_from_whole_names_and_what_may_mean_something_else_is_asked_for() {
    let files = ["live/prod/net", "live/Prod-old/net", "live/dev/a", "live/dev/b", "live/test/net", "product/net"];
    let files = files.iter().fold(MemoryFiles::default(), |files, path| files.with(&format!("{path}/main.tf"), S3));
    let proposal = is_right_at_once(&files);
    let text = &proposal.files[0].content;
    assert!(
        text.contains("environments:\n  \"live/dev/\": \"dev\"\n  \"live/prod/\": \"prod\"\n# ? Are these"),
        "{text}"
    );
    assert!(text.contains("#   \"live/test/\": \"test\"\n"), "{text}");
    assert_eq!(proposal.stacks["live/Prod-old/net"], "default");
    assert_eq!(proposal.stacks["live/prod/net"], "prod");
}

#[test]
fn many_directories_that_end_in_an_environment_get_one_line() {
    let paths = (0..10).flat_map(|number| ["dev", "prod"].map(|name| format!("apps/a{number}/{name}/main.tf")));
    let files = paths.fold(MemoryFiles::default(), |files, path| files.with(&path, S3));
    let proposal = is_right_at_once(&files);
    assert!(proposal.files[0].content.contains("environments:\n  \"apps/\": \"{{ base .Path }}\"\n"));
    assert_eq!(proposal.stacks["apps/a3/prod"], "prod");
}

#[test]
fn names_that_mean_something_in_yaml_or_globs_are_only_names() {
    let odd = ["li: ve/#a/prod", "[x]/y", "{a,b}/c", "- é\"'/z", "**/q"];
    let files = odd.iter().fold(MemoryFiles::default(), |files, path| files.with(&format!("{path}/main.tf"), S3));
    let proposal = proposed(&files);
    let text = &proposal.files[0].content;
    assert!(parse_repo_config(ROOT_FILE, text.as_bytes()).is_ok(), "{text}");
    for path in odd.iter().filter(|path| !path.contains(':')) {
        assert!(proposal.stacks.contains_key(*path), "{path} in {:?}", proposal.stacks);
    }
    let line_ends = MemoryFiles::default().with("a\nversion: 2/main.tf", S3).with("b\u{2028}tool: x/main.tf", S3);
    if let Ok(proposal) = propose(&line_ends, &options(), &Account::default()) {
        let text = &proposal.files[0].content;
        assert!(parse_repo_config(ROOT_FILE, text.as_bytes()).is_ok(), "{text}");
    }
}

#[test]
fn without_stacks_the_message_says_what_was_found_and_what_a_stack_is() {
    let why = |files: &MemoryFiles| propose(files, &options(), &Account::default()).unwrap_err().to_string();
    let nothing = why(&MemoryFiles::default().with("README.md", "# x\n"));
    assert!(nothing.starts_with("there is no Terraform file in this checkout; a stack is a directory"), "{nothing}");
    let other = "terraform {\n  backend \"gcs\" {}\n}\n";
    let other = why(&MemoryFiles::default().with("a/main.tf", other).with("b/main.tf", other).with("c/x.tf", ""));
    assert!(other.contains("no stack among 3 Terraform files") && other.contains("\"gcs\" in 2"), "{other}");
    let top = why(&MemoryFiles::default().with("main.tf", S3));
    assert!(top.starts_with("the only s3 backend is at the top of the repository"), "{top}");
    let only_module = MemoryFiles::default().with("modules/a/main.tf", S3);
    assert!(why(&only_module).contains("are modules (modules/a)"), "{}", why(&only_module));
}

#[test]
fn a_backend_at_the_top_beside_stacks_is_asked_for() {
    let files = MemoryFiles::default().with("main.tf", S3).with("stacks/a/main.tf", S3);
    let proposal = is_right_at_once(&files);
    assert_eq!(proposal.stacks.keys().collect::<Vec<_>>(), ["stacks/a"]);
    assert!(proposal.questions.iter().any(|it| it.starts_with("The top of the repository")), "{proposal:?}");
}

#[test]
fn mistakes_that_are_there_already_are_told_first() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", S3)
        .with("stacks/a/.stackorder.yaml", "depend_on: []\n")
        .with("stackorder.yaml", "this: is: replaced\n");
    let error = propose(&files, &options(), &Account::default()).unwrap_err();
    assert!(matches!(error, NoProposal::Broken(_)), "{error}");
    assert!(error.to_string().contains("stacks/a/.stackorder.yaml: depend_on: key"), "{error}");

    let broken = MemoryFiles::default().with("stacks/a/main.tf", format!("{S3}module \"x\" {{\n"));
    assert_eq!(is_right_at_once(&broken).stacks.len(), 1, "a file with a mistake is a warning");
}
