//! The settings that count as they stand on the default branch, whatever a pull request says (spec 10 §2.5a).

use super::Job;
use super::git::Git;
use super::stop::Stop;
use crate::config::ROOT_FILE;
use crate::config::model::RepoConfig;
use crate::config::parse::parse_repo_config;
use crate::ids::Sha;

/// The configuration of the default branch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BaseCopy {
    pub config: RepoConfig,
    /// Where it was read; `None` for the working copy.
    pub commit: Option<Sha>,
}

const POLICY_DIR: &str = ".stackorder/policy";

/// Reads it at the commit the job was given, else at `origin/<default branch>`.
/// With neither, a job fails and a laptop takes the working copy, with a warning.
pub fn base_copy(job: &Job) -> Result<BaseCopy, Stop> {
    match policy_commit(job)? {
        Some(commit) => Ok(BaseCopy { config: config_at(&job.git, &commit)?, commit: Some(commit) }),
        None if job.facts.is_actions => Err(Stop::failed(
            "the default branch is not known here: set STACKORDER_POLICY_SHA to its head, \
             as the workflows of stackorder do",
        )),
        None => {
            job.console.warn("origin's default branch is not known here, so the working copy's settings count");
            let path = job.root.join(ROOT_FILE);
            let config = match std::fs::read(&path) {
                Ok(bytes) => parse_repo_config(ROOT_FILE, &bytes)?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => RepoConfig::default(),
                Err(error) => return Err(Stop::failed(format!("{ROOT_FILE}: {error}"))),
            };
            Ok(BaseCopy { config, commit: None })
        }
    }
}

/// The commit whose policy counts, fetched when it is missing here; `None` when nothing names one.
pub fn policy_commit(job: &Job) -> Result<Option<Sha>, Stop> {
    if let Some(text) = job.env.get("STACKORDER_POLICY_SHA") {
        let commit =
            Sha::parse(text.trim()).map_err(|error| Stop::failed(format!("STACKORDER_POLICY_SHA: {error}")))?;
        job.git.fetch_commit(&commit)?;
        return Ok(Some(commit));
    }
    if job.facts.default_branch.is_empty() {
        return Ok(None);
    }
    Ok(job.git.commit_of(&format!("refs/remotes/origin/{}", job.facts.default_branch))?)
}

/// The configuration at a commit; the defaults where it has none.
pub fn config_at(git: &Git, commit: &Sha) -> Result<RepoConfig, Stop> {
    match git.show(commit, ROOT_FILE)? {
        Some(bytes) => Ok(parse_repo_config(&format!("{ROOT_FILE} at {}", commit.short()), &bytes)?),
        None => Ok(RepoConfig::default()),
    }
}

/// Paths of the policy files beside it, sorted. A working copy has none that count.
pub fn policy_files(git: &Git, base: &BaseCopy) -> Result<Vec<String>, Stop> {
    let Some(commit) = &base.commit else { return Ok(Vec::new()) };
    let is_policy = |path: &str| {
        path.strip_prefix(POLICY_DIR)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|name| name.ends_with(".rego") && !name.contains('/'))
    };
    let mut files: Vec<String> =
        git.tree(commit)?.into_iter().map(|file| file.path).filter(|path| is_policy(path)).collect();
    files.sort();
    Ok(files)
}
