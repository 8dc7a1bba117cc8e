//! The hashes that tie what people reviewed to what a job applies.
//!
//! `actions_digest` says what happens to which addresses, `bundle_sha256` says which files a job must find,
//! `plan_digest` and `plan_set_digest` say what was on the screen of the person who asked (spec 20 §6, 31 §7).

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::summary::{Addresses, PlanSummary};
use crate::ids::hex;

/// Over the sorted lines `<action> <address>`: equal digests do the same things to the same addresses.
pub fn actions_digest(addresses: &Addresses) -> String {
    let lists = [
        ("add", &addresses.added),
        ("change", &addresses.changed),
        ("destroy", &addresses.destroyed),
        ("replace", &addresses.replaced),
    ];
    let mut hash = Sha256::new();
    // The actions are in byte order and so is each list, hence the lines are sorted.
    for (action, list) in lists {
        for address in list {
            hash.update(format!("{action} {address}\n").as_bytes());
        }
    }
    hex(&hash.finalize())
}

/// Over every file of the plain plan bundle: its path and the SHA-256 of its content, in byte order of path.
pub fn bundle_sha256(files: &BTreeMap<String, [u8; 32]>) -> String {
    let mut hash = Sha256::new();
    for (path, content) in files {
        hash.update(path.as_bytes());
        hash.update([0]);
        hash.update(hex(content).as_bytes());
        hash.update(b"\n");
    }
    hex(&hash.finalize())
}

/// What a stack's `plan_digest` covers. `artifact` is the stack's own name, also when its bundle travels in a chunk.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PlanDigestInput<'a> {
    pub artifact: &'a str,
    pub bundle_sha256: Option<&'a str>,
    pub commit: &'a str,
    /// SHA-256 of the redacted structured diff as posted.
    pub diff_sha256: Option<&'a str>,
    pub key: &'a str,
    pub summary: &'a PlanSummary,
}

/// The digest of one reviewed plan. It is for people and requests; a job compares `bundle_sha256`.
pub fn plan_digest(input: &PlanDigestInput<'_>) -> String {
    let value = serde_json::to_value(input).expect("text keys and plain values always serialise");
    hex(&Sha256::digest(canonical_json(&value).as_bytes()))
}

/// One stack of a plan view, as far as `plan_set_digest` covers it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PlanSetEntry {
    pub key: String,
    pub plan_digest: Option<String>,
    /// Verdict name to status.
    pub verdicts: BTreeMap<String, String>,
}

/// The digest of everything a person sees before asking for an apply; the order of the entries does not matter.
pub fn plan_set_digest(graph_id: &str, entries: &[PlanSetEntry]) -> String {
    let mut entries: Vec<&PlanSetEntry> = entries.iter().collect();
    entries.sort();
    let value = serde_json::json!({ "graph": graph_id, "stacks": entries });
    hex(&Sha256::digest(canonical_json(&value).as_bytes()))
}

/// No blanks, keys in byte order, whatever features `serde_json` was built with.
///
/// Recursion is bounded by the shapes above, all of which are ours and flat.
fn canonical_json(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            let members: Vec<String> = sorted
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical_json(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical_json).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha256(text: &str) -> [u8; 32] {
        Sha256::digest(text.as_bytes()).into()
    }

    fn addresses(added: &[&str], replaced: &[&str]) -> Addresses {
        let set = |list: &[&str]| list.iter().map(|address| (*address).to_owned()).collect();
        Addresses { added: set(added), replaced: set(replaced), ..Addresses::default() }
    }

    #[test]
    fn the_actions_digest_is_that_of_the_sorted_lines() {
        let digest = actions_digest(&addresses(&["b.b", "a.a"], &["c.c"]));
        assert_eq!(digest, hex(&sha256("add a.a\nadd b.b\nreplace c.c\n")));
        assert_eq!(actions_digest(&Addresses::default()), hex(&sha256("")));
    }

    #[test]
    fn a_change_that_turns_into_a_replace_has_another_actions_digest() {
        assert_ne!(actions_digest(&addresses(&["a.a"], &[])), actions_digest(&addresses(&[], &["a.a"])));
    }

    #[test]
    fn the_bundle_digest_lists_path_and_content_in_byte_order_of_path() {
        let files = BTreeMap::from([
            ("files/a".to_owned(), sha256("one")),
            ("Z.tfplan".to_owned(), sha256("two")),
            (".terraform.lock.hcl".to_owned(), sha256("three")),
        ]);
        let line = |path: &str, content: &str| format!("{path}\0{}\n", hex(&sha256(content)));
        let lines = line(".terraform.lock.hcl", "three") + &line("Z.tfplan", "two") + &line("files/a", "one");
        assert_eq!(bundle_sha256(&files), hex(&sha256(&lines)));
    }

    #[test]
    fn every_part_of_a_plan_moves_its_digest() {
        let summary = PlanSummary::default();
        let other = PlanSummary { adds: 1, ..PlanSummary::default() };
        let input = PlanDigestInput {
            artifact: "stackorder-plan-a",
            bundle_sha256: Some("00"),
            commit: "c",
            diff_sha256: None,
            key: "k",
            summary: &summary,
        };
        let variants = [
            input,
            PlanDigestInput { artifact: "x", ..input },
            PlanDigestInput { bundle_sha256: None, ..input },
            PlanDigestInput { commit: "d", ..input },
            PlanDigestInput { diff_sha256: Some("1"), ..input },
            PlanDigestInput { key: "l", ..input },
            PlanDigestInput { summary: &other, ..input },
        ];
        let digests: std::collections::BTreeSet<String> = variants.iter().map(plan_digest).collect();
        assert_eq!(digests.len(), variants.len());
    }

    #[test]
    fn canonical_json_sorts_keys_at_every_depth() {
        let value = serde_json::json!({"b": [{"z": 1, "a": "\""}], "a": null});
        assert_eq!(canonical_json(&value), r#"{"a":null,"b":[{"a":"\"","z":1}]}"#);
    }

    #[test]
    fn a_plan_set_does_not_depend_on_the_order_of_its_stacks_but_on_a_verdict() {
        let entry = |key: &str, verdict: &str| PlanSetEntry {
            key: key.to_owned(),
            plan_digest: Some("d".to_owned()),
            verdicts: BTreeMap::from([("cost".to_owned(), verdict.to_owned())]),
        };
        let (a, b) = (entry("a", "pass"), entry("b", "pass"));
        assert_eq!(plan_set_digest("g", &[a.clone(), b.clone()]), plan_set_digest("g", &[b.clone(), a.clone()]));
        assert_ne!(plan_set_digest("g", &[a.clone(), b]), plan_set_digest("g", &[a, entry("b", "fail")]));
    }
}
