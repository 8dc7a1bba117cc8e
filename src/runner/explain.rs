//! `stackorder explain`: why a change reaches a stack, or why it does not.

use super::affected::Affected;
use super::stop::Stop;
use crate::config::problem::nearest;
use crate::graph::explain::{self, Evidence, Explanation};
use crate::ids::{normalise_key, split_key};

/// Most keys that an error proposes.
const PROPOSALS_MAX: usize = 5;

/// Explains one stack of a resolution. An unknown stack is an error; one that is not reached, or gone, an answer.
pub fn explain(affected: &Affected, stack: &str) -> Result<Explanation, Stop> {
    let key = normalise_key(stack);
    let is_here = affected.graph().stacks.iter().any(|known| known.key == key && !known.external);
    let is_gone = affected.resolution.removed.iter().any(|removed| removed.key == key);
    if !is_here && !is_gone {
        return Err(unknown(affected, &key));
    }
    let configs: Vec<_> =
        std::iter::once(&affected.change.checkout.scanned.config).chain(&affected.base_config).collect();
    let evidence = Evidence {
        graph: affected.graph(),
        configs: &configs,
        changed_paths: &affected.change.paths,
        base: &affected.change.base,
        resolution: &affected.resolution,
    };
    Ok(explain::explain(&evidence, &key))
}

fn unknown(affected: &Affected, key: &str) -> Stop {
    let stacks = &affected.graph().stacks;
    let own = || stacks.iter().filter(|stack| !stack.external).map(|stack| stack.key.as_str());
    if stacks.iter().any(|stack| stack.external && stack.key == key) {
        return Stop::failed(format!("{key:?} belongs to another repository, where its changes are"));
    }
    let instances: Vec<&str> = own().filter(|known| split_key(known).0 == key).collect();
    if !instances.is_empty() {
        return Stop::failed(format!("{key:?} has instances; name one of {}", instances.join(", ")));
    }
    no_such_stack(key, &own().collect::<Vec<_>>())
}

/// Says that no stack has this key, and which of the checkout's own may be meant.
pub fn no_such_stack(key: &str, own: &[&str]) -> Stop {
    let holds_it = own.iter().copied().filter(|known| !key.is_empty() && known.contains(key));
    let mut alike: Vec<&str> = holds_it.take(PROPOSALS_MAX).collect();
    if alike.is_empty() {
        let directories = own.iter().map(|known| split_key(known).0);
        alike.extend(nearest(key, &own.iter().copied().chain(directories).collect::<Vec<_>>()));
    }
    let hint = match alike.as_slice() {
        [] if own.is_empty() => "; there is no stack at all".to_owned(),
        [] => "; `stackorder graph` lists them".to_owned(),
        alike => format!("; did you mean {}?", alike.join(", ")),
    };
    Stop::failed(format!("{key:?} is no stack of this checkout{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_no_stack_has_is_answered_with_those_that_may_be_meant() {
        let own = ["stacks/prod/eks", "stacks/prod/vpc", "stacks/staging/vpc"];
        let hint = |key: &str, own: &[&str]| {
            no_such_stack(key, own).to_string().split_once("is no stack of this checkout").unwrap().1.to_owned()
        };
        assert_eq!(hint("vpc", &own), "; did you mean stacks/prod/vpc, stacks/staging/vpc?");
        assert_eq!(hint("stacks/prod", &own), "; did you mean stacks/prod/eks, stacks/prod/vpc?");
        assert_eq!(hint("stacks/prod/ekz", &own), "; did you mean stacks/prod/eks?");
        assert_eq!(hint("live/nat", &["live/net:eu"]), "; did you mean live/net?");
        assert_eq!(hint("something/else/altogether", &own), "; `stackorder graph` lists them");
        assert_eq!(hint("stacks/prod/eks", &[]), "; there is no stack at all");
    }
}
