//! `stackorder affected`: the local answer to what a change reaches; never talks to the server (spec 12 §6.7).

use super::Job;
use super::resolve::{Change, Local, Until, change, local};
use super::stop::Stop;
use crate::config::model::RepoConfig;
use crate::graph::model::Graph;
use crate::graph::resolution::Resolution;

/// A change and what it reaches.
#[derive(Debug)]
pub struct Affected {
    pub change: Change,
    pub resolution: Resolution,
    /// See [`Local::graph`].
    graph: Option<Graph>,
    /// The default branch's configuration, where it differs from the checkout's.
    pub base_config: Option<RepoConfig>,
}

impl Affected {
    /// What it was resolved on: the checkout's graph, with stacks that only the default branch's configuration knows.
    pub fn graph(&self) -> &Graph {
        self.graph.as_ref().unwrap_or(&self.change.checkout.scanned.graph)
    }

    /// Whether there is something a person should look at: affected stacks, or removed ones whose resources remain.
    pub fn is_any(&self) -> bool {
        !self.resolution.affected.is_empty() || !self.resolution.removed.is_empty()
    }
}

/// Resolves the commits since `base`; edits in the working tree are not looked at.
pub fn affected(job: &Job, base: Option<&str>) -> Result<Affected, Stop> {
    affected_until(job, base, Until::Head)
}

/// Resolves what changed since `base`.
pub fn affected_until(job: &Job, base: Option<&str>, until: Until) -> Result<Affected, Stop> {
    let change = change(job, base, until)?;
    change.say_if_empty(job);
    let Local { resolution, graph, base_config } = local(job, &change, &[])?;
    Ok(Affected { change, resolution, graph, base_config })
}
