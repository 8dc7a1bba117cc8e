//! The seeded simulation: two servers, one database, GitHub, runners and people, and everything that can go wrong.
//!
//! The orchestrator is the real one, over the store in memory and a model of GitHub, on one thread and one moment at a
//! time. `docs/simulation.md` says how to run more seeds and how to read a failure.
//!
//! - `chance`: where all chance comes from; `faults`: what goes wrong at a boundary.
//! - `store`, `github`: the boundaries; `infrastructure`: what is really deployed.
//! - `world`: one step after the other; `people`, `keys`, `jobs`: who acts.
//! - `laws`: what must be true after every step; `counts`, `pairs`: how often everything was met.

mod chance;
mod counts;
mod faults;
mod github;
mod infrastructure;
mod jobs;
mod keys;
mod laws;
mod pairs;
mod people;
mod store;
mod world;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use counts::Counts;
use pairs::Pairs;
use world::World;

/// Most of the time goes into small texts.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Seeds of a plain `cargo test`, in which everything is met: two minutes on two cores.
const SEEDS: u64 = 2_000;
/// Seeds that broke a promise once.
const KNOWN: [u64; 1] = [368];
/// Failures that each thread tells; more of them say the same.
const TOLD_MAX: usize = 3;
/// Lines of a story that are told: what happened last is what broke it.
const TRACE_MAX: usize = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Lets every seed tell its story on as many threads as there are processors. Those that broke a promise, the first of
/// each thread in words.
fn play(seeds: Range<u64>) -> (Counts, Vec<(u64, Option<String>)>) {
    let next = AtomicU64::new(seeds.start);
    let played = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _timers = runtime.enter();
        let pairs = Pairs::default();
        let _listening = pairs.listen();
        let (mut counts, mut failed) = (Counts::default(), Vec::new());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                counts.add_pairs(&pairs);
                return (counts, failed);
            }
            let mut world = World::of(seed, false);
            world.play();
            counts.add(&world);
            if world.is_broken() {
                failed.push((seed, (failed.len() < TOLD_MAX).then(|| told(seed))));
            }
        }
    };
    let (mut counts, mut failed) = (Counts::default(), Vec::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..std::thread::available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(played)).collect();
        for thread in threads {
            let (more, broken) = thread.join().expect("a world does not panic");
            counts.merge(more);
            failed.extend(broken);
        }
    });
    failed.sort();
    (counts, failed)
}

/// The story of a seed once more, in words.
fn told(seed: u64) -> String {
    let mut world = World::of(seed, true);
    world.play();
    let trace = world.trace();
    let broken = world.laws.lock().expect("one thread").broken.join("\n  ");
    format!("seed {seed}\n{}\n  {broken}", trace[trace.len().saturating_sub(TRACE_MAX)..].join("\n"))
}

#[test]
fn every_seed_keeps_every_promise() {
    let seeds = match number("STACKORDER_SIM_SEED") {
        Some(only) => only..only + 1,
        None => 0..number("STACKORDER_SIM_SEEDS").unwrap_or(SEEDS),
    };
    let (counts, failed) = play(seeds.clone());
    println!("{counts}{} seeds", seeds.end - seeds.start);
    for story in failed.iter().filter_map(|(_, story)| story.as_ref()) {
        println!("\n{story}");
    }
    assert!(
        failed.is_empty(),
        "these seeds broke a promise: {:?}",
        failed.iter().map(|(seed, _)| seed).collect::<Vec<_>>()
    );
    assert_eq!(counts.impossible(), Vec::<String>::new(), "these pairs were taken for impossible");
    if seeds.end - seeds.start >= SEEDS {
        assert_eq!(counts.missing(), Vec::<String>::new(), "these were never met");
    }
}

#[test]
fn seeds_that_broke_a_promise_once_keep_it() {
    for seed in KNOWN {
        let (_, failed) = play(seed..seed + 1);
        assert!(failed.is_empty(), "{}", failed[0].1.as_deref().unwrap_or_default());
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _timers = runtime.enter();
    let story = |seed: u64| {
        let pairs = Pairs::default();
        let _listening = pairs.listen();
        let mut world = World::of(seed, true);
        world.play();
        let mut counts = Counts::default();
        counts.add(&world);
        counts.add_pairs(&pairs);
        (world.trace().to_vec(), counts.to_string())
    };
    for seed in [1, 7, 42] {
        assert_eq!(story(seed), story(seed), "seed {seed}");
    }
}
