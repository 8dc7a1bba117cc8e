//! The actions that install Terraform and OpenTofu, and the cache.

use std::collections::BTreeMap;
use std::path::Path;

use super::Use;
use crate::actions::job::Runner;

/// Nothing is installed: the tool must be on the job's `PATH` already, whatever version was asked for.
pub(super) fn setup(runner: &mut Runner<'_>, step: &Use, tool: &str) -> Result<BTreeMap<String, String>, String> {
    let path = step.env.get("PATH").map(String::as_str).unwrap_or_default();
    let found =
        path.split(':').filter(|dir| !dir.is_empty()).map(|dir| Path::new(dir).join(tool)).find(|p| p.is_file());
    let found =
        found.ok_or_else(|| format!("`{tool}` is not on the PATH of this runner, and nothing is downloaded here"))?;
    runner.log.line(&format!("Using {} as it is on this machine", found.display()));
    Ok(BTreeMap::new())
}

/// Always a miss; nothing is saved.
pub(super) fn cache(runner: &mut Runner<'_>, step: &Use) -> Result<BTreeMap<String, String>, String> {
    let key = step.inputs.text("key").to_owned();
    if key.is_empty() {
        return Err("Input required and not supplied: key".to_owned());
    }
    runner.log.line(&format!("Cache not found for input keys: {key}"));
    Ok(BTreeMap::from([("cache-hit".to_owned(), "false".to_owned())]))
}
