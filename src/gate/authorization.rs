//! Layer 1: may this person ask for an apply (spec 30 §5.2, §5.3).

use std::collections::BTreeMap;

use super::facts::Membership;
use super::{GateScene, Refusal, for_stacks, refusal, team_parts};
use crate::config::effective::allowed_teams_of;
use crate::config::environments::environment_of;
use crate::guide::Topic;
use crate::ids::StackKey;
use crate::render::escape;

const NAME: &str = "authorization";

pub fn refusals(scene: &GateScene) -> Vec<Refusal> {
    let requester = &scene.request.requester;
    if requester.is_empty() {
        return vec![refusal(Topic::NoRequester, 1, NAME, "nobody is recorded as asking for this apply")];
    }
    // Trusted by whoever made the key.
    if requester.starts_with("apikey:") {
        return Vec::new();
    }
    let mut refusals = unreadable_settings(scene);
    let unreadable: Vec<StackKey> = refusals.iter().flat_map(|refusal| refusal.stacks.clone()).collect();
    let root = named_teams(scene, &scene.policy().apply.allowed_teams);
    for (teams, stacks) in by_teams(scene, &unreadable) {
        // The root's list is about nobody in particular.
        let all = stacks.len() == scene.request.selected.len() && teams == root;
        let stacks = if all { Vec::new() } else { stacks };
        refusals.extend(refuse_group(scene, requester, &teams, stacks));
    }
    refusals
}

/// Stacks grouped by their team list, however it is spelled. With no stacks, the root list is asked.
fn by_teams(scene: &GateScene, unreadable: &[StackKey]) -> BTreeMap<Vec<String>, Vec<StackKey>> {
    let policy = scene.policy();
    let mut groups: BTreeMap<Vec<String>, Vec<StackKey>> = BTreeMap::new();
    if scene.request.selected.is_empty() {
        groups.insert(named_teams(scene, &policy.apply.allowed_teams), Vec::new());
    }
    for key in scene.request.selected.iter().filter(|key| !unreadable.contains(key)) {
        let teams = allowed_teams_of(&policy, scene.stack_files.get(key), key.path(), key.instance());
        groups.entry(named_teams(scene, &teams)).or_default().push(key.clone());
    }
    groups
}

/// `organisation/slug` of each team of a list.
fn named_teams(scene: &GateScene, teams: &[String]) -> Vec<String> {
    let owner = scene.scene.repo.full_name.owner();
    teams
        .iter()
        .map(|team| {
            let (organisation, slug) = team_parts(team, owner);
            format!("{organisation}/{slug}")
        })
        .collect()
}

fn refuse_group(scene: &GateScene, requester: &str, teams: &[String], stacks: Vec<StackKey>) -> Option<Refusal> {
    let login = escape::text(requester);
    let repo = &scene.scene.repo.full_name;
    if teams.is_empty() {
        if scene.facts.permission.can_push() {
            return None;
        }
        let reason = format!(
            "{login} only has {} permission on {}, and an apply takes write access",
            scene.facts.permission.as_str(),
            escape::text(repo.as_str())
        );
        return Some(for_stacks(Topic::NoWriteAccess, 1, NAME, stacks, reason));
    }
    let memberships: Vec<Membership> =
        teams.iter().map(|team| scene.facts.teams.get(team).copied().unwrap_or(Membership::None)).collect();
    if memberships.contains(&Membership::Active) {
        return None;
    }
    if memberships.contains(&Membership::Unreadable) {
        let reason =
            "team membership is unreadable because the App lacks Members: Read, which `apply.allowed_teams` needs";
        return Some(for_stacks(Topic::TeamsUnreadable, 1, NAME, stacks, reason));
    }
    let list: Vec<String> = teams.iter().map(|team| escape::code(team)).collect();
    let reason = format!("{login} is in none of the teams `apply.allowed_teams` names: {}", list.join(", "));
    Some(for_stacks(Topic::NotInTeam, 1, NAME, stacks, reason))
}

/// A default-branch file that does not parse, or a template that does not render, leaves nobody to ask.
fn unreadable_settings(scene: &GateScene) -> Vec<Refusal> {
    let policy = scene.policy();
    scene
        .request
        .selected
        .iter()
        .filter_map(|key| {
            let text = match scene.facts.unreadable_files.get(key) {
                Some(text) => text.clone(),
                None => {
                    let file = scene.stack_files.get(key);
                    let problems = environment_of(&policy, file, key.path(), key.instance()).err()?;
                    problems.first().map(ToString::to_string).unwrap_or_default()
                }
            };
            let reason = format!("`apply.allowed_teams` cannot be determined: {}", escape::text(&text));
            Some(for_stacks(Topic::PolicyUnreadable, 1, NAME, vec![key.clone()], reason))
        })
        .collect()
}
