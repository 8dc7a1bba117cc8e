//! The App: what it may do, which events it gets, and what each account has granted (spec 24 §1, §2).

use std::collections::BTreeSet;

use super::facts::Facts;
use super::{Finding, SERVER};
use crate::config::model::RepoConfig;
use crate::github::setup::{Granted, Permissions, Registered};
use crate::guide::Topic;

/// When a permission is needed.
#[derive(Debug, Clone, Copy)]
enum Need {
    Always,
    /// A repository's configuration asks for what it allows.
    For(fn(&RepoConfig) -> bool),
    /// Where the App is a deployment protection rule, which GitHub tells nobody; an Enterprise Server has none.
    ProtectionRule,
}

struct Permission {
    name: &'static str,
    level: &'static str,
    need: Need,
    /// What does not work without it.
    without: &'static str,
}

const PERMISSIONS: [Permission; 8] = [
    Permission { name: "metadata", level: "read", need: Need::Always, without: "no repository can be read" },
    Permission {
        name: "contents",
        level: "read",
        need: Need::Always,
        without: "configuration and branches cannot be read",
    },
    Permission {
        name: "pull_requests",
        level: "write",
        need: Need::Always,
        without: "pull requests can be neither read nor commented on",
    },
    Permission { name: "checks", level: "write", need: Need::Always, without: "no check can be written" },
    Permission { name: "actions", level: "write", need: Need::Always, without: "nothing can be dispatched" },
    Permission {
        name: "issues",
        level: "write",
        need: Need::For(|policy| policy.drift.open_issue),
        without: "drift.open_issue opens no issue",
    },
    Permission {
        name: "members",
        level: "read",
        need: Need::For(|policy| !policy.apply.allowed_teams.is_empty() || policy.apply.require_codeowner_review),
        without: "apply.allowed_teams and owning teams refuse everybody",
    },
    Permission {
        name: "deployments",
        level: "write",
        need: Need::ProtectionRule,
        without: "deployment protection rules get no answer",
    },
];

/// With these a stolen key of the App could do what it must not.
const NEVER: [&str; 4] = ["administration", "environments", "secrets", "workflows"];

/// Events that something is done about.
const EVENTS: [&str; 6] = ["pull_request", "issue_comment", "push", "check_run", "workflow_run", "workflow_job"];
/// Events that are asked for and only looked at, or only useful for some.
const EVENTS_OF_USE: [&str; 3] = ["pull_request_review", "check_suite", "deployment_protection_rule"];

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let registered = match &facts.registered {
        Err(reason) => {
            return vec![Finding::problem(
                Topic::AppKey,
                SERVER,
                format!("GitHub does not know the App by its key: {reason}"),
                "Check GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY, GITHUB_API_URL and the clock.",
            )];
        }
        Ok(registered) => registered,
    };
    let mut found =
        vec![Finding::ok(Topic::AppKey, SERVER, format!("GitHub knows the App by its key as {}", registered.slug))];
    found.push(permissions(facts, registered));
    found.extend(excess(registered));
    found.push(events(facts, &registered.events));
    found.extend(installations(facts));
    found
}

fn permissions(facts: &Facts, registered: &Registered) -> Finding {
    let fix = "Change the permissions in the App's settings, then accept them in each account's installation.";
    let (needed, optional) = missing(facts, &registered.permissions);
    if !needed.is_empty() {
        return Finding::problem(Topic::Permissions, SERVER, format!("the App lacks {}", needed.join("; ")), fix);
    }
    if !optional.is_empty() {
        return Finding::warning(Topic::Permissions, SERVER, format!("the App lacks {}", optional.join("; ")), fix);
    }
    Finding::ok(Topic::Permissions, SERVER, "the App asks for every permission it needs")
}

/// What is lacking: what is needed now, then what would be needed some day.
fn missing(facts: &Facts, granted: &Permissions) -> (Vec<String>, Vec<String>) {
    let (mut needed, mut optional) = (Vec::new(), Vec::new());
    for permission in PERMISSIONS.iter().filter(|permission| !allows(granted, permission.name, permission.level)) {
        let lack = format!("{}: {} (else {})", permission.name, permission.level, permission.without);
        match permission.need {
            Need::Always => needed.push(lack),
            Need::For(asks) if facts.repositories.iter().any(|repository| asks(&repository.policy)) => {
                needed.push(lack)
            }
            Need::For(_) => {}
            Need::ProtectionRule if facts.is_enterprise => {}
            Need::ProtectionRule => optional.push(lack),
        }
    }
    (needed, optional)
}

fn allows(granted: &Permissions, name: &str, level: &str) -> bool {
    granted.get(name).is_some_and(|had| had == level || matches!((had.as_str(), level), ("write" | "admin", "read")))
}

fn excess(registered: &Registered) -> Option<Finding> {
    let held: Vec<&str> = NEVER.into_iter().filter(|name| registered.permissions.contains_key(*name)).collect();
    (!held.is_empty()).then(|| {
        Finding::warning(
            Topic::Permissions,
            SERVER,
            format!("the App may use {}, which it never needs", held.join(", ")),
            "Take these permissions away in the App's settings: whoever steals its key has them too.",
        )
    })
}

fn events(facts: &Facts, subscribed: &BTreeSet<String>) -> Finding {
    let fix = "Subscribe to them under \"Permissions & events\" in the App's settings.";
    let lacks = |events: &[&'static str]| -> Vec<&'static str> {
        let wanted = events.iter().filter(|event| !(facts.is_enterprise && **event == "deployment_protection_rule"));
        wanted.copied().filter(|event| !subscribed.contains(*event)).collect()
    };
    let (needed, useful) = (lacks(&EVENTS), lacks(&EVENTS_OF_USE));
    if !needed.is_empty() {
        let what = format!("the App is not told of {}", needed.join(", "));
        return Finding::problem(Topic::Events, SERVER, what, fix);
    }
    if !useful.is_empty() {
        let what = format!("the App is not told of {}", useful.join(", "));
        return Finding::warning(Topic::Events, SERVER, what, fix);
    }
    Finding::ok(Topic::Events, SERVER, "the App is told of every event it needs")
}

fn installations(facts: &Facts) -> Vec<Finding> {
    let granted = match &facts.granted {
        Err(reason) => {
            let what = format!("installations cannot be listed: {reason}");
            return vec![Finding::problem(Topic::Installations, SERVER, what, "Run the doctor again.")];
        }
        Ok(granted) if granted.is_empty() => {
            return vec![Finding::warning(
                Topic::Installations,
                SERVER,
                "the App is installed nowhere",
                "Install it on the account that owns the repositories.",
            )];
        }
        Ok(granted) => granted,
    };
    granted.iter().map(|one| installation(facts, one)).collect()
}

fn installation(facts: &Facts, one: &Granted) -> Finding {
    if one.suspended {
        let what = "the installation is suspended, so nothing is done for its repositories";
        return Finding::warning(
            Topic::Installations,
            &one.account,
            what,
            "Lift the suspension, or uninstall the App.",
        );
    }
    let (mut lacking, _) = missing(facts, &one.permissions);
    let silent: Vec<&str> = EVENTS.into_iter().filter(|event| !one.events.contains(*event)).collect();
    if !silent.is_empty() {
        lacking.push(format!("events: {}", silent.join(", ")));
    }
    if lacking.is_empty() {
        return Finding::ok(Topic::Installations, &one.account, "the account has granted what the App needs");
    }
    Finding::problem(
        Topic::Installations,
        &one.account,
        format!("the account has not granted {}", lacking.join("; ")),
        "An owner of the account accepts the new permissions under Settings, GitHub Apps.",
    )
}
