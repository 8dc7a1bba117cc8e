//! `stackorder explain`: why a change reaches a stack, or why it does not.

use super::affected::Affected;
use super::stop::Stop;
use crate::graph::explain::{self, Evidence, Explanation};
use crate::ids::{normalise_key, split_key};

/// Most keys that an error proposes.
const PROPOSALS_MAX: usize = 5;

/// Explains one stack of a resolution. An unknown stack is an error; one that is not reached, or gone, an answer.
pub fn explain(affected: &Affected, stack: &str) -> Result<Explanation, Stop> {
    let key = normalise_key(stack);
    let is_here = affected.graph.stacks.iter().any(|known| known.key == key && !known.external);
    let is_gone = affected.resolution.removed.iter().any(|removed| removed.key == key);
    if !is_here && !is_gone {
        return Err(unknown(affected, &key));
    }
    let configs: Vec<_> =
        std::iter::once(&affected.change.checkout.scanned.config).chain(&affected.base_config).collect();
    let evidence = Evidence {
        graph: &affected.graph,
        configs: &configs,
        changed_paths: &affected.change.paths,
        base: &affected.change.base,
        resolution: &affected.resolution,
    };
    Ok(explain::explain(&evidence, &key))
}

fn unknown(affected: &Affected, key: &str) -> Stop {
    let stacks = &affected.graph.stacks;
    let own = || stacks.iter().filter(|stack| !stack.external).map(|stack| stack.key.as_str());
    if stacks.iter().any(|stack| stack.external && stack.key == key) {
        return Stop::failed(format!("{key:?} belongs to another repository, where its changes are"));
    }
    let instances: Vec<&str> = own().filter(|known| split_key(known).0 == key).collect();
    if !instances.is_empty() {
        return Stop::failed(format!("{key:?} has instances; name one of {}", instances.join(", ")));
    }
    let is_alike = |known: &&str| !key.is_empty() && known.contains(key);
    let alike: Vec<&str> = own().filter(is_alike).take(PROPOSALS_MAX).collect();
    let hint = match (alike.as_slice(), own().count()) {
        ([], 0) => "; there is no stack at all".to_owned(),
        ([], _) => "; `stackorder graph` lists them".to_owned(),
        (alike, _) => format!("; did you mean {}?", alike.join(", ")),
    };
    Stop::failed(format!("{key:?} is no stack of this checkout{hint}"))
}
