//! Commands as a job runs them: real git, real processes, a server made of canned answers.

mod applying;
mod bundles;
mod change_detection;
mod ending;
mod field_reports;
mod histories;
mod planning;
mod reading;
mod real_terraform;
mod resolving;
mod verdicts;
mod world;
