//! What people get wrong at the command line: one clear sentence, the right exit code, and nothing left behind.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// Far more than any of these commands takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// Where the command ran; also its `TMPDIR`.
    place: TempDir,
}

impl Ran {
    /// It ended with 1 after one sentence that says all of this.
    #[track_caller]
    fn says(&self, parts: &[&str]) {
        assert_eq!(self.code, Some(1), "{}", self.stderr);
        assert!(
            self.stderr.starts_with("error: ") && self.stderr.lines().count() == 1,
            "no one sentence: {}",
            self.stderr
        );
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in {}", self.stderr);
        }
    }

    #[track_caller]
    fn says_how_to_use_it(&self) {
        let words = ["Usage: stackorder", "try '--help'"];
        assert!(words.iter().any(|words| self.stderr.contains(words)), "{}", self.stderr);
    }

    #[track_caller]
    fn left_nothing(&self) {
        self.left_only(&[]);
    }

    #[track_caller]
    fn left_only(&self, files: &[&str]) {
        let left: Vec<_> =
            std::fs::read_dir(self.place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, files, "left behind");
    }
}

/// Runs the program in an empty directory with these variables and no other ones but `PATH`.
fn run(args: &[&str], variables: &[(&str, &str)]) -> Ran {
    run_in(tempfile::tempdir().unwrap(), args, variables)
}

fn run_in(place: TempDir, args: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stackorder"));
    command
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TMPDIR", place.path())
        .envs(variables.iter().copied())
        .current_dir(place.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (code, stdout, stderr) = ended(command.spawn().unwrap());
    Ran { code, stdout, stderr, place }
}

/// Waits for the process, but kills one that does not see what is wrong and simply works.
fn ended(mut child: Child) -> (Option<i32>, String, String) {
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let (said, all) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut errors = String::new();
        stderr.read_to_string(&mut errors).unwrap();
        let mut output = String::new();
        stdout.read_to_string(&mut output).unwrap();
        // Nobody listens any more after the deadline.
        let _ = said.send((output, errors));
    });
    let in_time = all.recv_timeout(PATIENCE);
    if in_time.is_err() {
        child.kill().unwrap();
    }
    let code = child.wait().unwrap().code();
    let (stdout, stderr) = in_time.or_else(|_| all.recv()).unwrap();
    (code, stdout, stderr)
}

/// A directory for `PATH` with one program in it, a shell script.
fn only_program(name: &str, script: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

// -- stackorder demo ------------------------------------------------------------------------------------

#[test]
fn a_demo_whose_port_is_taken_names_the_port_and_makes_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for flag in ["--port", "--github-port"] {
        let ran = run(&["demo", "--story", "--tool", "stand-in", "--dir", "kept", flag, &port], &[]);
        ran.says(&[&format!("port {port} is in use")]);
        ran.left_nothing();
        let ran = run(&["demo", "--tool", "stand-in", flag, &port], &[]);
        ran.says(&[&format!("port {port} is in use")]);
        ran.left_nothing();
    }
}

#[test]
fn a_demo_without_git_says_so() {
    let nothing = tempfile::tempdir().unwrap();
    let ran = run(&["demo", "--story"], &[("PATH", text(nothing.path()))]);
    ran.says(&["needs git", "PATH"]);
    ran.left_nothing();
}

#[test]
fn a_demo_with_an_old_or_broken_terraform_says_what_it_needs() {
    let old = only_program("terraform", r#"echo '{"terraform_version":"1.5.7"}'"#);
    let ran = run(&["demo", "--story"], &[("PATH", text(old.path()))]);
    ran.says(&["terraform 1.5.7 is too old", "1.10 or newer"]);
    ran.left_nothing();

    let broken = only_program("terraform", "echo Terraform v1");
    let ran = run(&["demo", "--story"], &[("PATH", text(broken.path()))]);
    ran.says(&["terraform version -json printed no JSON"]);
    ran.left_nothing();
}

#[test]
fn a_demo_with_a_tool_that_is_not_there_says_so() {
    let nothing = tempfile::tempdir().unwrap();
    for tool in ["tofu", "terraform"] {
        let ran = run(&["demo", "--story", "--tool", tool], &[("PATH", text(nothing.path()))]);
        ran.says(&[&format!("{tool} is not on PATH")]);
        ran.left_nothing();
    }
}

#[test]
fn a_demo_leaves_a_directory_alone_that_is_not_empty_or_is_none() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("mine")).unwrap();
    std::fs::write(place.path().join("mine/thesis.txt"), "years of work").unwrap();
    let ran = run_in(place, &["demo", "--story", "--tool", "stand-in", "--dir", "mine"], &[]);
    ran.says(&["mine is not empty", "empty or new directory"]);
    let kept: Vec<_> =
        std::fs::read_dir(ran.place.path().join("mine")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(kept, ["thesis.txt"]);

    let ran = run_in(ran.place, &["demo", "--story", "--tool", "stand-in", "--dir", "mine/thesis.txt"], &[]);
    ran.says(&["mine/thesis.txt"]);
    assert_eq!(std::fs::read_to_string(ran.place.path().join("mine/thesis.txt")).unwrap(), "years of work");
}

#[test]
fn a_story_whose_report_has_no_place_does_not_begin() {
    let ran = run(&["demo", "--story", "--tool", "stand-in", "--report", "no/such/report.json"], &[]);
    ran.says(&["no/such/report.json"]);
    assert!(!ran.stdout.contains(" 1. "), "{}", ran.stdout);
    ran.left_nothing();
}

// -- stackorder serve and admin -------------------------------------------------------------------------

const APP_KEY: &str = include_str!("../fixtures/keys/test-only-app.pem");

fn server_variables(database: &str) -> Vec<(&'static str, &str)> {
    vec![
        ("DATABASE_URL", database),
        ("STACKORDER_BASE_URL", "http://127.0.0.1:1"),
        ("STACKORDER_LISTEN", "127.0.0.1:0"),
        ("GITHUB_APP_ID", "7"),
        ("GITHUB_APP_PRIVATE_KEY", APP_KEY),
        ("GITHUB_WEBHOOK_SECRET", "a secret of tests"),
        // Nobody listens there, so a server that did start could reach nobody.
        ("GITHUB_API_URL", "http://127.0.0.1:1"),
    ]
}

#[test]
fn a_server_without_settings_lists_every_one_that_is_missing() {
    let required =
        ["DATABASE_URL", "STACKORDER_BASE_URL", "GITHUB_APP_ID", "GITHUB_APP_PRIVATE_KEY", "GITHUB_WEBHOOK_SECRET"];
    for command in ["serve", "check-config"] {
        let ran = run(&[command], &[]);
        assert_eq!(ran.code, Some(1));
        for variable in required {
            assert!(ran.stderr.contains(&format!("{variable}: is required")), "{variable}: {}", ran.stderr);
        }
        assert_eq!(ran.stderr.lines().count(), 1 + required.len(), "{}", ran.stderr);
        ran.left_nothing();
    }
}

#[test]
fn a_wrong_setting_is_named_with_its_value_but_a_secret_one_without() {
    let wrong = [
        ("STACKORDER_LISTEN", "somewhere"),
        ("STACKORDER_BASE_URL", "stackorder.example.com"),
        ("GITHUB_APP_PRIVATE_KEY", "hunter2"),
    ];
    let variables: Vec<_> = server_variables("mysql://localhost/x").into_iter().chain(wrong).collect();
    let ran = run(&["serve"], &variables);
    assert_eq!(ran.code, Some(1));
    for part in
        ["DATABASE_URL: ", "STACKORDER_LISTEN: \"somewhere\"", "\"stackorder.example.com\"", "no PEM private key"]
    {
        assert!(ran.stderr.contains(part), "{part:?} is not in {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("hunter2"));
}

#[test]
fn a_database_that_cannot_be_opened_is_one_sentence_with_its_cause() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cases = [
        ("sqlite://no/such/directory/server.db".to_owned(), "unable to open database file"),
        (format!("postgres://nobody@127.0.0.1:{closed}/nothing"), "Connection refused"),
    ];
    for (database, cause) in &cases {
        let ran = run(&["serve"], &server_variables(database));
        ran.says(&["the database cannot be opened", cause]);
        ran.left_nothing();
        let ran = run(&["admin", "keys", "list"], &[("DATABASE_URL", database)]);
        ran.says(&["cannot use the database", cause]);
        ran.left_nothing();
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let garbage = "This is a letter and no database. ".repeat(300);
    std::fs::write(place.path().join("server.db"), &garbage).unwrap();
    let ran = run_in(place, &["serve"], &server_variables("sqlite://server.db"));
    ran.says(&["the database cannot be opened", "file is not a database"]);
    assert_eq!(std::fs::read_to_string(ran.place.path().join("server.db")).unwrap(), garbage);
    ran.left_only(&["server.db"]);
}

#[test]
fn a_damaged_database_is_refused_and_left_as_it_is() {
    let made = run(&["admin", "keys", "list"], &[("DATABASE_URL", "sqlite://server.db")]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    // The whole database: a command that has ended leaves no log beside it.
    made.left_only(&["server.db"]);
    let file = made.place.path().join("server.db");
    let mut bytes = std::fs::read(&file).unwrap();
    // The header stays, so only reading the schema shows it.
    bytes[100..].fill(0x5a);
    std::fs::write(&file, &bytes).unwrap();
    let ran = run_in(made.place, &["serve"], &server_variables("sqlite://server.db"));
    ran.says(&["the database cannot be opened", "malformed"]);
    assert!(std::fs::read(ran.place.path().join("server.db")).unwrap() == bytes, "the damaged file was written to");
    ran.left_only(&["server.db"]);
}

#[test]
fn a_server_whose_port_is_taken_names_its_address() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let variables: Vec<_> =
        server_variables("sqlite://server.db").into_iter().chain([("STACKORDER_LISTEN", address.as_str())]).collect();
    let ran = run(&["serve"], &variables);
    ran.says(&["cannot listen on", &address, "in use"]);
    ran.left_nothing();
}

#[test]
fn admin_needs_to_know_the_database() {
    let ran = run(&["admin", "keys", "list"], &[]);
    ran.says(&["DATABASE_URL is not set"]);
    ran.left_nothing();
    let ran = run(&["admin", "keys", "list"], &[("DATABASE_URL", "mysql://localhost/x")]);
    ran.says(&["postgres://", "sqlite://"]);
}

#[test]
fn admin_refuses_keys_it_cannot_make_or_find() {
    let variables = [("DATABASE_URL", "sqlite://server.db")];
    let ran = run(&["admin", "keys", "create", "--name", "ci", "--scope", "read", "--repo", "no slash"], &variables);
    ran.says(&["no slash"]);
    ran.left_nothing();
    let create = ["admin", "keys", "create", "--name", "ci", "--scope", "read"];
    let ran = run_in(ran.place, &create, &variables);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = run_in(ran.place, &create, &variables);
    ran.says(&["there is a key named \"ci\" already"]);
    assert!(ran.stdout.is_empty());
    run_in(ran.place, &["admin", "keys", "revoke", "cd"], &variables).says(&["no key named \"cd\""]);
}

// -- standard output ------------------------------------------------------------------------------------

const PRINTING: [&[&str]; 9] = [
    &["--help"],
    &["version"],
    &["graph"],
    &["graph", "--format", "json"],
    &["config", "validate"],
    &["config", "schema"],
    &["completions", "bash"],
    &["man"],
    &["admin", "keys", "list"],
];

/// What the program says on standard error when its standard output goes there, and its code.
fn printing_to(stdout: impl Into<Stdio>, args: &[&str]) -> (Option<i32>, String) {
    let place = tempfile::tempdir().unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_stackorder"))
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("DATABASE_URL", "sqlite://server.db")
        .current_dir(place.path())
        .stdin(Stdio::null())
        .stdout(stdout)
        .output()
        .unwrap();
    (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_finds_no_room_is_an_error_and_not_a_success() {
    // No key was made, so its list is the one result without a byte.
    for args in PRINTING.iter().filter(|args| args[0] != "admin") {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, stderr) = printing_to(full, args);
        let last = stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: standard output: No space left on device"), "{args:?}: {stderr}");
        assert_eq!(code, Some(1), "{args:?}");
    }
}

#[test]
fn a_reader_that_left_early_is_no_error() {
    for args in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, stderr) = printing_to(writer, args);
        assert_eq!(code, Some(0), "{args:?}: {stderr}");
        assert!(!stderr.contains("error") && !stderr.contains("panic"), "{args:?}: {stderr}");
    }
}

// -- usage ----------------------------------------------------------------------------------------------

#[test]
fn usage_errors_of_the_server_s_commands_leave_with_2() {
    let cases: [&[&str]; 9] = [
        &["serve", "--nonsense"],
        &["serve", "now"],
        &["admin"],
        &["admin", "keys"],
        &["admin", "keys", "create"],
        &["admin", "keys", "create", "--name", "x", "--scope", "everything"],
        &["admin", "keys", "create", "--name", "x", "--scope", "read", "--days", "0"],
        &["demo", "--report", "x.json"],
        &["demo", "--port", "many"],
    ];
    for args in cases {
        let ran = run(args, &[]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {}", ran.stderr);
        ran.says_how_to_use_it();
        ran.left_nothing();
    }
}

/// There 2 means "changes".
#[test]
fn usage_errors_of_the_runner_s_commands_leave_with_1() {
    let cases: [&[&str]; 9] = [
        &[],
        &["nonsense"],
        &["plan", "--nonsense"],
        &["plan", "--stack"],
        &["apply", "--stack"],
        &["graph", "--format", "yaml"],
        &["explain"],
        &["affected", "--base"],
        &["drift", "--nonsense"],
    ];
    for args in cases {
        let ran = run(args, &[]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{args:?}: {}", ran.stderr);
        ran.says_how_to_use_it();
        ran.left_nothing();
    }
}
