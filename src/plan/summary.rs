//! placeholder until the plan branch lands
use serde::{Deserialize, Serialize};
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSummary {
    pub adds: u64,
    pub changes: u64,
    pub destroys: u64,
    pub replaces: u64,
}
impl PlanSummary {
    pub fn is_empty(&self) -> bool {
        self.adds + self.changes + self.destroys + self.replaces == 0
    }
}
