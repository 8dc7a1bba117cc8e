//! What a repository asks of a merge and of a job: required checks, and environments.

use std::collections::BTreeMap;

use super::Finding;
use super::facts::RepositoryFacts;
use crate::config::model::ApplyMode;
use crate::github::setup::{Environment, RequiredCheck};
use crate::guide::Topic;

const PLAN_CHECK: &str = "stackorder/plan";
const APPLY_CHECK: &str = "stackorder/apply";
/// What plans and drift checks run under.
const DEFAULT: &str = "default";

pub(super) fn findings(repository: &RepositoryFacts, app_id: i64) -> Vec<Finding> {
    let place = repository.name.as_str();
    let mut found = match &repository.required_checks {
        Ok(checks) => required_checks(repository, checks, app_id),
        Err(reason) => {
            let what = format!("required checks of {} cannot be read: {reason}", repository.default_branch);
            let fix = "Check that the App is installed on the repository.";
            vec![Finding::problem(Topic::RequiredChecks, place, what, fix)]
        }
    };
    match &repository.environments {
        Ok(environments) => found.extend(environment_findings(repository, environments)),
        Err(reason) => {
            let what = format!("environments cannot be listed: {reason}");
            let fix = "Check the App's permission actions: read.";
            found.push(Finding::problem(Topic::Environments, place, what, fix));
        }
    }
    found
}

fn required_checks(repository: &RepositoryFacts, checks: &[RequiredCheck], app_id: i64) -> Vec<Finding> {
    let place = repository.name.as_str();
    let sources = |name: &str| -> Vec<Option<i64>> {
        checks.iter().filter(|check| check.name == name).map(|check| check.app_id).collect()
    };
    let mut found = vec![required(repository, PLAN_CHECK, &sources(PLAN_CHECK), app_id)];
    match repository.policy.apply.mode {
        ApplyMode::BeforeMerge => found.push(required(repository, APPLY_CHECK, &sources(APPLY_CHECK), app_id)),
        ApplyMode::OnMerge if sources(APPLY_CHECK).is_empty() => {}
        ApplyMode::OnMerge => found.push(Finding::problem(
            Topic::RequiredChecks,
            place,
            format!(
                "{} requires {APPLY_CHECK}, which apply.mode on_merge never posts before the merge",
                repository.default_branch
            ),
            format!("Remove {APPLY_CHECK} from the branch's required checks."),
        )),
    }
    found
}

/// One check of which several rules may ask: every one must be satisfied, so the one that pins it counts.
fn required(repository: &RepositoryFacts, name: &str, sources: &[Option<i64>], app_id: i64) -> Finding {
    let (place, branch) = (repository.name.as_str(), repository.default_branch.as_str());
    let fix = format!(
        "In the branch's protection or ruleset require {name} with the Stackorder App as its source, not any source."
    );
    if let Some(other) = sources.iter().flatten().find(|source| **source != app_id) {
        let what = format!("{branch} requires {name} from App {other}, and Stackorder is App {app_id}");
        return Finding::problem(Topic::RequiredChecks, place, what, fix);
    }
    if sources.contains(&Some(app_id)) {
        return Finding::ok(Topic::RequiredChecks, place, format!("{branch} requires {name} from the App"));
    }
    let what = match sources {
        [] => format!("{branch} does not require {name}, so a pull request merges without it"),
        _ => format!("{branch} requires {name} from any source, so any job with checks: write can post it"),
    };
    Finding::warning(Topic::RequiredChecks, place, what, fix)
}

fn environment_findings(repository: &RepositoryFacts, environments: &[Environment]) -> Vec<Finding> {
    let place = repository.name.as_str();
    // GitHub compares names of environments without regard to case.
    let by_name: BTreeMap<String, &Environment> =
        environments.iter().map(|environment| (environment.name.to_lowercase(), environment)).collect();
    let mut found = Vec::new();
    if by_name.get(DEFAULT).is_some_and(|default| default.has_reviewers) {
        let what = "environment default has reviewers, so every plan and drift check waits for a person";
        let fix = "Remove the reviewers of default, and map applies to environments of their own.";
        found.push(Finding::problem(Topic::Environments, place, what, fix));
    }
    for (name, stack) in &repository.applied_under {
        if name.eq_ignore_ascii_case(DEFAULT) {
            let what = format!("{stack} applies under environment default, which plans and drift checks use as well");
            let fix = "Map it to an environment of its own under environments in stackorder.yaml, and protect that.";
            found.push(Finding::warning(Topic::Environments, place, what, fix));
            continue;
        }
        let fix = format!(
            "Give environment {name} reviewers, or let only {} deploy to it; where neither is to be had, pin \
             job_workflow_ref in the role's trust policy.",
            repository.default_branch
        );
        let what = match by_name.get(&name.to_lowercase()) {
            Some(environment) if environment.has_reviewers || environment.has_branch_policy => continue,
            Some(_) => {
                format!("environment {name}, under which {stack} applies, has neither reviewers nor a branch policy")
            }
            None => format!(
                "environment {name}, under which {stack} applies, does not exist, and GitHub makes it unprotected"
            ),
        };
        found.push(Finding::warning(Topic::Environments, place, what, fix));
    }
    if found.is_empty() {
        let what = match repository.applied_under.len() {
            0 => "no stack of the default branch is known yet".to_owned(),
            1 => "the environment that applies run under is protected".to_owned(),
            number => format!("the {number} environments that applies run under are protected"),
        };
        found.push(Finding::ok(Topic::Environments, place, what));
    }
    found
}
