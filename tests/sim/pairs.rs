//! Which pairs of a status and an event the state machines met, as their own trace events tell.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use stackorder::run::status::{ApplyEvent, PAIRS, PlanEvent, RowStatus};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest};
use tracing::{Event, Metadata};

use RowStatus::*;

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

/// Every pair, and whether it can be met.
pub fn all() -> Vec<(String, bool)> {
    let plan = RowStatus::ALL.iter().flat_map(|status| {
        PlanEvent::ALL.iter().map(move |event| (format!("plan {status} {event}"), plan_is_possible(*status, *event)))
    });
    let apply = RowStatus::ALL.iter().flat_map(|status| {
        ApplyEvent::ALL.iter().map(move |event| (format!("apply {status} {event}"), apply_is_possible(*status, *event)))
    });
    plan.chain(apply).collect()
}

fn plan_is_possible(status: RowStatus, _: PlanEvent) -> bool {
    !matches!(status, Applying | Applied | Blocked | Noop)
}

fn apply_is_possible(_: RowStatus, _: ApplyEvent) -> bool {
    true
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
