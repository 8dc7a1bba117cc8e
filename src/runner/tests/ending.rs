//! Processes that are asked to end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::world::World;
use crate::redaction::Redactor;
use crate::runner::process::{Cut, Hearers, Output, Spec, Watch, run};

/// Long enough for a shell to start on a busy machine.
const CAP: Duration = Duration::from_secs(3);

#[tokio::test]
async fn failure_21_at_the_end_of_its_time_the_tool_is_interrupted_and_may_keep_its_state() {
    let world = World::new().await;
    let mut limits = world.local_job().limits;
    limits.cap = Some((tokio::time::Instant::now() + CAP, "350m".to_owned()));
    let (console, redactor) = (world.local_job().console, Arc::new(Redactor::new()));
    let args = ["-c", "trap 'echo the state is kept; exit 0' INT; while true; do sleep 0.05; done"].map(str::to_owned);
    let env = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    let spec = Spec {
        program: "bash",
        args: &args,
        directory: &world.root,
        env: &env,
        output: Output::Console,
        hearers: Hearers::Itself,
    };
    let mut told = Vec::new();

    let watch = Watch { limits: &limits, console: &console, redactor: &redactor };
    let ended = run(spec, watch, async |cut| told.push(cut)).await.unwrap();

    assert_eq!((ended.exit_code, ended.cut), (0, Some(Cut::TimedOut("350m".to_owned()))), "interrupted, not killed");
    assert_eq!(told, [Cut::TimedOut("350m".to_owned())], "the server is told at once");
    assert!(world.printed().contains("the state is kept"), "{}", world.printed());
}
