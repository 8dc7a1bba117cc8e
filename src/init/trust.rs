//! The roles that jobs assume by GitHub's OIDC tokens, and the subjects whom each of them trusts (spec 13 §10).
//!
//! A subject names the repository and, for applies, the environment. Repositories that were made, renamed or moved
//! after the middle of July 2026 have subjects with the ids of owner and repository; both shapes are written down
//! exactly, because a pattern with `*` would trust names that somebody else can choose.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::ids::hex;

/// What is known of the AWS account and of GitHub's ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    id: String,
    /// Numbers of the repository's owner and of the repository, as the API gives them.
    pub github_ids: Option<(u64, u64)>,
}

impl Default for Account {
    /// The account of AWS's own examples.
    fn default() -> Self {
        Self { id: "111122223333".to_owned(), github_ids: None }
    }
}

impl Account {
    /// Twelve digits.
    pub fn parse(id: &str) -> Option<Self> {
        let is_id = id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_digit());
        is_id.then(|| Self { id: id.to_owned(), github_ids: None })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    fn arn(&self, role: &str) -> String {
        format!("arn:aws:iam::{}:role/{role}", self.id)
    }

    pub(super) fn apply_arn(&self, environment: &str) -> String {
        self.arn(&apply_role(environment))
    }
}

/// A role to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Role {
    pub name: String,
    pub arn: String,
    /// Which jobs assume it.
    pub purpose: String,
    pub trust_policy: Value,
}

/// Longest name of a role in AWS.
const ROLE_NAME_BYTES_MAX: usize = 64;

/// The role for plans, and one for the applies of each environment.
pub(super) fn roles(repo: &str, host: &str, account: &Account, environments: &BTreeSet<String>) -> Vec<Role> {
    let trust = Trust { repo, host, account };
    let plan = Role {
        name: "plan".to_owned(),
        arn: account.arn("plan"),
        purpose: "plans and drift checks: reads state, and what providers read".to_owned(),
        trust_policy: trust.policy(&["pull_request", "environment:default"]),
    };
    let apply = environments.iter().map(|environment| {
        let name = apply_role(environment);
        // GitHub writes the colon of a name like this, so that a name cannot pose as another part.
        let context = format!("environment:{}", environment.replace(':', "%3A"));
        Role { arn: account.arn(&name), name, purpose: purpose(environment), trust_policy: trust.policy(&[&context]) }
    });
    std::iter::once(plan).chain(apply).collect()
}

fn purpose(environment: &str) -> String {
    let warning = match environment {
        "default" => "; plans run under it, too, so any of them could assume this role: rather name an environment",
        _ => "",
    };
    format!("applies under {environment}: writes state and its lock, and what providers write{warning}")
}

/// AWS takes letters, digits and a few signs. A name that has to be changed for that ends in a part of its digest:
/// two environments with one role would let either do what only the other was given reviewers for.
fn apply_role(environment: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "_+=,.@-".contains(c) { c } else { '-' };
    let name: String = environment.chars().map(allowed).collect();
    let role = format!("apply-{name}");
    if name == environment && role.len() <= ROLE_NAME_BYTES_MAX {
        return role;
    }
    let digest = &hex(&Sha256::digest(environment))[..8];
    let cut: String = role.chars().take(ROLE_NAME_BYTES_MAX - digest.len() - 1).collect();
    format!("{cut}-{digest}")
}

struct Trust<'a> {
    repo: &'a str,
    host: &'a str,
    account: &'a Account,
}

impl Trust<'_> {
    fn policy(&self, contexts: &[&str]) -> Value {
        let issuer = match self.host {
            "github.com" => "token.actions.githubusercontent.com".to_owned(),
            // Enterprise Cloud with data residency, unlike an Enterprise Server.
            host if host.ends_with(".ghe.com") => format!("token.actions.{host}"),
            host => format!("{host}/_services/token"),
        };
        let subjects: Vec<String> =
            self.prefixes().iter().flat_map(|prefix| contexts.iter().map(move |it| format!("{prefix}:{it}"))).collect();
        json!({
            "Version": "2012-10-17",
            "Statement": [{
                "Effect": "Allow",
                "Principal": { "Federated": format!("arn:aws:iam::{}:oidc-provider/{issuer}", self.account.id) },
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {
                    "StringEquals": {
                        format!("{issuer}:aud"): "sts.amazonaws.com",
                        format!("{issuer}:sub"): subjects,
                    }
                }
            }]
        })
    }

    /// The repository in both shapes of subjects; without ids the second one trusts nobody.
    fn prefixes(&self) -> [String; 2] {
        let (owner, name) = self.repo.split_once('/').unwrap_or((OWNER, REPOSITORY));
        let (owner_id, repository_id) = match self.account.github_ids {
            Some((owner_id, repository_id)) => (owner_id.to_string(), repository_id.to_string()),
            None => (OWNER_ID.to_owned(), REPOSITORY_ID.to_owned()),
        };
        [format!("repo:{owner}/{name}"), format!("repo:{owner}@{owner_id}/{name}@{repository_id}")]
    }
}

/// What a person has to fill in where nothing is known; none of these can be a name or an id.
const OWNER: &str = "<owner>";
const REPOSITORY: &str = "<repository>";
const OWNER_ID: &str = "<owner-id>";
const REPOSITORY_ID: &str = "<repository-id>";

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(role: &Role) -> Vec<&str> {
        let condition = &role.trust_policy["Statement"][0]["Condition"]["StringEquals"];
        let subjects = condition.as_object().unwrap().iter().find(|(key, _)| key.ends_with(":sub")).unwrap().1;
        subjects.as_array().unwrap().iter().map(|subject| subject.as_str().unwrap()).collect()
    }

    #[test]
    fn each_role_trusts_its_own_jobs_in_both_shapes_of_subjects() {
        let account = Account { github_ids: Some((7, 42)), ..Account::default() };
        let roles = roles("acme/infra", "github.com", &account, &["prod".to_owned(), "eu/1".to_owned()].into());
        assert_eq!(
            roles.iter().map(|role| role.name.as_str()).collect::<Vec<_>>(),
            ["plan", "apply-eu-1-799252df", "apply-prod"]
        );
        assert_eq!(
            subjects(&roles[0]),
            [
                "repo:acme/infra:pull_request",
                "repo:acme/infra:environment:default",
                "repo:acme@7/infra@42:pull_request",
                "repo:acme@7/infra@42:environment:default",
            ]
        );
        assert_eq!(subjects(&roles[2]), ["repo:acme/infra:environment:prod", "repo:acme@7/infra@42:environment:prod"]);
        let text = serde_json::to_string(&roles).unwrap();
        assert!(!text.contains('*'), "no pattern: {text}");
        assert_eq!(
            roles[0].trust_policy["Statement"][0]["Condition"]["StringEquals"]["token.actions.githubusercontent.com:aud"],
            "sts.amazonaws.com"
        );
    }

    #[test]
    fn no_two_environments_share_a_role() {
        let long = "x".repeat(58);
        let names = ["eu/1", "eu-1", "eu:1", &long, &format!("{long}y"), &format!("{long}z")].map(str::to_owned);
        let roles = roles("acme/infra", "github.com", &Account::default(), &names.into());
        let distinct: BTreeSet<&str> = roles.iter().map(|role| role.name.as_str()).collect();
        assert_eq!(distinct.len(), 7, "{distinct:?}");
        assert!(distinct.contains("apply-eu-1") && distinct.iter().all(|name| name.len() <= 64), "{distinct:?}");
        for role in &roles[1..] {
            assert_eq!(subjects(role).len(), 2, "one environment in both shapes: {role:?}");
        }
    }

    #[test]
    fn every_kind_of_github_has_its_own_issuer() {
        for (host, issuer) in [
            ("github.com", "token.actions.githubusercontent.com"),
            ("acme.ghe.com", "token.actions.acme.ghe.com"),
            ("github.acme.io", "github.acme.io/_services/token"),
        ] {
            let plan = &roles("acme/infra", host, &Account::default(), &BTreeSet::new())[0];
            let provider = &plan.trust_policy["Statement"][0]["Principal"]["Federated"];
            assert_eq!(provider, &format!("arn:aws:iam::111122223333:oidc-provider/{issuer}"));
        }
    }

    #[test]
    fn what_is_not_known_is_left_to_fill_in_and_trusts_nobody() {
        let roles = roles("", "github.acme.io", &Account::default(), &BTreeSet::new());
        assert_eq!(subjects(&roles[0])[0], "repo:<owner>/<repository>:pull_request");
        assert_eq!(subjects(&roles[0])[2], "repo:<owner>@<owner-id>/<repository>@<repository-id>:pull_request");
        let provider = &roles[0].trust_policy["Statement"][0]["Principal"]["Federated"];
        assert_eq!(provider, "arn:aws:iam::111122223333:oidc-provider/github.acme.io/_services/token");
        assert_eq!((Account::parse("12345"), Account::parse("11112222333x")), (None, None));
    }
}
