//! Counts and addresses of a plan, from `show -json` and never from the tool's prose (spec 12 §10).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::digest::actions_digest;

/// Most addresses of each list that travel; the digest covers all of them.
pub const ADDRESSES_MAX: usize = 2_000;

/// Why a document is not a plan that can be counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Not the JSON of `terraform show -json <plan file>` at all.
    #[error("the plan JSON has no {0}: it is not the output of `show -json` for a plan file")]
    NotAPlan(&'static str),
    #[error("plan JSON format {0:?} is newer than this version of stackorder understands")]
    Format(String),
    /// One entry is not shaped as the format says. Nothing is counted, because a guess would be reported as a fact.
    #[error("plan JSON: {place}: {problem}")]
    Entry { place: String, problem: &'static str },
    /// A combination of actions this version does not know, so it cannot be shown to anybody.
    #[error("plan JSON: {address}: unknown actions {actions:?}")]
    Actions { address: String, actions: Vec<String> },
}

impl PlanError {
    pub(super) fn unknown_actions(address: &str, actions: &[&str]) -> Self {
        Self::Actions {
            address: address.to_owned(),
            actions: actions.iter().map(|action| (*action).to_owned()).collect(),
        }
    }
}

/// The counts of one plan as they are stored and sent (spec 20 §6).
///
/// `forgets` is ours: a plan that only forgets a resource is no empty plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanSummary {
    pub adds: u32,
    pub changes: u32,
    pub destroys: u32,
    pub replaces: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub imports: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub moves: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub forgets: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub destroyed: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub output_changes: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub addresses_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actions_digest: Option<String>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl PlanSummary {
    /// Nothing to do at all, output changes included.
    pub fn is_empty(&self) -> bool {
        self.total() == 0 && self.output_changes == 0
    }

    /// Everything that happens to resources; output changes carry values and change no infrastructure.
    pub fn total(&self) -> u64 {
        [self.adds, self.changes, self.destroys, self.replaces, self.imports, self.moves, self.forgets]
            .into_iter()
            .map(u64::from)
            .sum()
    }

    /// `4 to add, 0 to change, 0 to destroy, 0 to replace, 2 output changes`.
    pub fn counts_text(&self) -> String {
        self.text(["to add", "to change", "to destroy", "to replace", "to import", "to move", "to forget"])
    }

    /// The same after an apply: `4 added, 0 changed, 0 destroyed, 0 replaced, 2 output changes`.
    pub fn past_tense_text(&self) -> String {
        self.text(["added", "changed", "destroyed", "replaced", "imported", "moved", "forgotten"])
    }

    fn text(&self, verbs: [&str; 7]) -> String {
        if self.total() == 0 && self.output_changes > 0 {
            let outputs = if self.output_changes == 1 { "output" } else { "outputs" };
            return format!("0 resources, {} {outputs} changed", self.output_changes);
        }
        let always = [self.adds, self.changes, self.destroys, self.replaces];
        let sometimes = [self.imports, self.moves, self.forgets];
        let (always_verbs, sometimes_verbs) = verbs.split_at(always.len());
        let mut parts: Vec<String> =
            always.iter().zip(always_verbs).map(|(count, verb)| format!("{count} {verb}")).collect();
        let rest = sometimes.iter().zip(sometimes_verbs).filter(|(count, _)| **count > 0);
        parts.extend(rest.map(|(count, verb)| format!("{count} {verb}")));
        match self.output_changes {
            0 => {}
            1 => parts.push("1 output change".to_owned()),
            many => parts.push(format!("{many} output changes")),
        }
        parts.join(", ")
    }

    fn list(&mut self, addresses: &Addresses) {
        let listed = |set: &BTreeSet<String>| set.iter().cloned().collect();
        self.added = listed(&addresses.added);
        self.changed = listed(&addresses.changed);
        self.destroyed = listed(&addresses.destroyed);
        self.replaced = listed(&addresses.replaced);
        self.cut_addresses();
    }

    /// Cuts the address lists to what may travel. The server does it again to whatever it is sent.
    pub fn cut_addresses(&mut self) {
        for list in [&mut self.added, &mut self.changed, &mut self.destroyed, &mut self.replaced] {
            if list.len() > ADDRESSES_MAX {
                list.truncate(ADDRESSES_MAX);
                self.addresses_truncated = true;
            }
        }
    }
}

/// The addresses of each action, sorted and unique, before any cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Addresses {
    pub added: BTreeSet<String>,
    pub changed: BTreeSet<String>,
    pub destroyed: BTreeSet<String>,
    pub replaced: BTreeSet<String>,
}

impl Addresses {
    /// The address set of the plan: whatever is touched, once.
    pub fn union(&self) -> BTreeSet<&str> {
        [&self.added, &self.changed, &self.destroyed, &self.replaced]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect()
    }
}

/// A counted plan: what travels, and the lists in full for comparing two plans address by address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summarised {
    pub summary: PlanSummary,
    pub addresses: Addresses,
}

impl Summarised {
    /// The same with other words for its addresses. Counts and digest stay those of the plan itself.
    pub fn map_addresses(mut self, shown: impl Fn(&str) -> String) -> Self {
        let Addresses { added, changed, destroyed, replaced } = &mut self.addresses;
        for list in [added, changed, destroyed, replaced] {
            *list = list.iter().map(|address| shown(address)).collect();
        }
        self.summary.list(&self.addresses);
        self
    }
}

/// Counts a plan. A plan with anything unknown in it is refused as a whole.
pub fn summarise(plan_json: &Value) -> Result<Summarised, PlanError> {
    check_format(plan_json)?;
    let mut summary = PlanSummary::default();
    let mut addresses = Addresses::default();
    for (index, entry) in resource_changes(plan_json)?.iter().enumerate() {
        count_resource(index, entry, &mut summary, &mut addresses)?;
    }
    summary.output_changes = count_outputs(plan_json)?;
    summary.actions_digest = Some(actions_digest(&addresses));
    summary.list(&addresses);
    Ok(Summarised { summary, addresses })
}

pub(super) fn check_format(plan_json: &Value) -> Result<(), PlanError> {
    let format =
        plan_json.get("format_version").and_then(Value::as_str).ok_or(PlanError::NotAPlan("format_version"))?;
    // A state has a format version too, and no changes: it would count as an empty plan.
    if plan_json.get("planned_values").is_none() && plan_json.get("resource_changes").is_none() {
        return Err(PlanError::NotAPlan("planned_values"));
    }
    match format.split('.').next() {
        Some("0" | "1") => Ok(()),
        _ => Err(PlanError::Format(format.to_owned())),
    }
}

pub(super) fn resource_changes(plan_json: &Value) -> Result<&[Value], PlanError> {
    match plan_json.get("resource_changes") {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(entries)) => Ok(entries),
        Some(_) => Err(PlanError::Entry { place: "resource_changes".to_owned(), problem: "is not a list" }),
    }
}

/// What a list of actions asks for, data sources aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    Create,
    Update,
    Delete,
    Replace,
    Forget,
    /// The old object is dropped from the state, not destroyed, and a new one is made.
    CreateAndForget,
}

impl Change {
    pub(super) fn of(actions: &[&str]) -> Option<Self> {
        Some(match actions {
            ["no-op"] | ["read"] => Self::Nothing,
            ["create"] => Self::Create,
            ["update"] => Self::Update,
            ["delete"] => Self::Delete,
            ["delete", "create"] | ["create", "delete"] => Self::Replace,
            ["forget"] => Self::Forget,
            ["create", "forget"] | ["forget", "create"] => Self::CreateAndForget,
            _ => return None,
        })
    }
}

fn count_resource(
    index: usize,
    entry: &Value,
    summary: &mut PlanSummary,
    addresses: &mut Addresses,
) -> Result<(), PlanError> {
    let address = address_of(index, entry)?;
    if entry.get("mode").and_then(Value::as_str) == Some("data") {
        return Ok(());
    }
    let change = entry.get("change").ok_or_else(|| bad_entry(address, "has no change"))?;
    let actions = actions_of(address, change)?;
    let kind = Change::of(&actions).ok_or_else(|| PlanError::unknown_actions(address, &actions))?;
    let importing = change.get("importing").is_some_and(|import| !import.is_null());
    if importing {
        summary.imports += 1;
    }
    match kind {
        Change::Nothing if !importing && is_moved(address, entry) => summary.moves += 1,
        Change::Nothing => {}
        Change::Create => note(&mut summary.adds, &mut addresses.added, address),
        Change::Update => note(&mut summary.changes, &mut addresses.changed, address),
        Change::Delete => note(&mut summary.destroys, &mut addresses.destroyed, address),
        Change::Replace => note(&mut summary.replaces, &mut addresses.replaced, address),
        Change::Forget => summary.forgets += 1,
        Change::CreateAndForget => {
            summary.forgets += 1;
            note(&mut summary.adds, &mut addresses.added, address);
        }
    }
    Ok(())
}

fn note(count: &mut u32, list: &mut BTreeSet<String>, address: &str) {
    *count += 1;
    list.insert(address.to_owned());
}

fn is_moved(address: &str, entry: &Value) -> bool {
    entry.get("previous_address").and_then(Value::as_str).is_some_and(|previous| previous != address)
}

pub(super) fn address_of(index: usize, entry: &Value) -> Result<&str, PlanError> {
    let place = || format!("resource_changes[{index}]");
    let Some(address) = entry.get("address").and_then(Value::as_str) else {
        return Err(PlanError::Entry { place: place(), problem: "has no address" });
    };
    // The digest puts one address on a line; the tool writes line breaks of an instance key as `\n`.
    if address.is_empty() || address.chars().any(char::is_control) {
        return Err(PlanError::Entry { place: place(), problem: "has an address that is no address" });
    }
    Ok(address)
}

pub(super) fn actions_of<'a>(place: &str, change: &'a Value) -> Result<Vec<&'a str>, PlanError> {
    let actions = change.get("actions").and_then(Value::as_array).ok_or_else(|| bad_entry(place, "has no actions"))?;
    actions
        .iter()
        .map(|action| action.as_str().ok_or_else(|| bad_entry(place, "has an action that is no text")))
        .collect()
}

fn count_outputs(plan_json: &Value) -> Result<u32, PlanError> {
    let outputs = match plan_json.get("output_changes") {
        None | Some(Value::Null) => return Ok(0),
        Some(Value::Object(outputs)) => outputs,
        Some(_) => return Err(bad_entry("output_changes", "is not a map")),
    };
    let mut count = 0;
    for (name, change) in outputs {
        if actions_of(name, change)? != ["no-op"] {
            count += 1;
        }
    }
    Ok(count)
}

fn bad_entry(place: &str, problem: &'static str) -> PlanError {
    PlanError::Entry { place: place.to_owned(), problem }
}

#[cfg(test)]
mod tests;
