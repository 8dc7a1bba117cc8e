//! The pull request as the texts see it: the commits that carry checks now, and the stacks of its plan view by wave.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::ordering::{Ordering, ordering};
use crate::ids::{Sha, StackKey};
use crate::run::model::{Row, Run};
use crate::run::plan_view::PlanView;
use crate::run::scene::Scene;
use crate::run::status::{Mode, RunStatus, Trigger};

/// The commits that matter now.
#[derive(Debug, Clone, Copy)]
pub struct Pull<'s> {
    pub scene: &'s Scene,
    /// That of the newest plan run; re-plans of an apply that runs on at an older commit do not count.
    pub head: Option<&'s Sha>,
    /// The commit that an apply of the merge is of.
    pub merge: Option<&'s Sha>,
}

impl<'s> Pull<'s> {
    pub fn of(scene: &'s Scene) -> Self {
        let newest = scene.newest_first();
        let merge = newest.iter().find(|run| run.is_merge_apply() && run.status != RunStatus::Superseded);
        let merge = merge.map(|run| &run.sha);
        let plans = || newest.iter().filter(|run| is_own_plan(run) && run.status != RunStatus::Superseded);
        let head = plans().find(|run| Some(&run.sha) != merge).or_else(|| plans().next()).map(|run| &run.sha);
        Self { scene, head, merge }
    }

    /// Whether the commit is the head, or the one that was merged.
    pub fn is_at(&self, sha: &Sha) -> bool {
        self.head == Some(sha) || self.merge == Some(sha)
    }

    /// The plan view of the head; after a merge that applies, with what was planned again at the merge commit.
    pub fn view(&self) -> Option<PlanView<'s>> {
        let head = self.head?;
        Some(match self.merge {
            Some(merge) if merge != head => PlanView::of(self.scene, &[merge, head]),
            Some(_) | None => PlanView::of(self.scene, &[head]),
        })
    }
}

/// A plan run of the pull request itself, not one that an apply asked for.
pub fn is_own_plan(run: &Run) -> bool {
    run.mode == Mode::Plan && run.trigger != Trigger::Upstream
}

/// The order of the view's graph; empty without a graph.
pub fn order_of(scene: &Scene, view: &PlanView<'_>) -> Ordering {
    view.graph_sha().and_then(|sha| scene.graphs.get(sha)).map(|graph| ordering(graph)).unwrap_or_default()
}

/// The rows of the view with the wave each stack has among all of them. A stack that was planned again by itself has
/// wave 0 in its own run, which says nothing here.
pub fn by_wave<'s>(view: &PlanView<'s>, order: &Ordering) -> Vec<(u32, &'s Row)> {
    let members: BTreeSet<String> = view.rows.keys().map(ToString::to_string).collect();
    let waves: BTreeMap<String, u32> = crate::waves::waves(order, &members);
    let mut rows: Vec<(u32, &Row)> =
        view.rows.values().map(|row| (waves.get(row.key.as_str()).copied().unwrap_or(row.wave), *row)).collect();
    rows.sort_by(|(wave, row), (other_wave, other)| (wave, &row.key).cmp(&(other_wave, &other.key)));
    rows
}

/// Number of waves of rows.
pub fn waves(rows: &[(u32, &Row)]) -> usize {
    rows.iter().map(|(wave, _)| wave).collect::<BTreeSet<_>>().len()
}

/// Applies of a commit that write checks, newest first; superseded ones too.
pub fn applies_at<'s>(scene: &'s Scene, sha: &Sha) -> Vec<&'s Run> {
    let all = scene.newest_first().into_iter();
    all.filter(|run| run.mode == Mode::Apply && run.trigger != Trigger::Manual && run.sha == *sha).collect()
}

/// Each stack as the newest apply of this commit that selected it left it; superseded applies come after all others.
/// A stack that none selected is as the newest one has it.
pub fn applied_view<'s>(scene: &'s Scene, runs: &[&'s Run]) -> BTreeMap<StackKey, (&'s Run, &'s Row)> {
    let mut view: BTreeMap<StackKey, (&Run, &Row)> = BTreeMap::new();
    let stands = |run: &&&Run| run.status != RunStatus::Superseded;
    let ranked = runs.iter().filter(stands).chain(runs.iter().filter(|run| !stands(run)));
    for run in ranked {
        for row in scene.rows(&run.id) {
            let known = view.entry(row.key.clone()).or_insert((run, row));
            if !super::words::is_selected(known.1) && super::words::is_selected(row) {
                *known = (run, row);
            }
        }
    }
    view
}
