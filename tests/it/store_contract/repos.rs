//! Installations and repositories, and what goes with them.

use stackorder::config::model::RepoConfig;
use stackorder::ids::RepoName;
use stackorder::run::model::{Repo, Run};
use stackorder::run::scene::{Changes, Effects, PlanText};
use stackorder::store::{Installation, StoreError};

use super::values::*;

pub async fn a_repository_keeps_its_configuration_when_it_is_saved_again(store: AStore) {
    with_repos(&store).await;
    assert_eq!(store.repo(REPO).await.unwrap(), Some(repo(REPO, "acme/infra")));
    assert_eq!(store.repo(99).await.unwrap(), None);
    let config = RepoConfig::default();
    store.save_config(REPO, Some(&config), "abc").await.unwrap();
    store.commit(effects(Effects { default_graph: Some(sha(1)), ..Effects::default() })).await.unwrap();

    let renamed = Repo { default_branch: "trunk".into(), private: false, ..repo(REPO, "acme/stacks") };
    store.save_repo(&renamed).await.unwrap();
    let expected =
        Repo { config: Some(config.into()), config_sha: "abc".into(), default_graph: Some(sha(1)), ..renamed.clone() };
    assert_eq!(store.repo(REPO).await.unwrap(), Some(expected));

    store.save_config(REPO, None, "def").await.unwrap();
    let expected = Repo { config_sha: "def".into(), default_graph: Some(sha(1)), ..renamed };
    assert_eq!(store.repo(REPO).await.unwrap(), Some(expected));
}

pub async fn a_repository_is_found_in_any_case(store: AStore) {
    with_repos(&store).await;
    let found = store.repo_by_name(&RepoName::parse("ACME/Infra").unwrap()).await.unwrap().unwrap();
    assert_eq!((found.id, found.full_name.as_str()), (REPO, "acme/infra"));
    assert_eq!(store.repo_by_name(&RepoName::parse("acme/other").unwrap()).await.unwrap(), None);
    let names: Vec<String> = store.repos().await.unwrap().iter().map(|repo| repo.full_name.to_string()).collect();
    assert_eq!(names, ["acme/apps", "acme/infra"]);
}

pub async fn a_name_belongs_to_one_repository(store: AStore) {
    with_repos(&store).await;
    assert_eq!(conflict(store.save_repo(&repo(9, "Acme/Infra")).await), []);
    assert_eq!(conflict(store.save_repo(&repo(OTHER_REPO, "acme/INFRA")).await), []);
    store.save_repo(&repo(REPO, "ACME/infra")).await.unwrap();
}

pub async fn suspending_an_installation_suspends_its_repositories(store: AStore) {
    with_repos(&store).await;
    store.save_installation(&installation(0)).await.unwrap();
    let suspended = Installation { suspended: true, account: "acme2".into(), ..installation(1) };
    store.save_installation(&suspended).await.unwrap();
    assert_eq!(store.installations().await.unwrap(), [installation(0), suspended]);
    assert!(store.repo(REPO).await.unwrap().unwrap().suspended);
    assert!(store.pull_scene(REPO, 1).await.unwrap().unwrap().repo.suspended);
    store.save_installation(&installation(1)).await.unwrap();
    assert!(!store.repo(REPO).await.unwrap().unwrap().suspended);
}

pub async fn a_repository_needs_its_installation(store: AStore) {
    let outcome = store.save_repo(&repo(REPO, "acme/infra")).await;
    assert!(matches!(outcome, Err(StoreError::Db(_))), "{outcome:?}");
}

/// Something of everything that hangs on a repository.
async fn fill(store: &AStore) -> Run {
    let run = apply(1, 1);
    let elsewhere = Run { repo_id: OTHER_REPO, ..apply(2, 1) };
    let write = Changes {
        rows: vec![row(&run, "vpc"), row(&elsewhere, "web")],
        dispatches: vec![dispatch(1, &run, 0), dispatch(2, &elsewhere, 0)],
        verdicts: vec![verdict(&run, "vpc", "cost")],
        locks_taken: vec![lock(&run, "vpc"), lock(&elsewhere, "web")],
        effects: Effects {
            plan_texts: vec![PlanText { run_id: run.id.clone(), stack_id: stack("vpc"), text: "+".into() }],
            graph: Some(stored_graph(1, &["vpc"])),
            default_graph: Some(sha(1)),
            ..Effects::default()
        },
        ..new_runs(&[&run, &elsewhere])
    };
    store.commit(write).await.unwrap();
    run
}

async fn assert_forgotten(store: &AStore, run: &Run) {
    assert_eq!(store.repo(REPO).await.unwrap(), None);
    assert_eq!(store.run(&run.id).await.unwrap(), None);
    assert!(store.scene(&run.id).await.unwrap().is_none());
    assert!(store.rows(&run.id).await.unwrap().is_empty());
    assert_eq!(store.plan_text(&run.id, &stack("vpc")).await.unwrap(), None);
    assert!(store.graph(REPO, &sha(1)).await.unwrap().is_none());
    assert!(store.stacks(REPO).await.unwrap().is_empty());
    assert!(store.locks(Some(REPO)).await.unwrap().is_empty());
}

pub async fn forgetting_an_installation_forgets_everything_under_it(store: AStore) {
    with_repos(&store).await;
    let run = fill(&store).await;
    store.delete_installation(1).await.unwrap();
    assert_forgotten(&store, &run).await;
    assert!(store.installations().await.unwrap().is_empty());
    assert!(store.repos().await.unwrap().is_empty());
    assert!(store.open_dispatches().await.unwrap().is_empty());
    assert!(store.locks(None).await.unwrap().is_empty());
    store.delete_installation(1).await.unwrap();

    // Nothing is left in the way when it comes back.
    with_repos(&store).await;
    fill(&store).await;
}

pub async fn forgetting_a_repository_leaves_the_others(store: AStore) {
    with_repos(&store).await;
    let run = fill(&store).await;
    store.delete_repo(REPO).await.unwrap();
    assert_forgotten(&store, &run).await;
    assert_eq!(store.repos().await.unwrap().len(), 1);
    assert_eq!(store.open_dispatches().await.unwrap().len(), 1);
    assert_eq!(store.locks(None).await.unwrap().len(), 1);
    assert_eq!(store.rows(&run_id(2)).await.unwrap().len(), 1);
}
