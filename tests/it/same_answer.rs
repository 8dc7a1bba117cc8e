//! The resolve job gives the same answer, byte for byte, whether the server works it out or, without one, the job itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::api_refusals::world::{BASE_URL, REPOSITORY, World};

/// Tokens that a job may ask for; it needs one for each call.
const TOKENS: usize = 20;

fn stack(key: &str, more: &str) -> Option<Vec<u8>> {
    let text =
        format!("terraform {{\n  backend \"s3\" {{\n    bucket = \"b\"\n    key    = \"{key}\"\n  }}\n}}\n{more}");
    Some(text.into_bytes())
}

fn text(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

const READS_OLD: &str = "data \"terraform_remote_state\" \"old\" {\n  backend = \"s3\"\n  config = {\n    bucket = \"b\"\n    key    = \"old\"\n  }\n}\n";
const READS_A_SET: &str = "locals {\n  all = fileset(\"${path.module}/../../shared\", \"**/*.json\")\n}\n";

/// Deletes a stack whose state another one reads, and swaps the only file of a set that a third one reads.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_works_out_alone_is_what_the_server_answers() {
    let world = World::new().await;
    let before = [
        ("stacks/old/main.tf", stack("old", "")),
        ("stacks/reader/main.tf", stack("reader", READS_OLD)),
        ("stacks/set/main.tf", stack("set", READS_A_SET)),
        ("stacks/set/.stackorder.yaml", text("environment: production\ntool: tofu\n")),
        ("stacks/after/main.tf", stack("after", "")),
        ("stacks/after/.stackorder.yaml", text("depends_on: [stacks/set]\n")),
        ("shared/deep/old.json", text("{}")),
    ];
    world.github.commit(REPOSITORY, "main", "Stacks", "alice", &before).unwrap();
    let change = [
        ("stacks/old/main.tf", None),
        ("shared/deep/old.json", None),
        ("shared/new.json", text("{}")),
        ("somewhere/else.txt", text("of nobody")),
    ];
    let head = world.github.commit(REPOSITORY, "change", "Change", "alice", &change).unwrap();
    let number = world.github.open_pull_request(REPOSITORY, "change", "main", "Change", "", "alice").unwrap();
    let job = Job::new(&world, number, &head);

    let confirmed = job.resolves(Some(&world));
    let alone = job.resolves(None);

    let reached: Vec<(&str, String)> = confirmed["affected"].as_array().unwrap().iter().map(reasons).collect();
    let expected = [
        ("stacks/reader", r#"["reads_state"]"#),
        ("stacks/set", r#"["watch_path"]"#),
        ("stacks/after", r#"["dependent"]"#),
    ];
    assert_eq!(reached, expected.map(|(key, reasons)| (key, reasons.to_owned())));
    assert_eq!(confirmed["affected"][0]["via"], json!(["stacks/old"]), "by the edge that the change cut");
    assert_eq!(confirmed["removed"][0]["key"], "stacks/old");
    assert!(confirmed["run_id"].is_string() && confirmed.get("unconfirmed").is_none(), "{confirmed}");
    assert_eq!(alone["unconfirmed"], true);
    assert_eq!(answer_alone(confirmed), answer_alone(alone.clone()));

    // On a laptop it is the same; only jobs know the commit before they look.
    let laptop = job.prints(&["affected", "--base", "origin/main", "--format", "json"], &[]);
    assert_eq!(laptop.status.code(), Some(2), "{}", String::from_utf8_lossy(&laptop.stderr));
    assert_eq!(answer_alone(serde_json::from_slice(&laptop.stdout).unwrap()), answer_alone(alone));
    let graph = job.prints(&["graph", "--format", "json"], &[]);
    let graph: Value = serde_json::from_slice(&graph.stdout).unwrap();
    let set = graph["stacks"].as_array().unwrap().iter().find(|stack| stack["key"] == "stacks/set").unwrap();
    assert_eq!(set["watch_globs"], json!(["shared/**/*.json"]));
}

fn reasons(stack: &Value) -> (&str, String) {
    (stack["key"].as_str().unwrap(), stack["reasons"].to_string())
}

/// The bytes of an answer without what says who gave it.
fn answer_alone(mut answer: Value) -> String {
    let fields = answer.as_object_mut().unwrap();
    for who in ["run_id", "unconfirmed", "cached"] {
        fields.remove(who);
    }
    serde_json::to_string_pretty(&answer).unwrap()
}

/// A checkout of a pull request's head, as `actions/checkout` with the whole history leaves it.
struct Job {
    place: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Job {
    fn new(world: &World, number: i64, head: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let checkout = place.path().join("checkout");
        let bare = world.bare_repository();
        git(place.path(), &["clone", "--quiet", &bare.display().to_string(), "checkout"]);
        git(&checkout, &["checkout", "--quiet", "--detach", head]);
        git(&checkout, &["remote", "set-url", "origin", &format!("https://github.com/{REPOSITORY}.git")]);
        let base = git(&checkout, &["rev-parse", "refs/remotes/origin/main"]);
        let event = json!({
            "pull_request": {
                "number": number,
                "head": { "sha": head, "repo": { "full_name": REPOSITORY } },
                "base": { "sha": base },
            },
            "repository": { "full_name": REPOSITORY, "default_branch": "main" },
        });
        let file = place.path().join("event.json");
        std::fs::write(&file, event.to_string()).unwrap();
        let issuer = serve_tokens(world, number);
        let variables = vec![
            ("GITHUB_ACTIONS", "true".to_owned()),
            ("GITHUB_REPOSITORY", REPOSITORY.to_owned()),
            ("GITHUB_EVENT_PATH", file.display().to_string()),
            ("GITHUB_RUN_ID", "4711".to_owned()),
            ("GITHUB_RUN_ATTEMPT", "1".to_owned()),
            ("GITHUB_SHA", "0".repeat(40)),
            ("ACTIONS_ID_TOKEN_REQUEST_URL", format!("http://127.0.0.1:{issuer}/token?api-version=2")),
            ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of this job".to_owned()),
            ("STACKORDER_OIDC_AUDIENCE", BASE_URL.to_owned()),
        ];
        Self { place, variables }
    }

    fn resolves(&self, server: Option<&World>) -> Value {
        let mut variables = self.variables.clone();
        variables.extend(server.map(|world| ("STACKORDER_SERVER_URL", world.url().to_owned())));
        let output = self.prints(&["resolve", "--format", "json"], &variables);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn prints(&self, args: &[&str], variables: &[(&'static str, String)]) -> Output {
        let checkout = self.place.path().join("checkout");
        let mut command = Command::new(env!("CARGO_BIN_EXE_stackorder"));
        command.args(args).arg("--repo-root").arg(&checkout).current_dir(&checkout);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(variables.iter().map(|(name, value)| (*name, value))).output().unwrap()
    }
}

fn git(directory: &Path, args: &[&str]) -> String {
    let done = Command::new("git")
        .args(args)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// What a runner offers its jobs: a fresh token for each request, until the process ends; the port.
fn serve_tokens(world: &World, number: i64) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let of_the_job = || world.token_with(json!({ "ref": format!("refs/pull/{number}/merge") }));
    let tokens = Arc::new(Mutex::new(std::iter::repeat_with(of_the_job).take(TOKENS).collect::<Vec<String>>()));
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| hand_out(stream, &tokens)));
    port
}

fn hand_out(mut stream: TcpStream, tokens: &Mutex<Vec<String>>) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
    let body = json!({ "value": tokens.lock().unwrap().pop().unwrap_or_default() }).to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    // A client that went away has heard enough.
    let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
}
