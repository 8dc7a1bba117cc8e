//! GitHub's own schemas of answers and payloads.

use std::sync::LazyLock;

use serde_json::{Value, json};

const OPENAPI: &str = "urn:fake-github:openapi";
const WEBHOOKS: &str = "urn:fake-github:webhooks";

struct Schemas {
    openapi: Value,
    webhooks: Value,
}

static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| Schemas {
    openapi: serde_json::from_str(include_str!("../data/openapi-responses.json")).unwrap(),
    webhooks: serde_json::from_str(include_str!("../data/webhooks.schema.json")).unwrap(),
});

fn errors(reference: &str, body: &Value) -> Vec<String> {
    let registry = jsonschema::Registry::new()
        .draft(jsonschema::Draft::Draft202012)
        .add(OPENAPI, SCHEMAS.openapi.clone())
        .unwrap()
        .add(WEBHOOKS, SCHEMAS.webhooks.clone())
        .unwrap()
        .prepare()
        .unwrap();
    let validator = jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .with_registry(&registry)
        .should_validate_formats(false)
        .build(&json!({"$ref": reference}))
        .unwrap();
    validator.iter_errors(body).map(|error| format!("{error} at {}", error.instance_path())).collect()
}

fn escape(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1").replace('{', "%7B").replace('}', "%7D").replace(' ', "%20")
}

/// Checks an answer against the schema of its operation and status, such as `GET /repos/{owner}/{repo}`.
pub fn assert_answer(operation: &str, status: u16, body: &Value) {
    let key = format!("{operation} {status}");
    let schema = SCHEMAS.openapi["responses"].get(&key).unwrap_or_else(|| panic!("no schema of {key}"));
    if schema.is_null() {
        assert!(body.is_null(), "{key} has no body, but got {body}");
        return;
    }
    let found = errors(&format!("{OPENAPI}#/responses/{}", escape(&key)), body);
    assert!(found.is_empty(), "{key}:\n{}\n{body:#}", found.join("\n"));
}

/// Checks a payload against the schema of its event, when GitHub publishes one.
pub fn assert_payload(event: &str, payload: &Value) {
    let key = payload["action"].as_str().map_or_else(|| event.to_owned(), |action| format!("{event}.{action}"));
    let Some(name) = SCHEMAS.webhooks["x-events"].get(&key).and_then(Value::as_str) else {
        panic!("no schema of {key}");
    };
    let mut payload = payload.clone();
    // The schema lists the events of an app from before this one existed.
    if let Some(events) = payload.pointer_mut("/check_suite/app/events").and_then(Value::as_array_mut) {
        events.retain(|event| event != "deployment_protection_rule");
    }
    let found = errors(&format!("{WEBHOOKS}#/$defs/{}", escape(name)), &payload);
    assert!(found.is_empty(), "{key}:\n{}\n{payload:#}", found.join("\n"));
}
