//! The script of the self-test, which nobody runs here as it is meant: what it makes of what it saw, and what it notes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("actions/selftest/selftest.sh")
}

fn run(temp: &Path, arguments: &[&str]) -> (bool, String) {
    let done = Command::new("bash")
        .arg(script())
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("RUNNER_TEMP", temp)
        .env("GITHUB_REPOSITORY", "acme/infra")
        // Nobody listens there: what needs GitHub says that it could not ask.
        .env("GITHUB_API_URL", "http://127.0.0.1:9")
        .env("GITHUB_SERVER_URL", "https://github.com")
        .env("DEFAULT_BRANCH", "main")
        .output()
        .unwrap();
    (done.status.success(), String::from_utf8(done.stdout).unwrap() + &String::from_utf8_lossy(&done.stderr))
}

fn claims(subject: &str) -> serde_json::Value {
    serde_json::json!({
        "aud": "https://selftest.example", "sub": subject, "event_name": "workflow_dispatch", "ref": "refs/heads/main",
        "ref_protected": "true", "environment": "selftest-open", "environment_node_id": "EN_1", "run_id": "100",
        "run_attempt": "1", "repository_id": "1", "repository_owner_id": "2", "check_run_id": "3",
        "job_workflow_ref": "acme/infra/.github/workflows/selftest-job.yml@refs/heads/main",
        "workflow_ref": "acme/infra/.github/workflows/selftest-run.yml@refs/heads/main",
        "seconds_valid": 300, "seconds_before": 600
    })
}

/// The report on an apply job with these claims, and whether the self-test calls it good.
fn reported(claims: &serde_json::Value) -> (bool, String) {
    let place = tempfile::tempdir().unwrap();
    let artifact = place.path().join("artifacts/apply");
    std::fs::create_dir_all(&artifact).unwrap();
    std::fs::create_dir_all(place.path().join("selftest")).unwrap();
    std::fs::write(place.path().join("selftest/apply-run"), "100\n").unwrap();
    std::fs::write(artifact.join("claims.json"), claims.to_string()).unwrap();
    std::fs::write(artifact.join("aws.json"), r#"{"plan": "AccessDenied", "apply": "assumed"}"#).unwrap();
    let (_, seen) = run(place.path(), &["results", place.path().join("artifacts").to_str().unwrap()]);
    let (is_good, report) = run(place.path(), &["report"]);
    assert!(!seen.contains("line "), "the shell complains: {seen}");
    (is_good, report)
}

#[test]
fn claims_of_either_shape_are_as_expected_and_another_environment_is_not() {
    if crate::machine::program_for("claims_of_either_shape", "jq").is_none() {
        return;
    }
    for subject in ["repo:acme/infra:environment:selftest-open", "repo:acme@7/infra@42:environment:selftest-open"] {
        let (is_good, report) = reported(&claims(subject));
        assert!(is_good, "{report}");
        assert!(
            report.contains("| aws-apply-job | ok | own role assumed, role of the other AccessDenied |"),
            "{report}"
        );
        assert!(report.contains("| claims-plan | not-run | no artifact of a plan job |"), "{report}");
        assert!(!report.contains("acme"), "the report names the organisation: {report}");
    }
    let mut odd = claims("repo:acme/infra:environment:production");
    odd["run_id"] = 100.into();
    let (is_good, report) = reported(&odd);
    assert!(!is_good && report.contains("| claims-apply-subject | differs |"), "{report}");
    assert!(report.contains("| claims-apply-ids-are-texts | differs | number string"), "{report}");
}

/// What the self-test wants to see at GitHub: only a process that the step became gets the interrupt.
#[test]
fn the_probe_notes_an_interrupt_when_it_is_the_step_itself() {
    for (how, line, arrives) in
        [("exec", r#"exec bash "$0" signals "$1""#, true), ("child", r#"bash "$0" signals "$1"; exit"#, false)]
    {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("signals.txt");
        // Whoever runs the tests in the background of a script makes everything below ignore interrupts.
        let mut step = Command::new("env")
            .args(["--default-signal=INT", "bash", "-c", line])
            .arg(script())
            .arg(&file)
            .env("RUNNER_TEMP", place.path())
            .env("GITHUB_REPOSITORY", "acme/infra")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let noted = |what: &str, seconds: u64| {
            let until = Instant::now() + Duration::from_secs(seconds);
            while Instant::now() < until {
                if std::fs::read_to_string(&file).unwrap_or_default().contains(what) {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            false
        };
        assert!(noted("START", 20), "{how}: the probe never started");
        std::thread::sleep(Duration::from_millis(500));
        let send = |signal: &str, id: &str| Command::new("kill").args([signal, id]).status().unwrap();
        assert!(send("-INT", &step.id().to_string()).success());
        assert_eq!(noted("INT", if arrives { 20 } else { 3 }), arrives, "{how}");
        let children = Command::new("ps").args(["-o", "pid=", "--ppid", &step.id().to_string()]).output().unwrap();
        step.kill().unwrap();
        step.wait().unwrap();
        for child in String::from_utf8_lossy(&children.stdout).split_whitespace() {
            send("-KILL", child);
        }
    }
}
