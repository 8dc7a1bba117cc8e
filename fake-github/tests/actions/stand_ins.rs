//! The stand-ins for JavaScript actions, and what passes between jobs and workflows.

use std::sync::atomic::Ordering;

use crate::world::{NOON, World};

fn on_push(jobs: &str) -> World {
    World::new(&[(".github/workflows/w.yml", &format!("on: push\n{jobs}"))])
}

#[tokio::test]
async fn artifacts_travel_between_jobs_and_runs_until_they_expire() {
    let text = r#"
on:
  push:
  workflow_dispatch: { inputs: { from: { required: true } } }
jobs:
  up:
    if: github.event_name == 'push'
    runs-on: x
    outputs: { id: "${{ steps.up.outputs.artifact-id }}" }
    steps:
      - run: mkdir -p out/files && echo plan > out/a.tfplan && echo lock > out/.terraform.lock.hcl && echo f > out/files/f
      - id: up
        uses: actions/upload-artifact@v4
        with: { name: bundle, path: "${{ github.workspace }}/out", include-hidden-files: true, if-no-files-found: error, retention-days: 5 }
      - uses: actions/upload-artifact@v4
        with: { name: visible, path: out }
      - id: again
        continue-on-error: true
        uses: actions/upload-artifact@v4
        with: { name: bundle, path: out }
      - id: none
        continue-on-error: true
        uses: actions/upload-artifact@v4
        with: { name: none, path: nowhere/*.txt, if-no-files-found: error }
      - run: test ${{ steps.again.outcome }}/${{ steps.none.outcome }} = failure/failure
  down:
    needs: up
    runs-on: x
    steps:
      - uses: actions/download-artifact@v4
        with: { name: bundle, path: in }
      - run: cat in/a.tfplan in/.terraform.lock.hcl in/files/f
  without:
    if: github.event_name == 'workflow_dispatch'
    permissions: { contents: read }
    runs-on: x
    steps:
      - uses: actions/download-artifact@v4
        with: { name: bundle, run-id: "${{ inputs.from }}", github-token: "${{ github.token }}" }
  other:
    if: github.event_name == 'workflow_dispatch'
    permissions: { actions: read }
    runs-on: x
    steps:
      - id: get
        continue-on-error: true
        uses: actions/download-artifact@v4
        with: { name: bundle, path: in, run-id: "${{ inputs.from }}", github-token: "${{ github.token }}" }
      - run: echo got ${{ steps.get.outcome }} $(ls in)
"#;
    let world = World::new(&[(".github/workflows/w.yml", text)]);
    let run = world.pushed().await;
    assert_eq!(world.jobs(run), "down success, other skipped, up success, without skipped", "{}", world.log(run, "up"));
    assert!(world.log(run, "down").contains("plan\nlock\nf\n"));
    let artifacts = world.engine.artifacts(run);
    assert_eq!(artifacts.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["bundle", "visible"]);
    assert_eq!(artifacts[0].expires_at, NOON + 5 * 86_400_000);
    assert_eq!(world.output(run, "up", "id"), artifacts[0].id.to_string());
    let archive = world.engine.artifact_archive(artifacts[0].id).unwrap();
    assert_eq!((&archive[..4], archive.len() as u64), (b"PK\x03\x04".as_slice(), artifacts[0].size_bytes));
    assert!(!String::from_utf8_lossy(&world.engine.artifact_archive(artifacts[1].id).unwrap()).contains(".terraform"));

    let from = run.to_string();
    let fetched = world.dispatch("w.yml", &[("from", &from)]).unwrap();
    world.engine.idle().await;
    assert!(world.log(fetched, "other").contains("\ngot success a.tfplan files"), "{}", world.log(fetched, "other"));

    assert!(world.log(fetched, "without").contains("Resource not accessible by integration"));

    world.host.now.store(NOON + 6 * 86_400_000, Ordering::SeqCst);
    assert!(world.engine.artifact(artifacts[0].id).unwrap().expired);
    assert!(world.engine.artifact_archive(artifacts[0].id).is_none());
    let late = world.dispatch("w.yml", &[("from", &from)]).unwrap();
    world.engine.idle().await;
    assert!(world.log(late, "other").contains("\ngot failure"));
    assert!(world.log(late, "other").contains("Artifact not found for name: bundle"));
    assert_eq!(world.engine.expire_artifacts("acme/infra"), 2);
    assert!(world.engine.delete_artifact(artifacts[1].id) && !world.engine.delete_artifact(artifacts[1].id));
}

#[tokio::test]
async fn checkout_fetches_what_was_asked_for() {
    let text = r#"
on: [push, pull_request]
jobs:
  job:
    runs-on: x
    steps:
      - uses: actions/checkout@v5
      - run: echo "default $(git rev-parse HEAD) $(git rev-parse --abbrev-ref HEAD) $(git rev-list --count HEAD)"
      - uses: actions/checkout@v5
        with: { path: all, fetch-depth: 0, ref: "${{ github.sha }}", persist-credentials: false }
      - run: |
          cd all
          echo "all $(git rev-list --count HEAD) $(git tag) header [$(git config --get-regexp extraheader)]"
          git diff --quiet origin/main && git merge-base HEAD origin/main
      - uses: actions/checkout@v5
        with: { repository: other/repo, ref: v2, path: other }
      - run: cat other/FILE
      - id: missing
        continue-on-error: true
        uses: actions/checkout@v5
        with: { ref: nowhere, path: x }
      - run: echo "missing ${{ steps.missing.outcome }}"
"#;
    let world = World::new(&[("README", "x\n")]);
    world.commit("acme/infra", &[(".github/workflows/w.yml", text)]);
    world.tag("acme/infra", "v1");
    world.commit("other/repo", &[("FILE", "from the other one\n")]);
    world.tag("other/repo", "v2");
    let sha = world.commit("acme/infra", &[("README", "y\n")]);
    let run = world.pushed().await;
    let log = world.log(run, "job");
    assert_eq!(world.jobs(run), "job success", "{log}");
    assert!(log.contains(&format!("\ndefault {sha} main 1")), "{log}");
    assert!(log.contains("\nall 3 v1 header []"), "{log}");
    assert!(log.contains("\nfrom the other one") && log.contains("\nmissing failure"), "{log}");
    assert!(!log.contains("ghs_token"), "{log}");

    let pull = world.pull_request(false)[0];
    world.engine.idle().await;
    let log = world.log(pull, "job");
    assert!(log.contains(&format!("\ndefault {sha} HEAD 1")), "{log}");
}

#[tokio::test]
async fn tools_caches_and_local_actions() {
    let text = r#"
on: push
jobs:
  job:
    runs-on: x
    steps:
      - uses: actions/checkout@v5
      - uses: hashicorp/setup-terraform@v3
        with: { terraform_version: 1.9.0, terraform_wrapper: false }
      - run: terraform version
      - id: cache
        uses: actions/cache@v4
        with: { path: x, key: "k-${{ hashFiles('**/.terraform.lock.hcl') }}" }
      - run: echo "hit ${{ steps.cache.outputs.cache-hit }}"
      - { id: tofu, continue-on-error: true, uses: opentofu/setup-opentofu@v1 }
      - run: echo "tofu ${{ steps.tofu.outcome }}"
      - id: outer
        uses: ./.github/actions/outer
        with: { value: given }
      - run: echo "outer gave ${{ steps.outer.outputs.result }}"
"#;
    let outer = r#"
inputs: { value: { required: true } }
outputs: { result: { value: "${{ steps.inner.outputs.text }} after ${{ steps.bad.outcome }}" } }
runs:
  using: composite
  steps:
    - { id: bad, shell: bash, run: exit 1, continue-on-error: true }
    - { id: skipped, if: "inputs.value != 'given'", shell: bash, run: exit 1 }
    - id: inner
      uses: ./.github/actions/inner
      with: { text: "${{ inputs.value }}-inner" }
"#;
    let inner = r#"
inputs: { text: {}, extra: { default: "${{ github.repository }}" } }
outputs: { text: { value: "${{ steps.s.outputs.text }}" } }
runs:
  using: composite
  steps:
    - { id: s, shell: sh, run: "echo 'text=${{ inputs.text }} of ${{ inputs.extra }}' >> $GITHUB_OUTPUT" }
"#;
    let tools = tempfile::tempdir().unwrap();
    let tool = tools.path().join("terraform");
    std::fs::write(&tool, "#!/bin/sh\necho stand-in $1\n").unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let world = World::with_options(
        &[
            (".github/workflows/w.yml", text),
            (".github/actions/outer/action.yml", outer),
            (".github/actions/inner/action.yml", inner),
            ("a/.terraform.lock.hcl", "lock"),
        ],
        |options| options.path.push(tools.path().to_owned()),
    );
    let run = world.pushed().await;
    let log = world.log(run, "job");
    assert_eq!(world.jobs(run), "job success", "{log}");
    assert!(log.contains("\nstand-in version") && log.contains("\nhit false"), "{log}");
    assert!(log.contains("\nouter gave given-inner of acme/infra after failure"), "{log}");
    assert!(!log.contains("input keys: k-\n"), "{log}");
    if std::process::Command::new("tofu").arg("version").output().is_err() {
        assert!(log.contains("\ntofu failure") && log.contains("`tofu` is not on the PATH"), "{log}");
    }
}

#[tokio::test]
async fn a_called_workflow_gets_passed_secrets_and_an_environments_own_replace_them() {
    let caller = r#"
on: push
jobs:
  call:
    strategy: { matrix: { env: [staging, production] } }
    uses: ./.github/workflows/callee.yml
    with: { env: "${{ matrix.env }}" }
    secrets: { env: "TOKEN=${{ secrets.READ_TOKEN }}" }
"#;
    let callee = r#"
on:
  workflow_call:
    inputs: { env: { type: string }, count: { type: number, default: 3 }, on: { type: boolean } }
    secrets: { env: { required: false }, other: {} }
jobs:
  job:
    name: apply in ${{ inputs.env }}
    runs-on: x
    environment: ${{ inputs.env }}
    concurrency: apply-${{ inputs.env }}
    steps:
      - env: { GIVEN: "${{ secrets.env }}" }
        run: |
          test "${{ inputs.count }} ${{ inputs.on }} [${{ secrets.other }}] [${{ secrets.READ_TOKEN }}]" = "3 false [] []"
          echo "length ${#GIVEN}"
"#;
    let world = World::new(&[(".github/workflows/w.yml", caller), (".github/workflows/callee.yml", callee)]);
    {
        let mut facts = world.host.facts.lock().unwrap();
        facts.secrets.insert("READ_TOKEN".to_owned(), "reader".to_owned());
        let own = [("ENV".to_owned(), "TOKEN=writer-token".to_owned())];
        facts.environment_secrets.insert("production".to_owned(), own.into());
    }
    let run = world.pushed().await;
    assert_eq!(
        world.jobs(run),
        "call (production) / apply in production success, call (staging) / apply in staging success"
    );
    assert!(world.log(run, "call (staging) / apply in staging").contains("\nlength 12"));
    assert!(world.log(run, "call (production) / apply in production").contains("\nlength 18"));
}

#[tokio::test]
async fn credentials_come_from_the_jobs_identity_and_are_masked() {
    let cloud = cloud().await;
    let text = r#"
on: push
permissions: { id-token: write }
jobs:
  job:
    runs-on: x
    steps:
      - uses: aws-actions/configure-aws-credentials@v4
        with: { role-to-assume: "arn:aws:iam::111122223333:role/plan", aws-region: us-east-1, role-session-name: s+1 }
      - run: echo "key $AWS_ACCESS_KEY_ID region $AWS_REGION ${#AWS_SESSION_TOKEN}"
  none:
    permissions: {}
    runs-on: x
    steps:
      - uses: aws-actions/configure-aws-credentials@v4
        with: { role-to-assume: "arn:aws:iam::111122223333:role/plan", aws-region: us-east-1 }
"#;
    let world = World::with_options(&[(".github/workflows/w.yml", text)], |options| {
        options.env.insert("AWS_ENDPOINT_URL_STS".to_owned(), format!("{cloud}/sts"));
    });
    world.host.facts.lock().unwrap().oidc = Some((format!("{cloud}/token?x=1"), "bearer-of-job".to_owned()));
    let run = world.pushed().await;
    let log = world.log(run, "job");
    assert_eq!(world.jobs(run), "job success, none failure", "{log}");
    assert!(log.contains("\nkey *** region us-east-1 7"), "{log}");
    assert!(world.log(run, "none").contains("Did you mean to set the `id-token` permission?"));
}

/// A token endpoint and an STS that check what they are asked.
async fn cloud() -> String {
    use axum::extract::{Query, RawForm};
    use axum::http::{HeaderMap, StatusCode};
    use axum::routing::{get, post};
    use std::collections::BTreeMap;

    async fn token(headers: HeaderMap, Query(query): Query<BTreeMap<String, String>>) -> Result<String, StatusCode> {
        let fine = headers["authorization"] == "Bearer bearer-of-job" && query["audience"] == "sts.amazonaws.com";
        if fine { Ok(r#"{"value": "the-id-token"}"#.to_owned()) } else { Err(StatusCode::UNAUTHORIZED) }
    }
    async fn sts(RawForm(form): RawForm) -> Result<&'static str, StatusCode> {
        let form = String::from_utf8(form.to_vec()).unwrap();
        let fine = form.contains("WebIdentityToken=the%2Did%2Dtoken") && form.contains("RoleSessionName=s%2B1");
        let answer = "<A><Credentials><AccessKeyId>AKIAFAKE</AccessKeyId><SecretAccessKey>very-secret</SecretAccessKey>\
                      <SessionToken>session</SessionToken></Credentials></A>";
        if fine { Ok(answer) } else { Err(StatusCode::FORBIDDEN) }
    }
    let router = axum::Router::new().route("/token", get(token)).route("/sts", post(sts));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}")
}

#[tokio::test]
async fn no_more_jobs_run_at_once_than_there_are_runners_or_the_matrix_allows() {
    let jobs = |limit: &str| {
        format!(
            "jobs:\n  leg:\n    runs-on: x\n    strategy:\n      {limit}matrix: {{n: [1, 2, 3, 4]}}\n    steps:\n      - run: |\n          \
             mkdir $SIGNALS/running || exit 1\n          sleep 0.05\n          rmdir $SIGNALS/running\n"
        )
    };
    let serial = on_push(&jobs("max-parallel: 1\n      "));
    let run = serial.pushed().await;
    assert_eq!(serial.conclusion(run), "success");
    let text = format!("on: push\n{}", jobs(""));
    let one_runner = World::with_options(&[(".github/workflows/w.yml", &text)], |options| options.parallel_jobs = 1);
    let run = one_runner.pushed().await;
    assert_eq!(one_runner.conclusion(run), "success");
}
