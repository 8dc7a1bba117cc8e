use serde_json::json;

use super::*;

fn plan(entries: Value) -> Value {
    json!({"format_version": "1.2", "planned_values": {}, "resource_changes": entries})
}

fn entry(address: &str, actions: &[&str]) -> Value {
    json!({"address": address, "mode": "managed", "change": {"actions": actions}})
}

fn summary_of(entries: Value) -> PlanSummary {
    summarise(&plan(entries)).unwrap().summary
}

#[test]
fn each_change_is_counted_once_as_the_table_says() {
    for (actions, counts) in [
        (vec!["create"], (1, 0, 0, 0, 0)),
        (vec!["update"], (0, 1, 0, 0, 0)),
        (vec!["delete"], (0, 0, 1, 0, 0)),
        (vec!["delete", "create"], (0, 0, 0, 1, 0)),
        (vec!["create", "delete"], (0, 0, 0, 1, 0)),
        (vec!["no-op"], (0, 0, 0, 0, 0)),
        (vec!["read"], (0, 0, 0, 0, 0)),
        (vec!["forget"], (0, 0, 0, 0, 1)),
        (vec!["create", "forget"], (1, 0, 0, 0, 1)),
    ] {
        let s = summary_of(json!([entry("a.b", &actions)]));
        assert_eq!((s.adds, s.changes, s.destroys, s.replaces, s.forgets), counts, "{actions:?}");
        assert_eq!((s.imports, s.moves, s.output_changes), (0, 0, 0), "{actions:?}");
    }
}

#[test]
fn data_sources_are_not_counted() {
    let s = summary_of(json!([{"address": "data.x.y", "mode": "data", "change": {"actions": ["read"]}},
                              {"address": "data.x.z", "mode": "data", "change": {"actions": ["delete"]}}]));
    assert!(s.is_empty());
}

#[test]
fn an_import_counts_besides_its_update_and_never_as_a_move() {
    let import = |actions: &[&str]| json!([{"address": "a.b", "previous_address": "a.old", "change": {"actions": actions, "importing": {"id": "i"}}}]);
    let quiet = summary_of(import(&["no-op"]));
    assert_eq!((quiet.imports, quiet.changes, quiet.moves), (1, 0, 0));
    let changing = summary_of(import(&["update"]));
    assert_eq!((changing.imports, changing.changes, changing.moves), (1, 1, 0));
    assert!(!quiet.is_empty());
}

#[test]
fn a_move_counts_only_when_nothing_else_happens() {
    let moved = |from: &str, actions: &[&str]| {
        summary_of(json!([{"address": "a.b", "previous_address": from, "change": {"actions": actions}}]))
    };
    assert_eq!(moved("a.old", &["no-op"]).moves, 1);
    assert_eq!(moved("a.b", &["no-op"]).moves, 0);
    let changed = moved("a.old", &["update"]);
    assert_eq!((changed.moves, changed.changes), (0, 1));
}

#[test]
fn a_deposed_object_is_a_destroy_of_its_address() {
    let mut deposed = entry("a.b", &["delete"]);
    deposed["deposed"] = json!("1234abcd");
    let s = summary_of(json!([entry("a.b", &["update"]), deposed.clone(), deposed]));
    assert_eq!((s.changes, s.destroys), (1, 2));
    assert_eq!(s.destroyed, ["a.b"]);
}

/// BL-099: plans of nothing but import, move or forget are not "no changes".
#[test]
fn a_plan_that_only_forgets_is_not_empty() {
    let s = summary_of(json!([entry("a.b", &["forget"])]));
    assert!(!s.is_empty());
    assert_eq!(s.counts_text(), "0 to add, 0 to change, 0 to destroy, 0 to replace, 1 to forget");
}

/// BL-098: counts come from JSON, and a plan of outputs alone still says something.
#[test]
fn a_plan_of_outputs_alone_says_so_and_is_not_empty() {
    let json = json!({"format_version": "1.2", "planned_values": {},
                      "output_changes": {"url": {"actions": ["create"]}, "same": {"actions": ["no-op"]}}});
    let s = summarise(&json).unwrap().summary;
    assert_eq!((s.total(), s.output_changes, s.is_empty()), (0, 1, false));
    assert_eq!(s.counts_text(), "0 resources, 1 output changed");
}

#[test]
fn counts_read_as_the_specification_prints_them() {
    let s = PlanSummary { adds: 4, output_changes: 2, ..PlanSummary::default() };
    assert_eq!(s.counts_text(), "4 to add, 0 to change, 0 to destroy, 0 to replace, 2 output changes");
    assert_eq!(s.past_tense_text(), "4 added, 0 changed, 0 destroyed, 0 replaced, 2 output changes");
    let more = PlanSummary { imports: 1, moves: 2, ..s };
    assert_eq!(more.total(), 7);
    assert!(more.counts_text().ends_with("0 to replace, 1 to import, 2 to move, 2 output changes"));
    assert_eq!(PlanSummary::default().counts_text(), "0 to add, 0 to change, 0 to destroy, 0 to replace");
}

#[test]
fn json_holds_the_four_counts_always_and_the_rest_only_when_there_is_something() {
    assert_eq!(
        serde_json::to_value(PlanSummary::default()).unwrap(),
        json!({"adds": 0, "changes": 0, "destroys": 0, "replaces": 0})
    );
    let full = summary_of(json!([entry("b.b", &["create"]), entry("a.a", &["create"])]));
    let written = serde_json::to_value(&full).unwrap();
    assert_eq!(written["added"], json!(["a.a", "b.b"]));
    assert_eq!(serde_json::from_value::<PlanSummary>(written).unwrap(), full);
}

#[test]
fn long_lists_are_cut_and_the_digest_still_covers_everything() {
    let entries = |n: usize| Value::Array((0..n).map(|i| entry(&format!("a.b[{i}]"), &["create"])).collect());
    let counted = summarise(&plan(entries(2_001))).unwrap();
    assert_eq!((counted.summary.adds, counted.summary.added.len()), (2_001, ADDRESSES_MAX));
    assert!(counted.summary.addresses_truncated);
    assert_eq!(counted.addresses.added.len(), 2_001);
    assert_eq!(counted.addresses.union().len(), 2_001);
    let whole = summary_of(entries(2_000));
    assert!(!whole.addresses_truncated);
    assert_ne!(whole.actions_digest, counted.summary.actions_digest);
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let error = |json: Value| summarise(&json).unwrap_err().to_string();
    assert!(error(json!([])).contains("format_version"));
    assert!(error(json!({"format_version": "1.0", "values": {}})).contains("planned_values"));
    assert!(error(json!({"format_version": "2.0", "planned_values": {}})).contains("\"2.0\""));
    assert!(error(plan(json!({}))).contains("is not a list"));
    assert!(error(plan(json!([{"change": {"actions": ["create"]}}]))).contains("resource_changes[0]"));
    assert!(error(plan(json!([entry("a.b", &["obliterate"])]))).contains("a.b: unknown actions [\"obliterate\"]"));
    assert!(error(plan(json!([entry("a.b\nadd c.d", &["create"])]))).contains("no address"));
}
