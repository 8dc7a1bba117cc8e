//! The graph as it is stored and sent (spec 11 §1): nodes, edges, warnings.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::config::model::{PlanOutput, StackConfig, Tool};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    pub repo: String,
    pub sha: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tree_hash: String,
    #[serde(default)]
    pub stacks: Vec<Stack>,
    #[serde(default)]
    pub modules: Vec<Module>,
    #[serde(default)]
    pub edges: Vec<Edge>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    pub key: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    /// Only on external stacks: the repository they live in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub repo: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub environment: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Tool>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_output: Option<PlanOutput>,
    /// The parsed `.stackorder.yaml` of the directory, unrendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<StackConfig>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch_paths: Vec<String>,
    /// What `fileset` looks for outside of the directory, and what the configuration says to watch: a file that appears
    /// or goes there counts too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch_globs: Vec<String>,
    /// What matters only when this stack is planned; never repeated in `Graph::warnings`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backend {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub region: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dynamodb_table: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_lockfile: Option<bool>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workspace_key_prefix: String,
}

impl Backend {
    /// The state object of a workspace (spec 11 §4), empty when the backend has no key.
    pub fn object_key(&self, workspace: &str) -> String {
        if self.key.is_empty() || workspace.is_empty() || workspace == "default" {
            return self.key.clone();
        }
        let prefix = if self.workspace_key_prefix.is_empty() { "env:" } else { &self.workspace_key_prefix };
        format!("{prefix}/{workspace}/{}", self.key)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModuleKind {
    Local,
    Git,
    Registry,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    pub key: String,
    pub kind: ModuleKind,
    /// Of a local module; `.` for the repository root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    #[serde(default)]
    pub source: String,
    #[serde(default, skip_serializing_if = "String::is_empty", rename = "ref")]
    pub reference: String,
}

impl Module {
    /// The directory of a local module, empty for the repository root; `None` where no change of a file can reach it.
    pub fn directory(&self) -> Option<&str> {
        let is_known = self.kind == ModuleKind::Local && !self.path.is_empty();
        is_known.then(|| if self.path == "." { "" } else { self.path.as_str() })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    // In this order `module` sorts before `stack`, as edges are sorted by name.
    Module,
    Stack,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeRef {
    pub kind: NodeKind,
    pub key: String,
}

impl NodeRef {
    pub fn stack(key: impl Into<String>) -> Self {
        Self { kind: NodeKind::Stack, key: key.into() }
    }

    pub fn module(key: impl Into<String>) -> Self {
        Self { kind: NodeKind::Module, key: key.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeType {
    DependsOn,
    ReadsState,
    UsesModule,
}

impl EdgeType {
    /// Whether the edge puts its target in an earlier wave.
    pub fn orders(self) -> bool {
        match self {
            EdgeType::DependsOn | EdgeType::ReadsState => true,
            EdgeType::UsesModule => false,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            EdgeType::DependsOn => "depends_on",
            EdgeType::ReadsState => "reads_state",
            EdgeType::UsesModule => "uses_module",
        }
    }
}

/// Points from the dependent to what it depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    pub from: NodeRef,
    pub to: NodeRef,
    #[serde(rename = "type")]
    pub kind: EdgeType,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<String, String>,
}

/// Code of the warning that a stack carries when its files could not be read whole: every resolution repeats it, whether
/// the stack is affected or not, because it may be affected in a way that nobody sees.
pub const STACK_INCOMPLETE: &str = "stack_incomplete";

/// Code of the warning about a directory that is no stack as far as its files could be read, which is not much: it must
/// not look like one that is gone.
pub const STACK_UNREAD: &str = "stack_unread";

/// Something a person should know about the scan or the resolution; never fatal.
/// In text one line, `file:line: message`; in JSON an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Warning {
    /// Stable, for filters: `backend_not_literal`, `module_unsupported`, …
    pub code: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stack: String,
    pub message: String,
}

impl Warning {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), ..Self::default() }
    }

    pub fn at(mut self, file: &str, line: u32) -> Self {
        self.file = file.to_owned();
        self.line = Some(line);
        self
    }

    pub fn in_file(mut self, file: &str) -> Self {
        self.file = file.to_owned();
        self
    }

    pub fn of_stack(mut self, key: &str) -> Self {
        self.stack = key.to_owned();
        self
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.file.as_str(), self.line) {
            ("", _) => {}
            (file, None) => write!(f, "{file}: ")?,
            (file, Some(line)) => write!(f, "{file}:{line}: ")?,
        }
        f.write_str(&self.message)
    }
}

/// Older runners send warnings as plain text.
impl<'de> Deserialize<'de> for Warning {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Full {
            #[serde(default)]
            code: String,
            #[serde(default)]
            file: String,
            #[serde(default)]
            line: Option<u32>,
            #[serde(default)]
            stack: String,
            #[serde(default)]
            message: String,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Full(Full),
        }
        Ok(match Either::deserialize(d)? {
            Either::Text(message) => Warning::new("", message),
            Either::Full(Full { code, file, line, stack, message }) => Warning { code, file, line, stack, message },
        })
    }
}
