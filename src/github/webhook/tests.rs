use proptest::prelude::*;

use super::*;

/// Payloads as GitHub sends them; `tests/fixtures/webhooks/README.md` says where they come from.
macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../tests/fixtures/webhooks/", $name, ".json"))
    };
}

fn name(text: &str) -> RepoName {
    RepoName::parse(text).unwrap()
}

#[test]
fn the_documented_signature_verifies_and_nothing_near_it_does() {
    let secret = SecretString::from("It's a Secret to Everybody");
    let good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    assert!(verify(&secret, Some(good), b"Hello, World!"));
    assert!(verify(&secret, Some(&good.replace("ea0eb2", "EA0EB2")), b"Hello, World!"));

    assert!(!verify(&secret, Some(good), b"Hello, World"));
    assert!(!verify(&"another".into(), Some(good), b"Hello, World!"));
    for bad in [
        "",
        "sha256=",
        &good[7..],
        &good.replace("sha256", "sha1"),
        &good[..good.len() - 2],
        &format!("{good}00"),
        &good.replace("17", "18"),
        &good.replace("17", "é"),
        &good.replace("17", "+7"),
    ] {
        assert!(!verify(&secret, Some(bad), b"Hello, World!"), "{bad:?}");
    }
    assert!(!verify(&secret, None, b"Hello, World!"));
}

#[test]
fn an_empty_secret_never_verifies() {
    // The true HMAC of an empty body under an empty key.
    let header = "sha256=b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";
    assert!(!verify(&"".into(), Some(header), b""));
}

#[test]
fn a_comment_on_a_pull_request_tells_who_said_what() {
    let Event::IssueComment(event) = parse("issue_comment", fixture!("issue_comment.created")).unwrap() else {
        panic!("another event")
    };
    assert_eq!(event.action, "created");
    assert_eq!((event.number, event.is_pull_request), (1, true));
    assert_eq!((event.author.as_str(), event.author_is_bot, event.sender_is_bot), ("octocat", false, false));
    assert_eq!(event.body, "You are totally right! I'll get this fixed right away.");
    assert_eq!(event.repo.name, name("octocat/Hello-World"));
}

#[test]
fn a_merged_pull_request_names_its_commit_and_who_merged_it() {
    let Event::PullRequest(event) = parse("pull_request", fixture!("pull_request.closed-merged")).unwrap() else {
        panic!("another event")
    };
    assert_eq!(event.action, "closed");
    assert!(event.merged && !event.from_fork && !event.base_changed);
    assert_eq!(event.base_ref, "master");
    assert!(event.merge_commit_sha.is_some());
    assert!(event.merged_by.is_some());
    assert_eq!(event.repo.default_branch.as_deref(), Some("master"));
}

#[test]
fn only_an_edit_of_the_base_is_a_changed_base() {
    let changed = |payload| match parse("pull_request", payload).unwrap() {
        Event::PullRequest(event) => event.base_changed,
        other => panic!("{other:?}"),
    };
    assert!(changed(fixture!("pull_request.edited-base")));
    let title_only = fixture!("pull_request.edited-base").replacen("\"base\"", "\"title\"", 1);
    assert!(!changed(&title_only));
}

#[test]
fn a_head_elsewhere_or_gone_is_a_fork() {
    let payload = |repo: &str| {
        let sha = "a".repeat(40);
        format!(
            r#"{{"action":"opened","repository":{{"id":1,"full_name":"a/b"}},"pull_request":{{"number":7,
            "head":{{"ref":"x","sha":"{sha}","repo":{repo}}},"base":{{"ref":"main","sha":"{sha}","repo":{{"id":1}}}}}}}}"#
        )
    };
    for (repo, expected) in [(r#"{"id":1}"#, false), (r#"{"id":2}"#, true), ("null", true)] {
        let payload = payload(repo);
        let Event::PullRequest(event) = parse("pull_request", &payload).unwrap() else { panic!("another event") };
        assert_eq!(event.from_fork, expected, "{repo}");
    }
}

#[test]
fn installations_list_their_repositories() {
    let Event::Installation(event) = parse("installation", fixture!("installation.created")).unwrap() else {
        panic!("another event")
    };
    assert_eq!(event.action, "created");
    assert!(!event.installation.suspended);
    assert_eq!(event.repositories[0].name, name("octocat/Hello-World"));

    let Event::Installation(event) = parse("installation", fixture!("installation.suspend")).unwrap() else {
        panic!("another event")
    };
    assert!(event.installation.suspended);

    let Event::InstallationRepositories(event) =
        parse("installation_repositories", fixture!("installation_repositories.added")).unwrap()
    else {
        panic!("another event")
    };
    assert_eq!((event.added.len(), event.removed.len()), (1, 0));
    let nameless = fixture!("installation_repositories.removed").replace("monalisa/Hello-World", "");
    let Event::InstallationRepositories(event) = parse("installation_repositories", &nameless).unwrap() else {
        panic!("another event")
    };
    assert_eq!((event.added.len(), event.removed.len()), (0, 1));
}

#[test]
fn pushes_tell_branches_from_deletions() {
    let Event::Push(event) = parse("push", fixture!("push.with-installation")).unwrap() else {
        panic!("another event")
    };
    assert!(event.repo.installation_id.is_some());
    assert_eq!(event.default_branch, "master");
    let Event::Push(event) = parse("push", fixture!("push.branch-deleted")).unwrap() else { panic!("another event") };
    assert!(event.deleted);
    assert_eq!(event.after.as_str(), "0".repeat(40));
}

#[test]
fn checks_name_their_app_and_who_asked() {
    let Event::CheckRun(event) = parse("check_run", fixture!("check_run.rerequested")).unwrap() else {
        panic!("another event")
    };
    assert_eq!((event.action.as_str(), event.name.as_str()), ("rerequested", "randscape"));
    assert_eq!((event.sender.as_str(), event.sender_is_bot), ("monalisa", false));
    assert_eq!(event.app_id, 2);
}

#[test]
fn workflow_runs_and_jobs_tell_where_they_stand() {
    let Event::WorkflowRun(event) = parse("workflow_run", fixture!("workflow_run.completed-dispatch")).unwrap() else {
        panic!("another event")
    };
    assert_eq!((event.action.as_str(), event.status.as_str()), ("completed", "completed"));
    assert_eq!(event.event, "workflow_dispatch");
    assert!(event.created_at > 0 && !event.path.contains('@'));
    assert_eq!(event.head_branch, "master");

    let Event::WorkflowJob(event) = parse("workflow_job", fixture!("workflow_job.waiting")).unwrap() else {
        panic!("another event")
    };
    assert_eq!((event.action.as_str(), event.status.as_str(), event.conclusion.as_str()), ("waiting", "waiting", ""));
    assert!(event.html_url.starts_with("https://github.com/"));
}

#[test]
fn a_protection_rule_names_the_workflow_run_that_waits() {
    let payload = fixture!("deployment_protection_rule.requested");
    let Event::DeploymentProtectionRule(event) = parse("deployment_protection_rule", payload).unwrap() else {
        panic!("another event")
    };
    assert_eq!(event.action, "requested");
    assert!(event.workflow_run_id.is_some());
    let broken = payload.replace("/deployment_protection_rule\"", "/elsewhere\"");
    let Event::DeploymentProtectionRule(event) = parse("deployment_protection_rule", &broken).unwrap() else {
        panic!("another event")
    };
    assert_eq!(event.workflow_run_id, None);
}

#[test]
fn new_fields_actions_and_states_are_accepted_but_missing_ones_are_named() {
    let payload = r#"{"action":"launched","new":{"x":[1]},"repository":{"id":1,"full_name":"a/b","colour":"red"},
        "workflow_job":{"id":2,"run_id":3,"name":"plan a","status":"dreaming","steps":[]}}"#;
    let Event::WorkflowJob(event) = parse("workflow_job", payload).unwrap() else { panic!("another event") };
    assert_eq!((event.action.as_str(), event.status.as_str(), event.attempt), ("launched", "dreaming", 1));

    let error = parse("workflow_job", r#"{"action":"queued"}"#).unwrap_err();
    assert_eq!(error.to_string(), "the payload of workflow_job is unreadable");
    assert!(parse("push", &"[".repeat(100_000)).is_err());
}

#[test]
fn events_that_decide_nothing_are_not_read() {
    assert_eq!(parse("ping", "").unwrap(), Event::Ping);
    assert_eq!(parse("star", "not even JSON").unwrap(), Event::Other);
}

#[test]
fn what_nothing_comes_of_is_for_nobody() {
    let is_for_nobody = |event: &str, payload: &str| parse(event, payload).unwrap().is_for_nobody();
    let check = fixture!("check_run.rerequested");
    assert!(!is_for_nobody("check_run", check));
    for action in ["created", "completed", "requested_action"] {
        assert!(
            is_for_nobody("check_run", &check.replacen("\"rerequested\"", &format!("\"{action}\""), 1)),
            "{action}"
        );
    }
    assert!(is_for_nobody("check_run", &check.replace("\"monalisa\"", "\"renovate[bot]\"")));

    let comment = fixture!("issue_comment.created");
    assert!(!is_for_nobody("issue_comment", comment));
    assert!(is_for_nobody("issue_comment", &comment.replace("\"pull_request\":", "\"something\":")));
    assert!(is_for_nobody("issue_comment", &comment.replace("\"octocat\"", "\"stackorder[bot]\"")));

    assert!(!is_for_nobody("pull_request", fixture!("pull_request.closed-merged")));
}

#[test]
fn bots_are_known_by_type_or_by_name() {
    let sender_of = |user: &str| {
        let payload = format!(
            r#"{{"action":"created","repository":{{"id":1,"full_name":"a/b"}},"sender":{user},
            "issue":{{"number":1}},"comment":{{"id":5,"body":null,"user":{user}}}}}"#
        );
        match parse("issue_comment", &payload).unwrap() {
            Event::IssueComment(event) => (event.author_is_bot, event.sender_is_bot),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(sender_of(r#"{"login":"x","type":"Bot"}"#), (true, true));
    assert_eq!(sender_of(r#"{"login":"x[bot]"}"#), (true, true));
    assert_eq!(sender_of(r#"{"login":"x","type":"User"}"#), (false, false));
    assert_eq!(sender_of("null"), (false, false));
}

#[test]
fn every_stored_payload_of_an_event_we_read_parses_as_it() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/webhooks");
    let mut parsed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let event = path.file_name().unwrap().to_str().unwrap().split('.').next().unwrap();
        let read = parse(event, &std::fs::read_to_string(&path).unwrap());
        assert!(!matches!(read, Err(_) | Ok(Event::Other)), "{path:?}: {read:?}");
        parsed += 1;
    }
    assert!(parsed >= 18, "only {parsed} payloads found");
}

proptest! {
    #[test]
    fn any_header_and_any_payload_are_answered(event in "[a-z_]{0,12}", text in ".{0,60}") {
        prop_assert!(!verify(&"secret".into(), Some(&text), text.as_bytes()));
        drop(parse(&event, &text));
    }
}
