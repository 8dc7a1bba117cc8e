//! A pull request told in steps. Each step is one decision and one commit, and the laws are checked after each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::laws;
use crate::api::{ResultStatus, StackResult};
use crate::clock::{Millis, SECOND_MS};
use crate::config::model::RepoConfig;
use crate::graph::model::{Edge, EdgeType, Graph, NodeRef, Stack};
use crate::graph::ordering::ordering;
use crate::graph::resolution::{AffectedStack, Reason, Resolution};
use crate::ids::{DispatchId, RepoName, RunId, Sha, StackKey};
use crate::plan::summary::PlanSummary;
use crate::run::apply_start::{self, ApplyRequest};
use crate::run::binding::{self, DispatchedJob};
use crate::run::model::{Claim, Repo, Row, Run};
use crate::run::next::Next;
use crate::run::plan_start::{self, Registration};
use crate::run::plan_view::PlanView;
use crate::run::progress;
use crate::run::report::{self, Refused, Reporter};
use crate::run::scene::{Changes, JobKind, Scene};
use crate::run::status::{Mode, RowStatus, Trigger};
use crate::run::transitions;
use crate::run::waves::{fresh_plan_row, new_upstreams};
use crate::waves::waves;

/// The workflow run that plans the pull request; dispatched ones have larger numbers.
pub const PLAN_WORKFLOW: i64 = 100;

#[derive(Clone)]
pub struct Story {
    pub scene: Scene,
    pub now: Millis,
    /// What the last step wrote.
    pub changes: Changes,
    numbers: u32,
}

pub fn key(text: &str) -> StackKey {
    StackKey::parse(text).unwrap()
}

/// The commit `aaaa…`.
pub fn sha(letter: char) -> Sha {
    Sha::parse(&letter.to_string().repeat(40)).unwrap()
}

/// `vpc <- eks <= apps, svpc`: `eks` depends on `vpc`, `apps` reads the state of `eks`, `svpc` stands alone.
pub fn graph(text: &str) -> Graph {
    let mut graph = Graph { repo: "acme/infra".to_owned(), ..Graph::default() };
    for chain in text.split(',') {
        let mut words = chain.split_whitespace();
        let mut last = words.next().unwrap().to_owned();
        add_stack(&mut graph, &last);
        while let (Some(arrow), Some(next)) = (words.next(), words.next()) {
            add_stack(&mut graph, next);
            let kind = if arrow == "<=" { EdgeType::ReadsState } else { EdgeType::DependsOn };
            let (from, to) = (NodeRef::stack(next), NodeRef::stack(last));
            graph.edges.push(Edge { from, to, kind, inferred: false, meta: BTreeMap::new() });
            last = next.to_owned();
        }
    }
    graph
}

fn add_stack(graph: &mut Graph, key: &str) {
    if graph.stacks.iter().all(|stack| stack.key != key) {
        graph.stacks.push(Stack { key: key.to_owned(), path: key.to_owned(), ..Stack::default() });
    }
}

/// `+2` adds, `~1` changes, `=` is empty, `o1` changes an output.
pub fn summary(text: &str) -> PlanSummary {
    let count = text.get(1..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let mut summary = PlanSummary::default();
    match &text[..1] {
        "+" => summary.adds = count,
        "~" => summary.changes = count,
        "o" => summary.output_changes = count,
        _ => {}
    }
    let actions = if summary.total() == 0 { "none" } else { text };
    PlanSummary { actions_digest: Some(actions.to_owned()), ..summary }
}

/// The same words, `!` for a failure and `?` for an unconfirmed result.
pub fn result(mode: Mode, text: &str, bundle: &str) -> StackResult {
    let failed = text == "!";
    let summary = (!failed).then(|| summary(text));
    let has_changes = summary.as_ref().is_some_and(|summary| !summary.is_empty());
    StackResult {
        mode,
        status: if failed { ResultStatus::Failure } else { ResultStatus::Success },
        exit_code: i32::from(failed),
        has_changes,
        summary,
        plan_text: None,
        truncated: false,
        error_text: String::new(),
        plan_artifact: if mode == Mode::Apply || failed { String::new() } else { format!("artifact-{bundle}") },
        bundle_sha256: if failed { String::new() } else { bundle.to_owned() },
        plan_digest: text.to_owned(),
        job_url: String::new(),
        tool: String::new(),
        tool_version: String::new(),
        duration_ms: 0,
        backend: None,
        unconfirmed: text == "?",
    }
}

impl Story {
    pub fn of(graph_text: &str) -> Self {
        let repo = Repo {
            id: 7,
            installation_id: 1,
            full_name: RepoName::parse("acme/infra").unwrap(),
            default_branch: "main".to_owned(),
            private: true,
            suspended: false,
            config: None,
            config_sha: String::new(),
            default_graph: None,
        };
        let graph = Arc::new(graph(graph_text));
        let scene = Scene {
            repo,
            pr_number: 1,
            runs: BTreeMap::new(),
            rows: BTreeMap::new(),
            dispatches: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            locks: Arc::default(),
            queue: Vec::new(),
            locks_version: 0,
            changed_at: Arc::default(),
            graphs: ('a'..='f').map(|letter| (sha(letter), graph.clone())).collect(),
        };
        Self { scene, now: 1_000_000, changes: Changes::default(), numbers: 0 }
    }

    /// `vpc <- eks <= apps, svpc`, all planned at commit `a` with the outcomes given.
    pub fn planned(outcomes: &str) -> Self {
        let mut story = Self::of("vpc <- eks <= apps, svpc");
        story.resolved('a', "vpc, eks, apps, svpc");
        story.plans(outcomes);
        story
    }

    pub fn policy(&mut self, change: impl FnOnce(&mut RepoConfig)) {
        change(Arc::make_mut(self.scene.repo.config.get_or_insert_default()));
    }

    /// One decision a second later, committed.
    pub fn step<T>(&mut self, decide: impl FnOnce(&mut Next) -> T) -> T {
        self.now += SECOND_MS;
        let before = self.scene.clone();
        let mut next = Next::of(&before, self.now);
        let answer = decide(&mut next);
        let after = next.scene.clone();
        let changes = next.into_changes();
        laws::commit(&mut self.scene, &changes);
        laws::hold(&before, &self.scene, &after, self.now);
        transitions::tests::explain(&before, &changes, &self.scene);
        self.changes = changes;
        answer
    }

    pub fn run_id(&mut self) -> RunId {
        self.numbers += 1;
        RunId::parse(&format!("00000000-0000-4000-8000-{:012}", self.numbers)).unwrap()
    }

    // -- plans ------------------------------------------------------------------------------------

    /// Registers the plan run of a head.
    pub fn registered(&mut self, head: char) -> RunId {
        let id = self.run_id();
        let attempt = self.numbers;
        self.registered_by(head, id, attempt).0
    }

    pub fn registered_by(&mut self, head: char, id: RunId, attempt: u32) -> (RunId, bool) {
        let registration = Registration {
            id,
            sha: sha(head),
            base_sha: String::new(),
            actor: "ada".to_owned(),
            workflow_run_id: PLAN_WORKFLOW,
            attempt,
            commit_message: String::new(),
            commit_author: "ada".to_owned(),
            head_ref: "topic".to_owned(),
        };
        self.step(|next| plan_start::register(next, &registration))
    }

    /// Registers, and uploads a graph that affects `vpc, eks dependent, apps reads_state`.
    pub fn resolved(&mut self, head: char, affected: &str) -> RunId {
        let id = self.registered(head);
        self.uploaded(&id, affected);
        id
    }

    pub fn uploaded(&mut self, id: &RunId, affected: &str) {
        let head = self.scene.runs[id].sha.clone();
        let resolution = self.resolution(affected);
        self.step(|next| plan_start::record_resolution(next, id, &resolution, head));
    }

    pub fn resolution(&self, affected: &str) -> Resolution {
        let words = affected.split(',').map(str::trim).filter(|part| !part.is_empty());
        let named: Vec<(&str, Reason)> = words
            .map(|part| match part.split_once(' ') {
                Some((key, "dependent")) => (key, Reason::Dependent),
                Some((key, "reads_state")) => (key, Reason::ReadsState),
                Some((_, other)) => panic!("no reason {other}"),
                None => (part, Reason::Changed),
            })
            .collect();
        let members: BTreeSet<String> = named.iter().map(|(key, _)| (*key).to_owned()).collect();
        let graph = self.scene.graphs.values().next().unwrap();
        let waves = waves(&ordering(graph), &members);
        let count = waves.values().max().map_or(0, |last| last + 1);
        Resolution {
            affected: named
                .iter()
                .map(|(key, reason)| AffectedStack {
                    key: (*key).to_owned(),
                    path: (*key).to_owned(),
                    instance: String::new(),
                    workspace: String::new(),
                    wave: waves[*key],
                    reasons: vec![*reason],
                    environment: environment(key).to_owned(),
                    tool: None,
                    tool_version: String::new(),
                    plan_output: None,
                    via: Vec::new(),
                    locked_by: None,
                })
                .collect(),
            waves: (0..count)
                .map(|wave| waves.iter().filter(|(_, at)| **at == wave).map(|(key, _)| key.clone()).collect())
                .collect(),
            ..Resolution::default()
        }
    }

    /// `vpc +1, eks =`: results of the newest plan run, by the jobs that plan it.
    pub fn plans(&mut self, outcomes: &str) {
        let id = self.newest(|run| run.mode == Mode::Plan).id.clone();
        for part in outcomes.split(',').map(str::trim) {
            let (stack, outcome) = part.split_once(' ').unwrap();
            self.plan_result(&id, stack, outcome).unwrap();
        }
    }

    pub fn plan_result(&mut self, id: &RunId, stack: &str, outcome: &str) -> Result<(), Refused> {
        let run = self.scene.runs[id].clone();
        let reporter = match run.trigger {
            Trigger::PullRequest => Reporter::PullRequestJob {
                number: 1,
                workflow_run_id: run.workflow_run_id,
                attempt: run.workflow_run_attempt,
            },
            _ => self.reporter(id, stack),
        };
        let result = result(run.mode, outcome, &format!("{id}-{stack}"));
        self.step(|next| report::on_result(next, id, &key(stack), &reporter, &result))
    }

    /// `stackorder plan <keys>`; no keys are all of the view.
    pub fn plan_again(&mut self, head: char, keys: &str) -> RunId {
        let id = self.run_id();
        let wanted: Vec<StackKey> = keys.split_whitespace().map(key).collect();
        self.step(|next| {
            let view = PlanView::of(&next.scene, &[&sha(head)]);
            let graph_sha = view.graph_sha().cloned();
            let rows: Vec<Row> = view
                .rows
                .values()
                .filter(|row| wanted.is_empty() || wanted.contains(&row.key))
                .map(|row| fresh_plan_row(row, &id, next.now))
                .collect();
            let mut run = plan_start::blank_run(next, id.clone(), sha(head), Mode::Plan, Trigger::Comment, "ada");
            run.graph_sha = graph_sha;
            run.waves = 1;
            plan_start::start(next, run, rows)
        })
    }

    pub fn view(&self, head: char) -> PlanView<'_> {
        PlanView::of(&self.scene, &[&sha(head)])
    }

    /// `apps planned, eks failed`.
    pub fn view_rows(&self, head: char) -> String {
        let rows = self.view(head).rows;
        rows.values().map(|row| format!("{} {}", row.key, row.status)).collect::<Vec<_>>().join(", ")
    }

    // -- applies ----------------------------------------------------------------------------------

    /// `stackorder apply <keys>` at the newest plan's head, past the gate; no keys are all of the view.
    pub fn apply(&mut self, keys: &str) -> RunId {
        let newest = self.newest(|run| run.mode == Mode::Plan && run.trigger != Trigger::Upstream);
        let head = newest.sha.clone();
        self.apply_at(head.clone(), &[head], Trigger::Comment, keys, &[])
    }

    /// An apply of the newest head that has to wait for its stacks.
    pub fn enqueue(&mut self, keys: &str) -> RunId {
        let head = self.newest(|run| run.mode == Mode::Plan && run.trigger != Trigger::Upstream).sha.clone();
        self.enqueue_at(head.clone(), &[head], Trigger::Comment, keys)
    }

    pub fn enqueue_at(&mut self, at: Sha, commits: &[Sha], trigger: Trigger, keys: &str) -> RunId {
        let (request, plans) = self.request(at, commits, trigger, keys, &[]);
        self.step(|next| apply_start::enqueue(next, &request, &plans))
    }

    pub fn apply_at(&mut self, at: Sha, commits: &[Sha], trigger: Trigger, keys: &str, behind: &[&str]) -> RunId {
        let (request, plans) = self.request(at, commits, trigger, keys, behind);
        self.step(|next| apply_start::start(next, &request, &plans))
    }

    fn request(
        &mut self,
        at: Sha,
        commits: &[Sha],
        trigger: Trigger,
        keys: &str,
        behind: &[&str],
    ) -> (ApplyRequest, BTreeMap<StackKey, Row>) {
        let id = self.run_id();
        let scene = self.scene.clone();
        let view = PlanView::of(&scene, &commits.iter().collect::<Vec<_>>());
        let selected: BTreeSet<StackKey> = if keys.is_empty() {
            view.rows.keys().cloned().collect()
        } else {
            keys.split_whitespace().map(key).collect()
        };
        let graph = &scene.graphs[view.graph_sha().unwrap()];
        let members = selected.iter().map(ToString::to_string).collect();
        let mut behind_from_start: BTreeMap<StackKey, Vec<String>> =
            behind.iter().map(|stack| (key(stack), vec!["the merge".to_owned()])).collect();
        for stack in &selected {
            let new = new_upstreams(&scene, &view, &selected, stack);
            if !new.is_empty() {
                behind_from_start.insert(stack.clone(), new);
            }
        }
        let request = ApplyRequest {
            id,
            sha: at,
            trigger,
            requested_by: "ada".to_owned(),
            environments: selected.iter().map(|key| (key.clone(), environment(key.as_str()).to_owned())).collect(),
            waves: waves(&ordering(graph), &members).into_iter().map(|(stack, wave)| (key(&stack), wave)).collect(),
            selected,
            behind_from_start,
        };
        let plans = view.rows.into_iter().map(|(key, row)| (key, row.clone())).collect();
        (request, plans)
    }

    /// The newest apply run.
    pub fn run(&self) -> &Run {
        self.newest(|run| run.mode == Mode::Apply)
    }

    pub fn row(&self, stack: &str) -> &Row {
        self.scene.row(&self.run().id, &key(stack)).unwrap()
    }

    /// The re-plan of the newest apply's current wave.
    pub fn replan(&self) -> &Run {
        self.scene.replan_of(&self.run().id, self.run().current_wave).expect("a re-plan")
    }

    pub fn newest(&self, which: impl Fn(&Run) -> bool) -> &Run {
        self.scene.newest_first().into_iter().find(|run| which(run)).expect("such a run")
    }

    pub fn claim(&mut self, stack: &str) -> Result<(), Refused> {
        let id = self.run().id.clone();
        self.claim_of(&id, stack, 1)
    }

    /// A job of this attempt of the workflow run that serves the stack's dispatch claims it.
    pub fn claim_of(&mut self, id: &RunId, stack: &str, attempt: u32) -> Result<(), Refused> {
        let job = self.job(id, stack, attempt);
        let claim = Claim {
            at: self.now,
            workflow_run_id: job.workflow_run_id,
            attempt: job.attempt,
            check_run_id: job.check_run_id,
        };
        let at = self.scene.runs[id].sha.to_string();
        self.step(|next| {
            let before = next.scene.clone();
            let claimed = binding::bind_job(next, id, &job, Some(&key(stack)))
                .and_then(|_| report::on_claim(next, id, &key(stack), &claim, &at, String::new()));
            if claimed.is_err() {
                next.scene = before;
            }
            claimed
        })
    }

    /// The stack's job reports to the newest apply.
    pub fn reports(&mut self, stack: &str, outcome: &str) -> Result<(), Refused> {
        let id = self.run().id.clone();
        let reporter = self.reporter(&id, stack);
        let result = result(Mode::Apply, outcome, "");
        self.step(|next| report::on_result(next, &id, &key(stack), &reporter, &result))
    }

    /// `vpc +1, eks !`: each stack is claimed and reported.
    pub fn jobs(&mut self, outcomes: &str) {
        for part in outcomes.split(',').map(str::trim) {
            let (stack, outcome) = part.split_once(' ').unwrap();
            self.claim(stack).unwrap();
            self.reports(stack, outcome).unwrap();
        }
    }

    /// The dispatch that carries the stack ended.
    pub fn dispatch_ends(&mut self, id: &RunId, stack: &str) {
        let dispatch = self.dispatch_of(id, stack);
        self.step(|next| progress::complete_dispatch(next, &dispatch, "success"));
    }

    pub fn dispatch_of(&self, id: &RunId, stack: &str) -> DispatchId {
        let row = self.scene.row(id, &key(stack)).unwrap();
        row.dispatch_id.clone().unwrap_or_else(|| panic!("{stack} is not dispatched"))
    }

    /// The job of the stack, of the workflow run that serves its dispatch.
    pub fn job(&self, id: &RunId, stack: &str, attempt: u32) -> DispatchedJob {
        let dispatch = self.dispatch_of(id, stack);
        let number = self.scene.dispatches.keys().position(|known| *known == dispatch).unwrap();
        let known = self.scene.dispatches[&dispatch].workflow_run_id;
        let taken = |id: &i64| self.scene.dispatches.values().any(|other| other.workflow_run_id == Some(*id));
        let free = (1_000 + number as i64..).find(|id| !taken(id)).unwrap();
        let stacks: Vec<&str> = self.scene.graphs[&sha('a')].stacks.iter().map(|stack| stack.key.as_str()).collect();
        DispatchedJob {
            git_ref: "refs/heads/main".to_owned(),
            workflow_run_id: known.unwrap_or(free),
            attempt,
            environment: self.scene.dispatches[&dispatch].environment.clone(),
            check_run_id: 1 + stacks.iter().position(|known| *known == stack).unwrap() as i64,
        }
    }

    fn reporter(&self, id: &RunId, stack: &str) -> Reporter {
        let job = self.job(id, stack, 1);
        Reporter::DispatchedJob {
            workflow_run_id: job.workflow_run_id,
            attempt: job.attempt,
            check_run_id: job.check_run_id,
        }
    }

    // -- what people see --------------------------------------------------------------------------

    /// The newest apply: `failed: apps blocked, eks failed, vpc applied`.
    pub fn applied(&self) -> String {
        let run = self.run();
        let rows: Vec<String> = self.scene.rows(&run.id).map(|row| format!("{} {}", row.key, row.status)).collect();
        format!("{}: {}", run.status, rows.join(", "))
    }

    /// `eks #1, vpc #1`.
    pub fn locks(&self) -> String {
        self.scene.locks.values().map(|lock| format!("{} {}", lock.key, lock.holder())).collect::<Vec<_>>().join(", ")
    }

    /// Open dispatches of open runs: `apply 0 production: eks vpc`.
    pub fn dispatched(&self) -> Vec<String> {
        let mut open: Vec<String> = self
            .scene
            .dispatches
            .values()
            .filter(|dispatch| dispatch.completed_at.is_none())
            .filter(|dispatch| !self.scene.runs[&dispatch.run_id].status.is_terminal())
            .map(|dispatch| {
                let rows = self.scene.rows(&dispatch.run_id);
                let carried = rows.filter(|row| row.dispatch_id.as_ref() == Some(&dispatch.id));
                let open = carried.filter(|row| !row.status.is_done_planning() || row.status == RowStatus::Planned);
                let keys: Vec<&str> = open.map(|row| row.key.as_str()).collect();
                format!("{} {} {}: {}", dispatch.mode, dispatch.wave, dispatch.environment, keys.join(" "))
            })
            .collect();
        open.sort();
        open
    }

    /// Comments and dispatches that the last step asked for, by key.
    pub fn jobs_asked(&self, kind: JobKind) -> Vec<String> {
        let jobs = self.changes.effects.jobs.iter().filter(|job| job.kind == kind);
        jobs.filter_map(|job| job.key.clone()).collect()
    }

    /// Bodies of the comments of the last step.
    pub fn comments(&self) -> Vec<String> {
        let jobs = self.changes.effects.jobs.iter().filter(|job| job.kind == JobKind::Comment);
        jobs.filter_map(|job| job.payload["body"].as_str().map(str::to_owned)).collect()
    }

    /// `action via-or-reason` of the last step's audit rows, besides the one of what moved.
    pub fn audited(&self) -> Vec<String> {
        self.changes
            .effects
            .audit
            .iter()
            .filter(|entry| entry.action != transitions::ACTION)
            .map(|entry| match entry.details.get("via").and_then(|via| via.as_str()) {
                Some(via) => format!("{} {} via {via}", entry.action, entry.target),
                None => format!("{} {}", entry.action, entry.target),
            })
            .collect()
    }
}

/// `s…` stacks are staging's.
fn environment(key: &str) -> &'static str {
    if key.starts_with('s') { "staging" } else { "production" }
}
