//! Environment variables that every step of a job has.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::actions::model::Job;
use crate::actions::state::Inner;

/// What a job may know of the machine it runs on; everything else stays outside.
const INHERITED: [&str; 8] = ["HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The runner's own variables.
pub(super) fn of_runner(
    engine: &Inner,
    job: &Job,
    home: &Path,
    workspace: &Path,
    temp: &Path,
) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> =
        INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect();
    let mut path: Vec<String> = engine.options.path.iter().map(|p| p.display().to_string()).collect();
    path.extend(std::env::var("PATH").ok());
    env.insert("PATH".to_owned(), path.join(":"));
    env.extend(engine.options.env.clone());
    let os = match std::env::consts::OS {
        "macos" => "macOS",
        "windows" => "Windows",
        _ => "Linux",
    };
    let arch = match std::env::consts::ARCH {
        "aarch64" => "ARM64",
        _ => "X64",
    };
    let own = [
        ("CI", "true".to_owned()),
        ("GITHUB_ACTIONS", "true".to_owned()),
        ("RUNNER_NAME", job.runner_name.clone().unwrap_or_default()),
        ("RUNNER_OS", os.to_owned()),
        ("RUNNER_ARCH", arch.to_owned()),
        ("RUNNER_ENVIRONMENT", "self-hosted".to_owned()),
        ("RUNNER_TEMP", temp.display().to_string()),
        ("RUNNER_TOOL_CACHE", engine.options.tool_cache.display().to_string()),
        ("RUNNER_WORKSPACE", workspace.parent().unwrap_or(home).display().to_string()),
    ];
    env.extend(own.map(|(name, value)| (name.to_owned(), value)));
    env
}

/// `runner`, from the same variables.
pub(super) fn runner_context(env: &BTreeMap<String, String>) -> Value {
    let of = |name: &str| env.get(name).cloned().unwrap_or_default();
    json!({
        "name": of("RUNNER_NAME"),
        "os": of("RUNNER_OS"),
        "arch": of("RUNNER_ARCH"),
        "environment": of("RUNNER_ENVIRONMENT"),
        "temp": of("RUNNER_TEMP"),
        "tool_cache": of("RUNNER_TOOL_CACHE"),
        "workspace": of("RUNNER_WORKSPACE"),
        "debug": "",
    })
}

/// `GITHUB_*` of a step: scalars of the `github` context that GitHub exports.
pub(super) fn of_github(github: &serde_json::Map<String, Value>) -> BTreeMap<String, String> {
    const EXPORTED: [&str; 33] = [
        "action",
        "action_path",
        "action_ref",
        "action_repository",
        "actor",
        "actor_id",
        "api_url",
        "base_ref",
        "event_name",
        "event_path",
        "graphql_url",
        "head_ref",
        "job",
        "ref",
        "ref_name",
        "ref_protected",
        "ref_type",
        "repository",
        "repository_id",
        "repository_owner",
        "repository_owner_id",
        "retention_days",
        "run_attempt",
        "run_id",
        "run_number",
        "server_url",
        "sha",
        "triggering_actor",
        "workflow",
        "workflow_ref",
        "workflow_sha",
        "workspace",
        "secret_source",
    ];
    let text = |name: &&str| Some((format!("GITHUB_{}", name.to_uppercase()), github.get(*name)?));
    EXPORTED.iter().filter_map(text).map(|(k, v)| (k, crate::actions::expression::coerce::to_text(v))).collect()
}
