//! `stackorder init`.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::json;

use super::{Outcome, colour};
use crate::config::ROOT_FILE;
use crate::init::{Account, Proposal};
use crate::runner::Job;
use crate::runner::console::Format;
use crate::runner::stop::Stop;

#[derive(Debug, Args)]
#[command(after_help = "Writes stackorder.yaml and two workflow files, all of them or none, and replaces nothing \
                        without --force. What it cannot know stands in stackorder.yaml as a comment that asks.\n\n\
                        Examples:\n  stackorder init --dry-run\n  stackorder init --aws-account 123456789012\n  \
                        stackorder init --aws-account 123456789012 --owner-id 583231 --repository-id 1296269")]
pub(super) struct Flags {
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Replace files that exist already
    #[arg(long)]
    force: bool,
    /// AWS account of the roles; without it that of AWS's own examples
    #[arg(long, value_name = "ID")]
    aws_account: Option<String>,
    /// Number of the repository's owner at GitHub (`gh api repos/OWNER/NAME --jq .owner.id`)
    #[arg(long, value_name = "ID", requires = "repository_id")]
    owner_id: Option<u64>,
    /// Number of the repository at GitHub (`gh api repos/OWNER/NAME --jq .id`)
    #[arg(long, value_name = "ID", requires = "owner_id")]
    repository_id: Option<u64>,
}

pub(super) fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let account = flags.account()?;
    let proposal = job.propose(&account)?;
    for warning in &proposal.warnings {
        job.console.note(&format!("warning: {}", colour::harmless(&warning.to_string())));
    }
    if !flags.dry_run {
        job.write_all(&proposal.files, flags.force)?;
    }
    job.console.result(&match job.console.format {
        Format::Json => as_json(&proposal, flags.dry_run),
        Format::Text | Format::Picture(_) => words(&proposal, flags, &job.facts.repo),
    });
    Ok(Outcome::Success)
}

impl Flags {
    fn account(&self) -> Result<Account, Stop> {
        let mut account = match &self.aws_account {
            None => Account::default(),
            Some(id) => Account::parse(id)
                .ok_or_else(|| Stop::failed(format!("--aws-account {id:?}: an account id has twelve digits")))?,
        };
        account.github_ids = self.owner_id.zip(self.repository_id);
        Ok(account)
    }
}

fn as_json(proposal: &Proposal, dry_run: bool) -> String {
    let mut value = json!(proposal);
    value["written"] = json!(!dry_run);
    value.to_string()
}

fn words(proposal: &Proposal, flags: &Flags, repo: &str) -> String {
    let mut parts = vec![found(proposal)];
    if flags.dry_run {
        parts.extend(proposal.files.iter().map(|file| format!("--- {} ---\n{}", file.path, file.content)));
    } else {
        parts.push(proposal.files.iter().map(|file| format!("wrote {}\n", file.path)).collect());
    }
    parts.push("Roles to create in AWS, each with this trust policy:\n".to_owned());
    for role in &proposal.roles {
        let policy = serde_json::to_string_pretty(&role.trust_policy).expect("a policy has text keys");
        parts.push(format!("{}\n  for {}\n{policy}\n", role.arn, colour::harmless(&role.purpose)));
    }
    parts.push(next_steps(proposal, flags, repo));
    parts.join("\n")
}

fn found(proposal: &Proposal) -> String {
    let stacks = match proposal.stacks.len() {
        1 => "1 stack".to_owned(),
        count => format!("{count} stacks"),
    };
    let questions = match proposal.questions.len() {
        0 => String::new(),
        1 => format!("; {ROOT_FILE} asks 1 question"),
        count => format!("; {ROOT_FILE} asks {count} questions"),
    };
    format!("{stacks} found{questions}\n")
}

fn next_steps(proposal: &Proposal, flags: &Flags, repo: &str) -> String {
    let repo = if repo.is_empty() { "OWNER/NAME" } else { repo };
    let environments: BTreeSet<&str> = proposal.stacks.values().map(String::as_str).collect();
    let gated: Vec<&str> = environments.into_iter().filter(|name| *name != "default").collect();
    let mut steps =
        vec![format!("answer the comments in {ROOT_FILE} that begin with `?`, then: stackorder config validate")];
    if flags.aws_account.is_none() {
        steps.push("put your AWS account in place of 111122223333, or call this again with --aws-account".to_owned());
    }
    if flags.owner_id.is_none() {
        steps.push(format!(
            "put the ids in place of <owner-id> and <repository-id>: gh api repos/{repo} --jq '.owner.id, .id'"
        ));
    }
    steps.push("create the roles above, and GitHub's OIDC provider in the account if it has none".to_owned());
    if !gated.is_empty() {
        steps.push(format!("create these environments with their reviewers: {}", colour::harmless(&gated.join(", "))));
    }
    steps.push(
        "leave the environment `default` without reviewers: renewed plans and drift checks run under it".to_owned(),
    );
    steps.push("set the repository's variables STACKORDER_SERVER_URL and STACKORDER_VERSION".to_owned());
    steps.push(
        "require the checks stackorder/plan and stackorder/apply, with the App as their expected source".to_owned(),
    );
    let steps: Vec<String> = steps.iter().enumerate().map(|(at, step)| format!("  {}. {step}", at + 1)).collect();
    format!("Next:\n{}\n", steps.join("\n"))
}
