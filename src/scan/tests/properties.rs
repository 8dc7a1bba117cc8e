//! Laws of the scan: the order of a listing means nothing, and a module that is printed as a source is the same module.

use std::borrow::Cow;

use proptest::prelude::*;

use super::sample;
use crate::graph::model::ModuleKind;
use crate::scan::module_source::{Source, parse};
use crate::scan::{Entry, Files, MemoryFiles, ScanOptions, scan};

/// Files that are listed in an order of their own.
#[derive(Debug)]
struct Listed {
    files: MemoryFiles,
    entries: Vec<Entry>,
}

impl Files for Listed {
    fn list(&self) -> Cow<'_, [Entry]> {
        Cow::Borrowed(&self.entries)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.files.read(path)
    }
}

fn shuffled() -> impl Strategy<Value = Listed> {
    let files = sample()
        .with("stacks/prod/vpc/broken.tf", "module \"open\" {\n  source = \"../../../modules/vpc\"\n")
        .with("stacks/prod/vpc/more_override.tf.json", "{\"module\": {\"vpc\": {\"version\": \"1\"}}}")
        .with("modules/eks/broken.tf", "locals {\n  a = 1 +\n}\n");
    let entries = files.list().into_owned();
    Just(entries).prop_shuffle().prop_map(move |entries| Listed { files: files.clone(), entries })
}

fn graph_json(files: &dyn Files) -> String {
    let scanned = scan(files, &ScanOptions::new("acme/infra", "")).expect("the checkout is valid");
    serde_json::to_string(&scanned.graph).expect("a graph is JSON")
}

/// A module in git, in parts.
#[derive(Debug, Clone)]
struct InGit {
    host: &'static str,
    repository: String,
    subdirectory: String,
    reference: String,
}

impl InGit {
    /// The ways to write it that mean the same; the first one any host allows.
    fn sources(&self) -> Vec<String> {
        let Self { host, repository, .. } = self;
        let subdirectory =
            if self.subdirectory.is_empty() { String::new() } else { format!("//{}", self.subdirectory) };
        let query = if self.reference.is_empty() { String::new() } else { format!("?ref={}", self.reference) };
        let tail = format!("{subdirectory}{query}");
        let mut sources = vec![
            format!("git::https://{host}/{repository}.git{tail}"),
            format!("git::ssh://git@{host}/{repository}.git{tail}"),
            format!("git@{host}:{repository}.git{tail}"),
            format!(" git::https://{host}/{repository}.git{tail} "),
        ];
        if *host == "github.com" {
            sources.push(format!("github.com/{repository}{tail}"));
        }
        sources
    }

    /// The key as spec 11 §6.1 has it, on GitHub's own host.
    fn key(&self) -> String {
        let host = if self.host == "github.com" { String::new() } else { format!("{}/", self.host) };
        let subdirectory =
            if self.subdirectory.is_empty() { String::new() } else { format!("//{}", self.subdirectory) };
        let at = if self.reference.is_empty() { String::new() } else { format!("@{}", self.reference) };
        format!("{host}{}{subdirectory}{at}", self.repository)
    }
}

fn in_git() -> impl Strategy<Value = InGit> {
    let host = prop_oneof![Just("github.com"), Just("git.example.com")];
    let name = "[a-z][a-z0-9-]{0,6}[a-z0-9]";
    let subdirectory = prop_oneof![Just(String::new()), "[a-z]{1,4}(/[a-z]{1,4}){0,2}"];
    let reference = prop_oneof![Just(String::new()), "v[0-9]{1,2}(\\.[0-9]{1,2}){0,2}"];
    (host, name, name, subdirectory, reference).prop_map(|(host, owner, name, subdirectory, reference)| InGit {
        host,
        repository: format!("{owner}/{name}"),
        subdirectory,
        reference,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn files_listed_in_any_order_give_the_same_bytes(listed in shuffled()) {
        prop_assert_eq!(graph_json(&listed), graph_json(&listed.files));
    }

    #[test]
    fn a_module_in_git_is_the_same_however_it_is_written(module in in_git()) {
        for source in module.sources() {
            let Source::Remote(remote) = parse(&source, "", "github.com") else {
                panic!("{source} is not understood");
            };
            prop_assert_eq!((&remote.key, remote.kind), (&module.key(), ModuleKind::Git), "{}", source);
            prop_assert_eq!(&remote.reference, &module.reference);
        }
    }

    #[test]
    fn a_module_of_a_registry_is_the_same_once_it_is_printed(
        host in prop_oneof![Just(""), Just("registry.example.com/"), Just("localhost:8443/")],
        names in "[a-z][a-z0-9]{0,5}/[a-zA-Z0-9_-]{0,5}[a-z]/[a-z0-9]{1,6}",
        subdirectory in prop_oneof![Just(String::new()), "//[a-z]{1,4}(/[a-z]{1,4})?"],
        version in prop_oneof![Just(""), Just("1.2.3"), Just("~> 0.1")],
    ) {
        let is_name = names.split('/').all(|name| name.starts_with(|c: char| c.is_ascii_alphanumeric()));
        prop_assume!(is_name);
        let source = format!("{host}{names}{subdirectory}");
        let Source::Remote(remote) = parse(&source, version, "github.com") else { panic!("{source} is not understood") };
        let printed = remote.key.strip_prefix("registry:").map(|key| key.split_once('@').unwrap_or((key, "")));
        prop_assert_eq!(printed, Some((source.as_str(), version)));
        let (again, version) = printed.unwrap_or_default();
        prop_assert_eq!(parse(again, version, "github.com"), Source::Remote(remote.clone()));
    }
}
