//! Plans that failed because what they read is new: they wait for it and are no failure yet (spec 30 §6.2a).

use std::collections::BTreeMap;

use super::{escape, lists, pull};
use crate::guide::Topic;
use crate::ids::StackKey;
use crate::run::model::Row;
use crate::run::plan_view::PlanView;
use crate::run::scene::Scene;
use crate::run::settle::roll_up;
use crate::run::status::{RowStatus, RunStatus};
use crate::run::waves::new_predecessors;

/// What each such stack waits for, sorted.
#[derive(Debug, Clone, Default)]
pub struct Waiting(BTreeMap<StackKey, Vec<String>>);

impl Waiting {
    pub fn of(scene: &Scene, view: &PlanView<'_>) -> Self {
        let failed = || view.rows.values().filter(|row| row.status == RowStatus::Failed);
        if view.is_failed_whole() || failed().next().is_none() {
            return Self::default();
        }
        let order = pull::order_of(scene, view);
        let waits = failed().map(|row| (row.key.clone(), new_predecessors(scene, view, &order, &row.key)));
        Self(waits.filter(|(_, upstreams)| !upstreams.is_empty()).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn holds(&self, row: &Row) -> bool {
        self.0.contains_key(&row.key)
    }

    /// `waits for vpc`, as plain text.
    pub fn words(&self, row: &Row) -> Option<String> {
        Some(format!("waits for {}", self.0.get(&row.key)?.join(", ")))
    }

    /// What a person should know, as Markdown, and where the guide goes on.
    pub fn advice(&self, row: &Row) -> Option<(String, Topic)> {
        let upstreams = self.0.get(&row.key)?;
        let advice = format!(
            "It reads what {} will make, which is not applied yet, so its plan could not be made. \
             Apply the pull request: this stack is planned again after that, and its plan then waits for your review. \
             Below is what the early plan said. {} plans it again before.",
            lists::names(upstreams),
            escape::code(&format!("stackorder plan {}", row.key))
        );
        Some((advice, Topic::NewPlans))
    }

    /// The status of the view, in which what waits is no failure.
    pub fn status(&self, view: &PlanView<'_>) -> Option<RunStatus> {
        let others = || view.rows.values().filter(|row| !self.holds(row)).map(|row| &row.status);
        match view.status() {
            Some(RunStatus::Failed) if !self.is_empty() => roll_up(others()),
            status => status,
        }
    }
}
