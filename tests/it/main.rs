//! The integration tests, in one binary.
//!
//! - `machine`: what this machine has, and saying what did not run for want of it; `databases`: empty ones for each test.
//! - `story`, `evidence`: the demo plays the life of a change; what it left behind is checked without believing it.
//! - `fire`: two servers on one Postgres, killed and cut off at exact moments.
//! - `bad_input`, `api_refusals`: what people and foreign programs get wrong, at the command line and over HTTP;
//!   `same_answer`: a job with the server and without; `deployments`: GitHub asks the server before a job goes on.
//! - `real_terraform`, `checkout`: Terraform as the oracle, and trees on disk for it; `scan_fixtures`: odd files, one by
//!   one; `generated_trees`: many of them mixed.
//! - `configuration`: checking a configuration and showing what counts for a stack; `init`: the first files of a
//!   repository; `generated`: large repositories with known answers.
//! - `admin`: keys and queue as an operator types them; `doctor`: what the doctor says of each thing that may be wrong with a set-up.
//! - `store_contract`: one suite for every store; `restart`: a server that starts on years of history; `actions`: the shell of the actions; `tidy`: who may use whom; `workflows`: the workflow file a server dispatches;
//!   `cases`: every corner case and failure has its test; `readme`: what the documents promise;
//!   `guides`: headings that texts link to, and the workflows that guides show; `lint`: the linters of workflows; `self_test`: the script that looks at
//!   the real GitHub.

mod actions;
mod admin;
mod api_refusals;
mod bad_input;
mod cases;
mod checkout;
mod configuration;
mod databases;
mod deployments;
mod doctor;
mod evidence;
mod fire;
mod generated;
mod generated_trees;
mod guides;
mod init;
mod lint;
mod machine;
mod readme;
mod real_terraform;
mod restart;
mod same_answer;
mod scan_fixtures;
mod self_test;
mod store_contract;
mod story;
mod tidy;
mod workflows;

/// Sorts behind every other test, so it is the last to start.
mod zz_not_run {
    #[test]
    fn lists_what_this_machine_lacks() {
        crate::machine::list_not_run();
    }
}
