use super::*;

fn parse(text: &str) -> Result<WorkflowFile, String> {
    let source = Source {
        repo: "acme/infra".to_owned(),
        commit: "c".to_owned(),
        path: ".github/workflows/x.yml".to_owned(),
        full_ref: "refs/heads/main".to_owned(),
    };
    WorkflowFile::parse(source, text.as_bytes()).map_err(|refusal| refusal.to_string())
}

#[test]
fn a_workflow_keeps_the_order_of_its_jobs_and_the_defaults_of_its_inputs() {
    let file = parse(
        "name: x\non:\n  workflow_dispatch:\n    inputs:\n      a: {type: number, default: 3}\njobs:\n  zeta:\n    \
         runs-on: x\n    steps: [{run: 'true'}]\n  alpha:\n    uses: ./.github/workflows/y.yml\n",
    )
    .unwrap();
    assert_eq!(file.model.jobs.keys().collect::<Vec<_>>(), ["zeta", "alpha"]);
    assert_eq!(file.events()["workflow_dispatch"]["inputs"]["a"]["default"], 3);
    assert!(call_of(&file.model.jobs["alpha"]).is_some());
}

#[test]
fn what_cannot_run_is_refused_by_file_line_and_name() {
    let cases = [
        ("on: push\njobs:\n  a:\n    runs-on: x\n    container: node\n    steps: []\n", ":5:", "`container`"),
        (
            "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - background: true\n        run: x\n",
            ":6:",
            "`background`",
        ),
        ("on: push\njobs:\n  a:\n    needs: b\n    runs-on: x\n    steps: []\n", ":4:", "unknown job 'b'"),
        ("on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - name: odd\n", ":6:", "exactly one of"),
        ("on: push\nfoo: 1\njobs: {a: {runs-on: x, steps: []}}\n", ":2:", "`foo`"),
        ("jobs: {a: {runs-on: x, steps: []}}\n", ":1:", "No event triggers"),
        ("on: push\njobs: {}\n", ":2:", "no jobs"),
        ("on: [\n", ".yml:", ""),
        (
            "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - if: github.ref ==\n        run: x\n",
            ":6:",
            "invalid expression",
        ),
        (
            "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: |\n          echo ${{ nope( }}\n",
            ":7:",
            "invalid expression",
        ),
        (
            "on: push\nconcurrency: {group: a, queue: max}\njobs: {a: {runs-on: x, steps: []}}\n",
            ":2:",
            "`concurrency.queue: max`",
        ),
    ];
    for (text, line, part) in cases {
        let refusal = parse(text).unwrap_err();
        assert!(refusal.starts_with("acme/infra/.github/workflows/x.yml:"), "{refusal}");
        assert!(refusal.contains(line) && refusal.contains(part), "{text}: {refusal}");
    }
}

#[test]
fn words_that_old_yaml_takes_for_booleans_stay_words() {
    let file = parse("on: push\njobs: {n: {runs-on: x, env: {y: no, v: yes}, steps: [{run: x}]}}\n").unwrap();
    assert_eq!(file.job_raw("n")["env"], serde_json::json!({"y": "no", "v": "yes"}));
}

#[test]
fn a_circle_of_needs_is_found() {
    let file =
        parse("on: push\njobs:\n  a: {needs: b, runs-on: x, steps: []}\n  b: {needs: [a], runs-on: x, steps: []}\n")
            .unwrap();
    assert_eq!(cycle(&file.model), Some("a"));
}
