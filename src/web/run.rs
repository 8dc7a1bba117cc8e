//! `/runs/{id}`: identity, the one thing to do next, then the stacks by wave. `?stack=` shows one of them in full.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use super::attention::{self, Strip};
use super::page::{self, PageError, Section, Shell};
use super::parts::{Link, Sentence};
use super::run_view::{self, RunHead, WaveView};
use super::stack_view::{Room, Sources, StackView};
use super::{Pages, Shares, links};
use crate::ids::{RunId, StackKey};
use crate::render::words::count;
use crate::run::model::Run;
use crate::run::scene::Scene;
use crate::run::status::RunStatus;

/// Above this many stacks each has one line, and its texts are on its own page: the page stays below 1 MB (design §10).
const ROWS_WITH_TEXTS_MAX: usize = 200;
/// Texts of one page together, and each of them.
const TEXTS_BYTES_MAX: usize = 400_000;
const TEXT_BYTES_MAX: usize = 48_000;
/// On a stack's own page; the runner sends at most 256 KB.
const OWN_TEXT_BYTES_MAX: usize = 600_000;
/// Warnings and the like that a page lists.
const LIST_MAX: usize = 100;
/// How soon a page looks again: while jobs work, and while it waits for a person.
const REFRESH_BUSY_MS: u32 = 2_000;
const REFRESH_IDLE_MS: u32 = 5_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    stack: Option<String>,
}

#[derive(Template)]
#[template(config = "src/web/askama.toml", path = "run.html")]
struct RunPage {
    shell: Shell,
    head: RunHead,
    base: Option<Link>,
    workflow: Option<Link>,
    graph: Option<String>,
    strip: Option<Strip>,
    relations: Vec<Sentence>,
    warnings: Listed<Sentence>,
    external: Listed<String>,
    removed: Listed<String>,
    totals: String,
    waves: Vec<WaveView>,
    /// One line each.
    folded: bool,
    empty: &'static str,
}

#[derive(Template)]
#[template(config = "src/web/askama.toml", path = "stack.html")]
struct StackPage {
    shell: Shell,
    head: RunHead,
    wave: u32,
    stack: StackView,
}

/// A list that is cut after so many entries.
struct Listed<T> {
    shown: Vec<T>,
    more: usize,
}

impl<T> Listed<T> {
    fn of(all: impl IntoIterator<Item = T>) -> Self {
        let mut shown: Vec<T> = all.into_iter().collect();
        let more = shown.len().saturating_sub(LIST_MAX);
        shown.truncate(LIST_MAX);
        Self { shown, more }
    }
}

pub async fn show(
    State(pages): Shares,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let missing = || PageError::NotFound("There is no such run, or it is not visible to you.");
    let id = RunId::parse(&id).map_err(|_| missing())?;
    let scene = pages.store.scene(&id).await?.ok_or_else(missing)?;
    let run = scene.run(&id).ok_or_else(missing)?;
    match asked.stack {
        None => page::show(&headers, &whole(&pages, &scene, run).await?),
        Some(key) => page::show(&headers, &alone(&pages, &scene, run, &key).await?),
    }
}

async fn whole(pages: &Pages, scene: &Scene, run: &Run) -> Result<RunPage, PageError> {
    let (github, now, name) = (pages.links(), pages.now(), &scene.repo.full_name);
    let mut sources = Sources::new(scene, &run.id, github, now);
    let folded = scene.rows(&run.id).count() > ROWS_WITH_TEXTS_MAX;
    if !folded {
        sources.plan_texts = plan_texts(pages, scene, run).await?;
    }
    let mut room = Room::new(TEXTS_BYTES_MAX, TEXT_BYTES_MAX);
    let waves =
        run_view::waves(scene, run, |row| if folded { sources.line(row) } else { sources.full(row, &mut room) });
    let base = crate::ids::Sha::parse(&run.base_sha).ok().map(|sha| github.commit(name, &sha));
    let removed = run.removed.iter().map(|stack| match stack.state.as_str() {
        "" => stack.key.clone(),
        state => format!("{}, state in {state}", stack.key),
    });
    Ok(RunPage {
        shell: shell(run, &run_view::title(run)),
        head: RunHead::of(run, &scene.repo, github, now),
        base,
        workflow: (run.workflow_run_id > 0)
            .then(|| Link::to("workflow run", github.workflow_run(name, run.workflow_run_id))),
        graph: run.graph_sha.as_ref().map(|_| format!("{}?run={}", links::graph(name), run.id)),
        strip: attention::strip(scene, run, github),
        relations: run_view::relations(scene, run),
        warnings: Listed::of(run.explained_warnings().map(explained)),
        external: Listed::of(run.external.iter().cloned()),
        removed: Listed::of(removed),
        totals: run_view::totals(scene, run),
        waves,
        folded,
        empty: empty(run),
    })
}

/// A warning, with where the guide says what it means.
fn explained((text, help): (&str, Option<String>)) -> Sentence {
    match help {
        Some(url) => Sentence::with(text, Link::to("why and what to do", url)),
        None => Sentence::new(text),
    }
}

/// The sentence instead of stacks.
fn empty(run: &Run) -> &'static str {
    match run.status {
        RunStatus::Pending | RunStatus::Planning => {
            "The stacks are being read; they appear here as soon as they are known."
        }
        RunStatus::Planned | RunStatus::Applying | RunStatus::Applied => "This change reaches no stack.",
        RunStatus::Failed | RunStatus::Unconfirmed | RunStatus::Superseded => {
            "The run ended before its stacks were known."
        }
    }
}

/// The texts that the page can hold; the others are on their stack's page.
async fn plan_texts(pages: &Pages, scene: &Scene, run: &Run) -> Result<BTreeMap<StackKey, String>, PageError> {
    let mut texts = BTreeMap::new();
    let mut bytes = 0;
    for row in scene.rows(&run.id).filter(|row| row.has_plan_text) {
        if bytes > TEXTS_BYTES_MAX {
            break;
        }
        if let Some(text) = pages.store.plan_text(&run.id, &row.stack_id).await? {
            bytes += text.len().min(TEXT_BYTES_MAX);
            texts.insert(row.key.clone(), text);
        }
    }
    Ok(texts)
}

async fn alone(pages: &Pages, scene: &Scene, run: &Run, key: &str) -> Result<StackPage, PageError> {
    let row = StackKey::parse(key).ok().and_then(|key| scene.row(&run.id, &key));
    let row = row.ok_or(PageError::NotFound("This run has no such stack."))?;
    let (github, now) = (pages.links(), pages.now());
    let mut sources = Sources::new(scene, &run.id, github, now);
    if let Some(text) = pages.store.plan_text(&run.id, &row.stack_id).await? {
        sources.plan_texts.insert(row.key.clone(), text);
    }
    Ok(StackPage {
        shell: shell(run, row.key.as_str()),
        head: RunHead::of(run, &scene.repo, github, now),
        wave: row.wave,
        stack: sources.full(row, &mut Room::new(OWN_TEXT_BYTES_MAX, OWN_TEXT_BYTES_MAX)),
    })
}

fn shell(run: &Run, title: &str) -> Shell {
    let shell = Shell::new(format!("{title} · {}", count_of(run)), Section::Runs);
    match run.status {
        RunStatus::Pending | RunStatus::Planning | RunStatus::Applying => shell.refreshed(REFRESH_BUSY_MS),
        RunStatus::Planned => shell.refreshed(REFRESH_IDLE_MS),
        RunStatus::Applied | RunStatus::Failed | RunStatus::Unconfirmed | RunStatus::Superseded => shell,
    }
}

fn count_of(run: &Run) -> String {
    match run.waves {
        0 => crate::render::words::run_status(run.status).to_owned(),
        waves => format!("{}, {}", crate::render::words::run_status(run.status), count(waves as usize, "wave")),
    }
}
