//! The statuses of runs and of their rows, and every move between them (spec 21 §4–§5, spec 30 §8).
//!
//! A transition is one total function: every status answers every event. What follows from a move is `settle`'s business.

use serde::{Deserialize, Serialize};

/// Declares an enum whose variants have one spelling each, in JSON and in the database.
macro_rules! spelled {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $variant),+
        }
        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            pub fn parse(text: &str) -> Result<Self, crate::ids::ParseError> {
                match text {
                    $($text => Ok($name::$variant),)+
                    _ => Err(crate::ids::ParseError::new(text, $what)),
                }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

spelled!(
    /// What a run does.
    Mode, "a mode (plan, apply, drift)" { Plan = "plan", Apply = "apply", Drift = "drift" }
);

spelled!(
    /// What started a run.
    Trigger, "a trigger" {
        PullRequest = "pull_request",
        Comment = "comment",
        Push = "push",
        Schedule = "schedule",
        Rerequest = "rerequest",
        Manual = "manual",
        /// A re-plan that an apply run starts for stacks behind an upstream.
        Upstream = "upstream",
    }
);

spelled!(
    RunStatus, "a run status" {
        Pending = "pending",
        Planning = "planning",
        Planned = "planned",
        Applying = "applying",
        Applied = "applied",
        Failed = "failed",
        Unconfirmed = "unconfirmed",
        Superseded = "superseded",
    }
);

spelled!(
    /// The status of one stack in one run.
    RowStatus, "a stack status" {
        Pending = "pending",
        Planning = "planning",
        Planned = "planned",
        Applying = "applying",
        Applied = "applied",
        Failed = "failed",
        Blocked = "blocked",
        Noop = "noop",
        Unconfirmed = "unconfirmed",
        Unknown = "unknown",
        Skipped = "skipped",
    }
);

spelled!(
    /// Why an apply leaves a stack out.
    SkipReason, "a skip reason" {
        NotSelected = "not_selected",
        PlanChanged = "plan_changed",
        Verdict = "verdict",
        Waits = "waits",
    }
);

spelled!(
    VerdictStatus, "a verdict (pass, fail, warn)" { Pass = "pass", Fail = "fail", Warn = "warn" }
);

impl RunStatus {
    /// Nothing moves a run out of these.
    pub fn is_terminal(self) -> bool {
        match self {
            RunStatus::Applied | RunStatus::Failed | RunStatus::Unconfirmed | RunStatus::Superseded => true,
            RunStatus::Pending | RunStatus::Planning | RunStatus::Planned | RunStatus::Applying => false,
        }
    }
}

impl RowStatus {
    pub fn is_terminal(self) -> bool {
        match self {
            RowStatus::Pending | RowStatus::Planning | RowStatus::Planned | RowStatus::Applying => false,
            RowStatus::Applied
            | RowStatus::Failed
            | RowStatus::Blocked
            | RowStatus::Noop
            | RowStatus::Unconfirmed
            | RowStatus::Unknown
            | RowStatus::Skipped => true,
        }
    }

    /// A row of a plan or drift run that needs no more work.
    pub fn is_done_planning(self) -> bool {
        self == RowStatus::Planned || self.is_terminal()
    }

    /// What fails a run and blocks dependents (spec 30 §2).
    pub fn is_broken(self) -> bool {
        match self {
            RowStatus::Failed | RowStatus::Blocked | RowStatus::Unknown | RowStatus::Unconfirmed => true,
            RowStatus::Pending
            | RowStatus::Planning
            | RowStatus::Planned
            | RowStatus::Applying
            | RowStatus::Applied
            | RowStatus::Noop
            | RowStatus::Skipped => false,
        }
    }
}

/// What became of an event. The caller decides what a late one means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move<S> {
    To(S),
    Already,
    Late,
}

spelled!(
    /// What can happen to a row of a plan or drift run.
    PlanEvent, "a plan event" {
        /// Its job was seen to start, or to wait.
        Started = "started",
        Succeeded = "succeeded",
        Failed = "failed",
        Unconfirmed = "unconfirmed",
        /// Its workflow run ended, or was never found, without a result.
        Vanished = "vanished",
    }
);

spelled!(
    /// What can happen to a row of an apply run.
    ApplyEvent, "an apply event" {
        /// Its job was seen to start, to wait for an environment, or claimed it.
        Started = "started",
        Succeeded = "succeeded",
        Failed = "failed",
        Unconfirmed = "unconfirmed",
        Vanished = "vanished",
        /// A predecessor broke.
        Blocked = "blocked",
        /// Its wave opened and there is nothing to do.
        Empty = "empty",
        /// Already applied from the same plan by an earlier run.
        CarriedOver = "carried_over",
        /// Its plan changed, or it waits for a stack whose plan changed.
        LeftOut = "left_out",
    }
);

/// Target of the trace events that name each pair of a status and an event as it is met.
pub const PAIRS: &str = "stackorder::run::pairs";

impl RowStatus {
    /// Moves of a plan or drift row (spec 21 §5).
    ///
    /// | from | event | to |
    /// | --- | --- | --- |
    /// | pending | started | planning |
    /// | pending, planning, unknown, failed | succeeded, failed, unconfirmed | planned, failed, unconfirmed |
    /// | pending, planning | vanished | unknown |
    /// | anything else | | late, or already there |
    pub fn on_plan(self, event: PlanEvent) -> Move<RowStatus> {
        tracing::trace!(target: PAIRS, machine = "plan", status = self.as_str(), event = event.as_str());
        let next = match event {
            PlanEvent::Started => RowStatus::Planning,
            PlanEvent::Succeeded => RowStatus::Planned,
            PlanEvent::Failed => RowStatus::Failed,
            PlanEvent::Unconfirmed => RowStatus::Unconfirmed,
            PlanEvent::Vanished => RowStatus::Unknown,
        };
        match self {
            _ if self == next => Move::Already,
            RowStatus::Pending => Move::To(next),
            RowStatus::Planning => Move::To(next),
            // A report beats a guess, and a repeated plan job may repair a failed row (spec 21 §4).
            RowStatus::Unknown | RowStatus::Failed
                if matches!(next, RowStatus::Planned | RowStatus::Failed | RowStatus::Unconfirmed) =>
            {
                Move::To(next)
            }
            RowStatus::Planned
            | RowStatus::Applying
            | RowStatus::Applied
            | RowStatus::Failed
            | RowStatus::Blocked
            | RowStatus::Noop
            | RowStatus::Unconfirmed
            | RowStatus::Unknown
            | RowStatus::Skipped => Move::Late,
        }
    }

    /// Moves of an apply row (spec 21 §5).
    ///
    /// | from | event | to |
    /// | --- | --- | --- |
    /// | pending, planned | any | the status it asks for |
    /// | applying | succeeded, failed, unconfirmed, vanished | applied, failed, unconfirmed, unknown |
    /// | unknown | succeeded, failed, unconfirmed | applied, failed, unconfirmed |
    /// | blocked | blocked | already there (another key joins `blocked_by`) |
    /// | anything else | | late, or already there |
    pub fn on_apply(self, event: ApplyEvent) -> Move<RowStatus> {
        tracing::trace!(target: PAIRS, machine = "apply", status = self.as_str(), event = event.as_str());
        let next = match event {
            ApplyEvent::Started => RowStatus::Applying,
            ApplyEvent::Succeeded | ApplyEvent::CarriedOver => RowStatus::Applied,
            ApplyEvent::Failed => RowStatus::Failed,
            ApplyEvent::Unconfirmed => RowStatus::Unconfirmed,
            ApplyEvent::Vanished => RowStatus::Unknown,
            ApplyEvent::Blocked => RowStatus::Blocked,
            ApplyEvent::Empty => RowStatus::Noop,
            ApplyEvent::LeftOut => RowStatus::Skipped,
        };
        let reported = matches!(event, ApplyEvent::Succeeded | ApplyEvent::Failed | ApplyEvent::Unconfirmed);
        match self {
            _ if self == next => Move::Already,
            RowStatus::Pending | RowStatus::Planned => Move::To(next),
            RowStatus::Applying if reported || event == ApplyEvent::Vanished => Move::To(next),
            // A report beats a guess: the job had vanished only from our sight.
            RowStatus::Unknown if reported => Move::To(next),
            RowStatus::Planning
            | RowStatus::Applying
            | RowStatus::Applied
            | RowStatus::Failed
            | RowStatus::Blocked
            | RowStatus::Noop
            | RowStatus::Unconfirmed
            | RowStatus::Unknown
            | RowStatus::Skipped => Move::Late,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The allowed moves, one line a status: what each event in turn leads to (`.` late, `=` already there).
    fn table<E: Copy>(events: &[E], step: impl Fn(RowStatus, E) -> Move<RowStatus>) -> Vec<String> {
        RowStatus::ALL
            .iter()
            .map(|from| {
                let moves: Vec<&str> = events
                    .iter()
                    .map(|event| match step(*from, *event) {
                        Move::To(to) => to.as_str(),
                        Move::Already => "=",
                        Move::Late => ".",
                    })
                    .collect();
                format!("{from}: {}", moves.join(" "))
            })
            .collect()
    }

    #[test]
    fn every_pair_of_a_plan_row_is_as_the_table_says() {
        assert_eq!(
            table(PlanEvent::ALL, RowStatus::on_plan),
            [
                "pending: planning planned failed unconfirmed unknown",
                "planning: = planned failed unconfirmed unknown",
                "planned: . = . . .",
                "applying: . . . . .",
                "applied: . . . . .",
                "failed: . planned = unconfirmed .",
                "blocked: . . . . .",
                "noop: . . . . .",
                "unconfirmed: . . . = .",
                "unknown: . planned failed unconfirmed =",
                "skipped: . . . . .",
            ]
        );
    }

    #[test]
    fn every_pair_of_an_apply_row_is_as_the_table_says() {
        assert_eq!(
            table(ApplyEvent::ALL, RowStatus::on_apply),
            [
                "pending: applying applied failed unconfirmed unknown blocked noop applied skipped",
                "planning: . . . . . . . . .",
                "planned: applying applied failed unconfirmed unknown blocked noop applied skipped",
                "applying: = applied failed unconfirmed unknown . . . .",
                "applied: . = . . . . . = .",
                "failed: . . = . . . . . .",
                "blocked: . . . . . = . . .",
                "noop: . . . . . . = . .",
                "unconfirmed: . . . = . . . . .",
                "unknown: . applied failed unconfirmed = . . . .",
                "skipped: . . . . . . . . =",
            ]
        );
    }

    #[test]
    fn what_is_broken_is_terminal() {
        for status in RowStatus::ALL {
            assert!(!status.is_broken() || status.is_terminal(), "{status}");
        }
    }

    #[test]
    fn spellings_are_parsed_back() {
        for status in RowStatus::ALL {
            assert_eq!(RowStatus::parse(status.as_str()), Ok(*status));
        }
        assert!(RowStatus::parse("Planned").is_err());
    }
}
