//! Plans in other repositories after an apply (spec 30 §13).

use super::*;
use crate::config::model::CrossRepo;
use crate::graph::model::{Edge, EdgeType, Graph, NodeRef, Stack};
use crate::run::apply_start;
use crate::run::model::Row;
use crate::run::plan_start;
use crate::run::scene::StoredGraph;
use crate::run::settle;
use crate::run::status::RowStatus;

const DOWNSTREAM: i64 = 8;

impl World {
    /// `acme/infra` plans downstream; `acme/apps` has a stack `web` that depends on its `vpc`, and `jobs` that does not.
    async fn with_downstream() -> Self {
        let world = Self::new().await;
        let mut config = RepoConfig::default();
        config.propagate.cross_repo = CrossRepo::Plan;
        world.app.store.save_config(REPO, Some(&config), "f").await.unwrap();
        let apps = Repo { id: DOWNSTREAM, full_name: RepoName::parse("acme/apps").unwrap(), ..world.repo().await };
        world.app.store.save_repo(&apps).await.unwrap();
        let stack =
            |key: &str, external| Stack { key: key.to_owned(), path: key.to_owned(), external, ..Stack::default() };
        let edge = Edge {
            from: NodeRef::stack("web"),
            to: NodeRef::stack("acme/infra//vpc"),
            kind: EdgeType::DependsOn,
            inferred: false,
            meta: Default::default(),
        };
        let graph = Graph {
            repo: "acme/apps".to_owned(),
            stacks: vec![stack("acme/infra//vpc", true), stack("jobs", false), stack("web", false)],
            edges: vec![edge],
            ..Graph::default()
        };
        let stored = StoredGraph {
            repo_id: DOWNSTREAM,
            sha: sha('d'),
            content_hash: "d".to_owned(),
            tree_hash: String::new(),
            pr_number: 0,
            graph,
            created_at: 1,
        };
        let effects = Effects { graph: Some(stored), default_graph: Some(sha('d')), ..Effects::default() };
        world.app.store.commit(Changes { repo_id: DOWNSTREAM, effects, ..Changes::default() }).await.unwrap();
        world
    }

    /// An apply by hand that ended with these rows.
    async fn ended(&self, rows: &[(&str, RowStatus)]) -> RunId {
        let id = self.app.new_run_id();
        let subject = Subject::Pull { repo_id: REPO, number: 0 };
        self.app
            .decide(&subject, |next| {
                let run = plan_start::blank_run(next, id.clone(), sha('a'), Mode::Apply, Trigger::Manual, "ci");
                let rows: Vec<Row> = rows
                    .iter()
                    .map(|(stack, _)| {
                        let stack = Stack { key: (*stack).to_owned(), path: (*stack).to_owned(), ..Stack::default() };
                        let affected = crate::graph::resolution::AffectedStack::requested_alone(&stack, "default");
                        Row {
                            status: RowStatus::Planned,
                            ..plan_start::pending_row(&run, &affected, next.now).unwrap()
                        }
                    })
                    .collect();
                apply_start::start_manual(next, id.clone(), sha('a'), "ci", rows).unwrap();
            })
            .await
            .unwrap();
        let ends = rows;
        self.app
            .decide(&subject_of(&id), |next| {
                let now = next.now;
                for (stack, status) in ends {
                    next.scene.row_mut(&id, &key(stack)).unwrap().enter(*status, now);
                }
                settle::settle(next, &id);
            })
            .await
            .unwrap();
        id
    }

    /// Works off what asks for plans downstream, and says how many times it was asked.
    async fn plans_downstream(&self) -> usize {
        let mut asked = 0;
        while let Some(job) = self.app.store.claim_job("worker", self.app.now(), 1000).await.unwrap() {
            self.app.store.finish_job(&job, "worker", &Outcome::Done, self.app.now()).await.unwrap();
            if job.kind == JobKind::PlanDownstream {
                asked += 1;
                let run = RunId::parse(job.payload["run_id"].as_str().unwrap()).unwrap();
                self.app.plan_downstream(&self.repo().await, &run).await.unwrap();
            }
        }
        asked
    }

    async fn downstream_runs(&self) -> Vec<Run> {
        let filter = RunFilter { repo_id: Some(DOWNSTREAM), limit: 10, ..RunFilter::default() };
        self.app.store.runs(&filter).await.unwrap()
    }
}

fn subject_of(id: &RunId) -> Subject {
    Subject::Run(id.clone())
}

#[tokio::test]
async fn case_102_what_applied_is_followed_downstream_even_if_the_run_failed_later() {
    let world = World::with_downstream().await;
    let upstream = world.ended(&[("vpc", RowStatus::Applied), ("eks", RowStatus::Failed)]).await;
    assert_eq!(world.plans_downstream().await, 1);

    let run = world.downstream_runs().await.remove(0);
    assert_eq!((run.mode, run.trigger, run.requested_by.as_str()), (Mode::Plan, Trigger::Push, "stackorder"));
    assert_eq!((&run.sha, run.graph_sha.as_ref()), (&sha('f'), Some(&sha('d'))), "the head of its default branch");
    assert!(run.warnings[0].ends_with(&format!("https://so.test/runs/{upstream}")), "{:?}", run.warnings);
    let rows = world.app.store.rows(&run.id).await.unwrap();
    let told: Vec<_> = rows.iter().map(|row| (row.key.as_str(), row.via.as_slice(), row.status)).collect();
    assert_eq!(told, [("web", &["acme/infra//vpc".to_owned()][..], RowStatus::Pending)]);
    assert_eq!(world.dispatches().await.len(), 1);
    let audit = world.app.store.audit(10, None).await.unwrap();
    let row = audit.iter().map(|(_, entry)| entry).find(|entry| entry.action == "cross_repo_plan").unwrap();
    assert_eq!(row.target, format!("run:{upstream}:acme/apps"));
}

#[tokio::test]
async fn case_103_the_job_that_plans_downstream_runs_twice_and_plans_once() {
    let world = World::with_downstream().await;
    let upstream = world.ended(&[("vpc", RowStatus::Applied)]).await;
    for _ in 0..2 {
        world.app.plan_downstream(&world.repo().await, &upstream).await.unwrap();
    }
    assert_eq!(world.downstream_runs().await.len(), 1);
}

#[tokio::test]
async fn nobody_follows_what_was_not_applied_or_not_asked_for() {
    let world = World::with_downstream().await;
    world.ended(&[("vpc", RowStatus::Failed)]).await;
    world.ended(&[("eks", RowStatus::Applied)]).await;
    assert_eq!(world.plans_downstream().await, 1, "only the second applied anything");
    assert!(world.downstream_runs().await.is_empty(), "and nobody depends on that");

    world.app.store.save_config(REPO, None, "g").await.unwrap();
    world.ended(&[("vpc", RowStatus::Applied)]).await;
    assert_eq!(world.plans_downstream().await, 0, "off by default");
}

#[tokio::test]
async fn a_suspended_repository_and_one_of_another_installation_are_left_out() {
    let world = World::with_downstream().await;
    let other = Installation { id: 2, account: "else".into(), account_type: "Organization".into(), suspended: false };
    world.app.store.save_installation(&other).await.unwrap();
    let apps = world.app.store.repo(DOWNSTREAM).await.unwrap().unwrap();
    let mut upstream = world.ended(&[("vpc", RowStatus::Applied)]).await;
    world.app.store.save_repo(&Repo { installation_id: 2, ..apps.clone() }).await.unwrap();
    world.app.plan_downstream(&world.repo().await, &upstream).await.unwrap();
    assert!(world.downstream_runs().await.is_empty());

    world.app.store.save_repo(&apps).await.unwrap();
    let suspended = Installation { id: 1, suspended: true, ..other };
    world.app.store.save_installation(&suspended).await.unwrap();
    upstream = world.app.store.run(&upstream).await.unwrap().unwrap().id;
    world.app.plan_downstream(&world.repo().await, &upstream).await.unwrap();
    assert!(world.downstream_runs().await.is_empty());
}
