//! The structured diff of a plan: before and after of each attribute, as far as anybody may see them (spec 31 §6).
//!
//! Values pass the plan's own marks first and the job's redactor second. A resource whose marks cannot be read
//! is listed without any detail: it fails closed, on its own, and the others stay complete.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::summary::{Change, PlanError, actions_of, address_of, check_format, resource_changes};
use crate::config::model::PlanOutput;
use crate::redaction::{MASK, Redactor, is_secret_key};

/// Names the shape below to whoever reads it.
pub const DIFF_FORMAT: &str = "stackorder.plan-diff/v1";

/// Most resources of one diff; more is no list for people.
pub const DIFF_RESOURCES_MAX: usize = 5_000;

/// Most bytes of one diff as JSON. The server's route takes one mebibyte more.
pub const DIFF_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What stands for a value inside an attribute that only the apply will know.
pub const KNOWN_AFTER_APPLY: &str = "(known after apply)";

/// Deepest value that is walked; what nests deeper is withheld. Real attributes stay below twenty.
const VALUE_DEPTH_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanDiff {
    pub format: String,
    pub resources: Vec<ResourceDiff>,
    /// Resources or details are missing because of a limit.
    #[serde(default)]
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDiff {
    pub address: String,
    pub provider: String,
    pub action: DiffAction,
    /// Only what changes, by attribute.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, AttributeDiff>,
    /// There are details that are not shown: their marks are unreadable, or they are too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withheld: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffAction {
    Create,
    Update,
    Delete,
    Replace,
    Import,
    Move,
    Forget,
}

/// One attribute on both sides; a side without a value is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeDiff {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// Something in it is masked by the plan's own marks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// Something in it is only known after the apply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

impl PlanDiff {
    /// Leaves address, provider and action: all that may be seen of a stack with `plan_output: summary`.
    pub fn drop_values(&mut self) {
        for resource in &mut self.resources {
            resource.attributes.clear();
        }
    }
}

/// Builds the diff of a plan within its limits.
pub fn plan_diff(plan_json: &Value, redactor: &Redactor, output: PlanOutput) -> Result<PlanDiff, PlanError> {
    check_format(plan_json)?;
    let mut changed = Vec::new();
    for (index, entry) in resource_changes(plan_json)?.iter().enumerate() {
        let address = address_of(index, entry)?;
        if let Some(action) = action_of(address, entry)? {
            changed.push((address, action, entry));
        }
    }
    let truncated = changed.len() > DIFF_RESOURCES_MAX;
    changed.truncate(DIFF_RESOURCES_MAX);
    let resources = changed.into_iter().map(|(address, action, entry)| {
        let detail = match output {
            PlanOutput::Full => attributes_of(&entry["change"], redactor),
            PlanOutput::Summary => Ok(BTreeMap::new()),
        };
        let withheld = detail.is_err();
        let provider = entry["provider_name"].as_str().unwrap_or_default().to_owned();
        ResourceDiff { address: address.to_owned(), provider, action, attributes: detail.unwrap_or_default(), withheld }
    });
    let mut diff = PlanDiff { format: DIFF_FORMAT.to_owned(), resources: resources.collect(), truncated };
    fit(&mut diff, DIFF_BYTES_MAX);
    Ok(diff)
}

/// `None` for what does nothing, data sources included.
fn action_of(address: &str, entry: &Value) -> Result<Option<DiffAction>, PlanError> {
    if entry["mode"] == "data" {
        return Ok(None);
    }
    let actions = actions_of(address, &entry["change"])?;
    let change = Change::of(&actions).ok_or_else(|| PlanError::unknown_actions(address, &actions))?;
    let is_moved = entry["previous_address"].as_str().is_some_and(|previous| previous != address);
    Ok(match change {
        Change::Nothing if !entry["change"]["importing"].is_null() => Some(DiffAction::Import),
        Change::Nothing if is_moved => Some(DiffAction::Move),
        Change::Nothing => None,
        Change::Create | Change::CreateAndForget => Some(DiffAction::Create),
        Change::Update => Some(DiffAction::Update),
        Change::Delete => Some(DiffAction::Delete),
        Change::Replace => Some(DiffAction::Replace),
        Change::Forget => Some(DiffAction::Forget),
    })
}

/// The marks of a value do not fit the value, so nobody can tell what may be seen.
struct Unreadable;

static NO_VALUE: Value = Value::Null;
static NO_MARK: Value = Value::Bool(false);

fn attributes_of(change: &Value, redactor: &Redactor) -> Result<BTreeMap<String, AttributeDiff>, Unreadable> {
    let before = Marked::whole(&change["before"], &change["before_sensitive"], &NO_MARK)?;
    let after = Marked::whole(&change["after"], &change["after_sensitive"], &change["after_unknown"])?;
    let names: BTreeSet<&str> = before.names().chain(after.names()).collect();
    let mut attributes = BTreeMap::new();
    for name in names {
        let (old, new) = (before.member(name)?, after.member(name)?);
        if old.value == new.value && !has_mark(new.unknown) {
            continue;
        }
        let mut view = View { redactor, sensitive: false, unknown: false };
        let before = view.attribute(old, name)?;
        let after = view.attribute(new, name)?;
        let diff = AttributeDiff { before, after, sensitive: view.sensitive, unknown: view.unknown };
        attributes.insert(redactor.redact(name), diff);
    }
    Ok(attributes)
}

/// A value with the marks that stand beside it in the same shape.
#[derive(Clone, Copy)]
struct Marked<'a> {
    value: &'a Value,
    sensitive: &'a Value,
    unknown: &'a Value,
}

impl<'a> Marked<'a> {
    /// One side of a resource. A side with a value and without marks is unreadable: the format always has them.
    fn whole(value: &'a Value, sensitive: &'a Value, unknown: &'a Value) -> Result<Self, Unreadable> {
        let is_readable = value.is_null() || (value.is_object() && !sensitive.is_null());
        is_readable.then_some(Self { value, sensitive, unknown }).ok_or(Unreadable)
    }

    /// The members; unknown ones have no value, only a mark.
    fn names(self) -> impl Iterator<Item = &'a str> {
        let of = |value: &'a Value| value.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
        of(self.value).chain(of(self.unknown))
    }

    fn member(self, name: &str) -> Result<Self, Unreadable> {
        let mark = |marks: &'a Value| match marks {
            Value::Bool(_) | Value::Null => Ok(marks),
            Value::Object(members) => Ok(members.get(name).unwrap_or(&NO_MARK)),
            Value::Array(items) if items.is_empty() => Ok(&NO_MARK),
            Value::Array(_) | Value::Number(_) | Value::String(_) => Err(Unreadable),
        };
        let value = self.value.get(name).unwrap_or(&NO_VALUE);
        Ok(Self { value, sensitive: mark(self.sensitive)?, unknown: mark(self.unknown)? })
    }

    fn item(self, index: usize) -> Result<Self, Unreadable> {
        let mark = |marks: &'a Value| match marks {
            Value::Bool(_) | Value::Null => Ok(marks),
            Value::Array(items) => Ok(items.get(index).unwrap_or(&NO_MARK)),
            Value::Object(members) if members.is_empty() => Ok(&NO_MARK),
            Value::Object(_) | Value::Number(_) | Value::String(_) => Err(Unreadable),
        };
        let value = self.value.get(index).unwrap_or(&NO_VALUE);
        Ok(Self { value, sensitive: mark(self.sensitive)?, unknown: mark(self.unknown)? })
    }

    /// A value without parts may only have marks without parts.
    fn is_plain(self) -> bool {
        !has_mark(self.sensitive) && !has_mark(self.unknown)
    }
}

/// Whether anything at all is marked. What is no mark counts as one.
fn has_mark(marks: &Value) -> bool {
    let mut open = vec![marks];
    while let Some(marks) = open.pop() {
        match marks {
            Value::Null | Value::Bool(false) => {}
            Value::Object(members) => open.extend(members.values()),
            Value::Array(items) => open.extend(items),
            Value::Bool(true) | Value::Number(_) | Value::String(_) => return true,
        }
    }
    false
}

/// What may be seen of one attribute, and what had to be hidden on the way.
struct View<'a> {
    redactor: &'a Redactor,
    sensitive: bool,
    unknown: bool,
}

impl View<'_> {
    /// One side of the attribute; `None` when there is no value or none is known.
    fn attribute(&mut self, marked: Marked<'_>, name: &str) -> Result<Option<Value>, Unreadable> {
        if *marked.unknown == Value::Bool(true) {
            self.unknown = true;
            self.sensitive |= has_mark(marked.sensitive);
            return Ok(None);
        }
        Ok(Some(self.value(marked, name, 0)?).filter(|value| !value.is_null()))
    }

    fn value(&mut self, marked: Marked<'_>, key: &str, depth: usize) -> Result<Value, Unreadable> {
        if depth > VALUE_DEPTH_MAX {
            return Err(Unreadable);
        }
        if *marked.sensitive == Value::Bool(true) {
            self.sensitive = true;
            return Ok(if marked.value.is_null() { Value::Null } else { Value::from(MASK) });
        }
        if *marked.unknown == Value::Bool(true) {
            self.unknown = true;
            return Ok(Value::from(KNOWN_AFTER_APPLY));
        }
        match marked.value {
            Value::Object(_) => {
                let names: BTreeSet<&str> = marked.names().collect();
                let members = names
                    .into_iter()
                    .map(|name| Ok((self.redactor.redact(name), self.value(marked.member(name)?, name, depth + 1)?)));
                members.collect::<Result<Map<String, Value>, Unreadable>>().map(Value::Object)
            }
            Value::Array(items) => {
                let length = items.len().max(marked.unknown.as_array().map_or(0, Vec::len));
                let items = (0..length).map(|index| self.value(marked.item(index)?, key, depth + 1));
                items.collect::<Result<Vec<Value>, Unreadable>>().map(Value::Array)
            }
            _ if !marked.is_plain() => Err(Unreadable),
            Value::String(text) if is_secret_key(key) && !text.is_empty() => Ok(Value::from(MASK)),
            Value::String(text) => Ok(Value::from(self.redactor.redact(text))),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(marked.value.clone()),
        }
    }
}

/// Withholds details, the largest first, and only then drops resources from the end.
fn fit(diff: &mut PlanDiff, bytes_max: usize) {
    let size = |resource: &ResourceDiff| serde_json::to_string(resource).map_or(bytes_max, |json| json.len() + 1);
    let mut sizes: Vec<(usize, usize)> = diff.resources.iter().map(size).zip(0..).collect();
    // All but the resources: the braces, the format, and `truncated` in its longer form.
    let frame = DIFF_FORMAT.len() + 64;
    let mut total: usize = frame + sizes.iter().map(|(bytes, _)| bytes).sum::<usize>();
    sizes.sort_by_key(|(bytes, index)| (std::cmp::Reverse(*bytes), *index));
    for (bytes, index) in sizes {
        if total <= bytes_max {
            break;
        }
        let resource = &mut diff.resources[index];
        if resource.attributes.is_empty() {
            continue;
        }
        resource.attributes.clear();
        resource.withheld = true;
        total = total - bytes + size(resource);
        diff.truncated = true;
    }
    while total > bytes_max {
        let Some(dropped) = diff.resources.pop() else { break };
        total -= size(&dropped);
        diff.truncated = true;
    }
}

#[cfg(test)]
mod tests;
