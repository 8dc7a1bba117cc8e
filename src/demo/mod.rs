//! `stackorder demo`: everything a team's setup consists of, on one machine and without a network.
//!
//! - `laptop`: everything that runs; `serve` and `server_process`: its server; `control`: the line to it.
//! - `doubler`: sends every report twice; `balancer`: stands in front of several servers; `relay`: how both pass a request on.
//! - `ports`: where everything listens.
//! - `play`: staying up for a person; `story`: playing the whole life by itself.
//! - `tool`: which tool the jobs run.
//! - `s3`: the store that holds the tool's state, reached as a plain HTTP proxy so that no HCL has to change.
//! - `sample`: the repository and the actions that the demo starts with.
//! - `standin`: the tool on machines that have neither Terraform nor OpenTofu.
//! - `sts`: who a job is for that store: identities, and roles assumed with a job's OIDC token.

pub mod balancer;
pub mod control;
mod doubler;
pub mod laptop;
pub mod play;
pub mod ports;
pub mod relay;
pub mod s3;
pub mod sample;
pub mod serve;
pub mod server_process;
pub mod standin;
pub mod story;
pub mod sts;
pub mod tool;
