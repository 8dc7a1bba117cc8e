//! The demo's story, played to its end: with the stand-in once for all tests of this process, with the real tool, and
//! again with the stand-in while the server dies, while everything is said twice, on two servers, and over cut connections.
//!
//! Where the machine lets us, the stand-in's story plays in a network namespace that has nothing but a loopback device:
//! it needs no network then, and every socket that listens in there is the demo's.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::Value;

use crate::databases::postgres_url;
use crate::evidence::Evidence;
use crate::fire::database_line::{self, Verdict, Watcher};
use crate::fire::wire::Seen;
use crate::machine;

const STEPS: usize = 15;
/// Of the connections that commit.
const CUT_ONE_IN: u32 = 10;
/// One a step.
const CUTS_MIN: u32 = 15;

/// A story that was played, and what it left.
pub struct Story {
    pub dir: PathBuf,
    /// The file of `--outcome`.
    outcome: PathBuf,
    /// What it printed.
    pub transcript: String,
    report: Value,
    errors: String,
    code: Option<i32>,
    /// Addresses other than loopback that something listened on; only known of a namespace of its own.
    open_to_others: BTreeSet<String>,
}

/// The story with the stand-in. The first caller plays it.
pub fn with_the_stand_in() -> &'static Story {
    static STORY: OnceLock<Story> = OnceLock::new();
    STORY.get_or_init(|| {
        let network = if can_be_alone() { Network::LoopbackOnly } else { Network::Shared };
        play("stand-in", &["--tool", "stand-in"], network)
    })
}

#[test]
fn the_story_keeps_every_promise_with_the_stand_in() {
    if !can_be_alone() {
        machine::not_run("the_story_keeps_every_promise_without_a_network", "ip and unshare -rn");
    }
    let story = with_the_stand_in();
    assert_kept(story, "stand-in ");
    assert!(story.open_to_others.is_empty(), "the demo listens on {:?}", story.open_to_others);
}

#[test]
fn the_story_keeps_every_promise_with_terraform() {
    let test_name = "the_story_keeps_every_promise_with_terraform";
    let Some(_) = machine::program_for(test_name, "terraform") else { return };
    // One after the other: two stories at once would only slow each other.
    with_the_stand_in();
    assert_kept(&play("terraform", &["--tool", "terraform"], Network::Shared), "terraform 1.");
}

#[test]
fn a_server_killed_three_times_in_every_step_ends_where_an_undisturbed_one_does() {
    // Any seed does; another one strikes at other moments.
    assert_ends_alike("killed", &["--kills", "20261129"]);
}

#[test]
fn what_is_delivered_and_reported_twice_ends_where_once_does() {
    assert_ends_alike("twice", &["--twice"]);
}

#[test]
fn two_servers_on_one_postgres_end_where_one_server_does() {
    let Some(database) = postgres_url("two_servers_on_one_postgres_end_where_one_server_does") else { return };
    let story = play_again("two-servers", &["--database", &database, "--servers", "2"]);
    assert_alike("two-servers", &what_was_left(&story, &Evidence::on_postgres(&story.dir, &database)));
}

#[test]
fn connections_to_the_database_cut_around_their_commits_end_where_whole_ones_do() {
    let test_name = "connections_to_the_database_cut_around_their_commits_end_where_whole_ones_do";
    let Some(database) = postgres_url(test_name) else { return };
    let scissors = Arc::new(Scissors::default());
    let line = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let cut = line.block_on(database_line::open(&database, scissors.clone()));
    let story = play_again("cut", &["--database", &cut]);
    let [before, after] = scissors.cuts();
    assert!(before >= CUTS_MIN && after >= CUTS_MIN, "cut {before} and {after} times");
    assert_alike("cut", &what_was_left(&story, &Evidence::on_postgres(&story.dir, &database)));
}

/// Cuts every so many connections when they are about to commit, and as many when they have committed and nobody knows.
#[derive(Default)]
struct Scissors {
    about_to_commit: AtomicU32,
    committed: AtomicU32,
}

impl Scissors {
    fn cuts(&self) -> [u32; 2] {
        [&self.about_to_commit, &self.committed].map(|seen| seen.load(Ordering::Relaxed) / CUT_ONE_IN)
    }
}

#[async_trait]
impl Watcher for Scissors {
    async fn look(&self, seen: Seen) -> Verdict {
        let seen = match seen {
            Seen::AboutToCommit => &self.about_to_commit,
            Seen::Committed => &self.committed,
            Seen::DeliveryStored | Seen::DispatchCommitted => return Verdict::Pass,
        };
        let is_next = (seen.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(CUT_ONE_IN);
        if is_next { Verdict::Cut } else { Verdict::Pass }
    }
}

/// The same statuses, reasons, locks, check conclusions, comments, state serials, issues, and workflow runs that claimed.
#[track_caller]
fn assert_ends_alike(name: &str, flags: &[&str]) {
    let story = play_again(name, flags);
    assert_alike(name, &what_was_left(&story, &Evidence::of(&story.dir)));
}

/// After the undisturbed one: two at once would only slow each other.
#[track_caller]
fn play_again(name: &str, flags: &[&str]) -> Story {
    with_the_stand_in();
    let story = play(name, &[&["--tool", "stand-in"], flags].concat(), Network::Shared);
    assert_kept(&story, "stand-in ");
    story
}

#[track_caller]
fn assert_alike(name: &str, disturbed: &str) {
    let story = with_the_stand_in();
    let calm = what_was_left(story, &Evidence::of(&story.dir));
    let both = calm.lines().zip(disturbed.lines()).enumerate();
    let differing: Vec<_> = both.filter(|(_, (calm, disturbed))| calm != disturbed).take(20).collect();
    assert!(differing.is_empty(), "line, calm, {name}: {differing:#?}");
    assert_eq!(calm.lines().count(), disturbed.lines().count());
}

/// Sorted JSON, a member a line.
fn what_was_left(story: &Story, evidence: &Evidence) -> String {
    let mut left: Value = serde_json::from_slice(&std::fs::read(&story.outcome).unwrap()).unwrap();
    left["accepted workflow runs"] = serde_json::to_value(evidence.accepted_workflow_runs()).unwrap();
    serde_json::to_string_pretty(&left).unwrap()
}

#[track_caller]
fn assert_kept(story: &Story, tool: &str) {
    let said = format!("{}\n{}", story.transcript, story.errors);
    assert_eq!(story.code, Some(0), "{said}");
    let report = story.report.as_object().unwrap_or_else(|| panic!("no report:\n{said}"));
    assert_eq!(report.keys().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(["steps", "ok", "tool"]));
    assert_eq!(report["ok"], true);
    assert!(report["tool"].as_str().is_some_and(|name| name.starts_with(tool)), "{}", report["tool"]);
    let steps = report["steps"].as_array().expect("steps are a list");
    let names: BTreeSet<&str> = steps.iter().filter_map(|step| step["name"].as_str()).collect();
    assert_eq!((steps.len(), names.len()), (STEPS, STEPS), "{names:?}");
    for step in steps {
        let keys: BTreeSet<&str> = step.as_object().expect("a step is an object").keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(["name", "ok", "ms"]), "{step}");
        assert!(step["ok"] == true && step["ms"].is_u64(), "{step}");
        let name = step["name"].as_str().expect("names are texts");
        assert!(story.transcript.contains(name), "the story does not say {name:?}");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Shared,
    LoopbackOnly,
}

fn play(name: &str, flags: &[&str], network: Network) -> Story {
    // Below the target directory, where the evidence of the newest run stays to be looked at and nothing piles up.
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("story-{name}"));
    if place.exists() {
        std::fs::remove_dir_all(&place).unwrap();
    }
    std::fs::create_dir_all(&place).unwrap();
    let (dir, errors) = (place.join("evidence"), place.join("errors"));
    let (report, outcome) = (place.join("report.json"), place.join("outcome.json"));
    let mut command = match network {
        Network::Shared => Command::new(env!("CARGO_BIN_EXE_stackorder")),
        Network::LoopbackOnly => {
            let mut alone = Command::new("unshare");
            // The address space changes hands by exec alone, so the child's process id stays the demo's.
            alone.args([
                "-rn",
                "sh",
                "-c",
                "ip link set lo up && exec \"$0\" \"$@\"",
                env!("CARGO_BIN_EXE_stackorder"),
            ]);
            alone
        }
    };
    command.args(["demo", "--story"]).args(flags).arg("--dir").arg(&dir);
    command.arg("--report").arg(&report).arg("--outcome").arg(&outcome);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(&place);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(std::fs::File::create(&errors).unwrap());
    let mut child = command.spawn().unwrap();
    let mut transcript = String::new();
    let mut open_to_others = BTreeSet::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        transcript.push_str(&line.unwrap());
        transcript.push('\n');
        // Each line that is said is a moment to look; nothing has to be waited for.
        if network == Network::LoopbackOnly {
            open_to_others.extend(listeners_beyond_loopback(child.id()));
        }
    }
    let code = child.wait().unwrap().code();
    let report = std::fs::read(&report).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let errors = std::fs::read_to_string(&errors).unwrap_or_default();
    Story { dir, outcome, transcript, report: report.unwrap_or(Value::Null), errors, code, open_to_others }
}

/// Whether a process can have a network of its own here. `ip` is what brings its loopback device up.
fn can_be_alone() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let tried = Command::new("unshare").args(["-rn", "ip", "link", "set", "lo", "up"]).output();
        tried.is_ok_and(|output| output.status.success())
    })
}

/// TCP sockets that listen in the process's network on anything but 127.0.0.0/8 and ::1, as the kernel writes addresses.
fn listeners_beyond_loopback(pid: u32) -> Vec<String> {
    const LISTEN: &str = "0A";
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, state, ..] = fields[..] else { continue };
            let loopback = local.starts_with("00000000000000000000000001000000:")
                || local.starts_with("0000000000000000FFFF00000100007F:")
                || (table == "tcp" && local.get(6..8) == Some("7F"));
            if state == LISTEN && !loopback {
                found.push(format!("{table} {local}"));
            }
        }
    }
    found
}
