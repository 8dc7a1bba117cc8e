//! What jobs register and upload, and what the default branch has to say about it.

use super::*;
use crate::config::model::{PlanOutput, StackConfig};
use crate::graph::model::Graph;

impl World {
    fn registration(&self, head: Sha, pr_number: i64) -> CreateRunRequest {
        CreateRunRequest {
            repo: "acme/infra".to_owned(),
            sha: head.to_string(),
            pr_number,
            ..CreateRunRequest::default()
        }
    }

    /// Registers a head, uploads, and gives `key plan_output` of each row with what was answered.
    async fn uploaded(&self, head: char, upload: GraphUploadRequest) -> (RunId, Resolution, Vec<String>) {
        self.clock.advance(1000);
        self.github.script().pull.head_sha = sha(head);
        let job = self.plan_job().await;
        let created = self.app.create_run(&job, &self.registration(sha(head), 1)).await.unwrap();
        let resolution = self.app.upload_graph(&job, &created.run_id, upload).await.unwrap();
        let rows = self.app.store.rows(&created.run_id).await.unwrap();
        let mut rows: Vec<String> =
            rows.iter().map(|row| format!("{} {}", row.key, row.plan_output.as_str())).collect();
        rows.sort();
        (created.run_id, resolution, rows)
    }
}

/// The graph as a head has it that says `full` everywhere.
fn all_full(stacks: &str) -> Graph {
    let mut graph = graph(stacks);
    for stack in &mut graph.stacks {
        stack.plan_output = Some(PlanOutput::Full);
        stack.config = Some(StackConfig { plan_output: Some(PlanOutput::Full), ..StackConfig::default() });
    }
    graph
}

#[tokio::test]
async fn case_001_bl_120_a_readme_alone_is_planned_at_once_with_both_roll_ups_green() {
    let world = World::new().await;
    let (run, resolution) = world.resolve(sha('a'), &["README.md"]).await;
    world.settle().await;

    assert_eq!((resolution.affected.len(), resolution.matrix.include.len()), (0, 0));
    assert_eq!(world.app.store.run(&run).await.unwrap().unwrap().status, RunStatus::Planned);
    assert_eq!(world.check('a', "stackorder/plan").unwrap(), "success | No stacks affected");
    assert_eq!(world.check('a', "stackorder/apply").unwrap(), "success | No stacks affected, nothing to apply");
}

#[tokio::test]
async fn case_002_a_merge_that_reaches_nothing_is_silent_on_merge() {
    let world = World::new().await;
    world.policy(|policy| policy.apply.mode = ApplyMode::OnMerge).await;
    world.resolve(sha('a'), &["README.md"]).await;
    world.settle().await;
    assert_eq!(world.check('a', "stackorder/plan").unwrap(), "success | No stacks affected");

    world.merge("merged").await;

    let names: Vec<String> = world.github.script().checks.values().map(|check| check.name.clone()).collect();
    assert!(!names.iter().any(|name| name.starts_with("stackorder/apply")), "{names:?}");
    assert_eq!(world.notes(), Vec::<String>::new());
    assert!(world.runs().await.iter().all(|run| run.mode == Mode::Plan));
}

#[tokio::test]
async fn case_011_failure_14_a_cycle_is_answered_and_takes_no_further_upload() {
    let world = World::new().await;
    let cyclic = || GraphUploadRequest { graph: graph("vpc <- eks <- vpc"), ..upload("vpc", &["vpc/main.tf"]) };
    let (run, resolution, _) = world.uploaded('a', cyclic()).await;

    assert_eq!(resolution.cycles, [["eks", "vpc", "eks"]]);
    assert!(resolution.matrix.include.is_empty());
    assert_eq!(world.app.store.run(&run).await.unwrap().unwrap().status, RunStatus::Failed);
    let again = world.app.upload_graph(&world.plan_job().await, &run, cyclic()).await;
    assert!(matches!(refused(again), Refused::Conflict(_)));

    world.settle().await;
    let spelled_out = "failure | Dependency cycle: eks → vpc → eks";
    assert_eq!(world.check('a', "stackorder/resolve").unwrap(), spelled_out);
    assert_eq!(world.check('a', "stackorder/plan").unwrap(), spelled_out);
}

#[tokio::test]
async fn case_017_a_pull_request_cannot_make_a_summary_stack_show_its_plan() {
    let world = World::new().await;
    // The default branch: `vpc` says summary, `eks` leaves it to the root.
    let mut base = graph("vpc <- eks");
    base.stacks.iter_mut().find(|stack| stack.key == "vpc").unwrap().config =
        Some(StackConfig { plan_output: Some(PlanOutput::Summary), ..StackConfig::default() });
    world.uploaded('a', GraphUploadRequest { graph: base, ..upload("vpc", &["vpc/main.tf"]) }).await;
    world.merge("merged").await;
    assert_eq!(world.repo().await.default_graph, Some(sha('a')));

    world.github.script().pull.open = true;
    let head = GraphUploadRequest { graph: all_full("vpc <- eks"), ..upload("vpc", &["vpc/main.tf"]) };
    let (run, resolution, rows) = world.uploaded('b', head).await;
    assert_eq!(rows, ["eks full", "vpc summary"]);
    let told: Vec<&str> = resolution.matrix.include.iter().map(|entry| entry.plan_output.as_str()).collect();
    assert_eq!(told, ["summary", "full"], "its job is told, too");

    let mut report = result(Mode::Plan, "+1", "bundle");
    report.plan_text = Some("what it would show".to_owned());
    for (stack, stored) in [("vpc", None), ("eks", Some("what it would show"))] {
        world.app.report_result(&world.plan_job().await, &run, &key(stack), &report).await.unwrap();
        let text = world.app.store.plan_text(&run, &crate::ids::StackId::of(REPO, stack)).await.unwrap();
        assert_eq!(text.as_deref(), stored, "{stack}");
    }

    // The same if the root says it, and a pull request's copy of the root does not.
    world.policy(|policy| policy.plan_output = PlanOutput::Summary).await;
    let mut by_root = upload("vpc <- eks", &["vpc/main.tf"]);
    by_root.graph = all_full("vpc <- eks");
    by_root.config = Some(RepoConfig::default());
    assert_eq!(world.uploaded('c', by_root).await.2, ["eks summary", "vpc summary"]);
}

#[tokio::test]
async fn case_018_before_the_first_merge_the_files_of_the_default_branch_decide() {
    for (file, expected) in [
        (Some("plan_output: summary\n"), ["eks summary", "vpc summary"]),
        (Some("plan_output: ["), ["eks summary", "vpc summary"]),
        (None, ["eks full", "vpc full"]),
    ] {
        let world = World::new().await;
        world.github.script().stack_file = file;
        let head = GraphUploadRequest { graph: all_full("vpc <- eks"), ..upload("vpc", &["vpc/main.tf"]) };
        assert_eq!(world.repo().await.default_graph, None);
        let (_, _, rows) = world.uploaded('a', head).await;
        assert_eq!(rows, expected, "{file:?}");
    }
}

#[tokio::test]
async fn case_019_bl_112_four_jobs_that_register_at_once_share_one_run() {
    let world = World::new().await;
    let (job, request) = (world.plan_job().await, world.registration(sha('a'), 1));
    let register = || world.app.create_run(&job, &request);
    let (first, second, third, fourth) = tokio::join!(register(), register(), register(), register());

    let all = [first, second, third, fourth].map(|created| created.unwrap());
    assert!(all.iter().all(|created| created.run_id == all[0].run_id));
    assert_eq!(all.iter().filter(|created| !created.existing).count(), 1);
    assert_eq!(world.runs().await.len(), 1);
}

#[tokio::test]
async fn case_020_a_commit_that_is_no_longer_the_head_registers_nothing() {
    let world = World::new().await;
    let job = world.plan_job().await;
    world.github.script().pull.head_sha = sha('b');

    let answer = world.app.create_run(&job, &world.registration(sha('a'), 1)).await;

    assert!(matches!(refused(answer), Refused::Superseded(_)));
    assert!(world.runs().await.is_empty());
}

#[tokio::test]
async fn case_021_another_pull_request_than_the_tokens_is_forbidden() {
    let world = World::new().await;
    let answer = world.app.create_run(&world.plan_job().await, &world.registration(sha('a'), 2)).await;

    assert!(matches!(refused(answer), Refused::Forbidden(_)));
    assert!(world.runs().await.is_empty());
}

#[tokio::test]
async fn case_022_a_locked_stack_is_planned_and_its_check_names_the_holder() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    let apply = Caller::Key(api_key(&["apply"], &[]));
    world.app.create_run(&apply, &manual()).await.unwrap();

    let (_, resolution) = world.resolve(sha('b'), &["vpc/main.tf"]).await;
    world.settle().await;

    assert_eq!(resolution.matrix.include.len(), 2, "its plan runs");
    let holder = resolution.affected.iter().find(|stack| stack.key == "vpc").unwrap().locked_by.as_ref().unwrap();
    assert_eq!(holder.pr_number, 0);
    let script = world.github.script();
    let check = script.checks.values().find(|check| check.name == "stackorder/resolve" && check.head_sha == sha('b'));
    let line = check.unwrap().text.lines().find(|line| line.contains("`vpc`")).unwrap().to_owned();
    assert!(line.contains("a manual run"), "{line}");
}
