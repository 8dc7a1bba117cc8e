use crate::world::World;

#[tokio::test]
async fn a_matrix_from_json_a_called_workflow_and_a_composite_action_run_unchanged() {
    let caller = r#"
name: plan
on: push
jobs:
  plan:
    uses: stack/actions/.github/workflows/plan.yml@v1
    permissions: { contents: read, id-token: write }
    with: { greeting: "hello ${{ github.actor }}" }
"#;
    let callee = r#"
on:
  workflow_call:
    inputs:
      greeting: { type: string, required: true }
      runner: { type: string, default: '["self-hosted"]' }
    outputs:
      last: { value: "${{ jobs.each.outputs.key }}" }
permissions: {}
defaults: { run: { shell: bash } }
jobs:
  resolve:
    runs-on: ${{ fromJSON(inputs.runner) }}
    permissions: { contents: read }
    outputs:
      matrix: ${{ steps.make.outputs.matrix }}
    steps:
      - uses: actions/checkout@v5
      - id: make
        run: |
          test "$(cat README)" = "read me"
          echo 'matrix={"include": [{"key": "vpc", "sha": "1"}, {"key": "eks", "sha": "2"}]}' >> "$GITHUB_OUTPUT"
  each:
    needs: resolve
    name: plan ${{ matrix.key }}
    runs-on: x
    permissions: { id-token: write }
    strategy:
      fail-fast: false
      max-parallel: 1
      matrix: ${{ fromJSON(needs.resolve.outputs.matrix) }}
    outputs:
      key: ${{ steps.greet.outputs.text }}
    steps:
      - id: greet
        uses: stack/actions/greet@v1
        with: { who: "${{ matrix.key }}", greeting: "${{ inputs.greeting }}" }
"#;
    let action = r#"
name: greet
inputs:
  who: { required: true }
  greeting: { default: hi }
outputs:
  text: { value: "${{ steps.say.outputs.text }}" }
runs:
  using: composite
  steps:
    - id: say
      shell: bash
      env: { WHO: "${{ inputs.who }}", GREETING: "${{ inputs.greeting }}" }
      run: bash "$GITHUB_ACTION_PATH/say.sh"
"#;
    let world = World::new(&[(".github/workflows/plan.yml", caller), ("README", "read me\n")]);
    world.commit(
        "stack/actions",
        &[
            (".github/workflows/plan.yml", callee),
            ("greet/action.yml", action),
            ("greet/say.sh", "echo \"text=$GREETING, $WHO\" | tee -a \"$GITHUB_OUTPUT\"\n"),
        ],
    );
    world.tag("stack/actions", "v1");

    let run = world.pushed().await;

    assert_eq!(
        world.jobs(run),
        "plan / plan eks success, plan / plan vpc success, plan / resolve success",
        "{:?}\n{}",
        world.engine.startup_error(run),
        world.log(run, "plan / resolve")
    );
    assert_eq!(world.output(run, "plan / plan vpc", "key"), "hello mona, vpc");
    let job = world.job(run, "plan / plan vpc");
    assert_eq!(job.job_workflow_ref, "stack/actions/.github/workflows/plan.yml@refs/tags/v1");
    assert_eq!(job.permissions.into_iter().collect::<Vec<_>>(), [("id-token".to_owned(), "write".to_owned())]);
    assert_eq!(world.conclusion(run), "success");
}

/// One workflow that listens to pushes.
fn on_push(jobs: &str) -> World {
    World::new(&[(".github/workflows/w.yml", &format!("on: push\n{jobs}"))])
}

#[tokio::test]
async fn conditions_see_failures_and_skips_travel_down() {
    let world = on_push(
        r#"
jobs:
  bad: { runs-on: x, steps: [{ run: exit 3 }] }
  after: { needs: bad, runs-on: x, steps: [{ run: "true" }] }
  last: { needs: after, runs-on: x, steps: [{ run: "true" }] }
  rescue: { needs: last, if: failure(), runs-on: x, steps: [{ run: "true" }] }
  always: { needs: [after, bad], if: "always() && needs.bad.result == 'failure'", runs-on: x, steps: [{ run: "true" }] }
  forgiven:
    runs-on: x
    continue-on-error: true
    steps: [{ run: exit 1 }]
  next: { needs: forgiven, if: "needs.forgiven.result == 'success'", runs-on: x, steps: [{ run: "true" }] }
"#,
    );
    let run = world.pushed().await;
    assert_eq!(
        world.jobs(run),
        "after skipped, always success, bad failure, forgiven failure, last skipped, next success, rescue success"
    );
    assert_eq!(world.conclusion(run), "failure");
    assert!(world.log(run, "bad").contains("##[error]Process completed with exit code 3."));
}

#[tokio::test]
async fn steps_have_outcomes_conditions_and_files() {
    let world = on_push(
        r#"
env: { A: workflow, B: workflow, C: workflow }
jobs:
  job:
    runs-on: x
    env: { B: job, C: job }
    defaults: { run: { shell: bash, working-directory: sub } }
    outputs:
      seen: ${{ steps.read.outputs.seen }}
      multi: ${{ steps.read.outputs.multi }}
      outcome: ${{ steps.bad.outcome }}/${{ steps.bad.conclusion }}
      skipped: ${{ steps.skipped.outcome }}
    steps:
      - run: mkdir tools && printf '#!/bin/sh\necho tool ran' > tools/mytool && chmod +x tools/mytool
        working-directory: .
      - run: |
          echo "D=from file" >> "$GITHUB_ENV"
          echo "$PWD/tools" >> "$GITHUB_PATH"
          mkdir sub
        working-directory: .
      - { id: bad, run: exit 1, continue-on-error: true }
      - { id: skipped, if: failure(), run: echo never }
      - id: read
        env: { C: step }
        run: |
          echo "seen=$A $B $C $D" >> "$GITHUB_OUTPUT"
          printf 'multi<<EOF\nfirst\nsecond\nEOF\n' >> "$GITHUB_OUTPUT"
          echo '# Summary' >> "$GITHUB_STEP_SUMMARY"
          mytool
          echo "in $(basename "$PWD") with ${{ env.C }}; $RUNNER_OS"
          test -s "$GITHUB_EVENT_PATH"
      - run: |
          false | true
        shell: sh
"#,
    );
    let run = world.pushed().await;
    assert_eq!(world.jobs(run), "job success", "{}", world.log(run, "job"));
    assert_eq!(world.output(run, "job", "seen"), "workflow job step from file");
    assert_eq!(world.output(run, "job", "multi"), "first\nsecond");
    assert_eq!(world.output(run, "job", "outcome"), "failure/success");
    assert_eq!(world.output(run, "job", "skipped"), "skipped");
    let job = world.job(run, "job");
    assert_eq!(world.engine.summary(job.id), "# Summary\n");
    assert!(world.log(run, "job").contains("\nin sub with step; "), "{}", world.log(run, "job"));
    assert!(world.log(run, "job").contains("\ntool ran"));
    let names: Vec<&str> = job.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names.first(), Some(&"Set up job"));
    assert_eq!(names.last(), Some(&"Complete job"));
    assert_eq!(names[4], "Run echo never");
}

#[tokio::test]
async fn bash_stops_at_a_failing_pipe_only_when_asked_by_name() {
    let world = on_push(
        r#"
jobs:
  named: { runs-on: x, steps: [{ shell: bash, run: "false | true" }] }
  default: { runs-on: x, steps: [{ run: "false | true" }] }
"#,
    );
    let run = world.pushed().await;
    assert_eq!(world.jobs(run), "default success, named failure");
}

#[tokio::test]
async fn secrets_and_masks_never_reach_a_log_an_output_or_a_summary() {
    let world = on_push(
        r#"
jobs:
  leaky:
    runs-on: x
    environment: production
    outputs: { leak: "${{ steps.s.outputs.leak }}", fine: "${{ steps.s.outputs.fine }}" }
    steps:
      - id: s
        env: { KEY: "${{ secrets.KEY }}", OTHER: "${{ secrets.other }}" }
        run: |
          echo "key $KEY and $OTHER"
          echo "second line"
          MADE=dynamic
          echo "::add-mask::$MADE-value"
          echo "a $MADE-value here"
          echo "::error file=a.tf,line=3,title=Oops::broke with $KEY"
          echo "leak=$KEY" >> $GITHUB_OUTPUT
          echo "fine=yes" >> $GITHUB_OUTPUT
          echo "sum $KEY" >> $GITHUB_STEP_SUMMARY
          echo "token ${{ github.token }}"
"#,
    );
    {
        let mut facts = world.host.facts.lock().unwrap();
        facts.secrets.insert("KEY".to_owned(), "repo-secret".to_owned());
        facts.secrets.insert("OTHER".to_owned(), "line one\nsecond line".to_owned());
        let own = [("KEY".to_owned(), "production-secret".to_owned())];
        facts.environment_secrets.insert("production".to_owned(), own.into());
    }
    let run = world.pushed().await;
    let log = world.log(run, "leaky");
    assert_eq!(world.jobs(run), "leaky success", "{log}");
    for secret in ["production-secret", "second line", "dynamic-value", "ghs_token_of"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    assert!(log.contains("key *** and ***") && log.contains("a *** here"), "{log}");
    assert_eq!(world.output(run, "leaky", "leak"), "");
    assert_eq!(world.output(run, "leaky", "fine"), "yes");
    let job = world.job(run, "leaky").id;
    assert_eq!(world.engine.summary(job), "sum ***\n");
    let annotations = world.engine.annotations(job);
    assert_eq!(annotations[0].message, "broke with ***");
    assert_eq!((annotations[0].path.as_deref(), annotations[0].line), (Some("a.tf"), Some(3)));
    assert!(annotations[1].message.contains("Skip output 'leak'"));
}

#[tokio::test]
async fn a_forks_run_has_no_secrets_no_identity_and_a_read_only_token() {
    let text = r#"
on: pull_request
permissions: write-all
jobs:
  job:
    runs-on: x
    steps:
      - run: echo "secret [${{ secrets.KEY }}] identity [$ACTIONS_ID_TOKEN_REQUEST_URL]"
"#;
    let world = World::new(&[(".github/workflows/w.yml", text)]);
    {
        let mut facts = world.host.facts.lock().unwrap();
        facts.secrets.insert("KEY".to_owned(), "abc-secret".to_owned());
        facts.oidc = Some(("http://oidc.test".to_owned(), "bearer-token".to_owned()));
    }
    let fork = world.pull_request(true)[0];
    let own = world.pull_request(false)[0];
    world.engine.idle().await;
    assert!(world.log(fork, "job").contains("secret [] identity []"), "{}", world.log(fork, "job"));
    assert!(world.job(fork, "job").permissions.values().all(|level| level == "read"));
    assert!(world.log(own, "job").contains("secret [***] identity [http://oidc.test]"));
    assert_eq!(world.engine.run(own).unwrap().title, "Add a vpc");
    assert_eq!(world.engine.run(own).unwrap().git_ref, "refs/pull/7/merge");
}

#[tokio::test]
async fn a_dispatch_names_its_run_and_is_refused_in_githubs_words() {
    let text = r#"
name: run
run-name: stackorder ${{ inputs.mode }} wave ${{ inputs.wave }}
on:
  workflow_dispatch:
    inputs:
      mode: { type: string, required: true }
      wave: { type: number, default: 0 }
jobs:
  job:
    runs-on: x
    steps: [{ run: "echo ${{ github.event.inputs.wave }} ${{ inputs.wave == 0 }} ${{ github.ref }}" }]
"#;
    let world = World::new(&[
        (".github/workflows/run.yml", text),
        (".github/workflows/other.yml", "on: push\njobs: {a: {runs-on: x, steps: []}}\n"),
    ]);
    let refused = |file: &str, inputs: &[(&str, &str)]| world.dispatch(file, inputs).unwrap_err().to_string();
    assert_eq!(refused("run.yml", &[("mode", "plan"), ("x", "1")]), "Unexpected inputs provided: [\"x\"]");
    assert_eq!(refused("run.yml", &[]), "Required input 'mode' not provided");
    assert_eq!(refused("other.yml", &[]), "Workflow does not have 'workflow_dispatch' trigger");
    assert_eq!(refused("missing.yml", &[]), "Not Found");
    let run = world.dispatch("run.yml", &[("mode", "plan")]).unwrap();
    world.engine.idle().await;
    assert_eq!(world.engine.run(run).unwrap().title, "stackorder plan wave 0");
    assert!(world.log(run, "job").contains("0 true refs/heads/main"), "{}", world.log(run, "job"));
}

#[tokio::test]
async fn what_the_engine_cannot_do_ends_as_a_startup_failure_with_file_line_and_name() {
    let cases = [
        (
            "jobs:\n  a:\n    runs-on: x\n    steps:\n      - uses: actions/github-script@v7\n",
            "w.yml:6: `actions/github-script@v7`",
        ),
        ("jobs:\n  a:\n    runs-on: x\n    steps:\n      - uses: docker://alpine\n", "w.yml:6: `docker://alpine`"),
        ("jobs:\n  a:\n    runs-on: x\n    services: {db: {image: x}}\n    steps: []\n", "w.yml:5: `services`"),
        ("jobs:\n  a:\n    runs-on: x\n    steps:\n      - run: x\n        shell: pwsh\n", "w.yml:7: shell `pwsh`"),
        ("jobs:\n  a:\n    uses: nobody/none/.github/workflows/x.yml@v1\n", "w.yml:4: error parsing called workflow"),
    ];
    for (jobs, expected) in cases {
        let world = on_push(jobs);
        let run = world.pushed().await;
        assert_eq!(world.conclusion(run), "startup_failure");
        let error = world.engine.startup_error(run).unwrap();
        assert!(error.contains(expected), "{error}");
        assert!(world.engine.jobs(run).is_empty());
    }
}

#[tokio::test]
async fn a_callee_that_asks_for_more_than_its_caller_has_does_not_start() {
    let callee = "on: workflow_call\njobs:\n  j:\n    runs-on: x\n    permissions: {checks: write}\n    steps: []\n";
    let world = World::new(&[
        (
            ".github/workflows/w.yml",
            "on: push\npermissions: {contents: read}\njobs: {c: {uses: ./.github/workflows/callee.yml}}\n",
        ),
        (".github/workflows/callee.yml", callee),
    ]);
    let run = world.pushed().await;
    assert_eq!(world.conclusion(run), "startup_failure");
    let error = world.engine.startup_error(run).unwrap();
    assert!(error.contains("requesting 'checks: write', but is only allowed 'checks: none'"), "{error}");
}

#[tokio::test]
async fn a_file_that_cannot_run_fails_only_the_events_it_listens_to() {
    let world = World::new(&[
        (
            ".github/workflows/nightly.yml",
            "on: {schedule: [{cron: '0 0 * * *'}]}\njobs: {a: {runs-on: x, container: c, steps: []}}\n",
        ),
        (".github/workflows/broken.yml", "on: [\n"),
        (".github/workflows/tags.yml", "on: {push: {tags: ['v*']}}\njobs: {a: {runs-on: x, steps: []}}\n"),
    ]);
    let runs = world.push();
    world.engine.idle().await;
    let paths: Vec<String> = runs.iter().map(|id| world.engine.run(*id).unwrap().path).collect();
    assert_eq!(paths, [".github/workflows/broken.yml"]);
    assert_eq!(world.conclusion(runs[0]), "startup_failure");
    let known: Vec<String> = world.engine.workflows("acme/infra").into_iter().map(|w| w.name).collect();
    assert_eq!(known, [".github/workflows/broken.yml", ".github/workflows/nightly.yml", ".github/workflows/tags.yml"]);
}

#[tokio::test]
async fn composite_actions_see_no_secrets_and_conditions_neither() {
    let action = "runs:\n  using: composite\n  steps: [{shell: sh, run: 'echo ${{ secrets.KEY }}'}]\n";
    let jobs = "on: push\njobs:\n  action: {runs-on: x, steps: [{uses: actions/checkout@v5}, {uses: ./act}]}\n  \
                condition: {runs-on: x, steps: [{if: secrets.KEY != '', run: 'true'}]}\n";
    let world = World::new(&[(".github/workflows/w.yml", jobs), ("act/action.yml", action)]);
    let run = world.pushed().await;
    assert_eq!(world.jobs(run), "action failure, condition failure");
    for job in ["action", "condition"] {
        assert!(world.log(run, job).contains("Unrecognized named-value: 'secrets'"), "{}", world.log(run, job));
    }
}
