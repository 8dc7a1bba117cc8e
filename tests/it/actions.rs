//! The bash scripts of `actions/`, run as a runner runs them: inputs in variables, answers in files.

use std::path::{Path, PathBuf};
use std::process::Command;

struct Ran {
    code: i32,
    stdout: String,
    env: String,
    output: String,
    path: String,
}

/// Runs one script with a cleared environment.
fn run(script: &str, inputs: &[(&str, &str)]) -> Ran {
    let files = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| -> PathBuf {
        let path = files.path().join(name);
        std::fs::write(&path, "").expect("an empty runner file");
        path
    };
    let (env, output, path) = (file("env"), file("output"), file("path"));
    let done = Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("actions").join(script))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GITHUB_ENV", &env)
        .env("GITHUB_OUTPUT", &output)
        .env("GITHUB_PATH", &path)
        .env("RUNNER_TEMP", files.path())
        .envs(inputs.iter().copied())
        .output()
        .expect("bash runs");
    let read = |path: &Path| std::fs::read_to_string(path).expect("the runner file is still there");
    Ran {
        code: done.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr),
        env: read(&env),
        output: read(&output),
        path: read(&path),
    }
}

/// What the runner would read from `GITHUB_ENV`.
fn variables(env: &str) -> Vec<(String, String)> {
    let mut lines = env.lines();
    let mut found = Vec::new();
    while let Some(head) = lines.next() {
        let (name, delimiter) = head.split_once("<<").expect("the delimiter form");
        let value: Vec<&str> = lines.by_ref().take_while(|line| *line != delimiter).collect();
        found.push((name.to_owned(), value.join("\n")));
    }
    found
}

#[test]
fn variables_keep_their_text_and_the_secret_comes_last() {
    let ran = run(
        "prepare/export-env.sh",
        &[
            ("INPUT_ENV", "A= one = two \r\n   \nTEXT<<END\nfirst\n\n  =third\nEND\nB=1<<2"),
            ("SECRET_ENV", "TOKEN=  s3cr%t  \nA=secret"),
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    let expected =
        [("A", " one = two "), ("TEXT", "first\n\n  =third"), ("B", "1<<2"), ("TOKEN", "  s3cr%t  "), ("A", "secret")];
    assert_eq!(variables(&ran.env), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(ran.stdout, "::add-mask::  s3cr%25t  \n::add-mask::s3cr%25t\n::add-mask::secret\n");
}

#[test]
fn every_fault_is_named_and_nothing_is_exported() {
    let ran = run(
        "prepare/export-env.sh",
        &[
            ("INPUT_ENV", "GOOD=1\nstray\npath=x\n1A=x\nX<<\ngithub_token=x\nLd_Preload=x"),
            ("SECRET_ENV", "lost secret\nKEY<<END\nhalf a key"),
        ],
    );
    assert_eq!(ran.code, 1);
    assert_eq!(ran.env, "");
    for expected in [
        "input env, line 2: neither NAME=VALUE nor NAME<<DELIMITER",
        "input env, line 3: the name path is reserved",
        "input env, line 4: not a variable name",
        "input env, line 5: no delimiter after <<",
        "input env, line 6: the name github_token is reserved",
        "input env, line 7: the name Ld_Preload is reserved",
        "::add-mask::lost secret",
        "secret env, line 1: neither",
        "::add-mask::half a key",
        "secret env, line 2: the block is never closed",
    ] {
        assert!(ran.stdout.contains(expected), "missing {expected:?} in\n{}", ran.stdout);
    }
}

const MAP: &str = r#"{ "live/net:prod": "exact", ":prod": "instance", "live/": "short", "live/net": "long",
    "@production": "environment", "live/ne": "half a segment", "a\"b": "quoted" }"#;

fn role(inputs: &[(&str, &str)]) -> Ran {
    let mut all = vec![
        ("MODE", "apply"),
        ("DISPATCHED", "true"),
        ("STACK_KEY", "other"),
        ("INSTANCE", ""),
        ("TARGET_ENVIRONMENT", "staging"),
        ("ROLE", "plain"),
        ("ROLE_MAP", MAP),
        ("PLAN_ROLE", "reader"),
    ];
    all.extend_from_slice(inputs);
    run("prepare/select-role.sh", &all)
}

#[test]
fn the_most_exact_role_of_the_map_wins() {
    let chosen = |inputs: &[(&str, &str)]| role(inputs).output.trim_end().to_owned();
    assert_eq!(chosen(&[("STACK_KEY", "live/net:prod"), ("INSTANCE", "prod")]), "role=exact");
    assert_eq!(chosen(&[("STACK_KEY", "live/db:prod"), ("INSTANCE", "prod")]), "role=instance");
    assert_eq!(chosen(&[("STACK_KEY", "live/net/eu")]), "role=long");
    assert_eq!(chosen(&[("STACK_KEY", "live/network")]), "role=short");
    assert_eq!(chosen(&[("TARGET_ENVIRONMENT", "production")]), "role=environment");
    assert_eq!(chosen(&[]), "role=plain");
    assert_eq!(chosen(&[("STACK_KEY", "a\"b")]), "role=quoted");
}

#[test]
fn a_dispatched_plan_never_gets_the_role_of_an_apply() {
    let plan = [("MODE", "plan"), ("STACK_KEY", "live/net"), ("TARGET_ENVIRONMENT", "production")];
    assert_eq!(role(&plan).output, "role=reader\n");
    assert_eq!(role(&[("MODE", "drift"), ("PLAN_ROLE", "")]).output, "role=plain\n");
    // A pull request's plan follows the map as an apply does.
    assert_eq!(role(&[plan[0], plan[1], ("DISPATCHED", "false")]).output, "role=long\n");
    // And an apply without a role never falls back to the plan role.
    let none = role(&[("ROLE", ""), ("ROLE_MAP", "")]);
    assert_eq!((none.code, none.output.as_str()), (0, "role=\n"));
    assert!(none.stdout.contains("::notice::No AWS role for other"));
}

#[test]
fn a_map_that_is_no_object_of_texts_fails_the_step() {
    for map in ["[]", r#"{"a": 1}"#, r#"{"a": "b""#, r#"{"a": "b" "c": "d"}"#, r#"{"a": "b"} x"#, r#"{"\u0061": "b"}"#]
    {
        assert_eq!(role(&[("ROLE_MAP", map)]).code, 1, "{map}");
    }
    assert_eq!(role(&[("ROLE_MAP", " {} ")]).output, "role=plain\n");
}

#[test]
fn session_names_are_made_safe_for_aws() {
    let name = |mode: &str, text: &str| {
        let ran = run("prepare/select-session.sh", &[("MODE", mode), ("SESSION_NAME", text)]);
        (ran.code, ran.output.trim_end().trim_start_matches("session-name=").to_owned())
    };
    assert_eq!(name("plan", ""), (0, String::new()));
    assert_eq!(name("plan", "a b/ü"), (0, "a-b---".to_owned()));
    assert_eq!(name("plan", &"x".repeat(80)), (0, "x".repeat(64)));
    assert_eq!(name("plan", "x").0, 1);
    let by_mode = r#"{"plan": "reader", "apply": "writer"}"#;
    assert_eq!(name("apply", by_mode), (0, "writer".to_owned()));
    assert_eq!(name("drift", by_mode), (0, "reader".to_owned()));
    assert_eq!(name("apply", r#"{"plan": "reader"}"#), (0, String::new()));
    assert_eq!(name("plan", "{broken").0, 1);
}

#[test]
fn setup_takes_the_tool_cache_before_any_download() {
    let cache = tempfile::tempdir().expect("a temporary directory");
    let directory = cache.path().join("stackorder/1.2.3/x64");
    std::fs::create_dir_all(&directory).expect("the cache entry");
    std::fs::write(directory.join("stackorder"), "").expect("a binary");
    std::fs::write(cache.path().join("stackorder/1.2.3/x64.complete"), "").expect("the marker");
    let cache = cache.path().to_string_lossy().into_owned();
    let inputs = [
        ("VERSION", "v1.2.3"),
        ("TOKEN", ""),
        ("CHECKSUM", "true"),
        ("RUNNER_OS", "Linux"),
        ("RUNNER_ARCH", "X64"),
        ("RUNNER_TOOL_CACHE", cache.as_str()),
    ];
    let ran = run("setup/setup.sh", &inputs);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert_eq!(ran.output, format!("version=1.2.3\npath={}\n", directory.display()));
    assert_eq!(ran.path, format!("{}\n", directory.display()));

    for (name, value, expected) in [
        ("RUNNER_ARCH", "S390", "no stackorder for the runner architecture 'S390'"),
        ("RUNNER_OS", "Plan9", "no stackorder for the runner system 'Plan9'"),
        ("CHECKSUM", "yes", "checksum must be true or false"),
        ("VERSION", "../../x", "'../../x' is no version"),
    ] {
        let ran = run("setup/setup.sh", &[&inputs[..], &[(name, value)]].concat());
        assert_eq!(ran.code, 1);
        assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    }
}

#[test]
fn nothing_is_downloaded_over_plain_http_not_even_behind_a_redirect() {
    use std::os::unix::fs::PermissionsExt;
    let bin = tempfile::tempdir().expect("a temporary directory");
    let (curl, calls) = (bin.path().join("curl"), bin.path().join("calls"));
    std::fs::write(&curl, "#!/bin/sh\necho \"$*\" >>\"$CURL_CALLS\"\nexit 22\n").expect("a curl that notes its call");
    std::fs::set_permissions(&curl, std::fs::Permissions::from_mode(0o755)).expect("an executable curl");
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap_or_default());
    // Nothing is what a variable of the repository gives that nobody set.
    for version in ["1.2.3", "latest", ""] {
        let inputs = [
            ("VERSION", version),
            ("TOKEN", ""),
            ("CHECKSUM", "true"),
            ("RUNNER_OS", "Linux"),
            ("RUNNER_ARCH", "X64"),
            ("RUNNER_TOOL_CACHE", "/nonexistent"),
            ("PATH", path.as_str()),
            ("CURL_CALLS", calls.to_str().expect("a path that is text")),
        ];
        assert_eq!(run("setup/setup.sh", &inputs).code, 1);
    }
    let calls = std::fs::read_to_string(&calls).expect("curl was called");
    assert_eq!(calls.lines().count(), 3, "{calls}");
    assert!(calls.lines().all(|call| call.starts_with("--proto =https ")), "{calls}");
}

/// A `curl` that serves files of a folder by the last part of their address.
fn serving(bin: &Path, assets: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    let script = format!(
        "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in -o) out=$2; shift;; esac; url=$1; shift; done\n\
         cp \"{}/${{url##*/}}\" \"$out\"\n",
        assets.display()
    );
    std::fs::write(bin.join("curl"), script).expect("a curl that serves files");
    std::fs::set_permissions(bin.join("curl"), std::fs::Permissions::from_mode(0o755)).expect("an executable curl");
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())
}

#[test]
fn setup_installs_only_what_the_release_has_the_checksum_of() {
    let (bin, assets) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let archive = assets.path().join("stackorder_1.2.3_linux_amd64.tar.gz");
    std::fs::write(assets.path().join("stackorder"), "#!/bin/sh\n").expect("a binary");
    let packed = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(assets.path()).arg("stackorder").status();
    assert!(packed.expect("tar runs").success());
    let path = serving(bin.path(), assets.path());
    let install = |sums: &str, checksum: &str| {
        let cache = tempfile::tempdir().expect("a directory");
        std::fs::write(assets.path().join("stackorder_1.2.3_checksums.txt"), sums).expect("the checksum file");
        let inputs = [
            ("VERSION", "1.2.3"),
            ("TOKEN", ""),
            ("CHECKSUM", checksum),
            ("RUNNER_OS", "Linux"),
            ("RUNNER_ARCH", "X64"),
            ("RUNNER_TOOL_CACHE", cache.path().to_str().expect("a path that is text")),
            ("PATH", path.as_str()),
        ];
        let ran = run("setup/setup.sh", &inputs);
        (ran, cache.path().join("stackorder/1.2.3/x64/stackorder").is_file())
    };
    let sum = {
        use sha2::Digest as _;
        sha2::Sha256::digest(std::fs::read(&archive).expect("the archive"))
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let line = |sum: &str| format!("{}  other.zip\n{sum}  stackorder_1.2.3_linux_amd64.tar.gz\n", "0".repeat(64));

    let (ran, installed) = install(&line(&sum), "true");
    assert_eq!((ran.code, installed), (0, true), "{}", ran.stdout);
    assert!(ran.output.starts_with("version=1.2.3\n"), "{}", ran.output);
    let (ran, installed) = install(&line(&"f".repeat(64)), "true");
    assert_eq!((ran.code, installed), (1, false));
    assert!(
        ran.stdout.contains("checksum mismatch of stackorder 1.2.3 for linux/amd64 from https://"),
        "{}",
        ran.stdout
    );
    let (ran, installed) = install("", "true");
    assert_eq!((ran.code, installed), (1, false));
    assert!(ran.stdout.contains("the checksum file has no line for"), "{}", ran.stdout);
    let (ran, installed) = install("", "false");
    assert_eq!((ran.code, installed), (0, true), "{}", ran.stdout);
}

/// The script of a step, by the step's name.
fn script_of(workflow: &str, step: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("actions/.github/workflows").join(workflow);
    let text = std::fs::read_to_string(path).expect("the workflow");
    let (_, after) = text.split_once(&format!("      - name: {step}\n")).expect("the step");
    let (_, body) = after.split_once("        run: |\n").expect("its script");
    let lines = body.lines().take_while(|line| line.starts_with("          "));
    lines.map(|line| format!("{}\n", &line[10..])).collect()
}

#[test]
fn the_policy_commit_is_fetched_with_a_token_that_stays_nowhere() {
    use std::os::unix::fs::PermissionsExt;
    let step = "Fetch the commit whose policies count";
    let script = script_of("plan.yml", step);
    assert_eq!(script, script_of("run.yml", step));
    let bin = tempfile::tempdir().expect("a temporary directory");
    let git = bin.path().join("git");
    let stub = "#!/bin/sh\n[ \"$1\" != cat-file ] || exit 1\necho \"$*\"\n\
                echo \"$GIT_CONFIG_COUNT $GIT_CONFIG_KEY_0 $GIT_CONFIG_VALUE_0\"\n";
    std::fs::write(&git, stub).expect("a git that tells what it was given");
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).expect("an executable git");
    let done = Command::new("bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script])
        .env_clear()
        .env("PATH", format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap_or_default()))
        .env("STACKORDER_POLICY_SHA", "0123")
        .env("TOKEN", "ghs_secret")
        .env("GITHUB_SERVER_URL", "https://github.example")
        .output()
        .expect("bash runs");
    let basic = "eC1hY2Nlc3MtdG9rZW46Z2hzX3NlY3JldA==";
    let expected = format!(
        "::add-mask::{basic}\nfetch --no-tags --depth=1 origin 0123\n\
         1 http.https://github.example/.extraheader AUTHORIZATION: basic {basic}\n"
    );
    assert_eq!(String::from_utf8_lossy(&done.stdout), expected);
    for workflow in ["plan.yml", "run.yml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("actions/.github/workflows").join(workflow);
        let text = std::fs::read_to_string(path).expect("the workflow");
        let (checkouts, without) = (text.matches("actions/checkout@"), text.matches("persist-credentials: false"));
        assert_eq!(checkouts.count(), without.count(), "{workflow}");
    }
}

/// A plan runs the code of its commit, and whoever may push may dispatch one by hand under any name.
#[test]
fn only_an_apply_runs_under_an_environment_that_a_dispatch_names() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("actions/.github/workflows/run.yml");
    let text = std::fs::read_to_string(path).expect("the workflow");
    let line = "    environment: ${{ inputs.mode == 'apply' && matrix.environment || 'default' }}";
    let of_jobs: Vec<&str> = text.lines().filter(|line| line.starts_with("    environment:")).collect();
    assert_eq!(of_jobs, [line]);
}
