//! How long a scan takes, as ratios of what only reading the files takes (`cargo bench --bench scan`).
//!
//! Everything runs in fresh processes on repositories of `generate_repo.py`, each round after the other so that a busy
//! machine slows both sides of a ratio. Prints the table of `docs/performance.md`.

use std::fs::File;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stackorder::config::model::RepoConfig;
use stackorder::graph::model::{Edge, EdgeType, Graph, NodeKind, NodeRef, Stack};
use stackorder::graph::{ResolveRequest, resolve};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
const SAMPLES: usize = 1_000;

const STACKORDER: &str = env!("CARGO_BIN_EXE_stackorder");

fn main() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    println!("| Stacks | Only reading | `graph` | ratio | `affected`, no cache | warm cache | ratio |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let [small, large] = [1_000, 5_000].map(|stacks| {
        let times = measure(&repository(&folder, stacks), &folder.join(format!("scan-cache-{stacks}")));
        let Times { reading, graph, cold, warm } = times;
        println!(
            "| {stacks} | {} | {} | {:.2} (goal 2) | {} | {} | {:.2} (goal 0.5) |",
            millis(reading),
            millis(graph),
            ratio(graph, reading),
            millis(cold),
            millis(warm),
            ratio(warm, cold)
        );
        times
    });
    println!("\n5,000 stacks cost {:.2} times what 1,000 cost (goal 5.5).", ratio(large.graph, small.graph));
    let [order, everything] = resolving();
    println!(
        "Affected set and waves of 5,000 stacks and 20,000 edges: {} in the middle, {} at p99 of {SAMPLES} (goal 10 ms); \
         with the settings, reasons and matrix entry of each stack: {} and {}.",
        millis(order.median),
        millis(order.p99),
        millis(everything.median),
        millis(everything.p99)
    );
}

struct Times {
    reading: Duration,
    graph: Duration,
    cold: Duration,
    warm: Duration,
}

fn measure(root: &Path, cache: &Path) -> Times {
    let run = |args: &[&str]| {
        let mut command = Command::new(STACKORDER);
        command.args(args).arg("--repo-root").arg(root);
        timed(&mut command)
    };
    let cache = cache.to_str().expect("the target directory has a plain name");
    let affected = ["affected", "--base", "main", "--format", "json"];
    let with_cache = [&affected[..], &["--scan-cache", cache]].concat();
    let read = format!("find '{}' -name '*.tf' -print0 | xargs -0 cat", root.display());
    // The first round fills the caches of the machine and our own, and is not counted.
    let rounds: Vec<[Duration; 4]> = (0..=ROUNDS)
        .map(|_| {
            [
                timed(Command::new("sh").args(["-c", &read])),
                run(&["graph", "--format", "json"]),
                run(&affected),
                run(&with_cache),
            ]
        })
        .skip(1)
        .collect();
    let [reading, graph, cold, warm] = [0, 1, 2, 3].map(|column| median(rounds.iter().map(|round| round[column])));
    Times { reading, graph, cold, warm }
}

/// A repository with one stack changed since `main`.
fn repository(folder: &Path, stacks: u32) -> PathBuf {
    let root = folder.join(format!("generated-{stacks}"));
    if !root.exists() {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/generate_repo.py");
        let mut python = Command::new("python3");
        python.arg(script).args(["--git", "--modules", "100", "--stacks", &stacks.to_string(), "--out"]).arg(&root);
        python.stdout(Stdio::null());
        assert!(python.status().expect("python3 is needed").success());
        let switched = Command::new("git").arg("-C").arg(&root).args(["switch", "-q", "change-1"]).status();
        assert!(switched.expect("git is needed").success());
    }
    root
}

/// How long a process takes whose output is as long as it likes.
fn timed(command: &mut Command) -> Duration {
    let nowhere = File::create("/dev/null").expect("a machine has /dev/null");
    command.stdout(nowhere).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("the program is there");
    let took = start.elapsed();
    // 2 is how `affected` says that something is.
    assert!(matches!(status.code(), Some(0 | 2)), "{command:?}: {status}");
    took
}

struct Spread {
    median: Duration,
    p99: Duration,
}

/// How long it takes to resolve a change near the bottom of a large graph: first with one requested stack, so that all
/// are put in order and one is described, then with all of them.
fn resolving() -> [Spread; 2] {
    const STACKS: usize = 5_000;
    const EDGES: usize = 20_000;
    let key = |number: usize| format!("stacks/team{:03}/svc{number:05}", number % 200);
    let node = |number: usize| NodeRef { kind: NodeKind::Stack, key: key(number) };
    // A multiplicative generator: the same graph every time, each stack after four of the 300 before it.
    let mut state = 1_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits fit") % limit
    };
    let edges = (0..EDGES).map(|number| {
        let from = 1 + number % (STACKS - 1);
        let to = from - 1 - below(from.min(300));
        Edge { from: node(from), to: node(to), kind: EdgeType::DependsOn, inferred: false, meta: Default::default() }
    });
    let mut graph = Graph {
        repo: "acme/infra".to_owned(),
        stacks: (0..STACKS).map(|number| Stack { key: key(number), path: key(number), ..Stack::default() }).collect(),
        edges: edges.collect(),
        ..Graph::default()
    };
    graph.sort();
    let config = RepoConfig::default();
    let all = ResolveRequest { changed_paths: vec![format!("{}/main.tf", key(10))], ..ResolveRequest::default() };
    let affected = resolve(&graph, &config, &all).affected;
    assert!(affected.len() > STACKS / 2, "the change reaches most of the graph");
    let last = affected.last().expect("there are many").key.clone();
    let one = ResolveRequest { requested: vec![last], ..all.clone() };
    [one, all].map(|request| spread(|| drop(black_box(resolve(black_box(&graph), &config, &request)))))
}

/// How long something takes, many times over.
fn spread(mut work: impl FnMut()) -> Spread {
    let mut samples: Vec<Duration> = (0..SAMPLES)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    samples.sort();
    Spread { median: samples[SAMPLES / 2], p99: samples[SAMPLES * 99 / 100] }
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    times[times.len() / 2]
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
