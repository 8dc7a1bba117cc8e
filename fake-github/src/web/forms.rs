//! What the buttons of the pages do, as the person the visitor acts as.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

use crate::ReviewState;
use crate::shapes::encode;
use crate::state::roles::Role;

use super::overview::readable;
use super::{COOKIE, Visit, page, see_other};

type Outcome = Result<(), String>;

pub fn serve(visit: &Visit, parts: &[&str]) -> Response<Body> {
    if parts == ["_act_as"] {
        return act_as(visit);
    }
    let (owner, name, rest) = match parts {
        [owner, name, rest @ ..] => (owner, name, rest),
        _ => return not_found(visit),
    };
    let Some(repo) = readable(visit, &format!("{owner}/{name}")) else { return not_found(visit) };
    let (back, outcome) = match rest {
        [kind @ ("pull" | "issues"), number, action] => match number.parse() {
            Ok(number) => (format!("/{repo}/{kind}/{number}"), on_issue(visit, &repo, number, action)),
            Err(_) => return not_found(visit),
        },
        ["actions", "runs", id, action] => match id.parse() {
            Ok(id) => (format!("/{repo}/actions/runs/{id}"), on_run(visit, &repo, id, action)),
            Err(_) => return not_found(visit),
        },
        ["runs", id, "rerequest"] => match id.parse() {
            Ok(id) => (format!("/{repo}/runs/{id}"), rerequest(visit, &repo, id)),
            Err(_) => return not_found(visit),
        },
        _ => return not_found(visit),
    };
    match outcome {
        Ok(()) => see_other(&back),
        Err(reason) => see_other(&format!("{back}?notice={}", encode(&reason))),
    }
}

fn not_found(visit: &Visit) -> Response<Body> {
    page(visit, StatusCode::NOT_FOUND, "Not found", "<p>There is nothing here.</p>")
}

fn act_as(visit: &Visit) -> Response<Body> {
    let login = visit.form.get("login").map(String::as_str).unwrap_or_default();
    if visit.hub.lock().account(login).is_none() {
        return not_found(visit);
    }
    let back = visit.form.get("back").filter(|back| back.starts_with('/') && !back.starts_with("//"));
    let mut response = see_other(back.map_or("/", String::as_str));
    let cookie = format!("{COOKIE}={login}; Path=/; SameSite=Lax; HttpOnly");
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

fn needs(visit: &Visit, repo: &str, role: Role) -> Outcome {
    match visit.hub.lock().role(repo, &visit.login) >= role {
        true => Ok(()),
        false => Err(format!("{} needs the role {} here", visit.login, role.name())),
    }
}

fn on_issue(visit: &Visit, repo: &str, number: i64, action: &str) -> Outcome {
    let hub = &visit.hub;
    let issue = hub.issue(repo, number).ok_or("no such issue")?;
    match action {
        "comment" => {
            let body = visit.form.get("body").filter(|body| !body.trim().is_empty()).ok_or("a comment needs a text")?;
            hub.comment(repo, number, &visit.login, &body.replace("\r\n", "\n"));
        }
        "review" => {
            let approve = visit.form.get("event").map(String::as_str) == Some("approve");
            if issue.author == visit.login {
                return Err("Nobody can review their own pull request.".to_owned());
            }
            let state = if approve { ReviewState::Approve } else { ReviewState::RequestChanges };
            hub.review(repo, number, &visit.login, state, "").ok_or("no such pull request")?;
        }
        "merge" => {
            needs(visit, repo, Role::Write)?;
            hub.merge(repo, number, &visit.login)?;
        }
        "close" | "reopen" | "ready" => {
            if issue.author != visit.login {
                needs(visit, repo, Role::Triage)?;
            }
            match action {
                "close" => hub.close(repo, number, &visit.login),
                "reopen" => hub.reopen(repo, number, &visit.login),
                _ => hub.set_draft(repo, number, false, &visit.login),
            }
        }
        _ => return Err(format!("no such action: {action}")),
    }
    Ok(())
}

fn on_run(visit: &Visit, repo: &str, run: i64, action: &str) -> Outcome {
    let hub = &visit.hub;
    let environment = visit.form.get("environment").map(String::as_str).unwrap_or_default();
    match action {
        "approve" => hub.approve_deployments(repo, run, environment, &visit.login),
        "reject" => hub.reject_deployments(repo, run, environment, &visit.login),
        "cancel" | "rerun" => {
            needs(visit, repo, Role::Write)?;
            hub.engine().run(run).filter(|found| found.repo == repo).ok_or("no such run")?;
            match action {
                "rerun" => hub.engine().rerun(run, false, &visit.login),
                _ if hub.engine().cancel(run) => Ok(()),
                _ => Err("the run has completed".to_owned()),
            }
        }
        _ => Err(format!("no such action: {action}")),
    }
}

fn rerequest(visit: &Visit, repo: &str, check: i64) -> Outcome {
    needs(visit, repo, Role::Write)?;
    let known = visit.hub.lock().check_runs.get(&check).is_some_and(|run| run.repo == repo);
    match known && visit.hub.rerequest_check(check, &visit.login) {
        true => Ok(()),
        false => Err("no such check".to_owned()),
    }
}
