//! The GitHub of these tests: repositories whose pull requests bring some stacks each, and workflows whose jobs ask at
//! the test's own door what to do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fake_github::actions::host::RunnerOptions;
use fake_github::{App, AppSetup, FakeGitHub, Options, RepositorySetup};
use stackorder::scan::{MemoryFiles, ScanOptions, Scanned, scan};

use super::time::Time;

use crate::workflows::run_workflow;

const OWNER: &str = "acme";
pub const WEBHOOK_SECRET: &str = "the secret of these tests";
/// Pull requests of one repository: each merge makes GitHub look at all that are open.
const PULLS_PER_REPOSITORY: usize = 10;
/// Jobs at one time; each is a shell that waits for its line.
const PARALLEL_JOBS: usize = 150;

/// How much work there is.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    pub pulls: usize,
    /// Stacks of each pull request.
    pub stacks: usize,
    pub shape: Shape,
}

/// How the stacks of a pull request hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Of every five the last two read the state of the first, and everything changes: two waves, and the plans of the
    /// second are made again.
    Fans,
    /// Each reads the state of the one before, and nothing changes: as many waves as stacks, and nothing between them.
    Chain,
}

impl Shape {
    /// Whose state a stack reads.
    pub fn upstream_of(self, number: usize) -> Option<usize> {
        match self {
            Self::Fans => (number % 5 >= 3).then(|| number - number % 5),
            Self::Chain => number.checked_sub(1),
        }
    }
}

/// A pull request, which brings a directory of stacks.
#[derive(Debug, Clone)]
pub struct Pull {
    pub repo: String,
    pub number: i64,
    pub head: String,
}

pub struct Town {
    pub github: FakeGitHub,
    pub app: App,
    work: Work,
}

impl Town {
    /// `door` is the port at which jobs ask; the journal tells what GitHub saw.
    pub async fn build(
        root: &Path,
        work: Work,
        webhook_url: String,
        door: u16,
        time: Time,
        journal: Option<PathBuf>,
    ) -> Self {
        let github = FakeGitHub::start(Options {
            root: root.join("github"),
            port: 0,
            clock: Arc::new(move || time.now()),
            runner: RunnerOptions {
                root: root.join("runner"),
                tool_cache: root.join("tools"),
                path: Vec::new(),
                env: BTreeMap::from([("DOOR".to_owned(), door.to_string())]),
                parallel_jobs: PARALLEL_JOBS,
                timing: Default::default(),
            },
            journal,
        })
        .await
        .unwrap();
        github.create_user("alice");
        let collaborators = BTreeMap::from([("alice".to_owned(), "write".to_owned())]);
        for repo in repositories(work) {
            let setup = RepositorySetup { collaborators: collaborators.clone(), ..RepositorySetup::default() };
            github.create_repository(&repo, setup).unwrap();
            let file = |text: &str| Some(text.as_bytes().to_vec());
            let files = [
                ("stackorder.yaml", file(CONFIGURATION)),
                (".github/workflows/stackorder-plan.yml", file(PLAN_WORKFLOW)),
                (
                    ".github/workflows/stackorder-run.yml",
                    file(&run_workflow("permissions: { id-token: write, contents: read }", RUN_JOB)),
                ),
            ];
            github.commit(&repo, "main", "Begin", "alice", &files).unwrap();
        }
        let writes = ["pull_requests", "checks", "actions", "issues", "deployments"];
        let reads = ["metadata", "contents", "members"];
        let levels = |names: &[&str], level: &str| {
            names.iter().map(|name| ((*name).to_owned(), level.to_owned())).collect::<Vec<_>>()
        };
        let events = ["pull_request", "issue_comment", "push", "check_run", "workflow_run", "workflow_job"];
        let app = github.create_app(AppSetup {
            slug: "stackorder".to_owned(),
            owner: OWNER.to_owned(),
            permissions: [levels(&writes, "write"), levels(&reads, "read")].concat().into_iter().collect(),
            events: events.iter().map(|name| (*name).to_owned()).collect(),
            webhook_url: Some(webhook_url),
            webhook_secret: Some(WEBHOOK_SECRET.to_owned()),
            callback_urls: Vec::new(),
        });
        github.install_app(app.id, OWNER, &[]);
        Self { github, app, work }
    }

    pub fn repositories(&self) -> Vec<String> {
        repositories(self.work)
    }

    /// Opens all pull requests; each runs its plan workflow.
    pub fn open_pull_requests(&self) -> Vec<Pull> {
        let opened = (0..self.work.pulls).map(|number| {
            let repo = repository_of(number);
            let directory = format!("team-{number:03}");
            let files = stack_files(&directory, self.work);
            let files: Vec<_> =
                files.iter().map(|(path, text)| (path.as_str(), Some(text.clone().into_bytes()))).collect();
            let head = self.github.commit(&repo, &directory, "Add stacks", "alice", &files).unwrap();
            let number = self.github.open_pull_request(&repo, &directory, "main", "Add stacks", "", "alice").unwrap();
            Pull { repo, number, head }
        });
        opened.collect()
    }
}

/// What a checkout of the pull request's head scans to.
pub fn scanned(repo: &str, directory: &str, work: Work, head: &str) -> Scanned {
    let mut files = MemoryFiles::default().with("stackorder.yaml", CONFIGURATION);
    for (path, text) in stack_files(directory, work) {
        files.insert(&path, text);
    }
    scan(&files, &ScanOptions::new(repo, head)).expect("the files are right")
}

/// The files of the stacks of one pull request.
pub fn stack_files(directory: &str, work: Work) -> Vec<(String, String)> {
    let state = |number: usize| format!("bucket = \"state\"\n    key    = \"{directory}/s{number:02}.tfstate\"");
    let one = |number: usize| {
        let mut text = format!(
            "terraform {{\n  backend \"s3\" {{\n    {}\n  }}\n}}\n\nresource \"terraform_data\" \"it\" {{}}\n",
            state(number)
        );
        if let Some(upstream) = work.shape.upstream_of(number) {
            text.push_str(&format!(
                "\ndata \"terraform_remote_state\" \"up\" {{\n  backend = \"s3\"\n  config = {{\n    {}\n  }}\n}}\n",
                state(upstream)
            ));
        }
        (format!("{directory}/s{number:02}/main.tf"), text)
    };
    (0..work.stacks).map(one).collect()
}

fn repositories(work: Work) -> Vec<String> {
    (0..work.pulls.div_ceil(PULLS_PER_REPOSITORY)).map(|number| repository_of(number * PULLS_PER_REPOSITORY)).collect()
}

fn repository_of(pull: usize) -> String {
    format!("{OWNER}/infra-{:02}", pull / PULLS_PER_REPOSITORY)
}

const CONFIGURATION: &str = "version: 1\nstacks:\n  discover: [\"team-*/**\"]\n";

/// One job plans all stacks of the pull request. What it is and how it proves it goes through the door, and what comes
/// back is its exit code.
const PLAN_WORKFLOW: &str = r#"
name: stackorder plan
on:
  pull_request:
    types: [opened, synchronize, reopened]
jobs:
  plan:
    runs-on: ubuntu-latest
    permissions:
      id-token: write
      contents: read
    steps:
      - run: |
          exec 3<>"/dev/tcp/127.0.0.1/$DOOR"
          printf '%s\n' "mode=register" "repo=$GITHUB_REPOSITORY" "branch=$GITHUB_HEAD_REF" \
            "sha=${{ github.event.pull_request.head.sha }}" "pull=${{ github.event.pull_request.number }}" \
            "workflow_run=$GITHUB_RUN_ID" "attempt=$GITHUB_RUN_ATTEMPT" \
            "url=$ACTIONS_ID_TOKEN_REQUEST_URL" "token=$ACTIONS_ID_TOKEN_REQUEST_TOKEN" "" >&3
          read -r code <&3
          echo plans >bundle
          exit "$code"
      - uses: actions/upload-artifact@v4
        with:
          name: stackorder-plan-chunk-0-${{ github.event.pull_request.head.sha }}
          path: bundle
"#;

/// What a dispatched job does: it asks at the door.
const RUN_JOB: &str = r#"|
          exec 3<>"/dev/tcp/127.0.0.1/$DOOR"
          printf '%s\n' "mode=${{ inputs.mode }}" "repo=$GITHUB_REPOSITORY" "key=${{ matrix.key }}" \
            "run=${{ inputs.run_id }}" "sha=${{ inputs.sha }}" "bundle=${{ matrix.bundle_sha256 }}" \
            "workflow_run=$GITHUB_RUN_ID" "attempt=$GITHUB_RUN_ATTEMPT" \
            "url=$ACTIONS_ID_TOKEN_REQUEST_URL" "token=$ACTIONS_ID_TOKEN_REQUEST_TOKEN" "" >&3
          read -r code <&3
          exit "$code""#;
