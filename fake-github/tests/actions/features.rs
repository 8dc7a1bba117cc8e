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
