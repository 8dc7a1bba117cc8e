//! Where a short text goes on: the headings of `docs/troubleshooting.md`.
//!
//! Whoever refuses, warns or does not know names a [`Topic`], and the text ends with its address. A test compares the list
//! with the guide, so that no link leads nowhere and no heading is written for nobody.

/// The guide in the repository this program is published from.
const GUIDE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/troubleshooting.md");

/// Begins the anchor of every warning that has a code.
const WARNING: &str = "warning-";
const ANCHOR_BYTES_MAX: usize = 100;

macro_rules! topics {
    ($($name:ident $anchor:literal)+) => {
        /// One heading of the guide.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Topic {
            $($name,)+
        }

        impl Topic {
            pub const ALL: &'static [Topic] = &[$(Topic::$name,)+];

            /// What follows the `#` of its address.
            pub fn anchor(self) -> &'static str {
                match self {
                    $(Topic::$name => $anchor,)+
                }
            }
        }
    };
}

topics! {
    // Refusals of the gate, in the order of spec 30 §5.2.
    NoRequester "refused-no-requester"
    NoWriteAccess "refused-no-write-access"
    NotInTeam "refused-not-in-an-allowed-team"
    TeamsUnreadable "refused-team-membership-is-unreadable"
    PolicyUnreadable "refused-allowed_teams-cannot-be-determined"
    PullMerged "refused-pull-request-is-merged"
    PullClosed "refused-pull-request-is-closed"
    PullDraft "refused-pull-request-is-a-draft"
    PullOtherBase "refused-another-base-branch"
    PullConflicts "refused-conflicts-with-the-base-branch"
    MergeabilityUnknown "refused-mergeability-is-not-known-yet"
    BaseMovedOn "refused-the-base-branch-has-moved-on"
    TooFewApprovals "refused-too-few-approvals"
    FourEyes "refused-four-eyes"
    NoCodeowners "refused-no-codeowners"
    NoOwnerApproval "refused-no-approval-by-a-code-owner"
    NoPlan "refused-no-plan-of-the-head-commit"
    NoUsablePlan "refused-no-usable-plan"
    PlanNotFinished "refused-planning-has-not-finished"
    PlanNotSuccessful "refused-planning-did-not-succeed"
    PlanUsed "refused-the-plan-was-used"
    NoGraph "refused-the-plans-have-no-graph"
    PlansChanged "refused-the-plans-changed-after-the-review"
    VerdictFail "refused-verdict-fail"
    NoVerdict "refused-no-verdict"
    StackLocked "refused-the-stack-is-locked"
    ApplyInFlight "refused-another-apply-is-running"
    // What nobody knows, and how an apply ended.
    ApplyUnknown "unknown-the-job-may-have-applied"
    ApplyNeverStarted "unknown-nothing-was-applied"
    PlanUnknown "unknown-the-plan-job-vanished"
    Unconfirmed "unconfirmed"
    PlanFailed "f1-a-plan-failed"
    ApplyFailed "f2-an-apply-failed"
    NewPlans "f24-a-plan-changes-after-its-upstream-is-applied"
    // Warnings of a run that have no code.
    DispatchRejected "f8-github-rejects-a-dispatch"
    WorkflowRunNotFound "warning-workflow-run-not-found"
    DispatchNotSent "warning-the-dispatch-could-not-be-sent"
    Abandoned "f12-an-apply-that-never-began"
    PlanWorkflowEnded "warning-the-plan-workflow-ended-early"
    ChecksRefused "warning-checks-are-refused"
    NoSuchStack "warning-no-stack-of-this-head"
    ExternalDependent "warning-a-dependent-in-another-repository"
    // Refusals of the command line, exit code 3.
    ServerUnreachable "exit-3-the-server-cannot-be-reached"
    ServerForbids "exit-3-forbidden"
    ServerConflict "exit-3-conflict"
    ServerRefuses "exit-3-refused"
    RunSuperseded "exit-3-superseded"
    LockMissing "exit-3-locked"
    OtherCommit "exit-3-another-commit-is-checked-out"
    BundleMissing "exit-3-the-plan-could-not-be-fetched"
    BundleDiffers "exit-3-not-the-plan-that-was-approved"
    BundleSealed "exit-3-the-bundle-cannot-be-opened"
    FreshPlanDiffers "exit-3-the-fresh-plan-differs"
    // Checks of `stackorder admin doctor`.
    Database "doctor-database"
    Leader "doctor-leader"
    DeadLetters "doctor-dead-letters"
    ServerAddress "doctor-address"
    Clock "doctor-clock"
    AppKey "doctor-app"
    Permissions "doctor-permissions"
    Events "doctor-events"
    Installations "doctor-installations"
    Webhook "doctor-webhook"
    Deliveries "doctor-deliveries"
    Workflows "doctor-workflows"
    RequiredChecks "doctor-required-checks"
    Environments "doctor-environments"
}

impl Topic {
    pub fn url(self) -> String {
        format!("{GUIDE}#{}", self.anchor())
    }

    /// The end of a Markdown text: a link in its own words.
    pub fn link(self) -> String {
        link(&self.url())
    }

    /// The end of a text on a terminal or in a log: a line of its own.
    pub fn hint(self) -> String {
        format!("why and what to do: {}", self.url())
    }
}

/// A link to an address of the guide, in the words that all of them have.
pub fn link(url: &str) -> String {
    format!("[why and what to do]({url})")
}

/// Codes of the warnings of a scan and of a resolution, each with a heading of its own; sorted.
pub const WARNING_CODES: &[&str] = &[
    "applied_and_gone",
    "applied_before",
    "archive_without_plan_files",
    "backend_not_literal",
    "backend_other",
    "backend_refused",
    "backend_second",
    "configuration_differs",
    "depends_on_invalid",
    "depends_on_itself",
    "depends_on_unknown",
    "environment_default",
    "environment_unused",
    "exclude_unused",
    "file_read_unresolved",
    "file_reads_too_many",
    "file_set_links",
    "file_too_large",
    "file_unreadable",
    "ignore_glob",
    "include_excluded",
    "include_missing",
    "include_without_backend",
    "inferred_ignored",
    "key_mismatch",
    "module_cycle",
    "module_in_submodule",
    "module_itself",
    "module_local_and_git",
    "module_no_source",
    "module_not_directory",
    "module_outside",
    "module_twice",
    "module_unresolved",
    "module_unsupported",
    "module_version_on_local",
    "module_without_path",
    "modules_too_deep",
    "no_lock_file",
    "not_schedulable",
    "nothing_affected",
    "only_tofu_files",
    "override_without_base",
    "path_unowned",
    "remote_state_unresolved",
    "requested_external",
    "requested_instances",
    "requested_not_schedulable",
    "requested_unknown",
    "root_is_stack",
    "settings_unresolved",
    "stack_incomplete",
    "stack_removed",
    "stack_unread",
    "state_key_unknown",
    "state_shared",
    "syntax",
    "use_lockfile_not_boolean",
    "var_file_auto_loaded",
    "var_file_missing",
    "var_file_outside",
    "var_file_undeclared_instance",
    "watch_globs",
    "watch_ignored",
    "watch_unused",
];

/// The anchor of a warning with this code; `None` where the guide has none: a newer runner may know more.
pub fn warning_anchor(code: &str) -> Option<String> {
    WARNING_CODES.binary_search(&code).ok().map(|_| format!("{WARNING}{code}"))
}

/// The address of an anchor that is kept with what it explains. Nothing but an anchor becomes part of an address.
pub fn url_of(anchor: &str) -> Option<String> {
    let is_anchor = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    let sound = !anchor.is_empty() && anchor.len() <= ANCHOR_BYTES_MAX && anchor.bytes().all(is_anchor);
    sound.then(|| format!("{GUIDE}#{anchor}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_topic_has_an_anchor_of_its_own() {
        let anchors: BTreeSet<&str> = Topic::ALL.iter().map(|topic| topic.anchor()).collect();
        assert_eq!(anchors.len(), Topic::ALL.len());
        assert!(
            Topic::PlanUsed.url().ends_with("/stackorder/blob/main/docs/troubleshooting.md#refused-the-plan-was-used")
        );
    }

    #[test]
    fn only_what_the_guide_knows_has_an_anchor_and_only_anchors_become_addresses() {
        assert_eq!(warning_anchor("backend_not_literal").as_deref(), Some("warning-backend_not_literal"));
        assert_eq!(warning_anchor("of_a_newer_runner"), None);
        for code in WARNING_CODES {
            let anchor = warning_anchor(code).expect("the list is sorted");
            assert!(url_of(&anchor).is_some_and(|url| url.ends_with(&format!("#{anchor}"))));
        }
        let long = "a".repeat(ANCHOR_BYTES_MAX + 1);
        for text in ["", "a b", "a)[b](c", "a#b", "A", &long] {
            assert_eq!(url_of(text), None, "{text:?}");
        }
    }
}
