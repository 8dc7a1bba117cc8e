//! Which workflows an event starts: `on`, its types and its filters; and what a dispatch may carry.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::expression::coerce::to_text;
use super::glob::filter_allows;
use super::model::DispatchError;

/// An event as its filters see it.
#[derive(Debug)]
pub(super) struct Event<'a> {
    pub(super) name: &'a str,
    /// `opened` and the like; empty where the event has none.
    pub(super) action: &'a str,
    /// The branch or tag that filters look at: of a pull request its base.
    pub(super) branch: Option<&'a str>,
    pub(super) tag: Option<&'a str>,
    /// Changed paths, when known.
    pub(super) paths: Option<&'a [String]>,
}

/// GitHub's default `types` of `pull_request`.
const PULL_REQUEST_TYPES: [&str; 3] = ["opened", "synchronize", "reopened"];

/// Whether `on` names the event and its filters let it through.
pub(super) fn matches(on: &Map<String, Value>, event: &Event<'_>) -> bool {
    let Some(settings) = on.get(event.name) else { return false };
    types_match(settings, event) && refs_match(settings, event) && paths_match(settings, event)
}

fn types_match(settings: &Value, event: &Event<'_>) -> bool {
    match list(settings.get("types")) {
        Some(types) => types.iter().any(|t| t == event.action),
        None if event.name == "pull_request" => PULL_REQUEST_TYPES.contains(&event.action),
        None => true,
    }
}

/// A push with only tag filters ignores branches, and the other way round.
fn refs_match(settings: &Value, event: &Event<'_>) -> bool {
    let branches = (list(settings.get("branches")), list(settings.get("branches-ignore")));
    let tags = (list(settings.get("tags")), list(settings.get("tags-ignore")));
    let none = |filters: &(Option<Vec<String>>, Option<Vec<String>>)| filters.0.is_none() && filters.1.is_none();
    let (own, other, name) = match (event.branch, event.tag) {
        (Some(branch), _) => (branches, tags, branch),
        (None, Some(tag)) => (tags, branches, tag),
        (None, None) => return true,
    };
    match own {
        (Some(only), _) => filter_allows(&only, name),
        (None, Some(ignored)) => !filter_allows(&ignored, name),
        (None, None) => none(&other),
    }
}

fn paths_match(settings: &Value, event: &Event<'_>) -> bool {
    let Some(paths) = event.paths.filter(|_| event.tag.is_none()) else { return true };
    match (list(settings.get("paths")), list(settings.get("paths-ignore"))) {
        (Some(only), _) => paths.iter().any(|path| filter_allows(&only, path)),
        (None, Some(ignored)) => paths.iter().any(|path| !filter_allows(&ignored, path)),
        (None, None) => true,
    }
}

/// Whether the filters need to know what changed.
pub(super) fn asks_for_paths(on: &Map<String, Value>, event: &str) -> bool {
    on.get(event).is_some_and(|settings| settings.get("paths").or_else(|| settings.get("paths-ignore")).is_some())
}

fn list(value: Option<&Value>) -> Option<Vec<String>> {
    match value? {
        Value::Array(items) => Some(items.iter().map(to_text).collect()),
        Value::Null => None,
        one => Some(vec![to_text(one)]),
    }
}

/// The inputs of a dispatch.
#[derive(Debug)]
pub(super) struct Inputs {
    /// As the event payload has them.
    pub(super) texts: BTreeMap<String, String>,
    /// As `inputs` has them: booleans and numbers stay what they are.
    pub(super) typed: Map<String, Value>,
}

/// What was given, and the defaults of the rest.
pub(super) fn dispatch_inputs(
    on: &Map<String, Value>,
    given: &BTreeMap<String, String>,
) -> Result<Inputs, DispatchError> {
    let refuse = |text: String| DispatchError::Unprocessable(text);
    let settings = on
        .get("workflow_dispatch")
        .ok_or_else(|| refuse("Workflow does not have 'workflow_dispatch' trigger".to_owned()))?;
    let empty = Map::new();
    let declared = settings.get("inputs").and_then(Value::as_object).unwrap_or(&empty);
    let unexpected: Vec<String> =
        given.keys().filter(|k| !declared.contains_key(*k)).map(|k| format!("\"{k}\"")).collect();
    if !unexpected.is_empty() {
        return Err(refuse(format!("Unexpected inputs provided: [{}]", unexpected.join(", "))));
    }
    let mut texts = BTreeMap::new();
    let mut typed = Map::new();
    for (name, input) in declared {
        let given = given.get(name).filter(|value| !value.is_empty()).cloned();
        let required = input.get("required").and_then(Value::as_bool).unwrap_or(false);
        let text = given.or_else(|| input.get("default").map(to_text));
        if required && text.is_none() {
            return Err(refuse(format!("Required input '{name}' not provided")));
        }
        let kind = input.get("type").and_then(Value::as_str).unwrap_or("string");
        if kind == "choice" {
            let options = list(input.get("options")).unwrap_or_default();
            if let Some(odd) = text.as_ref().filter(|text| !options.contains(text)) {
                return Err(refuse(format!(
                    "Provided value '{odd}' for input '{name}' not in the list of allowed values"
                )));
            }
        }
        let text = text.unwrap_or_else(|| if kind == "boolean" { "false".to_owned() } else { String::new() });
        typed.insert(
            name.clone(),
            typed_input(kind, &text).map_err(|message| refuse(format!("{message} for input '{name}'")))?,
        );
        texts.insert(name.clone(), text);
    }
    Ok(Inputs { texts, typed })
}

fn typed_input(kind: &str, text: &str) -> Result<Value, String> {
    match kind {
        "boolean" => match text {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            odd => Err(format!("Provided value '{odd}' is not a boolean")),
        },
        "number" if !text.is_empty() => {
            let n = super::expression::coerce::to_number(&Value::String(text.to_owned()));
            if n.is_nan() {
                Err(format!("Provided value '{text}' is not a number"))
            } else {
                Ok(super::expression::coerce::number(n))
            }
        }
        _ => Ok(Value::String(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn on(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn pull_requests_match_by_type_base_and_path() {
        let changed = ["stacks/vpc/main.tf".to_owned()];
        let event =
            |action| Event { name: "pull_request", action, branch: Some("main"), tag: None, paths: Some(&changed) };
        let cases = [
            (json!({"pull_request": null}), "opened", true),
            (json!({"pull_request": null}), "closed", false),
            (json!({"pull_request": {"types": ["closed"]}}), "closed", true),
            (json!({"pull_request": {"branches": ["main", "release/**"]}}), "opened", true),
            (json!({"pull_request": {"branches-ignore": ["ma*"]}}), "opened", false),
            (json!({"pull_request": {"paths": ["**.tf"]}}), "opened", true),
            (json!({"pull_request": {"paths": ["docs/**"]}}), "opened", false),
            (json!({"pull_request": {"paths-ignore": ["stacks/**"]}}), "opened", false),
            (json!({"push": null}), "opened", false),
        ];
        for (settings, action, expected) in cases {
            assert_eq!(matches(&on(settings.clone()), &event(action)), expected, "{settings} {action}");
        }
    }

    #[test]
    fn a_push_with_only_tag_filters_ignores_branches() {
        let branch = Event { name: "push", action: "", branch: Some("main"), tag: None, paths: None };
        let tag = Event { name: "push", action: "", branch: None, tag: Some("v1.2.0"), paths: None };
        let only_tags = on(json!({"push": {"tags": ["v*"]}}));
        let only_branches = on(json!({"push": {"branches": ["main"]}}));
        assert!(!matches(&only_tags, &branch) && matches(&only_tags, &tag));
        assert!(matches(&only_branches, &branch) && !matches(&only_branches, &tag));
    }

    #[test]
    fn dispatches_are_refused_in_githubs_words() {
        let declared = on(json!({"workflow_dispatch": {"inputs": {
            "mode": {"required": true}, "n": {"type": "number", "default": 2}, "dry": {"type": "boolean"},
            "c": {"type": "choice", "options": ["a", "b"], "default": "a"}}}}));
        let given = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let refused = |on: &Map<String, Value>, pairs: &[(&str, &str)]| {
            dispatch_inputs(on, &given(pairs)).unwrap_err().to_string()
        };
        assert_eq!(refused(&declared, &[("mode", "x"), ("x", "1")]), "Unexpected inputs provided: [\"x\"]");
        assert_eq!(refused(&declared, &[]), "Required input 'mode' not provided");
        assert_eq!(refused(&on(json!({"push": null})), &[]), "Workflow does not have 'workflow_dispatch' trigger");
        assert!(refused(&declared, &[("mode", "x"), ("c", "z")]).contains("'z'"));
        let Inputs { texts, typed } = dispatch_inputs(&declared, &given(&[("mode", "plan")])).unwrap();
        assert_eq!(texts["n"], "2");
        assert_eq!(Value::Object(typed), json!({"mode": "plan", "n": 2, "dry": false, "c": "a"}));
    }
}
