//! `stackorder explain`: why a change reaches a stack.

use super::affected::Affected;
use super::stop::Stop;
use crate::graph::explain::{self, Explanation};
use crate::ids::{normalise_key, split_key};

/// Explains one stack of a resolution. An unknown stack is an error, one that is not reached an answer.
pub fn explain(affected: &Affected, stack: &str) -> Result<Explanation, Stop> {
    let graph = &affected.change.checkout.scanned.graph;
    let key = normalise_key(stack);
    if graph.stacks.iter().any(|known| known.key == key && !known.external) {
        return Ok(explain::explain(graph, &affected.resolution, &affected.change.paths, &key));
    }
    let instances: Vec<&str> =
        graph.stacks.iter().map(|known| known.key.as_str()).filter(|known| split_key(known).0 == key).collect();
    Err(Stop::failed(if instances.is_empty() {
        format!("{key:?} is no stack of this checkout")
    } else {
        format!("{key:?} has instances; name one of {}", instances.join(", "))
    }))
}
