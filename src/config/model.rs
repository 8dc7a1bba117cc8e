//! Both configuration files as values with their defaults (spec 10 §2, §3; spec 20 §6 for the JSON form).
//!
//! `parse` makes these from YAML; in JSON (API, database) the same field names are used.
//! Every field holds its default when the file leaves it out, so two files that mean the same compare equal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    #[default]
    Terraform,
    Tofu,
}

impl Tool {
    pub fn as_str(self) -> &'static str {
        match self {
            Tool::Terraform => "terraform",
            Tool::Tofu => "tofu",
        }
    }
}

/// `summary` lets only counts and addresses leave the runner. Ordered: the stricter one is greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanOutput {
    #[default]
    Full,
    Summary,
}

impl PlanOutput {
    pub fn as_str(self) -> &'static str {
        match self {
            PlanOutput::Full => "full",
            PlanOutput::Summary => "summary",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyMode {
    #[default]
    BeforeMerge,
    OnMerge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    Refuse,
    Queue,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequireUpToDate {
    #[default]
    Affected,
    Off,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossRepo {
    #[default]
    Off,
    Plan,
}

/// A variable of `env`: one text for every mode, or one per mode (spec 10 §5.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EnvValue {
    Every(String),
    PerMode {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        apply: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drift: Option<String>,
    },
}

/// The root file, `stackorder.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepoConfig {
    pub version: i64,
    pub stacks: StacksConfig,
    pub modules: ModulesConfig,
    pub tool: Tool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool_version: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, String>,
    pub apply: ApplyConfig,
    pub plan_lock: bool,
    pub checks: ChecksConfig,
    pub propagate: PropagateConfig,
    pub drift: DriftConfig,
    pub plan_output: PlanOutput,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backend_config: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub var_files: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, EnvValue>,
}

impl Default for RepoConfig {
    fn default() -> Self {
        Self {
            version: 1,
            stacks: StacksConfig::default(),
            modules: ModulesConfig::default(),
            tool: Tool::default(),
            tool_version: String::new(),
            environments: BTreeMap::new(),
            apply: ApplyConfig::default(),
            plan_lock: false,
            checks: ChecksConfig::default(),
            propagate: PropagateConfig::default(),
            drift: DriftConfig::default(),
            plan_output: PlanOutput::default(),
            backend_config: Vec::new(),
            var_files: Vec::new(),
            env: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StacksConfig {
    pub discover: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    pub ignore: Vec<String>,
    pub ignore_lockfile: bool,
    pub instances: InstancesFrom,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plan_files: Vec<String>,
}

impl Default for StacksConfig {
    fn default() -> Self {
        Self {
            discover: vec!["stacks/**".to_owned()],
            include: Vec::new(),
            exclude: Vec::new(),
            ignore: vec!["**/*.md".to_owned(), "**/README*".to_owned()],
            ignore_lockfile: false,
            instances: InstancesFrom::default(),
            plan_files: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstancesFrom {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from_var_files: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModulesConfig {
    pub paths: Vec<String>,
}

impl Default for ModulesConfig {
    fn default() -> Self {
        Self { paths: vec!["modules/**".to_owned()] }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplyConfig {
    pub mode: ApplyMode,
    pub require_approvals: u32,
    pub require_codeowner_review: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_teams: Vec<String>,
    pub four_eyes: bool,
    pub from_plan: bool,
    pub max_parallel: u32,
    pub require_up_to_date: RequireUpToDate,
    pub require_complete: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_checks: Vec<String>,
    /// Absent means `refuse` in `before_merge` and `queue` in `on_merge`; see [`ApplyConfig::on_conflict`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<OnConflict>,
}

impl Default for ApplyConfig {
    fn default() -> Self {
        Self {
            mode: ApplyMode::BeforeMerge,
            require_approvals: 0,
            require_codeowner_review: false,
            allowed_teams: Vec::new(),
            four_eyes: false,
            from_plan: true,
            max_parallel: 20,
            require_up_to_date: RequireUpToDate::Affected,
            require_complete: true,
            required_checks: Vec::new(),
            on_conflict: None,
        }
    }
}

impl ApplyConfig {
    pub fn on_conflict(&self) -> OnConflict {
        self.on_conflict.unwrap_or(match self.mode {
            ApplyMode::BeforeMerge => OnConflict::Refuse,
            ApplyMode::OnMerge => OnConflict::Queue,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChecksConfig {
    pub per_stack_max: u32,
}

impl Default for ChecksConfig {
    fn default() -> Self {
        Self { per_stack_max: 20 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PropagateConfig {
    pub dependents: bool,
    pub cross_repo: CrossRepo,
}

impl Default for PropagateConfig {
    fn default() -> Self {
        Self { dependents: true, cross_repo: CrossRepo::Off }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriftConfig {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub schedule: String,
    pub open_issue: bool,
}

/// The stack file, `.stackorder.yaml`. Everything is optional; templates are not rendered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackConfig {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore_inferred: Vec<String>,
    /// Globs from the stack directory, of files whose changes count although no scan can see that they are read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
    /// The complete set of instances, when there is one (a list of names is read as a map without overrides).
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "names_or_map")]
    pub instances: BTreeMap<String, InstanceConfig>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backend_config: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub var_files: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, EnvValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Tool>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub environment: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_output: Option<PlanOutput>,
    #[serde(skip_serializing_if = "StackApply::is_empty")]
    pub apply: StackApply,
}

/// The only key of `apply` that a stack or an instance may set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackApply {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_teams: Vec<String>,
}

impl StackApply {
    pub fn is_empty(&self) -> bool {
        self.allowed_teams.is_empty()
    }
}

/// What one instance overrides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstanceConfig {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub environment: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backend_config: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub var_files: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, EnvValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_output: Option<PlanOutput>,
    #[serde(skip_serializing_if = "StackApply::is_empty")]
    pub apply: StackApply,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore_inferred: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
}

fn names_or_map<'de, D: serde::Deserializer<'de>>(d: D) -> Result<BTreeMap<String, InstanceConfig>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Names(Vec<String>),
        Map(BTreeMap<String, Option<InstanceConfig>>),
    }
    Ok(match Either::deserialize(d)? {
        Either::Names(names) => names.into_iter().map(|name| (name, InstanceConfig::default())).collect(),
        Either::Map(map) => map.into_iter().map(|(name, over)| (name, over.unwrap_or_default())).collect(),
    })
}
