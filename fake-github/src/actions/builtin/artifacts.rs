//! `actions/upload-artifact` and `actions/download-artifact`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Use;
use crate::actions::glob;
use crate::actions::job::{Runner, write_file};
use crate::actions::model::Artifact;
use crate::actions::state::ArtifactRecord;
use crate::actions::zip;

/// GitHub's longest retention, and what `retention-days: 0` means.
const RETENTION_DAYS_MAX: i64 = 90;
const DAY_MS: i64 = 86_400_000;

/// Stores files as an artifact of the run.
pub(super) fn upload(runner: &mut Runner<'_>, step: &Use) -> Result<BTreeMap<String, String>, String> {
    let inputs = &step.inputs;
    inputs.only(&[
        "name",
        "path",
        "if-no-files-found",
        "retention-days",
        "compression-level",
        "overwrite",
        "include-hidden-files",
    ])?;
    let name = Some(inputs.text("name")).filter(|n| !n.is_empty()).unwrap_or("artifact").to_owned();
    if let Some(odd) = name.chars().find(|c| "\":<>|*?\r\n\\/".contains(*c)) {
        return Err(format!("The artifact name is not valid: {name}. Contains the following character: {odd:?}"));
    }
    let path = inputs.text("path").to_owned();
    if path.is_empty() {
        return Err("Input required and not supplied: path".to_owned());
    }
    let files = glob::find(&runner.workspace, std::slice::from_ref(&path), inputs.flag("include-hidden-files", false)?);
    if files.is_empty() {
        let message = format!("No files were found with the provided path: {path}. No artifacts will be uploaded.");
        return match inputs.text("if-no-files-found") {
            "" | "warn" => {
                runner.log.warning(&message);
                Ok(BTreeMap::new())
            }
            "ignore" => {
                runner.log.line(&message);
                Ok(BTreeMap::new())
            }
            "error" => Err(message),
            odd => Err(format!("Unrecognized if-no-files-found input: {odd}")),
        };
    }
    let root = common_root(&runner.workspace, &path, &files);
    let mut contents = BTreeMap::new();
    for file in &files {
        let inside = file.strip_prefix(&root).unwrap_or(file).display().to_string();
        let bytes = std::fs::read(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        contents.insert(inside, bytes);
    }
    let days = match inputs.number("retention-days", 0)? {
        0 => RETENTION_DAYS_MAX,
        days => days.clamp(1, RETENTION_DAYS_MAX),
    };
    let artifact = store(runner, &name, &contents, days, inputs.flag("overwrite", false)?)?;
    runner.log.line(&format!(
        "Artifact {name} has been successfully uploaded! {} file(s), {} bytes. Artifact ID is {}",
        contents.len(),
        artifact.size_bytes,
        artifact.id
    ));
    let url = format!(
        "{}/{}/actions/runs/{}/artifacts/{}",
        runner.engine.host.web_url(),
        artifact.repo,
        artifact.run_id,
        artifact.id
    );
    let digest = artifact.digest.trim_start_matches("sha256:").to_owned();
    Ok([("artifact-id", artifact.id.to_string()), ("artifact-digest", digest), ("artifact-url", url)]
        .map(|(k, v)| (k.to_owned(), v))
        .into())
}

fn store(
    runner: &Runner<'_>,
    name: &str,
    contents: &BTreeMap<String, Vec<u8>>,
    days: i64,
    overwrite: bool,
) -> Result<Artifact, String> {
    let engine = &runner.engine;
    let run = &runner.plan.attempt.run;
    let archive = zip::write(contents)?;
    let now = engine.host.now_ms();
    let id = engine.host.next_id();
    let digest = Sha256::digest(&archive).iter().map(|b| format!("{b:02x}")).collect::<String>();
    let artifact = Artifact {
        id,
        run_id: run.id,
        repo: run.repo.clone(),
        name: name.to_owned(),
        size_bytes: archive.len() as u64,
        digest: format!("sha256:{digest}"),
        created_at: now,
        expires_at: now + days * DAY_MS,
        expired: false,
    };
    let path = engine.options.root.join("artifacts").join(format!("{id}.zip"));
    write_file(&path, &archive)?;
    let mut state = engine.state();
    let same = state.artifacts.values().find(|r| r.artifact.run_id == run.id && r.artifact.name == name);
    match same.map(|record| record.artifact.id) {
        Some(old) if overwrite => {
            state.artifacts.remove(&old);
        }
        // A re-run starts with the names free again, as on GitHub.
        Some(old) if state.artifacts[&old].artifact.created_at < run.started_at => {}
        Some(_) => {
            return Err(format!(
                "Failed to CreateArtifact: Received non-retryable error: Failed request: (409) Conflict: an artifact \
                 with this name already exists on the workflow run ({name})"
            ));
        }
        None => {}
    }
    state.artifacts.insert(id, ArtifactRecord { artifact: artifact.clone(), archive: path });
    Ok(artifact)
}

/// What paths in the archive are relative to: the one directory asked for, else the deepest that holds all of them.
fn common_root(workspace: &Path, input: &str, files: &[PathBuf]) -> PathBuf {
    let lines = input.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with(['!', '#']));
    let roots: Vec<PathBuf> = lines.map(|line| glob::search_root(&glob::absolute(workspace, line))).collect();
    let mut root = roots.first().cloned().unwrap_or_else(|| workspace.to_owned());
    for other in &roots {
        while !other.starts_with(&root) && root.pop() {}
    }
    if files.len() == 1 && files[0] == root {
        root.pop();
    }
    root
}

/// Unpacks artifacts of this run or of another.
pub(super) fn download(runner: &mut Runner<'_>, step: &Use) -> Result<BTreeMap<String, String>, String> {
    let inputs = &step.inputs;
    inputs.only(&["name", "path", "run-id", "github-token", "repository", "merge-multiple", "pattern"])?;
    let run = &runner.plan.attempt.run;
    let repo = Some(inputs.text("repository")).filter(|r| !r.is_empty()).unwrap_or(&run.repo).to_owned();
    let run_id = inputs.number("run-id", run.id)?;
    if run_id != run.id && inputs.text("github-token").is_empty() {
        return Err("Input required and not supplied: github-token (to read another run's artifacts)".to_owned());
    }
    let own_token = inputs.text("github-token") == runner.token;
    if run_id != run.id && own_token && !runner.may("actions") {
        return Err("Unable to download artifact(s): Resource not accessible by integration".to_owned());
    }
    let target = runner.workspace.join(inputs.text("path"));
    let name = inputs.text("name").to_owned();
    let chosen = choose(runner, &repo, run_id, &name, inputs.text("pattern"));
    if chosen.is_empty() && !name.is_empty() {
        return Err(format!(
            "Unable to download artifact(s): Artifact not found for name: {name}. Please ensure that your artifact is \
             not expired and the artifact was uploaded using a compatible version of toolkit/upload-artifact."
        ));
    }
    let merge = inputs.flag("merge-multiple", false)?;
    for (artifact, archive) in chosen {
        let directory = if name.is_empty() && !merge { target.join(&artifact.name) } else { target.clone() };
        let bytes = std::fs::read(&archive).map_err(|e| format!("cannot read the artifact {}: {e}", artifact.name))?;
        for (inside, content) in zip::read(&bytes)? {
            let path = Path::new(&inside);
            if !path.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(format!("the path {inside} in artifact {} leads out of it", artifact.name));
            }
            write_file(&directory.join(path), &content)?;
        }
        runner.log.line(&format!("Artifact {} was downloaded to {}", artifact.name, directory.display()));
    }
    Ok(BTreeMap::from([("download-path".to_owned(), target.display().to_string())]))
}

/// The newest unexpired artifact of each fitting name.
fn choose(runner: &Runner<'_>, repo: &str, run_id: i64, name: &str, pattern: &str) -> Vec<(Artifact, PathBuf)> {
    let now = runner.engine.host.now_ms();
    let state = runner.engine.state();
    let mut newest: BTreeMap<String, (Artifact, PathBuf)> = BTreeMap::new();
    for record in state.artifacts.values() {
        let artifact = &record.artifact;
        let fits = artifact.run_id == run_id
            && artifact.repo.eq_ignore_ascii_case(repo)
            && !artifact.expired
            && artifact.expires_at > now
            && (name.is_empty() || artifact.name == name)
            && (pattern.is_empty() || glob::filter_allows(&[pattern.to_owned()], &artifact.name));
        if fits {
            newest.insert(artifact.name.clone(), (artifact.clone(), record.archive.clone()));
        }
    }
    newest.into_values().collect()
}
