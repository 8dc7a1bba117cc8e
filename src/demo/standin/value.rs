//! Values as the tool sees them while planning: known, unknown until apply, or marked sensitive.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value as Json, json};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
    /// `(known after apply)`.
    Unknown,
    Sensitive(Box<Value>),
}

impl Value {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::String(text.into())
    }

    pub(super) fn from_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(it) => Self::Bool(*it),
            Json::Number(it) => Self::Number(it.clone()),
            Json::String(it) => Self::String(it.clone()),
            Json::Array(items) => Self::List(items.iter().map(Self::from_json).collect()),
            Json::Object(fields) => Self::Map(fields.iter().map(|(k, v)| (k.clone(), Self::from_json(v))).collect()),
        }
    }

    /// The value without marks. Unknown entries of a map are left out, as the tool's plan JSON does.
    pub(super) fn to_json(&self) -> Json {
        match self {
            Self::Null | Self::Unknown => Json::Null,
            Self::Bool(it) => Json::Bool(*it),
            Self::Number(it) => Json::Number(it.clone()),
            Self::String(it) => Json::String(it.clone()),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Map(fields) => {
                let known = fields.iter().filter(|(_, value)| **value != Self::Unknown);
                Json::Object(known.map(|(k, v)| (k.clone(), v.to_json())).collect())
            }
            Self::Sensitive(inner) => inner.to_json(),
        }
    }

    /// `after_unknown` of this value.
    pub(super) fn unknown_marks(&self) -> Json {
        self.marks(&|value| matches!(value, Self::Unknown))
    }

    /// `after_sensitive` of this value.
    pub(super) fn sensitive_marks(&self) -> Json {
        self.marks(&|value| matches!(value, Self::Sensitive(_)))
    }

    fn marks(&self, wanted: &dyn Fn(&Self) -> bool) -> Json {
        match self {
            it if wanted(it) => Json::Bool(true),
            Self::Sensitive(inner) => inner.marks(wanted),
            Self::List(items) => items.iter().map(|item| item.marks(wanted)).collect(),
            Self::Map(fields) => {
                let marked = fields.iter().map(|(k, v)| (k.clone(), v.marks(wanted)));
                Json::Object(marked.filter(|(_, mark)| *mark != Json::Bool(false)).collect::<Map<_, _>>())
            }
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Unknown => Json::Bool(false),
        }
    }

    /// Without marks, at any depth.
    pub(super) fn plain(&self) -> Self {
        match self {
            Self::Sensitive(inner) => inner.plain(),
            Self::List(items) => Self::List(items.iter().map(Self::plain).collect()),
            Self::Map(fields) => Self::Map(fields.iter().map(|(k, v)| (k.clone(), v.plain())).collect()),
            other => other.clone(),
        }
    }

    pub(super) fn is_sensitive(&self) -> bool {
        match self {
            Self::Sensitive(_) => true,
            Self::List(items) => items.iter().any(Self::is_sensitive),
            Self::Map(fields) => fields.values().any(Self::is_sensitive),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Unknown => false,
        }
    }

    /// The value under any mark, and a function that puts the mark back.
    pub(super) fn unmarked(self) -> (Self, bool) {
        match self {
            Self::Sensitive(inner) => (inner.unmarked().0, true),
            other => (other, false),
        }
    }

    pub(super) fn marked(self, sensitive: bool) -> Self {
        match self {
            Self::Sensitive(_) => self,
            other if sensitive => Self::Sensitive(Box::new(other)),
            other => other,
        }
    }

    /// As a template prints it; `None` for what has no text.
    pub(super) fn as_text(&self) -> Option<String> {
        match self {
            Self::String(it) => Some(it.clone()),
            Self::Number(it) => Some(it.to_string()),
            Self::Bool(it) => Some(it.to_string()),
            Self::Null | Self::List(_) | Self::Map(_) | Self::Unknown | Self::Sensitive(_) => None,
        }
    }

    /// The type as state files write it for values of any type.
    pub(super) fn type_json(&self) -> Json {
        match self {
            Self::Null | Self::Unknown => json!("dynamic"),
            Self::Bool(_) => json!("bool"),
            Self::Number(_) => json!("number"),
            Self::String(_) => json!("string"),
            Self::List(items) => json!(["tuple", items.iter().map(Self::type_json).collect::<Vec<_>>()]),
            Self::Map(fields) => {
                let types: Map<_, _> = fields.iter().map(|(k, v)| (k.clone(), v.type_json())).collect();
                json!(["object", types])
            }
            Self::Sensitive(inner) => inner.type_json(),
        }
    }
}
