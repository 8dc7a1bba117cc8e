//! Workflow runs: jobs, logs, and deployments that wait for a person.

use crate::actions::model::{Job, WorkflowRun};
use crate::host::{conclusion_name, status_name};

use super::Visit;
use super::html::{badge, button, escape, link};
use super::overview::{Page, navigation, readable};

/// The end of a log that a page shows.
const LOG_BYTES_SHOWN: usize = 200_000;

fn run_state(run: &WorkflowRun) -> &'static str {
    run.conclusion.map_or_else(|| status_name(run.status), conclusion_name)
}

fn job_state(job: &Job) -> &'static str {
    job.conclusion.map_or_else(|| status_name(job.status), conclusion_name)
}

pub fn list(visit: &Visit, repo: &str) -> Option<Page> {
    const RUNS_SHOWN: usize = 100;
    let repo = readable(visit, repo)?;
    let runs = visit.hub.engine().runs(&repo);
    let rows: String = runs
        .iter()
        .take(RUNS_SHOWN)
        .map(|run| {
            let target = format!("/{repo}/actions/runs/{}", run.id);
            let text = format!("{} #{}", run.title, run.run_number);
            format!(
                "<li>{} {} <span class=note>{}</span></li>",
                link(&target, &text),
                badge(run_state(run)),
                escape(&run.event)
            )
        })
        .collect();
    let empty = if rows.is_empty() { "<p>No workflow has run yet.</p>" } else { "" };
    Some((format!("Workflow runs of {repo}"), format!("{}{empty}<ul class=list>{rows}</ul>", navigation(&repo))))
}

pub fn run(visit: &Visit, repo: &str, id: &str) -> Option<Page> {
    let repo = readable(visit, repo)?;
    let engine = visit.hub.engine();
    let run = engine.run(id.parse().ok()?).filter(|run| run.repo == repo)?;
    let path = format!("/{repo}/actions/runs/{}", run.id);
    let jobs: String = engine
        .jobs(run.id)
        .iter()
        .filter(|job| job.attempt == run.attempt)
        .map(|job| job_details(visit, job))
        .collect();
    let error = engine.startup_error(run.id).map(|error| format!("<pre class=bad>{}</pre>", escape(&error)));
    let buttons = match run.conclusion {
        None => button(&format!("{path}/cancel"), "Cancel run", &[]),
        Some(_) => button(&format!("{path}/rerun"), "Re-run all jobs", &[]),
    };
    let artifacts: String = engine
        .artifacts(run.id)
        .iter()
        .map(|artifact| {
            let expired = if artifact.expired { " (expired)" } else { "" };
            format!("<li>{}{expired}</li>", link(&format!("/_services/artifacts/{}", artifact.id), &artifact.name))
        })
        .collect();
    let body = format!(
        "{}<p>{} {} by {} on <code>{}</code>, attempt {}</p>{}{}{buttons}<h2>Jobs</h2>{jobs}<h2>Artifacts</h2><ul class=list>{artifacts}</ul>",
        navigation(&repo),
        badge(run_state(&run)),
        escape(&run.event),
        escape(&run.triggering_actor),
        escape(&run.head_branch),
        run.attempt,
        error.unwrap_or_default(),
        pending(visit, &run, &path),
    );
    Some((run.title, body))
}

fn pending(visit: &Visit, run: &WorkflowRun, path: &str) -> String {
    let waiting = visit.hub.engine().pending(run.id);
    waiting
        .iter()
        .map(|held| {
            let fields = [("environment", held.environment.as_str())];
            let may = {
                let state = visit.hub.lock();
                held.reviewers.iter().any(|reviewer| state.is_reviewer(&run.repo, reviewer, &visit.login))
            };
            let buttons = match may {
                true => format!(
                    "<div class=row>{}{}</div>",
                    button(&format!("{path}/approve"), "Approve and deploy", &fields),
                    button(&format!("{path}/reject"), "Reject", &fields)
                ),
                false => format!("<p class=note>Reviewers: {}</p>", escape(&held.reviewers.join(", "))),
            };
            format!("<article><h3>{} waits for a review</h3>{buttons}</article>", escape(&held.environment))
        })
        .collect()
}

fn job_details(visit: &Visit, job: &Job) -> String {
    let log = visit.hub.engine().logs(job.id);
    let from = log.ceil_char_boundary(log.len().saturating_sub(LOG_BYTES_SHOWN));
    let steps: String = job
        .steps
        .iter()
        .map(|step| {
            let state = step.conclusion.map_or_else(|| status_name(step.status), conclusion_name);
            format!("<li>{} {}</li>", escape(&step.name), badge(state))
        })
        .collect();
    let environment = job.environment.as_deref().map(|name| format!("<p>Environment: {}</p>", escape(name)));
    format!(
        "<details id=\"job-{}\"><summary>{} <b>{}</b></summary>{}<ol>{steps}</ol><pre>{}</pre></details>",
        job.id,
        badge(job_state(job)),
        escape(&job.name),
        environment.unwrap_or_default(),
        escape(&log[from..]),
    )
}
