use serde_json::json;

use super::*;
use crate::redaction::UpstreamOutputs;

fn entry(address: &str, actions: &[&str], change: Value) -> Value {
    let mut change = change;
    change["actions"] = json!(actions);
    json!({"address": address, "mode": "managed", "provider_name": "registry/aws", "change": change})
}

fn update(before: Value, after: Value) -> Value {
    json!({"before": before, "after": after, "before_sensitive": {}, "after_sensitive": {}, "after_unknown": {}})
}

fn diff_of(entries: Vec<Value>) -> PlanDiff {
    let plan = json!({"format_version": "1.2", "resource_changes": entries});
    plan_diff(&plan, &Redactor::new(), PlanOutput::Full).unwrap()
}

fn only(entry: Value) -> ResourceDiff {
    diff_of(vec![entry]).resources.remove(0)
}

#[test]
fn each_change_has_its_action_and_no_op_and_read_are_left_out() {
    let nothing = json!({"before": null, "after": null});
    let action =
        |actions: &[&str]| diff_of(vec![entry("a.b", actions, nothing.clone())]).resources.first().map(|r| r.action);
    assert_eq!(action(&["create"]), Some(DiffAction::Create));
    assert_eq!(action(&["update"]), Some(DiffAction::Update));
    assert_eq!(action(&["delete"]), Some(DiffAction::Delete));
    assert_eq!(action(&["create", "delete"]), Some(DiffAction::Replace));
    assert_eq!(action(&["forget"]), Some(DiffAction::Forget));
    assert_eq!(action(&["no-op"]), None);
    assert_eq!(action(&["read"]), None);
    let import = json!({"before": null, "after": null, "importing": {"id": "x"}});
    assert_eq!(only(entry("a.b", &["no-op"], import)).action, DiffAction::Import);
    let mut moved = entry("a.b", &["no-op"], nothing);
    moved["previous_address"] = json!("a.old");
    assert_eq!(only(moved).action, DiffAction::Move);
}

#[test]
fn only_attributes_that_change_are_listed_with_both_sides() {
    let change = update(json!({"a": 1, "same": "x", "gone": true}), json!({"a": 2, "same": "x", "new": [1]}));
    let resource = only(entry("a.b", &["update"], change));
    assert_eq!(
        serde_json::to_value(&resource).unwrap(),
        json!({"address": "a.b", "provider": "registry/aws", "action": "update", "attributes": {
            "a": {"before": 1, "after": 2}, "gone": {"before": true}, "new": {"after": [1]}}})
    );
}

#[test]
fn sensitive_and_unknown_values_are_marked_and_never_guessed() {
    let change = json!({
        "before": {"pw": "old-secret", "deep": {"k": [{"q": "hidden"}]}}, "before_sensitive": {"pw": true, "deep": {"k": [{"q": true}]}},
        "after": {"pw": "new-secret", "deep": {"k": [{"q": "hidden2"}]}, "tags": {"a": "b"}}, "after_sensitive": {"pw": true, "deep": {"k": [{"q": true}]}},
        "after_unknown": {"id": true, "tags": {"c": true}},
    });
    let resource = only(entry("a.b", &["update"], change));
    assert_eq!(
        serde_json::to_value(&resource.attributes).unwrap(),
        json!({
            "deep": {"before": {"k": [{"q": "***"}]}, "after": {"k": [{"q": "***"}]}, "sensitive": true},
            "id": {"unknown": true},
            "pw": {"before": "***", "after": "***", "sensitive": true},
            "tags": {"after": {"a": "b", "c": "(known after apply)"}, "unknown": true},
        })
    );
}

#[test]
fn a_resource_whose_marks_cannot_be_read_is_withheld_and_the_others_stay() {
    for marks in
        [json!(null), json!("x"), json!(["x"]), json!({"a": "x"}), json!({"a": {"b": true}}), json!({"a": [true]})]
    {
        let bad =
            json!({"before": null, "before_sensitive": false, "after": {"a": "any-secret"}, "after_sensitive": marks});
        let diff = diff_of(vec![
            entry("a.bad", &["create"], bad),
            entry("a.good", &["update"], update(json!({"a": 1}), json!({"a": 2}))),
        ]);
        let (bad, good) = (&diff.resources[0], &diff.resources[1]);
        assert!(bad.withheld && bad.attributes.is_empty(), "{marks}");
        assert!(!good.withheld && good.attributes.len() == 1);
    }
}

#[test]
fn what_no_mark_covers_passes_the_secret_rules_too() {
    let mut redactor = Redactor::new();
    let plan = json!({"format_version": "1.2",
        "planned_values": {"outputs": {"o": {"sensitive": true, "value": "known-value"}}},
        "resource_changes": [entry("a.b", &["update"], update(json!({}), json!({
            "url": "x://u:pa55@h", "m": {"known-value": "is known-value"}, "db_password": "unmarked", "n": {"token": ["unmarked"]}})))]});
    redactor.learn(&plan, &UpstreamOutputs::default());
    let diff = plan_diff(&plan, &redactor, PlanOutput::Full).unwrap();
    let after = |name: &str| diff.resources[0].attributes[name].after.clone().unwrap();
    assert_eq!(after("url"), json!("x://u:***@h"));
    assert_eq!(after("m"), json!({"***": "is ***"}));
    assert_eq!(after("db_password"), json!("***"));
    assert_eq!(after("n"), json!({"token": ["***"]}));
}

#[test]
fn of_a_summary_stack_no_value_is_shown() {
    let change = update(json!({"a": 1}), json!({"a": 2}));
    let plan = json!({"format_version": "1.2", "resource_changes": [entry("a.b", &["update"], change.clone())]});
    let diff = plan_diff(&plan, &Redactor::new(), PlanOutput::Summary).unwrap();
    assert!(diff.resources[0].attributes.is_empty() && !diff.resources[0].withheld);
    let mut sent_in_full = diff_of(vec![entry("a.b", &["update"], change)]);
    sent_in_full.drop_values();
    assert_eq!(sent_in_full, diff);
}

#[test]
fn of_six_thousand_resources_five_thousand_are_listed() {
    let nothing = json!({"before": null, "after": null});
    let diff = diff_of((0..6_000).map(|n| entry(&format!("a.b[{n}]"), &["create"], nothing.clone())).collect());
    assert_eq!((diff.resources.len(), diff.truncated), (DIFF_RESOURCES_MAX, true));
    assert_eq!(diff.resources[4_999].address, "a.b[4999]");
}

#[test]
fn one_huge_resource_is_withheld_and_all_others_are_complete() {
    let of =
        |address: &str, bytes: usize| entry(address, &["update"], update(json!({}), json!({"a": "x".repeat(bytes)})));
    let diff = diff_of(vec![of("a.small", 10), of("a.huge", 5 << 20), of("a.other", 10)]);
    let withheld: Vec<bool> = diff.resources.iter().map(|resource| resource.withheld).collect();
    assert_eq!((withheld, diff.truncated), (vec![false, true, false], true));
}

#[test]
fn resources_are_dropped_from_the_end_only_when_withholding_is_not_enough() {
    let nothing = json!({"before": null, "after": null});
    let mut diff = diff_of((0..50).map(|n| entry(&format!("a.b[{n}]"), &["create"], nothing.clone())).collect());
    fit(&mut diff, 2_000);
    assert!(diff.truncated && !diff.resources.is_empty() && diff.resources.len() < 50);
    assert_eq!(diff.resources[0].address, "a.b[0]");
    assert!(serde_json::to_string(&diff).unwrap().len() <= 2_000);
}

#[test]
fn values_nested_too_deep_are_withheld() {
    let mut value = json!("x");
    for _ in 0..100 {
        value = json!([value]);
    }
    assert!(only(entry("a.b", &["update"], update(json!({}), json!({"a": value})))).withheld);
}
