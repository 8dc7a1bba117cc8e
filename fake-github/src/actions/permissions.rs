//! What a job's token may do: `permissions` of workflow, job and caller, narrowed in that order.

use std::collections::BTreeMap;

use serde_json::Value;

/// Scope to `read` or `write`; an absent scope is `none`.
pub(super) type Permissions = BTreeMap<String, String>;

const SCOPES: [&str; 15] = [
    "actions",
    "attestations",
    "checks",
    "contents",
    "deployments",
    "discussions",
    "id-token",
    "issues",
    "models",
    "packages",
    "pages",
    "pull-requests",
    "repository-projects",
    "security-events",
    "statuses",
];

/// What a workflow without `permissions` gets: GitHub's restricted default.
pub(super) fn default_permissions() -> Permissions {
    [("contents", "read"), ("packages", "read")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
}

/// A `permissions` value as written. Naming one scope takes all others away.
pub(super) fn parse(value: &Value) -> Result<Permissions, String> {
    match value {
        Value::Null => Ok(Permissions::new()),
        Value::String(word) if word == "read-all" => Ok(all("read")),
        Value::String(word) if word == "write-all" => Ok(all("write")),
        Value::Object(members) => members.iter().filter_map(|(scope, level)| entry(scope, level).transpose()).collect(),
        other => Err(format!("Unexpected value '{other}' for permissions")),
    }
}

fn all(level: &str) -> Permissions {
    let fits = |scope: &str| level == "write" || scope != "id-token";
    SCOPES.into_iter().filter(|scope| fits(scope)).map(|scope| (scope.to_owned(), level.to_owned())).collect()
}

fn entry(scope: &str, level: &Value) -> Result<Option<(String, String)>, String> {
    if !SCOPES.contains(&scope) {
        return Err(format!("Unexpected value '{scope}' for permissions"));
    }
    match level.as_str() {
        Some("none") => Ok(None),
        Some(level @ ("read" | "write")) => Ok(Some((scope.to_owned(), level.to_owned()))),
        _ => Err(format!("Unexpected value '{level}' for permission '{scope}'")),
    }
}

/// The first scope that asks for more than the caller has, as GitHub reports it.
pub(super) fn excess(asked: &Permissions, allowed: &Permissions) -> Option<String> {
    let rank = |level: Option<&String>| match level.map(String::as_str) {
        Some("write") => 2,
        Some("read") => 1,
        _ => 0,
    };
    asked.iter().find(|(scope, level)| rank(Some(level)) > rank(allowed.get(*scope))).map(|(scope, level)| {
        let have = allowed.get(scope).map_or("none", String::as_str);
        format!("requesting '{scope}: {level}', but is only allowed '{scope}: {have}'")
    })
}

/// What is left in a run for a fork's pull request: reading, and no identity.
pub(super) fn read_only(granted: &Permissions) -> Permissions {
    granted.keys().filter(|scope| *scope != "id-token").map(|scope| (scope.clone(), "read".to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_callee_may_narrow_and_not_widen() {
        let caller = parse(&json!({"contents": "read", "id-token": "write"})).unwrap();
        assert_eq!(excess(&parse(&json!({"contents": "read"})).unwrap(), &caller), None);
        assert_eq!(
            excess(&parse(&json!({"checks": "write"})).unwrap(), &caller).as_deref(),
            Some("requesting 'checks: write', but is only allowed 'checks: none'")
        );
        assert_eq!(parse(&json!({})).unwrap(), Permissions::new());
        assert!(parse(&json!({"content": "read"})).is_err());
        assert!(parse(&json!("read-some")).is_err());
    }

    #[test]
    fn a_fork_reads_and_has_no_identity() {
        let granted = parse(&json!("write-all")).unwrap();
        let left = read_only(&granted);
        assert_eq!(left.get("contents").map(String::as_str), Some("read"));
        assert_eq!(left.get("id-token"), None);
    }
}
