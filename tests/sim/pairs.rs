//! Which pairs of a status and an event the state machines met, as their own trace events tell.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use stackorder::run::status::{ApplyEvent, PAIRS, PlanEvent, RowStatus};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest};
use tracing::{Event, Metadata};

use RowStatus::{Applied, Applying, Blocked as BlockedRow, Noop, Pending, Planned, Planning, Skipped, Unknown};

/// How often each pair was met on this thread, by its name: `apply planned started`.
#[derive(Debug, Clone, Default)]
pub struct Pairs(Arc<Mutex<BTreeMap<String, u64>>>);

impl Pairs {
    /// Listens until the guard is dropped.
    pub fn listen(&self) -> DefaultGuard {
        tracing::subscriber::set_default(Listener(self.clone()))
    }

    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.0.lock().expect("one thread").clone()
    }
}

/// Whether a pair is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// In two thousand seeds for sure.
    Often,
    /// Possible, but by such a chain of accidents that two thousand seeds may miss it.
    Seldom,
    /// The reason is beside the pair.
    Never,
}

/// Every pair, by its name.
pub fn all() -> Vec<(String, Met)> {
    let plan = RowStatus::ALL.iter().flat_map(|status| {
        PlanEvent::ALL.iter().map(move |event| (format!("plan {status} {event}"), of_plan(*status, *event)))
    });
    let apply = RowStatus::ALL.iter().flat_map(|status| {
        ApplyEvent::ALL.iter().map(move |event| (format!("apply {status} {event}"), of_apply(*status, *event)))
    });
    plan.chain(apply).collect()
}

fn of_plan(status: RowStatus, event: PlanEvent) -> Met {
    use PlanEvent::*;
    match (status, event) {
        // No row of a plan is ever in these.
        (Applying | Applied | BlockedRow | Noop, _) => Met::Never,
        // A repeat, which is told apart before.
        (RowStatus::Failed, Failed) => Met::Never,
        (Pending, _) | (Planning, Started | Succeeded | Vanished) | (Planned, Started | Vanished) => Met::Often,
        (RowStatus::Failed | RowStatus::Unconfirmed | Unknown, Started) => Met::Often,
        // A second attempt that comes to another end, and rows that a second upload left out.
        (Planning | Planned | RowStatus::Failed | RowStatus::Unconfirmed | Unknown | Skipped, _) => Met::Seldom,
    }
}

fn of_apply(status: RowStatus, event: ApplyEvent) -> Met {
    use ApplyEvent::*;
    match (status, event) {
        // Rows are planned, or left out, before anybody sees them.
        (Pending, LeftOut) => Met::Often,
        (Pending | Planning, _) => Met::Never,
        (Planned, Unconfirmed) => Met::Seldom,
        (Planned, _) => Met::Often,
        (Applying, Started | Succeeded | Failed | Vanished) => Met::Often,
        (Applying, Unconfirmed) => Met::Seldom,
        // A row that was dispatched is in a wave that was opened, and only later ones are blocked, settled or left out.
        (Applying, Blocked | Empty | CarriedOver | LeftOut) => Met::Never,
        (Applied | RowStatus::Failed | RowStatus::Unconfirmed | Unknown, Started) => Met::Often,
        (Applied, Vanished) => Met::Often,
        (RowStatus::Failed | RowStatus::Unconfirmed, Vanished) => Met::Seldom,
        // What is reported after its dispatch was closed.
        (Unknown, Succeeded | Failed | Unconfirmed) => Met::Seldom,
        (Unknown, Vanished) => Met::Never,
        // A repeat, or a second report of a job that reports once.
        (Applied | RowStatus::Failed | RowStatus::Unconfirmed, Succeeded | Failed | Unconfirmed) => Met::Never,
        (Applied | RowStatus::Failed | RowStatus::Unconfirmed | Unknown, Blocked | Empty | CarriedOver | LeftOut) => {
            Met::Never
        }
        (BlockedRow, Blocked) => Met::Often,
        // It waits for one predecessor while another one breaks.
        (Skipped, Blocked) => Met::Seldom,
        // Nothing is dispatched for them, and nothing of an earlier wave is open any more.
        (BlockedRow | Noop | Skipped, _) => Met::Never,
    }
}

struct Listener(Pairs);

impl tracing::Subscriber for Listener {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target() == PAIRS { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == PAIRS
    }

    fn event(&self, event: &Event<'_>) {
        let mut name = Name(String::with_capacity(32));
        event.record(&mut name);
        *self.0.0.lock().expect("one thread").entry(name.0).or_default() += 1;
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The machine, the status and the event, in the order in which they are told.
struct Name(String);

impl Visit for Name {
    fn record_str(&mut self, _: &Field, value: &str) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(value);
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
