//! A finished plan: its JSON, its text, and the file that an apply reads back.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::configuration::Sources;
use super::evaluation::{Action, Change, Record};
use super::state::{OutputValue, State};
use super::value::Value;
use crate::clock::{Millis, rfc3339};

/// What a plan was made of, besides the walk's record.
pub(super) struct Origin<'a> {
    pub(super) prior: &'a State,
    pub(super) variables: &'a BTreeMap<String, Value>,
    pub(super) sources: &'a Sources,
    pub(super) workspace: &'a str,
    pub(super) now: Millis,
}

pub(super) fn has_changes(record: &Record, prior: &State) -> bool {
    record.changes.iter().any(|change| change.action != Action::NoOp)
        || output_changes(record, prior).iter().any(|(.., action)| *action != Action::NoOp)
}

type OutputChange<'a> = (&'a String, Option<&'a OutputValue>, Option<&'a OutputValue>, Action);

fn output_changes<'a>(record: &'a Record, prior: &'a State) -> Vec<OutputChange<'a>> {
    let names: std::collections::BTreeSet<&String> = record.outputs.keys().chain(prior.outputs.keys()).collect();
    let changes = names.into_iter().map(|name| {
        let (before, after) = (prior.outputs.get(name), record.outputs.get(name));
        let action = match (before, after) {
            (None, _) => Action::Create,
            (_, None) => Action::Delete,
            (Some(before), Some(after))
                if before.value == after.value.plain() && before.sensitive == after.sensitive =>
            {
                Action::NoOp
            }
            _ => Action::Update,
        };
        (name, before, after, action)
    });
    changes.collect()
}

/// What `show -json` prints.
pub(super) fn to_json(record: &Record, origin: &Origin<'_>) -> Json {
    let variables: Map<_, _> =
        origin.variables.iter().map(|(name, value)| (name.clone(), json!({ "value": value.to_json() }))).collect();
    let outputs: Map<_, _> = output_changes(record, origin.prior)
        .into_iter()
        .map(|(name, before, after, action)| {
            let sensitive = before.is_some_and(|it| it.sensitive) || after.is_some_and(|it| it.sensitive);
            let change = json!({
                "actions": action.names(),
                "before": before.map(|it| it.value.to_json()),
                "after": after.map(|it| it.value.to_json()),
                "after_unknown": after.map_or(json!(false), |it| it.value.unknown_marks()),
                "before_sensitive": sensitive,
                "after_sensitive": sensitive,
            });
            (name.clone(), change)
        })
        .collect();
    let changed = has_changes(record, origin.prior);
    json!({
        "format_version": "1.2",
        "terraform_version": super::VERSION,
        "variables": variables,
        "planned_values": {
            "outputs": record.outputs.iter().map(|(name, output)| {
                (name.clone(), json!({ "sensitive": output.sensitive, "value": output.value.to_json() }))
            }).collect::<Map<_, _>>(),
            "root_module": { "resources": planned_resources(record) },
        },
        "resource_changes": record.changes.iter().map(change_json).collect::<Vec<_>>(),
        "output_changes": outputs,
        "prior_state": {
            "format_version": "1.0",
            "terraform_version": super::VERSION,
            "values": {
                "outputs": origin.prior.outputs.iter().map(|(name, output)| {
                    (name.clone(), json!({ "sensitive": output.sensitive, "value": output.value.to_json() }))
                }).collect::<Map<_, _>>(),
                "root_module": { "resources": read_resources(record) },
            },
        },
        "configuration": {},
        "timestamp": rfc3339(origin.now),
        "applyable": changed,
        "complete": true,
        "errored": false,
    })
}

fn change_json(change: &Change) -> Json {
    let marks = |value: &Value| if *value == Value::Null { json!(false) } else { change.after.sensitive_marks() };
    let mut json = json!({
        "address": change.place.address(),
        "mode": "managed",
        "type": "terraform_data",
        "name": change.place.name,
        "provider_name": "terraform.io/builtin/terraform",
        "change": {
            "actions": change.action.names(),
            "before": change.before.to_json(),
            "after": change.after.to_json(),
            "after_unknown": change.after.unknown_marks(),
            // The state keeps no marks; what is sensitive now was so before.
            "before_sensitive": marks(&change.before),
            "after_sensitive": marks(&change.after),
        },
    });
    if !change.place.module.is_empty() {
        json["module_address"] = json!(change.place.module);
    }
    if let Some(index) = &change.place.index {
        json["index"] = index.to_json();
    }
    match change.action {
        Action::Replace if change.tainted => json["action_reason"] = json!("replace_because_tainted"),
        Action::Replace => {
            json["action_reason"] = json!("replace_because_cannot_update");
            json["change"]["replace_paths"] = json!([["triggers_replace"]]);
        }
        Action::Delete => json["action_reason"] = json!("delete_because_no_resource_config"),
        Action::NoOp | Action::Create | Action::Update => {}
    }
    json
}

fn planned_resources(record: &Record) -> Vec<Json> {
    let kept = record.changes.iter().filter(|change| change.action != Action::Delete);
    kept.map(|change| {
        json!({
            "address": change.place.address(),
            "mode": "managed",
            "type": "terraform_data",
            "name": change.place.name,
            "values": change.after.to_json(),
            "sensitive_values": change.after.sensitive_marks(),
        })
    })
    .collect()
}

fn read_resources(record: &Record) -> Vec<Json> {
    let reads = record.reads.iter().map(|read| {
        let dot = if read.module.is_empty() { "" } else { "." };
        json!({
            "address": format!("{}{dot}data.terraform_remote_state.{}", read.module, read.name),
            "mode": "data",
            "type": "terraform_remote_state",
            "name": read.name,
            "provider_name": "terraform.io/builtin/terraform",
            "schema_version": 0,
            "values": read.values.to_json(),
            "sensitive_values": {},
        })
    });
    reads.collect()
}

/// What `plan` and `show` print for people.
pub(super) fn to_text(record: &Record, prior: &State) -> String {
    let mut text = String::new();
    let changed: Vec<&Change> = record.changes.iter().filter(|change| change.action != Action::NoOp).collect();
    let outputs = output_changes(record, prior);
    let outputs: Vec<_> = outputs.into_iter().filter(|(.., action)| *action != Action::NoOp).collect();
    if changed.is_empty() && outputs.is_empty() {
        return "\nNo changes. Your infrastructure matches the configuration.\n".to_owned();
    }
    if !changed.is_empty() {
        text.push_str(
            "\nThe stand-in generated the following execution plan. Resource actions are indicated with the\n",
        );
        text.push_str("following symbols:\n");
        let symbols = [
            (Action::Create, "  + create\n"),
            (Action::Update, "  ~ update in-place\n"),
            (Action::Delete, "  - destroy\n"),
            (Action::Replace, "-/+ destroy and then create replacement\n"),
        ];
        for (action, line) in symbols {
            if changed.iter().any(|change| change.action == action) {
                text.push_str(line);
            }
        }
        text.push_str("\nTerraform will perform the following actions:\n");
        for change in &changed {
            change_text(&mut text, change);
        }
        let count = |wanted: &[Action]| changed.iter().filter(|change| wanted.contains(&change.action)).count();
        let adds = count(&[Action::Create, Action::Replace]);
        let (updates, deletes) = (count(&[Action::Update]), count(&[Action::Delete, Action::Replace]));
        let _ = writeln!(text, "\nPlan: {adds} to add, {updates} to change, {deletes} to destroy.");
    }
    if !outputs.is_empty() {
        text.push_str("\nChanges to Outputs:\n");
        for (name, before, after, _) in outputs {
            let sensitive = before.is_some_and(|it| it.sensitive) || after.is_some_and(|it| it.sensitive);
            let value = |it: Option<&OutputValue>| it.map(|it| it.value.clone().marked(sensitive));
            attribute_text(&mut text, 2, name, value(before).as_ref(), value(after).as_ref(), "");
        }
    }
    text
}

fn change_text(text: &mut String, change: &Change) {
    let address = change.place.address();
    let (what, sign) = match change.action {
        Action::NoOp => return,
        Action::Create => ("will be created", "  +"),
        Action::Update => ("will be updated in-place", "  ~"),
        Action::Replace if change.tainted => ("is tainted, so must be replaced", "-/+"),
        Action::Replace => ("must be replaced", "-/+"),
        Action::Delete => ("will be destroyed", "  -"),
    };
    let _ = writeln!(text, "\n  # {address} {what}");
    let _ = writeln!(text, "{sign} resource \"terraform_data\" \"{}\" {{", change.place.name);
    let field = |value: &Value, name: &str| match value {
        Value::Map(fields) => fields.get(name).filter(|value| **value != Value::Null).cloned(),
        _ => None,
    };
    for name in ["id", "input", "output", "triggers_replace"] {
        let (before, after) = (field(&change.before, name), field(&change.after, name));
        let forces = change.action == Action::Replace && !change.tainted && name == "triggers_replace";
        let note = if forces { " # forces replacement" } else { "" };
        attribute_text(text, 6, name, before.as_ref(), after.as_ref(), note);
    }
    text.push_str("    }\n");
}

/// One attribute that differs; nothing when it does not.
fn attribute_text(
    text: &mut String,
    indent: usize,
    name: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    note: &str,
) {
    let pad = " ".repeat(indent);
    match (before, after) {
        (None, None) => {}
        (Some(before), Some(after)) if before.plain() == after.plain() => {
            if name == "id" {
                let _ = writeln!(text, "{pad}  {name} = {}", inline(after));
            }
        }
        (Some(Value::Map(before)), Some(Value::Map(after))) => {
            let _ = writeln!(text, "{pad}~ {name} = {{{note}");
            let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                attribute_text(text, indent + 4, name, before.get(name), after.get(name), "");
            }
            let _ = writeln!(text, "{pad}  }}");
        }
        (Some(Value::List(before)), Some(Value::List(after))) => {
            let _ = writeln!(text, "{pad}~ {name} = [{note}");
            for at in 0..before.len().max(after.len()) {
                match (before.get(at), after.get(at)) {
                    (Some(before), Some(after)) if before.plain() == after.plain() => {}
                    (before, after) => {
                        for (sign, value) in [("-", before), ("+", after)] {
                            if let Some(value) = value {
                                let _ = writeln!(text, "{pad}    {sign} {},", inline(value));
                            }
                        }
                    }
                }
            }
            let _ = writeln!(text, "{pad}  ]");
        }
        // A value that has become sensitive must not be shown as it was before.
        (Some(_), Some(Value::Sensitive(_))) => {
            let _ = writeln!(text, "{pad}~ {name} = (sensitive value){note}");
        }
        (Some(before), Some(after)) => {
            let _ = writeln!(text, "{pad}~ {name} = {} -> {}{note}", inline(before), inline(after));
        }
        (None, Some(value)) => whole_text(text, indent, "+", name, value, note),
        (Some(value), None) => whole_text(text, indent, "-", name, value, " -> null"),
    }
}

fn whole_text(text: &mut String, indent: usize, sign: &str, name: &str, value: &Value, note: &str) {
    let pad = " ".repeat(indent);
    match value {
        Value::Map(fields) if !fields.is_empty() => {
            let _ = writeln!(text, "{pad}{sign} {name} = {{");
            for (name, value) in fields {
                whole_text(text, indent + 4, sign, name, value, "");
            }
            let _ = writeln!(text, "{pad}  }}{note}");
        }
        Value::List(items) if !items.is_empty() => {
            let _ = writeln!(text, "{pad}{sign} {name} = [");
            for item in items {
                let _ = writeln!(text, "{pad}    {sign} {},", inline(item));
            }
            let _ = writeln!(text, "{pad}  ]{note}");
        }
        value => {
            let _ = writeln!(text, "{pad}{sign} {name} = {}{note}", inline(value));
        }
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Unknown => "(known after apply)".to_owned(),
        Value::Sensitive(_) => "(sensitive value)".to_owned(),
        Value::List(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Map(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name} = {}", inline(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        value => value.to_json().to_string(),
    }
}

/// A plan file as an apply needs it. It holds values in clear, as the real one does.
pub(super) struct Saved {
    pub(super) json: Json,
    pub(super) text: String,
    pub(super) sources: Sources,
    pub(super) variables: BTreeMap<String, Value>,
    pub(super) workspace: String,
    pub(super) lineage: String,
    pub(super) serial: u64,
    pub(super) actions: BTreeMap<String, Action>,
}

pub(super) fn save(record: &Record, origin: &Origin<'_>) -> Vec<u8> {
    let variables: Map<_, _> = origin.variables.iter().map(|(name, value)| (name.clone(), value.to_json())).collect();
    let saved = json!({
        "standin_plan": 1,
        "json": to_json(record, origin),
        "text": to_text(record, origin.prior),
        "sources": origin.sources,
        "variables": variables,
        "workspace": origin.workspace,
        "lineage": origin.prior.lineage,
        "serial": origin.prior.serial,
    });
    saved.to_string().into_bytes()
}

pub(super) fn open(bytes: &[u8]) -> Result<Saved, String> {
    let mut json: Json =
        serde_json::from_slice(bytes).map_err(|_| "this is no plan file of the stand-in".to_owned())?;
    if json["standin_plan"] != 1 {
        return Err("this is no plan file of the stand-in".to_owned());
    }
    let mut actions = BTreeMap::new();
    for change in json["json"]["resource_changes"].as_array().into_iter().flatten() {
        let names: Vec<&str> =
            change["change"]["actions"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        let address = change["address"].as_str().unwrap_or_default().to_owned();
        actions.insert(address, Action::from_names(&names).ok_or("the plan file names an unknown action")?);
    }
    let variables = json["variables"].as_object().into_iter().flatten();
    let variables = variables.map(|(name, value)| (name.clone(), Value::from_json(value))).collect();
    let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
    Ok(Saved {
        text: text("text"),
        variables,
        workspace: text("workspace"),
        lineage: text("lineage"),
        serial: json["serial"].as_u64().unwrap_or_default(),
        actions,
        sources: serde_json::from_value(json["sources"].take()).map_err(|error| format!("the plan file: {error}"))?,
        json: json["json"].take(),
    })
}
