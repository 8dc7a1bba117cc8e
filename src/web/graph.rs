//! `/repos/{owner}/{repo}/graph`: a repository's stacks and modules as a picture with links, and as a table.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use unicode_width::UnicodeWidthStr as _;

use super::graph_view::{self, Picture, Scope, Shape};
use super::page::{self, PageError, Section, Shell};
use super::parts::{Link, Tone};
use super::repository::{anchor, named, newest_rows};
use super::{Pages, Shares, links, stack_view};
use crate::graph::layout::{self, Place};
use crate::graph::model::{Graph, NodeKind, NodeRef};
use crate::ids::{RepoName, RunId, Sha, StackKey};
use crate::render::words::{self, count};
use crate::run::model::{Repo, Row};

/// How soon the picture of a run looks again.
const REFRESH_MS: u32 = 5_000;
/// Characters of a label; the whole name is in the title.
const LABEL_CHARS_MAX: usize = 34;
const CHAR_WIDTH: f64 = 7.3;
const PADDING: f64 = 34.0;
/// Rows of the table of edges, and warnings.
const EDGES_LISTED: usize = 1_000;
const WARNINGS_LISTED: usize = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// Full commit id; without it the default branch's graph, else the newest.
    sha: String,
    run: String,
    focus: String,
    under: String,
}

#[derive(Template)]
#[template(config = "src/web/askama.toml", path = "graph.html")]
struct GraphPage {
    shell: Shell,
    name: String,
    repository: String,
    commit: Option<Link>,
    run: Option<Link>,
    /// What part of the graph is shown, and the whole.
    scope: Option<(String, Link)>,
    summary: String,
    notes: Vec<String>,
    width: f64,
    height: f64,
    nodes: Vec<NodeView>,
    lines: Vec<LineView>,
    edges: Vec<EdgeView>,
    edges_more: usize,
    warnings: Vec<String>,
    warnings_more: usize,
}

struct NodeView {
    place: Place,
    class: String,
    label: String,
    title: String,
    badge: String,
    url: Option<String>,
}

struct LineView {
    d: String,
    class: &'static str,
}

struct EdgeView {
    from: String,
    kind: &'static str,
    to: String,
}

/// How each stack stands, and in which run.
type Statuses = BTreeMap<StackKey, (RunId, Row)>;

pub async fn show(
    State(pages): Shares,
    Path((owner, name)): Path<(String, String)>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let repo = named(&pages, &owner, &name).await?;
    let (sha, run, statuses) = moment(&pages, &repo, &asked).await?;
    let graph = match &sha {
        Some(sha) => pages.store.graph(repo.id, sha).await?,
        None => None,
    };
    let scope = scope(&asked)?;
    let base = links::graph(&repo.full_name);
    let replay = run
        .as_ref()
        .map(|id| format!("run={id}"))
        .or_else(|| (!asked.sha.is_empty()).then(|| format!("sha={}", links::encoded(&asked.sha))));
    let empty = Graph::default();
    let graph = graph.as_deref().unwrap_or(&empty);
    let picture = graph_view::picture(graph, &scope);
    let drawer = Drawer {
        repo: &repo.full_name,
        graph,
        statuses: &statuses,
        replay: run.is_some(),
        query: replay.as_deref().unwrap_or(""),
        focus: scope.focus.as_ref(),
    };
    let nodes: Vec<NodeView> = picture.shapes.iter().map(|shape| drawer.node(shape)).collect();
    let widths: Vec<f64> = nodes.iter().map(|node| node.place.width).collect();
    let pairs: Vec<(usize, usize)> = picture.edges.iter().map(|(pair, _)| *pair).collect();
    let drawing = layout::draw(&widths, &pairs);
    let shell = Shell::new(format!("Graph of {}", repo.full_name), Section::Other);
    let page = GraphPage {
        shell: shell.refreshed(REFRESH_MS),
        name: repo.full_name.to_string(),
        repository: links::repository(&repo.full_name),
        commit: sha.as_ref().map(|sha| pages.links().commit(&repo.full_name, sha)),
        run: run.as_ref().map(|id| Link::to("this run", links::run(id))),
        scope: scope_words(&scope).map(|words| {
            let whole = replay.map_or_else(|| base.clone(), |query| format!("{base}?{query}"));
            (words, Link::to("show everything", whole))
        }),
        summary: summary(graph),
        notes: notes(&picture),
        width: drawing.width,
        height: drawing.height,
        nodes: nodes.into_iter().zip(drawing.places).map(|(node, place)| NodeView { place, ..node }).collect(),
        lines: drawing
            .lines
            .into_iter()
            .zip(&picture.edges)
            .map(|(d, (_, stroke))| LineView { d, class: stroke.class() })
            .collect(),
        edges: graph
            .edges
            .iter()
            .take(EDGES_LISTED)
            .map(|edge| EdgeView { from: edge.from.key.clone(), kind: edge_words(edge), to: edge.to.key.clone() })
            .collect(),
        edges_more: graph.edges.len().saturating_sub(EDGES_LISTED),
        warnings: graph.warnings.iter().take(WARNINGS_LISTED).map(ToString::to_string).collect(),
        warnings_more: graph.warnings.len().saturating_sub(WARNINGS_LISTED),
    };
    page::show(&headers, &page)
}

/// Which graph, and how its stacks stood: in a run, or by the newest runs.
async fn moment(
    pages: &Pages,
    repo: &Repo,
    asked: &Asked,
) -> Result<(Option<Sha>, Option<RunId>, Statuses), PageError> {
    if !asked.run.is_empty() {
        let missing = || PageError::NotFound("There is no such run of this repository.");
        let id = RunId::parse(&asked.run).map_err(|_| missing())?;
        let run = pages.store.run(&id).await?.filter(|run| run.repo_id == repo.id).ok_or_else(missing)?;
        let rows = pages.store.rows(&id).await?;
        let statuses = rows.into_iter().map(|row| (row.key.clone(), (id.clone(), row))).collect();
        return Ok((run.graph_sha.clone(), Some(id), statuses));
    }
    let statuses = newest_rows(pages, repo).await?;
    let sha = match (asked.sha.as_str(), &repo.default_graph) {
        ("" | "default", Some(sha)) => Some(sha.clone()),
        ("" | "default", None) => pages.store.newest_graph(repo.id).await?,
        (text, _) => {
            Some(Sha::parse(text).map_err(|error| PageError::Invalid { field: "sha", reason: error.to_string() })?)
        }
    };
    Ok((sha, None, statuses))
}

fn scope(asked: &Asked) -> Result<Scope, PageError> {
    let bad = || PageError::Invalid { field: "focus", reason: "write stack:KEY or module:KEY".to_owned() };
    let focus = match asked.focus.as_str() {
        "" => None,
        text => Some(match text.split_once(':').ok_or_else(bad)? {
            ("stack", key) => NodeRef::stack(key),
            ("module", key) => NodeRef::module(key),
            (_, _) => return Err(bad()),
        }),
    };
    Ok(Scope { focus, under: (!asked.under.is_empty()).then(|| asked.under.trim_end_matches('/').to_owned()) })
}

fn scope_words(scope: &Scope) -> Option<String> {
    match (&scope.focus, &scope.under) {
        (Some(node), _) => {
            let kind = match node.kind {
                NodeKind::Module => "module",
                NodeKind::Stack => "stack",
            };
            Some(format!("Only {kind} {}, what it needs and what needs it", node.key))
        }
        (None, Some(path)) => Some(format!("Only {path} and its neighbours")),
        (None, None) => None,
    }
}

fn summary(graph: &Graph) -> String {
    let (stacks, modules) = (count(graph.stacks.len(), "stack"), count(graph.modules.len(), "module"));
    format!("{stacks}, {modules}, {}", count(graph.edges.len(), "edge"))
}

fn notes(picture: &Picture) -> Vec<String> {
    let mut notes = Vec::new();
    if picture.is_collapsed() {
        let most = graph_view::NODES_MAX;
        notes.push(format!("More than {most} nodes: directories are drawn as one. Choose one to open it."));
    }
    if picture.hidden_nodes > 0 {
        notes.push(format!("{} more are not drawn.", count(picture.hidden_nodes, "node")));
    }
    if picture.hidden_edges > 0 {
        notes.push(format!("{} more are not drawn.", count(picture.hidden_edges, "edge")));
    }
    notes
}

fn edge_words(edge: &crate::graph::model::Edge) -> &'static str {
    match (edge.kind.orders(), edge.inferred) {
        (false, _) => "uses",
        (true, false) => "depends on",
        (true, true) => "depends on (inferred)",
    }
}

/// What every node of the picture is labelled and linked with.
struct Drawer<'g> {
    repo: &'g RepoName,
    graph: &'g Graph,
    statuses: &'g Statuses,
    /// One run is shown: stacks outside of it stay in the background.
    replay: bool,
    /// Kept in links to other parts of the same graph.
    query: &'g str,
    focus: Option<&'g NodeRef>,
}

impl Drawer<'_> {
    fn node(&self, shape: &Shape) -> NodeView {
        match shape {
            Shape::One(node) if node.kind == NodeKind::Module => self.module(node),
            Shape::One(node) => self.stack(node),
            Shape::Directory { kind, path, members } => self.directory(*kind, path, members),
        }
    }

    fn stack(&self, node: &NodeRef) -> NodeView {
        let external = self.graph.stacks.iter().find(|stack| stack.key == node.key && stack.external);
        let key = StackKey::parse(&node.key).ok();
        let seen = key.as_ref().and_then(|key| self.statuses.get(key));
        let tone = seen.map_or(Tone::Plain, |(_, row)| stack_view::tone(row));
        let status = seen.map(|(_, row)| words::status(row));
        let dim = if self.replay && seen.is_none() { " dim" } else { "" };
        let marked = if self.focus == Some(node) { " focus" } else { "" };
        let url = match (external, seen, &key) {
            (Some(stack), _, _) => RepoName::parse(&stack.repo).ok().map(|repo| links::repository(&repo)),
            (None, Some((run, row)), _) => Some(links::stack(run, &row.key)),
            (None, None, Some(key)) => Some(format!("{}#{}", links::repository(self.repo), anchor(key))),
            (None, None, None) => None,
        };
        let title = match (external, &status) {
            (Some(stack), _) => format!("{} in {}", node.key, stack.repo),
            (None, Some(status)) => format!("{}: {status}", node.key),
            (None, None) => format!("{}: nothing recorded yet", node.key),
        };
        let badge = match seen {
            Some((_, row)) if self.replay => format!("W{}", row.wave),
            Some(_) | None => String::new(),
        };
        let kind = if external.is_some() { "external" } else { "stack" };
        view(format!("{kind} {}{dim}{marked}", tone.class()), &node.key, title, badge, url)
    }

    fn module(&self, node: &NodeRef) -> NodeView {
        let marked = if self.focus == Some(node) { " focus" } else { "" };
        let url = self.part("focus", &format!("module:{}", node.key));
        view(
            format!("module{marked}"),
            &node.key,
            format!("module {}: show what uses it", node.key),
            String::new(),
            url,
        )
    }

    fn directory(&self, kind: NodeKind, path: &str, members: &[NodeRef]) -> NodeView {
        let rows = members.iter().filter_map(|node| self.statuses.get(&StackKey::parse(&node.key).ok()?));
        let tone = rows.map(|(_, row)| stack_view::tone(row)).max().unwrap_or(Tone::Plain);
        let noun = match kind {
            NodeKind::Module => "module",
            NodeKind::Stack => "stack",
        };
        let size = count(members.len(), noun);
        let dim = if self.replay && tone == Tone::Plain { " dim" } else { "" };
        let class = format!("directory {}{dim}", tone.class());
        view(class, &format!("{path}/"), format!("{path}: {size}"), size, self.part("under", path))
    }

    /// Another part of the same graph.
    fn part(&self, name: &str, value: &str) -> Option<String> {
        let kept = if self.query.is_empty() { String::new() } else { format!("{}&", self.query) };
        Some(format!("{}?{kept}{name}={}", links::graph(self.repo), links::encoded(value)))
    }
}

fn view(class: String, name: &str, title: String, badge: String, url: Option<String>) -> NodeView {
    let label = shortened(name);
    let chars = label.width() + if badge.is_empty() { 0 } else { badge.width() + 2 };
    let place = Place { x: 0.0, y: 0.0, width: (chars as f64 * CHAR_WIDTH + PADDING).round(), height: 0.0 };
    NodeView { place, class, label, title, badge, url }
}

/// The end of a name says more than its beginning.
fn shortened(name: &str) -> String {
    let chars = name.chars().count();
    if chars <= LABEL_CHARS_MAX {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(chars + 1 - LABEL_CHARS_MAX).collect();
    format!("…{tail}")
}
