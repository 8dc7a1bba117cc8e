//! Layer 4: named verdicts of hooks and policies (spec 30 §5.2, §5.3).

use super::{GateScene, Refusal, for_stacks};
use crate::guide::Topic;
use crate::render::escape;
use crate::run::model::Verdict;
use crate::run::status::{RowStatus, VerdictStatus};

const NAME: &str = "policy checks";

pub fn refusals(scene: &GateScene) -> Vec<Refusal> {
    let policy = scene.policy();
    let required = &policy.apply.required_checks;
    let mut refusals = Vec::new();
    for key in &scene.request.selected {
        let Some(row) = scene.view.rows.get(key) else { continue };
        let verdicts: Vec<&Verdict> = scene
            .scene
            .verdicts
            .values()
            .filter(|verdict| verdict.run_id == row.run_id && verdict.key == *key)
            .collect();
        for verdict in verdicts.iter().filter(|verdict| verdict.status == VerdictStatus::Fail) {
            let summary = match verdict.summary.as_str() {
                "" => String::new(),
                text => format!(": {}", escape::text(text)),
            };
            let reason = format!("verdict fail from {}{summary}", escape::code(&verdict.name));
            refusals.push(for_stacks(Topic::VerdictFail, 4, NAME, vec![key.clone()], reason));
        }
        // A stack that layer 3 lets through without a plan is judged by its fresh plan, within the apply.
        if row.status == RowStatus::Failed {
            continue;
        }
        for name in required.iter().filter(|name| !verdicts.iter().any(|verdict| verdict.name == **name)) {
            let reason = format!("no verdict from {}", escape::code(name));
            refusals.push(for_stacks(Topic::NoVerdict, 4, NAME, vec![key.clone()], reason));
        }
    }
    refusals
}
