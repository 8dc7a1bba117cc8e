//! `actions/checkout`, with real git; and the checkouts that actions themselves run from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;

use super::Use;
use crate::actions::job::{Cleanup, Runner};
use crate::actions::process::{self, Ended};
use crate::actions::signals::Stop;
use crate::actions::workflow::Source;

/// What is to be fetched, under which local name, and what to check out then.
struct Wanted {
    refspecs: Vec<String>,
    checkout: Vec<String>,
}

/// Fetches and checks out.
pub(super) async fn run(runner: &mut Runner<'_>, step: &Use) -> Result<BTreeMap<String, String>, String> {
    let inputs = &step.inputs;
    inputs.only(&[
        "ref",
        "fetch-depth",
        "fetch-tags",
        "repository",
        "path",
        "persist-credentials",
        "token",
        "clean",
        "show-progress",
        "set-safe-directory",
    ])?;
    let own = runner.plan.attempt.run.repo.clone();
    let repo = Some(inputs.text("repository")).filter(|r| !r.is_empty()).unwrap_or(&own).to_owned();
    let depth = inputs.number("fetch-depth", 1)?;
    let directory = runner.workspace.join(inputs.text("path"));
    let token = Some(inputs.text("token")).filter(|t| !t.is_empty()).unwrap_or(&runner.token).to_owned();
    let url = runner.engine.host.clone_url(&repo);
    let (key, header) = credentials(runner, &url, &token);

    std::fs::create_dir_all(&directory).map_err(|e| format!("cannot make {}: {e}", directory.display()))?;
    if !directory.join(".git").exists() {
        command(runner, &directory, &["init", "--quiet", "."], step).await?;
        command(runner, &directory, &["remote", "add", "origin", &url], step).await?;
    }
    command(runner, &directory, &["config", "--local", &key, &header], step).await?;
    let checkout = fetch_and_check_out(runner, step, &directory, &repo, depth).await;
    if inputs.flag("persist-credentials", true)? {
        runner.cleanups.push(Cleanup::GitConfig { checkout: directory.clone(), key });
    } else {
        command(runner, &directory, &["config", "--local", "--unset-all", &key], step).await?;
    }
    checkout?;
    let commit = capture(runner, &directory, &["rev-parse", "HEAD"], step).await?;
    let ref_name = inputs.text("ref").to_owned();
    Ok(BTreeMap::from([("commit".to_owned(), commit), ("ref".to_owned(), ref_name)]))
}

async fn fetch_and_check_out(
    runner: &mut Runner<'_>,
    step: &Use,
    directory: &Path,
    repo: &str,
    depth: i64,
) -> Result<(), String> {
    let wanted = wanted(runner, step.inputs.text("ref"), repo)?;
    let mut fetch = vec!["-c", "protocol.version=2", "fetch", "--prune", "--no-recurse-submodules"];
    let depth_flag = format!("--depth={depth}");
    if depth > 0 {
        fetch.extend(["--no-tags", &depth_flag]);
    }
    fetch.push("origin");
    if depth <= 0 {
        fetch.extend(["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]);
    }
    fetch.extend(wanted.refspecs.iter().map(String::as_str));
    command(runner, directory, &fetch, step).await?;
    let checkout: Vec<&str> = wanted.checkout.iter().map(String::as_str).collect();
    command(runner, directory, &checkout, step).await?;
    command(runner, directory, &["log", "-1", "--format=%H"], step).await
}

/// Of no ref the run's own commit, under the name its ref has; of a ref whatever the repository calls so.
fn wanted(runner: &Runner<'_>, asked: &str, repo: &str) -> Result<Wanted, String> {
    let run = &runner.plan.attempt.run;
    let host = &runner.engine.host;
    let is_commit = |text: &str| text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let (full_ref, commit) = if asked.is_empty() && repo == run.repo {
        (run.git_ref.clone(), run.sha.clone())
    } else {
        let default = host.repository(repo).map(|facts| facts.default_branch);
        let name = if asked.is_empty() {
            default.ok_or_else(|| format!("repository '{repo}' not found"))?
        } else {
            asked.to_owned()
        };
        let missing = format!("A branch or tag with the name '{name}' could not be found");
        if is_commit(&name) {
            (name.clone(), name)
        } else {
            let commit = host.resolve_ref(repo, &name).ok_or_else(|| missing.clone())?;
            (host.full_ref(repo, &name).unwrap_or(name), commit)
        }
    };
    let force = |arguments: &[&str]| arguments.iter().map(|a| (*a).to_owned()).collect();
    Ok(if let Some(branch) = full_ref.strip_prefix("refs/heads/") {
        let remote = format!("refs/remotes/origin/{branch}");
        Wanted {
            refspecs: vec![format!("+{commit}:{remote}")],
            checkout: force(&["checkout", "--quiet", "--force", "-B", branch, &remote]),
        }
    } else if let Some(pull) = full_ref.strip_prefix("refs/pull/") {
        let remote = format!("refs/remotes/pull/{pull}");
        Wanted {
            refspecs: vec![format!("+{commit}:{remote}")],
            checkout: force(&["checkout", "--quiet", "--force", "--detach", &remote]),
        }
    } else if let Some(tag) = full_ref.strip_prefix("refs/tags/") {
        Wanted {
            refspecs: vec![format!("+refs/tags/{tag}:refs/tags/{tag}")],
            checkout: force(&["checkout", "--quiet", "--force", "--detach", &full_ref]),
        }
    } else {
        Wanted {
            refspecs: vec![commit.clone()],
            checkout: force(&["checkout", "--quiet", "--force", "--detach", &commit]),
        }
    })
}

/// The git setting that sends a token, and its value; the value is masked.
fn credentials(runner: &mut Runner<'_>, url: &str, token: &str) -> (String, String) {
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{token}"));
    runner.log.mask(token);
    runner.log.mask(&basic);
    let origin: String = match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}/", rest.split('/').next().unwrap_or_default()),
        None => url.to_owned(),
    };
    (format!("http.{origin}.extraheader"), format!("AUTHORIZATION: basic {basic}"))
}

/// The repository of an action at its commit, on disk; shared by all jobs, which only read it.
pub(in crate::actions) async fn action_repository(runner: &mut Runner<'_>, source: &Source) -> Result<PathBuf, String> {
    let directory = runner.engine.options.root.join("actions").join(&source.repo).join(&source.commit);
    let engine = std::sync::Arc::clone(&runner.engine);
    let _one_at_a_time = engine.downloads.lock().await;
    if directory.exists() {
        return Ok(directory);
    }
    let partial = directory.with_extension("partial");
    if partial.exists() {
        std::fs::remove_dir_all(&partial).map_err(|e| format!("cannot remove {}: {e}", partial.display()))?;
    }
    std::fs::create_dir_all(&partial).map_err(|e| format!("cannot make {}: {e}", partial.display()))?;
    let url = engine.host.clone_url(&source.repo);
    let owned = |arguments: &[&str]| arguments.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>();
    git(runner, &partial, &owned(&["init", "--quiet", "."]), true).await?;
    let fetch = ["fetch", "--quiet", "--depth=1", "--no-tags", &url, &source.commit];
    if git(runner, &partial, &owned(&fetch), true).await.is_err() {
        // Not public: the job's token may open it.
        let token = runner.token.clone();
        let (key, header) = credentials(runner, &url, &token);
        let setting = format!("{key}={header}");
        let fetch = ["-c", &setting, "fetch", "--quiet", "--depth=1", "--no-tags", &url, &source.commit];
        git(runner, &partial, &owned(&fetch), true)
            .await
            .map_err(|e| format!("Unable to download action `{}@{}`: {e}", source.repo, source.commit))?;
    }
    git(runner, &partial, &owned(&["checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"]), true).await?;
    std::fs::rename(&partial, &directory).map_err(|e| format!("cannot make {}: {e}", directory.display()))?;
    Ok(directory)
}

async fn command(runner: &mut Runner<'_>, directory: &Path, arguments: &[&str], step: &Use) -> Result<(), String> {
    runner.log.line(&format!("[command]git {}", arguments.join(" ")));
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    execute(runner, directory, &arguments, &step.stop, false).await.map(drop)
}

async fn capture(runner: &mut Runner<'_>, directory: &Path, arguments: &[&str], step: &Use) -> Result<String, String> {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    execute(runner, directory, &arguments, &step.stop, true).await
}

/// Runs git outside of any step.
pub(in crate::actions) async fn git(
    runner: &mut Runner<'_>,
    directory: &Path,
    arguments: &[String],
    quiet: bool,
) -> Result<String, String> {
    let never = Stop::new();
    execute(runner, directory, arguments, &never, quiet).await
}

/// Git's output; it is logged too unless `quiet`. The machine's own git configuration stays out.
async fn execute(
    runner: &mut Runner<'_>,
    directory: &Path,
    arguments: &[String],
    stop: &Stop,
    quiet: bool,
) -> Result<String, String> {
    let mut env = runner.base_env.clone();
    let own = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ADVICE", "0"),
        // No example hooks, one pack instead of a file for each object, no housekeeping: a job's checkout lives for seconds.
        ("GIT_TEMPLATE_DIR", ""),
        ("GIT_CONFIG_COUNT", "2"),
        ("GIT_CONFIG_KEY_0", "fetch.unpackLimit"),
        ("GIT_CONFIG_VALUE_0", "1"),
        ("GIT_CONFIG_KEY_1", "maintenance.auto"),
        ("GIT_CONFIG_VALUE_1", "false"),
    ];
    env.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    // The fake is on this machine; a proxy meant for other hosts must not see its tokens.
    for proxy in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        env.remove(proxy);
    }
    let spec = process::Spec {
        program: "git",
        arguments,
        env: &env,
        directory,
        stop,
        kill: &runner.killed,
        timeout: None,
        timing: runner.engine.options.timing,
    };
    let log = runner.log.clone();
    let (engine, job_id) = (std::sync::Arc::clone(&runner.engine), runner.job_id);
    let mut output: Vec<String> = Vec::new();
    let on_start = move |group| {
        if let Some(record) = engine.state().jobs.get_mut(&job_id) {
            record.groups.push(group);
        }
    };
    let ended = process::run(spec, on_start, |line| {
        if !quiet {
            log.line(line);
        }
        output.push(line.to_owned());
    })
    .await
    .map_err(|e| format!("cannot run git: {e}"))?;
    match ended {
        Ended::Exit(0) => Ok(output.join("\n")),
        Ended::Exit(code) => Err(format!(
            "The process 'git' failed with exit code {code}: {}",
            output.last().cloned().unwrap_or_default()
        )),
        Ended::Cancelled | Ended::TimedOut | Ended::Killed => Err("The operation was canceled.".to_owned()),
    }
}
