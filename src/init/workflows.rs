//! The two workflow files: those of the sample repository, which the README shows, with other roles.

use std::collections::BTreeSet;

use super::{Account, NewFile, WORKFLOWS};

const PLAN: &str = include_str!("../../demo/repository/.github/workflows/stackorder-plan.yml");
const RUN: &str = include_str!("../../demo/repository/.github/workflows/stackorder-run.yml");

/// Begins the map of roles, which stands at the end of the sample's file.
const ROLE_MAP: &str = "      aws-role-arn-map: >-\n";
/// The account of the sample's roles.
const SAMPLE_ACCOUNT: &str = "111122223333";

/// Both files for these environments of applies.
pub(super) fn files(account: &Account, environments: &BTreeSet<String>) -> Vec<NewFile> {
    let file = |name: &str, content: String| NewFile { path: format!("{WORKFLOWS}/{name}"), content };
    let (before, _) = RUN.split_once(ROLE_MAP).expect("a test reads the sample's file");
    let arns: Vec<String> = environments
        .iter()
        .map(|name| {
            let (key, arn) = (format!("@{name}"), account.apply_arn(name));
            format!("{}: {}", quoted(&key), quoted(&arn))
        })
        .collect();
    let map = format!("        {{{}}}\n", arns.join(",\n        "));
    vec![
        file("stackorder-plan.yml", account.in_place_of_sample(PLAN)),
        file("stackorder-run.yml", format!("{}{ROLE_MAP}{map}", account.in_place_of_sample(before))),
    ]
}

/// A text of JSON in which GitHub finds no expression of its own.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace("${{", "\\u0024{{")
}

impl Account {
    fn in_place_of_sample(&self, text: &str) -> String {
        text.replace(SAMPLE_ACCOUNT, self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_the_samples_environments_the_files_are_the_samples_own() {
        let names = ["production", "staging", "shared", "default"].map(str::to_owned);
        let files = files(&Account::default(), &names.into());
        assert_eq!(files[0].content, PLAN);
        let map = |text: &str| -> serde_json::Value {
            serde_json::from_str(text.split_once(ROLE_MAP).expect("the map of roles is there").1).unwrap()
        };
        assert_eq!(map(&files[1].content), map(RUN));
        assert_eq!(files[1].content.len(), RUN.len());
        assert_eq!(files[1].content.split(ROLE_MAP).next(), RUN.split(ROLE_MAP).next());
    }

    #[test]
    fn the_name_of_an_environment_is_never_an_expression() {
        let name = "a${{ secrets.KEY }}";
        let files = files(&Account::default(), &[name.to_owned()].into());
        let map = files[1].content.split_once(ROLE_MAP).unwrap().1;
        assert!(!map.contains("${{"), "{map}");
        let read: serde_json::Value = serde_json::from_str(map).unwrap();
        assert!(read.get(format!("@{name}")).is_some(), "{map}");
    }

    #[test]
    fn every_role_belongs_to_the_account_that_was_given() {
        let account = Account::parse("999900001111").unwrap();
        let files = files(&account, &["prod".to_owned()].into());
        assert!(files.iter().all(|file| !file.content.contains(SAMPLE_ACCOUNT)));
        assert!(files[0].content.contains("arn:aws:iam::999900001111:role/plan"));
        assert!(files[1].content.ends_with("{\"@prod\": \"arn:aws:iam::999900001111:role/apply-prod\"}\n"));
    }
}
