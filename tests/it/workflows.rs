//! The workflow file that a server dispatches, as repositories of the tests have it.

/// `stackorder-run.yml` whose jobs have these settings, one line, and do what `run` says: a line, or a block with its indent.
pub fn run_workflow(settings: &str, run: &str) -> String {
    HEAD.replace("SETTINGS", settings) + "      - run: " + run + "\n"
}

const HEAD: &str = "\
name: stackorder run
run-name: stackorder ${{ inputs.mode }} ${{ inputs.run_id }} wave ${{ inputs.wave }}
on:
  workflow_dispatch:
    inputs:
      run_id:
        type: string
        required: true
      mode:
        type: string
        required: true
      wave:
        type: string
        required: false
      sha:
        type: string
        required: false
      stacks:
        type: string
        required: true
jobs:
  run:
    name: ${{ inputs.mode }} wave ${{ inputs.wave }} ${{ matrix.key }}
    runs-on: ubuntu-latest
    environment: ${{ matrix.environment }}
    SETTINGS
    strategy:
      fail-fast: false
      matrix:
        include: ${{ fromJSON(inputs.stacks) }}
    steps:
";
