//! The plan view of a head: the newest plan row of each stack over all its plan runs (spec 30 §4.5).
//!
//! The gate, the roll-up and the sticky comment look at this, not at one run.

use std::collections::BTreeMap;

use super::model::{Row, Run};
use super::scene::Scene;
use super::settle::roll_up;
use super::status::{Mode, RowStatus, RunStatus};
use crate::ids::{Sha, StackKey};
use crate::plan::digest::{PlanSetEntry, plan_set_digest};

#[derive(Debug, Clone, PartialEq)]
pub struct PlanView<'s> {
    pub sha: Sha,
    /// The runs that made it, newest first.
    pub runs: Vec<&'s Run>,
    pub rows: BTreeMap<StackKey, &'s Row>,
    /// The newest run failed before it had a row: a cycle, a graph that was refused, a job that died.
    newest_failed_empty: bool,
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
                // A later upload of the same run no longer affects it.
                let dropped = row.status == RowStatus::Skipped;
                if !never_dispatched && !dropped {
                    rows.entry(row.key.clone()).or_insert(row);
                }
            }
        }
        let newest_failed_empty = runs.first().is_some_and(|newest| {
            newest.status == RunStatus::Failed && scene.rows(&newest.id).all(|row| row.status == RowStatus::Skipped)
        });
        Self { sha: (*commits.first().expect("a view is of a commit")).clone(), runs, rows, newest_failed_empty }
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
        if self.newest_failed_empty {
            return Some(RunStatus::Failed);
        }
        Some(roll_up(self.rows.values().map(|row| &row.status)).unwrap_or(RunStatus::Planning))
    }

    /// The newest run failed as a whole: whatever earlier runs planned does not count (spec 30 §4.5).
    pub fn is_failed_whole(&self) -> bool {
        self.newest_failed_empty
    }

    /// Those of these apply rows, by key, whose plan is not the newest of its stack any more.
    pub fn changed_since<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> Vec<String> {
        let is_same = |row: &Row| {
            self.rows.get(&row.key).is_some_and(|plan| {
                Some(&plan.run_id) == row.from_plan_run.as_ref() && plan.plan_artifact == row.plan_artifact
            })
        };
        rows.filter(|row| !is_same(row)).map(|row| row.key.to_string()).collect()
    }

    /// The newest run that has a graph.
    pub fn graph_sha(&self) -> Option<&'s Sha> {
        self.runs.iter().find_map(|run| run.graph_sha.as_ref())
    }
    /// What a person has seen who asks for an apply: plans, verdicts and graph (spec 31 §7). Another one means that they
    /// would ask for something else now.
    pub fn digest(&self, scene: &Scene) -> String {
        let entry = |row: &&Row| PlanSetEntry {
            key: row.key.to_string(),
            plan_digest: Some(row.plan_digest.clone()).filter(|digest| !digest.is_empty()),
            verdicts: scene
                .verdicts
                .values()
                .filter(|verdict| verdict.run_id == row.run_id && verdict.key == row.key)
                .map(|verdict| (verdict.name.clone(), verdict.status.to_string()))
                .collect(),
        };
        let entries: Vec<PlanSetEntry> = self.rows.values().map(entry).collect();
        plan_set_digest(self.graph_sha().map(Sha::as_str).unwrap_or_default(), &entries)
    }
}
