//! The plan view of a head: the newest plan row of each stack over all its plan runs (spec 30 §4.5).
//!
//! The gate, the roll-up and the sticky comment look at this, not at one run.

use std::collections::BTreeMap;

use super::model::{Row, Run};
use super::scene::Scene;
use super::settle::roll_up;
use super::status::{Mode, RowStatus, RunStatus};
use crate::ids::{Sha, StackKey};

#[derive(Debug, Clone, PartialEq)]
pub struct PlanView<'s> {
    pub sha: Sha,
    /// The runs that made it, newest first.
    pub runs: Vec<&'s Run>,
    pub rows: BTreeMap<StackKey, &'s Row>,
}

impl<'s> PlanView<'s> {
    /// The view of the scene's pull request at these commits; rows of earlier commits only fill what later ones lack
    /// (after a merge: the merge commit's before the head's).
    pub fn of(scene: &'s Scene, commits: &[&Sha]) -> Self {
        let mut runs: Vec<&Run> = Vec::new();
        for sha in commits {
            runs.extend(
                scene
                    .newest_first()
                    .into_iter()
                    .filter(|run| run.mode == Mode::Plan && run.sha == **sha && run.status != RunStatus::Superseded),
            );
        }
        let mut rows: BTreeMap<StackKey, &Row> = BTreeMap::new();
        for run in &runs {
            for row in scene.rows(&run.id) {
                // A dispatch that never happened leaves the earlier plan standing.
                let never_dispatched = run.status == RunStatus::Failed && row.status == RowStatus::Pending;
                if !never_dispatched {
                    rows.entry(row.key.clone()).or_insert(row);
                }
            }
        }
        Self { sha: (*commits.first().expect("a view is of a commit")).clone(), runs, rows }
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// `None` while there is no run; `Planning` while a row still works.
    pub fn status(&self) -> Option<RunStatus> {
        let newest = self.runs.first()?;
        if self.rows.is_empty() {
            return Some(newest.status);
        }
        // A newest run that failed with no rows (a cycle, a refused upload) makes the view failed.
        let newest_has_rows = self.rows.values().any(|row| row.run_id == newest.id);
        if newest.status == RunStatus::Failed && !newest_has_rows && newest.waves == 0 {
            return Some(RunStatus::Failed);
        }
        Some(roll_up(self.rows.values().map(|row| &row.status)).unwrap_or(RunStatus::Planning))
    }

    /// The newest run that has a graph.
    pub fn graph_sha(&self) -> Option<&'s Sha> {
        self.runs.iter().find_map(|run| run.graph_sha.as_ref())
    }
}
