//! The pages over a store that is filled by hand: what they say, what they escape, and what they answer to the odd request.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Pages, router};
use crate::clock::{HandClock, MINUTE_MS, Millis};
use crate::graph::model::{Edge, EdgeType, Graph, Module, ModuleKind, NodeRef, Stack};
use crate::ids::{DispatchId, RunId, Sha, StackId, StackKey};
use crate::plan::summary::PlanSummary;
use crate::run::model::{AuditEntry, Dispatch, DriftSeen, Lock, Repo, Row, Run, Verdict};
use crate::run::scene::{Changes, Effects, PlanText, StoredGraph};
use crate::run::status::{Mode, VerdictStatus};
use crate::store::{Installation, MemoryStore, Store};

const NOON: Millis = 1_790_000_000_000;
const REPO: i64 = 7;
const EVIL: &str = "<script>alert('x')</script>\"onmouseover=";

fn sha(digit: char) -> Sha {
    Sha::parse(&digit.to_string().repeat(40)).unwrap()
}

fn id(number: u32) -> RunId {
    RunId::parse(&format!("00000000-0000-4000-8000-{number:012}")).unwrap()
}

fn run(number: u32, mode: &str, status: &str, more: Value) -> Run {
    let mut value = json!({
        "id": id(number), "repo_id": REPO, "sha": sha('a'), "pr_number": 42, "trigger": "pull_request", "mode": mode,
        "status": status, "requested_by": "octocat", "waves": 2, "current_wave": 0, "created_at": NOON + i64::from(number),
        "graph_sha": sha('a'), "commit_message": "Grow the cluster\n\nmore", "commit_author": "Mona", "head_ref": "grow",
    });
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

fn row(run: &Run, key: &str, wave: u32, status: &str, more: Value) -> Row {
    let mut value = json!({
        "run_id": run.id, "stack_id": StackId::of(REPO, key), "key": key, "mode": run.mode, "status": status, "wave": wave,
        "reasons": ["module"], "via": ["modules/net"], "environment": "production", "tool": "terraform",
        "tool_version": "1.11.4", "plan_output": "full", "updated_at": NOON,
    });
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

fn counts() -> PlanSummary {
    PlanSummary { adds: 4, destroys: 1, ..PlanSummary::default() }
}

/// Pages over a repository `acme/infra` without runs.
struct World {
    store: Arc<MemoryStore>,
}

impl World {
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::default());
        let installation =
            Installation { id: 1, account: "acme".into(), account_type: "Organization".into(), suspended: false };
        store.save_installation(&installation).await.unwrap();
        let repo: Repo = serde_json::from_value(json!({
            "id": REPO, "installation_id": 1, "full_name": "acme/infra", "default_branch": "main", "private": true,
            "suspended": false, "config": null, "config_sha": "", "default_graph": null,
        }))
        .unwrap();
        store.save_repo(&repo).await.unwrap();
        Self { store }
    }

    async fn commit(&self, changes: Changes) {
        self.store.commit(Changes { repo_id: REPO, ..changes }).await.unwrap();
    }

    async fn with(&self, run: &Run, rows: &[Row]) {
        self.commit(Changes { new_runs: vec![run.clone()], rows: rows.to_vec(), ..Changes::default() }).await;
    }

    fn router(&self, open: bool) -> Router {
        router(Pages {
            store: self.store.clone(),
            clock: Arc::new(HandClock::at(NOON + 5 * MINUTE_MS)),
            web_url: "https://github.example".to_owned(),
            open,
        })
    }

    async fn ask(&self, request: Request<Body>) -> (StatusCode, axum::http::HeaderMap, String) {
        let response = self.router(true).oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, headers, String::from_utf8(body.to_vec()).unwrap())
    }

    /// The page at an address, which must be there and within the rules of every page.
    /// With `STACKORDER_TEST_PAGES=<directory>` it is also written there, to be looked at.
    async fn page(&self, address: &str) -> String {
        let (status, _, html) = self.ask(Request::get(address).body(Body::empty()).unwrap()).await;
        assert_eq!(status, StatusCode::OK, "{address}: {html}");
        if let Ok(directory) = std::env::var("STACKORDER_TEST_PAGES") {
            let name: String = address.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            std::fs::write(format!("{directory}/{name}.html"), &html).unwrap();
        }
        assert_clean(address, &html);
        html
    }
}

/// No script or style of its own, nothing foreign unescaped.
fn assert_clean(address: &str, html: &str) {
    for script in html.split("<script").skip(1) {
        assert!(script.starts_with(" src=\"/assets/"), "{address}: an inline script: {script:.80}");
        assert!(script.contains("defer></script>"), "{address}");
    }
    for bad in ["<style", " style=", "javascript:", "<script>alert", "\"onmouseover"] {
        assert!(!html.contains(bad), "{address}: contains {bad:?}");
    }
    let tags = html.split('<').skip(1).filter_map(|tag| tag.split('>').next());
    for tag in tags {
        assert!(!tag.split(' ').any(|part| part.starts_with("on") && part.contains('=')), "{address}: <{tag}>");
    }
}

/// The text of a page without its tags, one space between words.
fn words(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<') {
        text.push(' ');
        text.push_str(part.split_once('>').map_or(part, |(_, after)| after));
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn graph() -> Graph {
    let stack = |key: &str| Stack { key: key.into(), path: key.into(), ..Stack::default() };
    let edge = |from: NodeRef, to: NodeRef, kind, inferred| Edge { from, to, kind, inferred, meta: Default::default() };
    Graph {
        repo: "acme/infra".into(),
        sha: sha('a').to_string(),
        stacks: vec![stack("live/vpc"), stack("live/eks"), stack("live/app")],
        modules: vec![Module {
            key: "modules/net".into(),
            kind: ModuleKind::Local,
            path: "modules/net".into(),
            source: "../modules/net".into(),
            reference: String::new(),
        }],
        edges: vec![
            edge(NodeRef::stack("live/eks"), NodeRef::stack("live/vpc"), EdgeType::DependsOn, false),
            edge(NodeRef::stack("live/app"), NodeRef::stack("live/eks"), EdgeType::ReadsState, true),
            edge(NodeRef::stack("live/vpc"), NodeRef::module("modules/net"), EdgeType::UsesModule, false),
        ],
        ..Graph::default()
    }
}

async fn store_graph(world: &World, graph: Graph) {
    let stored = StoredGraph {
        repo_id: REPO,
        sha: sha('a'),
        content_hash: "hash".into(),
        tree_hash: String::new(),
        pr_number: 0,
        graph,
        created_at: NOON,
    };
    let effects = Effects { graph: Some(stored), default_graph: Some(sha('a')), ..Effects::default() };
    world.commit(Changes { effects, ..Changes::default() }).await;
}

/// A pull request that was planned and is being applied: wave 0 done, wave 1 waits for a reviewer.
async fn applying(world: &World) -> (Run, Run) {
    store_graph(world, graph()).await;
    let plan = run(1, "plan", "planned", json!({ "finished_at": NOON + 60_000, "started_at": NOON }));
    let planned = |key, wave| {
        row(&plan, key, wave, "planned", json!({ "summary": counts(), "has_plan_text": true, "has_changes": true }))
    };
    world.with(&plan, &[planned("live/vpc", 0), planned("live/eks", 1)]).await;
    let text =
        PlanText { run_id: plan.id.clone(), stack_id: StackId::of(REPO, "live/vpc"), text: "+ vpc <new>".into() };
    let drift = DriftSeen {
        stack_id: StackId::of(REPO, "live/app"),
        repo_id: REPO,
        key: StackKey::parse("live/app").unwrap(),
        run_id: plan.id.clone(),
        checked_at: NOON,
        drifted: true,
        summary: Some(counts()),
    };
    let effects = Effects { plan_texts: vec![text], drift: vec![drift], ..Effects::default() };
    world.commit(Changes { effects, ..Changes::default() }).await;
    let apply = run(2, "apply", "applying", json!({ "trigger": "comment", "current_wave": 1, "started_at": NOON }));
    let dispatch = DispatchId::of(&apply.id, 1, "production", "apply", 0);
    let done = json!({ "summary": counts(), "from_plan_run": plan.id, "job_url": "https://github.example/job/1" });
    let waits = json!({ "waiting_for_approval": true, "dispatch_id": dispatch, "from_plan_run": plan.id });
    let rows = [row(&apply, "live/vpc", 0, "applied", done), row(&apply, "live/eks", 1, "applying", waits)];
    let lock = |key: &str| Lock {
        stack_id: StackId::of(REPO, key),
        key: StackKey::parse(key).unwrap(),
        repo_id: REPO,
        run_id: apply.id.clone(),
        pr_number: 42,
        taken_at: NOON,
        reason: "apply".into(),
    };
    let changes = Changes {
        new_runs: vec![apply.clone()],
        rows: rows.to_vec(),
        locks_taken: vec![lock("live/eks"), lock("live/vpc")],
        dispatches: vec![Dispatch {
            id: dispatch,
            run_id: apply.id.clone(),
            wave: 1,
            environment: "production".into(),
            mode: Mode::Apply,
            chunk: 0,
            workflow_run_id: Some(99),
            attempt: 1,
            dispatched_at: NOON,
            sent_at: Some(NOON),
            completed_at: None,
            conclusion: String::new(),
            is_second_try: false,
        }],
        ..Changes::default()
    };
    world.commit(changes).await;
    (plan, apply)
}

#[tokio::test]
async fn an_empty_server_says_what_makes_something_appear() {
    let world = World { store: Arc::new(MemoryStore::default()) };
    assert!(words(&world.page("/").await).contains("Install the GitHub App"));
    assert!(words(&world.page("/runs").await).contains("Open a pull request that changes a stack"));
}

#[tokio::test]
async fn the_overview_shows_who_waits_and_who_holds_what() {
    let world = World::new().await;
    applying(&world).await;
    let html = world.page("/").await;
    let text = words(&html);
    for said in [
        "1 repository 3 stacks 1 drifted 2 locked",
        "Apply of #42 by octocat in acme/infra waits for production (1 stack: live/eks)",
        "live/eks acme/infra #42 ( run ) 5 min ago apply",
        "applying, wave 1 of 2",
        "live/app acme/infra 4 to add, 0 to change, 1 to destroy, 0 to replace",
    ] {
        assert!(text.contains(said), "{said:?} is not in {text}");
    }
    assert!(html.contains("https://github.example/acme/infra/actions/runs/99"));
    assert!(html.contains("data-refresh=\"5000\""));
}

#[tokio::test]
async fn case_155_a_locked_stack_is_shown_as_not_checked_for_drift_and_by_whom_it_is_held() {
    let world = World::new().await;
    applying(&world).await;
    let text = words(&world.page("/repos/acme/infra").await);
    assert!(text.contains("no check yet (no check while #42 holds the lock)"), "{text}");
    assert!(text.contains("drifted: 4 to add") && !text.contains("0 to replace (no check"), "free ones are: {text}");
}

/// No browser here: that the script is plain HTTP, knows how to say it, and has a place for it on a page that is whole
/// without it.
#[tokio::test]
async fn failure_20_a_page_that_cannot_be_refreshed_says_that_it_may_be_out_of_date() {
    let world = World::new().await;
    applying(&world).await;
    let html = world.page("/").await;
    assert!(
        html.contains("<p id=\"stale\" role=\"status\" hidden></p>") && words(&html).contains("live/eks acme/infra")
    );
    let (_, _, script) = world.ask(Request::get(super::assets::script()).body(Body::empty()).unwrap()).await;
    assert!(script.contains("fetch(location.href") && !script.contains("WebSocket"), "{script}");
    assert!(script.contains("What you see may be out of date."), "{script}");
}

#[tokio::test]
async fn a_run_page_says_what_a_person_must_do_next_and_why_each_stack_is_there() {
    let world = World::new().await;
    let (plan, apply) = applying(&world).await;
    let html = world.page(&format!("/runs/{}", apply.id)).await;
    let text = words(&html);
    for said in [
        "Apply of #42 by octocat applying, wave 1 of 2 Grow the cluster",
        "Waiting for a reviewer of production production (live/eks): review the deployment on GitHub",
        "octocat , through a comment",
        "Applies the plans of Plan of #42 (planned)",
        "Wave 0 1 stack: 1 applied",
        "live/vpc applied 4 added, 0 changed, 1 destroyed, 0 replaced a module it uses changed, via modules/net production job",
        "Wave 1 now 1 stack: 1 applying",
        "waiting for approval",
        "Locked by this pull request",
    ] {
        assert!(text.contains(said), "{said:?} is not in {text}");
    }
    assert!(html.contains("data-refresh=\"2000\""), "a run that works is followed closely");
    let html = world.page(&format!("/runs/{}", plan.id)).await;
    let text = words(&html);
    assert!(text.contains("An apply of these plans was asked for It is applying: Apply of #42"), "{text}");
    assert!(html.contains("<pre>+ vpc &#60;new&#62;</pre>"));
    let stack = words(&world.page(&format!("/runs/{}?stack=live/vpc", plan.id)).await);
    assert!(stack.contains("terraform 1.11.4") && stack.contains("+ vpc"), "{stack}");
}

#[tokio::test]
async fn a_finished_plan_asks_for_a_review_and_an_ended_run_is_not_polled() {
    let world = World::new().await;
    let plan = run(1, "plan", "planned", json!({}));
    let changed = json!({ "summary": counts(), "has_changes": true });
    world.with(&plan, &[row(&plan, "live/vpc", 0, "planned", changed)]).await;
    let text = words(&world.page(&format!("/runs/{}", plan.id)).await);
    assert!(
        text.contains(
            "1 stack with changes, ready for review Review the plans below, then comment “stackorder apply” on #42"
        ),
        "{text}"
    );

    let lost = run(3, "apply", "failed", json!({ "trigger": "comment" }));
    let claim = json!({ "claim": { "at": NOON, "workflow_run_id": 1, "attempt": 1, "check_run_id": 1 } });
    world.with(&lost, &[row(&lost, "live/vpc", 0, "unknown", claim)]).await;
    let html = world.page(&format!("/runs/{}", lost.id)).await;
    assert!(words(&html).contains("Nobody knows what was applied to live/vpc"), "{html}");
    assert!(!html.contains("data-refresh"));
}

#[tokio::test]
async fn hostile_names_are_only_ever_text() {
    let world = World::new().await;
    let mut hostile = graph();
    hostile.stacks.push(Stack { key: EVIL.into(), path: EVIL.into(), ..Stack::default() });
    hostile.modules[0].key = format!("modules/{EVIL}");
    hostile.warnings.push(crate::graph::model::Warning::new("x", EVIL));
    store_graph(&world, hostile).await;
    let more = json!({
        "requested_by": EVIL, "commit_message": EVIL, "commit_author": EVIL, "head_ref": EVIL, "warnings": [EVIL],
        "external": [EVIL], "base_sha": EVIL, "removed": [{ "key": EVIL, "path": EVIL, "state": EVIL }],
    });
    let plan = run(1, "plan", "planned", more);
    let texts = json!({
        "environment": EVIL, "note": EVIL, "via": [EVIL], "job_url": "javascript:alert(1)", "error_text": EVIL,
        "has_plan_text": true, "summary": counts(), "tool_version": EVIL,
    });
    let evil_row = row(&plan, EVIL, 0, "failed", texts);
    let verdict = Verdict {
        run_id: plan.id.clone(),
        stack_id: evil_row.stack_id.clone(),
        key: evil_row.key.clone(),
        name: EVIL.into(),
        status: VerdictStatus::Fail,
        summary: EVIL.into(),
        details: EVIL.into(),
        details_url: "javascript:alert(2)".into(),
        updated_at: NOON,
    };
    let text = PlanText { run_id: plan.id.clone(), stack_id: evil_row.stack_id.clone(), text: EVIL.into() };
    world
        .commit(Changes {
            new_runs: vec![plan.clone()],
            rows: vec![evil_row.clone()],
            verdicts: vec![verdict],
            locks_taken: vec![Lock {
                stack_id: evil_row.stack_id.clone(),
                key: evil_row.key.clone(),
                repo_id: REPO,
                run_id: plan.id.clone(),
                pr_number: 0,
                taken_at: NOON,
                reason: EVIL.into(),
            }],
            effects: Effects { plan_texts: vec![text], ..Effects::default() },
            ..Changes::default()
        })
        .await;
    let evil = AuditEntry {
        at: NOON,
        actor: EVIL.to_owned(),
        action: "command".to_owned(),
        target: EVIL.to_owned(),
        details: [(EVIL.to_owned(), json!(EVIL))].into(),
    };
    world.store.add_audit(&evil).await.unwrap();
    let stack = super::links::stack(&plan.id, &evil_row.key);
    let page = format!("/runs/{}", plan.id);
    let focus = format!("/repos/acme/infra/graph?focus=module:{}", super::links::encoded(EVIL));
    for address in ["/", "/runs", "/audit", &page, &stack, "/repos/acme/infra", "/repos/acme/infra/graph", &focus] {
        let html = world.page(address).await;
        assert!(html.contains("alert(&#39;x&#39;)"), "{address} shows the name");
    }
}

#[tokio::test]
async fn the_graph_is_a_picture_with_links_and_a_table() {
    let world = World::new().await;
    let (_, apply) = applying(&world).await;
    let html = world.page("/repos/acme/infra/graph").await;
    assert!(html.contains("<title>live/vpc: applied</title>"), "{html}");
    assert!(html.contains("class=\"node module\" href=\"/repos/acme/infra/graph?focus=module:modules/net\""));
    assert!(
        html.contains("class=\"inferred\"") && html.contains("class=\"firm\"") && html.contains("class=\"module\"")
    );
    assert!(words(&html).contains("live/app depends on (inferred) live/eks"));
    let replay = world.page(&format!("/repos/acme/infra/graph?run={}", apply.id)).await;
    assert!(replay.contains("class=\"node stack plain dim\""), "a stack outside of the run stays in the background");
    assert!(words(&replay).contains("live/eks W1"));
    let focus = world.page("/repos/acme/infra/graph?focus=stack:live/app").await;
    assert!(words(&focus).contains("Only stack live/app, what it needs and what needs it: show everything"));
}

#[tokio::test]
async fn a_graph_of_five_thousand_stacks_stays_small_and_quick() {
    let world = World::new().await;
    let key = |n: usize| format!("live/team{:03}/stack{:02}", n / 50, n % 50);
    let stacks = (0..5_000).map(|n| Stack { key: key(n), path: key(n), ..Stack::default() }).collect();
    let edges = (1..5_000).map(|n| Edge {
        from: NodeRef::stack(key(n)),
        to: NodeRef::stack(key(n * 7919 % n)),
        kind: EdgeType::DependsOn,
        inferred: false,
        meta: Default::default(),
    });
    store_graph(&world, Graph { stacks, edges: edges.collect(), ..Graph::default() }).await;
    for address in ["/repos/acme/infra/graph", "/repos/acme/infra/graph?under=live/team007", "/repos/acme/infra"] {
        let html = world.page(address).await;
        assert!(html.len() <= 1_000_000, "{address}: {} bytes", html.len());
    }
}

#[tokio::test]
async fn a_run_of_two_thousand_stacks_stays_below_one_megabyte() {
    let world = World::new().await;
    let plan = run(1, "plan", "planned", json!({}));
    let rows: Vec<Row> = (0..2_000)
        .map(|n| {
            let more = json!({
                "summary": counts(), "has_plan_text": true, "error_text": "x".repeat(5_000),
                "job_url": format!("https://github.example/acme/infra/actions/runs/1234567890/job/{n}"),
            });
            row(&plan, &format!("live/production/eu-west-1/team-{n:04}/network"), n / 500, "planned", more)
        })
        .collect();
    world.with(&plan, &rows).await;
    let html = world.page(&format!("/runs/{}", plan.id)).await;
    assert!(html.len() <= 1_000_000, "{} bytes", html.len());
    assert!(html.contains("?stack=live/production/eu-west-1/team-1999/network"));
}

#[tokio::test]
async fn texts_that_do_not_fit_are_on_the_page_of_their_stack() {
    let world = World::new().await;
    let plan = run(1, "plan", "planned", json!({}));
    let rows: Vec<Row> =
        (0..100).map(|n| row(&plan, &format!("s{n:03}"), 0, "planned", json!({ "has_plan_text": true }))).collect();
    let text = "a line of a plan\n".repeat(6_000);
    let texts =
        rows.iter().map(|row| PlanText { run_id: plan.id.clone(), stack_id: row.stack_id.clone(), text: text.clone() });
    let effects = Effects { plan_texts: texts.collect(), ..Effects::default() };
    world.commit(Changes { new_runs: vec![plan.clone()], rows: rows.clone(), effects, ..Changes::default() }).await;
    let html = world.page(&format!("/runs/{}", plan.id)).await;
    assert!(html.len() <= 700_000, "{} bytes", html.len());
    assert!(
        html.contains("More of it") && html.contains(&format!("<a href=\"/runs/{}?stack=s099\">Plan</a>", plan.id))
    );
    let alone = world.page(&format!("/runs/{}?stack=s099", plan.id)).await;
    assert_eq!(alone.matches("a line of a plan").count(), 6_000);
}

#[tokio::test]
async fn runs_are_filtered_and_paged_without_a_gap() {
    let world = World::new().await;
    for number in 1..=60 {
        let status = if number % 2 == 0 { "superseded" } else { "failed" };
        world.with(&run(number, "plan", status, json!({ "pr_number": number })), &[]).await;
    }
    let first = world.page("/runs").await;
    let older = first.split("<a href=\"").find(|part| part.contains("rel=\"next\"")).unwrap();
    let older = older.split('"').next().unwrap().replace("&#38;", "&");
    let second = world.page(&older).await;
    let runs = |html: &str| html.matches("<a href=\"/runs/0").count();
    assert_eq!((runs(&first), runs(&second)), (50, 10));
    assert_eq!(runs(&world.page("/runs?status=failed&mode=plan&repo=ACME/infra&cursor=").await), 30);
    assert!(words(&world.page("/runs?repo=acme/other").await).contains("No run matches."));
    for bad in ["/runs?cursor=x", "/runs?status=great", "/runs?mode=x", "/runs?repo=x"] {
        let (status, _, html) = world.ask(Request::get(bad).body(Body::empty()).unwrap()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}");
        assert_clean(bad, &html);
    }
}

#[tokio::test]
async fn an_unchanged_page_is_not_sent_again() {
    let world = World::new().await;
    let (_, headers, _) = world.ask(Request::get("/").body(Body::empty()).unwrap()).await;
    let again = || Request::get("/").header(header::IF_NONE_MATCH, &headers[header::ETAG]).body(Body::empty()).unwrap();
    let (status, _, body) = world.ask(again()).await;
    assert_eq!((status, body.as_str()), (StatusCode::NOT_MODIFIED, ""));
    applying(&world).await;
    assert_eq!(world.ask(again()).await.0, StatusCode::OK);
}

#[tokio::test]
async fn every_answer_has_the_security_headers() {
    let world = World::new().await;
    for address in ["/", "/runs", "/audit", "/nowhere", super::assets::script()] {
        let (_, headers, _) = world.ask(Request::get(address).body(Body::empty()).unwrap()).await;
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("script-src 'self';") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::X_FRAME_OPTIONS], "DENY");
        assert_eq!(headers[header::REFERRER_POLICY], "same-origin");
        let cached = address.starts_with("/assets/");
        let wanted = if cached { "public, max-age=31536000, immutable" } else { "no-store" };
        assert_eq!(headers[header::CACHE_CONTROL], wanted, "{address}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_page_that_says_so() {
    let world = World::new().await;
    let unknown_run = format!("/runs/{}", id(9));
    for address in ["/nowhere", "/runs/x", &unknown_run, "/repos/acme/other", "/repos/../x/graph", "/assets/style.css"]
    {
        let (status, _, html) = world.ask(Request::get(address).body(Body::empty()).unwrap()).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{address}");
        assert!(html.contains("To the overview"), "{address}");
        assert_clean(address, &html);
    }
}

#[tokio::test]
async fn pages_are_only_read() {
    let world = World::new().await;
    for method in [Method::POST, Method::DELETE, Method::OPTIONS] {
        let request = Request::builder().method(method).uri("/runs").body(Body::empty()).unwrap();
        let (status, headers, _) = world.ask(request).await;
        assert_eq!((status, headers[header::ALLOW].to_str().unwrap()), (StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD"));
    }
    let (status, _, body) = world.ask(Request::head("/").body(Body::empty()).unwrap()).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, ""));
}

#[tokio::test]
async fn closed_pages_show_nothing_but_how_to_open_them() {
    let world = World::new().await;
    let (_, apply) = applying(&world).await;
    for address in ["/", "/runs", "/nowhere", &format!("/runs/{}", apply.id), "/repos/acme/infra/graph"] {
        let response = world.router(false).oneshot(Request::get(address).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{address}");
        let html = String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap();
        assert!(html.contains("STACKORDER_OPEN_PAGES=true") && !html.contains("acme"), "{html}");
    }
    let style = Request::get(super::assets::style()).body(Body::empty()).unwrap();
    assert_eq!(world.router(false).oneshot(style).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn the_audit_says_who_did_what_to_what_and_can_be_narrowed() {
    let world = World::new().await;
    assert!(words(&world.page("/audit").await).contains("Nothing has happened yet"));
    let audit = |actor: &str, action: &str, target: &str, details: Value| AuditEntry {
        at: NOON,
        actor: actor.to_owned(),
        action: action.to_owned(),
        target: target.to_owned(),
        details: details.as_object().unwrap().clone().into_iter().collect(),
    };
    let run = format!("run:{}", id(1));
    for entry in [
        audit("stackorder", "moved", &run, json!({ "repo": "acme/infra", "cause": "result" })),
        audit("octocat", "command", "acme/infra", json!({ "repo": "acme/infra", "reason": EVIL })),
        audit("octocat", "lock_warning", "pr:acme/infra#42", json!({})),
        audit("apikey:ci", "unlock", "acme/other//vpc", json!({ "repo": "acme/other" })),
    ] {
        world.store.add_audit(&entry).await.unwrap();
    }
    let html = world.page("/audit").await;
    assert!(html.contains(&format!("href=\"/runs/{}\"", id(1))));
    assert!(html.contains("href=\"https://github.example/acme/infra/pull/42\""));
    assert!(html.contains("href=\"https://github.example/octocat\""));
    assert!(!html.contains("<script>alert"));
    let narrowed = words(&world.page("/audit?actor=octocat&action=command&repo=acme/infra&cursor=").await);
    assert!(narrowed.contains("octocat command acme/infra") && !narrowed.contains("lock_warning"), "{narrowed}");
    let none = words(&world.page("/audit?repo=acme/nowhere").await);
    assert!(none.contains("No entry matches"), "{none}");
}

#[tokio::test]
async fn bl_111_a_check_that_is_skipped_because_of_a_lock_says_whose() {
    let world = World::new().await;
    applying(&world).await;
    let html = words(&world.page("/repos/acme/infra").await);
    assert!(html.contains("no check while #42 holds the lock"), "{html}");
}
