//! The keys of `stackorder.yaml` (spec 10 §2).

use std::collections::BTreeMap;

use super::settings::set;
use crate::config::environments::EnvironmentKey;
use crate::config::model::{
    ApplyConfig, ApplyMode, ChecksConfig, CrossRepo, DriftConfig, InstancesFrom, ModulesConfig, OnConflict,
    PropagateConfig, RepoConfig, RequireUpToDate, StacksConfig,
};
use crate::config::problem::{key_path, quoted};
use crate::config::strict::{At, Mapping, Reader};
use crate::config::yaml::Value;
use crate::config::{cron, entries};
use crate::ids::normalise_path;

pub(super) const TOP: [&str; 15] = [
    "version",
    "tool",
    "tool_version",
    "environments",
    "backend_config",
    "var_files",
    "env",
    "plan_output",
    "stacks",
    "modules",
    "apply",
    "propagate",
    "drift",
    "checks",
    "plan_lock",
];
pub(super) const STACKS: [&str; 7] =
    ["discover", "include", "exclude", "ignore", "ignore_lockfile", "instances", "plan_files"];
pub(super) const APPLY: [&str; 11] = [
    "mode",
    "require_approvals",
    "require_codeowner_review",
    "allowed_teams",
    "four_eyes",
    "from_plan",
    "max_parallel",
    "on_conflict",
    "require_complete",
    "require_up_to_date",
    "required_checks",
];

pub(super) const INSTANCES_FROM: [&str; 1] = ["from_var_files"];
pub(super) const MODULES: [&str; 1] = ["paths"];
pub(super) const PROPAGATE: [&str; 2] = ["dependents", "cross_repo"];
pub(super) const DRIFT: [&str; 2] = ["schedule", "open_issue"];
pub(super) const CHECKS: [&str; 1] = ["per_stack_max"];

impl Reader<'_> {
    pub(super) fn repo_config(&mut self, at: &At<'_>) -> RepoConfig {
        let mut config = RepoConfig::default();
        let Some(top) = self.mapping(at, &TOP) else { return config };
        if let Some(at) = top.take("version") {
            match self.integer(&at) {
                Some(1) | None => {}
                Some(other) => {
                    self.report(at.node.line, &at.path, format!("{}: only 1 is supported", quoted(&other.to_string())))
                }
            }
        }
        set(&mut config.tool, self.tool(&top));
        set(&mut config.tool_version, self.plain_text(&top, "tool_version"));
        set(&mut config.environments, self.environments(&top));
        set(&mut config.backend_config, self.backend_config(&top));
        set(&mut config.var_files, self.var_files(&top));
        set(&mut config.env, self.env(&top));
        set(&mut config.plan_output, self.plan_output(&top));
        set(&mut config.plan_lock, self.switch(&top, "plan_lock"));
        set(&mut config.stacks, top.take("stacks").and_then(|at| self.stacks(&at)));
        set(&mut config.modules, top.take("modules").and_then(|at| self.modules(&at)));
        set(&mut config.apply, top.take("apply").and_then(|at| self.apply(&at)));
        set(&mut config.propagate, top.take("propagate").and_then(|at| self.propagate(&at)));
        set(&mut config.drift, top.take("drift").and_then(|at| self.drift(&at)));
        set(&mut config.checks, top.take("checks").and_then(|at| self.checks(&at)));
        config
    }

    fn switch(&mut self, mapping: &Mapping<'_>, key: &str) -> Option<bool> {
        self.boolean(&mapping.take(key)?)
    }

    fn stacks(&mut self, at: &At<'_>) -> Option<StacksConfig> {
        let mapping = self.mapping(at, &STACKS)?;
        let mut stacks = StacksConfig::default();
        let discover = self.checked_list(&mapping, "discover", entries::repository_glob);
        set(&mut stacks.discover, discover.filter(|globs| !globs.is_empty()));
        let include = self.checked_list(&mapping, "include", entries::repository_path);
        set(&mut stacks.include, include.map(|paths| paths.iter().map(|path| normalise_path(path.trim())).collect()));
        set(&mut stacks.exclude, self.checked_list(&mapping, "exclude", entries::repository_glob));
        set(&mut stacks.ignore, self.checked_list(&mapping, "ignore", entries::repository_base));
        set(&mut stacks.ignore_lockfile, self.switch(&mapping, "ignore_lockfile"));
        set(&mut stacks.plan_files, self.checked_list(&mapping, "plan_files", entries::plan_file));
        set(&mut stacks.instances, mapping.take("instances").and_then(|at| self.instances_from(&at)));
        Some(stacks)
    }

    fn instances_from(&mut self, at: &At<'_>) -> Option<InstancesFrom> {
        let mapping = self.mapping(at, &INSTANCES_FROM)?;
        let mut from = InstancesFrom::default();
        if let Some(text) = mapping.take("from_var_files").and_then(|at| self.text(&at))
            && !text.text.is_empty()
        {
            self.check(&text, entries::stack_glob(text.text));
            from.from_var_files = text.text.to_owned();
        }
        Some(from)
    }

    fn modules(&mut self, at: &At<'_>) -> Option<ModulesConfig> {
        let mapping = self.mapping(at, &MODULES)?;
        let mut modules = ModulesConfig::default();
        let paths = self.checked_list(&mapping, "paths", entries::repository_glob);
        set(&mut modules.paths, paths.filter(|globs| !globs.is_empty()));
        Some(modules)
    }

    fn apply(&mut self, at: &At<'_>) -> Option<ApplyConfig> {
        const MODES: [(&str, ApplyMode); 2] =
            [("before_merge", ApplyMode::BeforeMerge), ("on_merge", ApplyMode::OnMerge)];
        const ON_CONFLICT: [(&str, OnConflict); 2] = [("refuse", OnConflict::Refuse), ("queue", OnConflict::Queue)];
        const UP_TO_DATE: [(&str, RequireUpToDate); 2] =
            [("affected", RequireUpToDate::Affected), ("off", RequireUpToDate::Off)];

        let mapping = self.mapping(at, &APPLY)?;
        let mut apply = ApplyConfig::default();
        set(&mut apply.mode, mapping.take("mode").and_then(|at| self.choice(&at, &MODES)));
        set(&mut apply.require_approvals, mapping.take("require_approvals").and_then(|at| self.count(&at, 0)));
        set(&mut apply.require_codeowner_review, self.switch(&mapping, "require_codeowner_review"));
        set(&mut apply.allowed_teams, self.checked_list(&mapping, "allowed_teams", entries::team));
        set(&mut apply.four_eyes, self.switch(&mapping, "four_eyes"));
        set(&mut apply.from_plan, self.switch(&mapping, "from_plan"));
        set(&mut apply.max_parallel, mapping.take("max_parallel").and_then(|at| self.count(&at, 1)));
        apply.on_conflict = mapping.take("on_conflict").and_then(|at| self.choice(&at, &ON_CONFLICT));
        set(&mut apply.require_complete, self.switch(&mapping, "require_complete"));
        let up_to_date = mapping.take("require_up_to_date").and_then(|at| self.choice(&at, &UP_TO_DATE));
        set(&mut apply.require_up_to_date, up_to_date);
        set(&mut apply.required_checks, self.checked_list(&mapping, "required_checks", entries::check_name));
        Some(apply)
    }

    fn propagate(&mut self, at: &At<'_>) -> Option<PropagateConfig> {
        const CROSS_REPO: [(&str, CrossRepo); 2] = [("off", CrossRepo::Off), ("plan", CrossRepo::Plan)];
        let mapping = self.mapping(at, &PROPAGATE)?;
        let mut propagate = PropagateConfig::default();
        set(&mut propagate.dependents, self.switch(&mapping, "dependents"));
        set(&mut propagate.cross_repo, mapping.take("cross_repo").and_then(|at| self.choice(&at, &CROSS_REPO)));
        Some(propagate)
    }

    fn drift(&mut self, at: &At<'_>) -> Option<DriftConfig> {
        let mapping = self.mapping(at, &DRIFT)?;
        let mut drift = DriftConfig::default();
        if let Some(text) = mapping.take("schedule").and_then(|at| self.text(&at))
            && !text.text.trim().is_empty()
        {
            self.check(&text, cron::check(text.text));
            drift.schedule = text.text.trim().to_owned();
        }
        set(&mut drift.open_issue, self.switch(&mapping, "open_issue"));
        Some(drift)
    }

    fn checks(&mut self, at: &At<'_>) -> Option<ChecksConfig> {
        let mapping = self.mapping(at, &CHECKS)?;
        let mut checks = ChecksConfig::default();
        set(&mut checks.per_stack_max, mapping.take("per_stack_max").and_then(|at| self.count(&at, 0)));
        Some(checks)
    }

    fn environments(&mut self, top: &Mapping<'_>) -> Option<BTreeMap<String, String>> {
        let at = top.take("environments")?;
        let mut environments = BTreeMap::new();
        let mut written: BTreeMap<EnvironmentKey, &str> = BTreeMap::new();
        for entry in self.entries(&at)? {
            let path = key_path(&at.path, &entry.key);
            match EnvironmentKey::parse(&entry.key) {
                Err(broken) => self.report(entry.line, &path, format!("{}: {broken}", quoted(&entry.key))),
                Ok(key) => {
                    if let Some(first) = written.insert(key, &entry.key) {
                        let (first, second) = (quoted(first), quoted(&entry.key));
                        self.report(
                            entry.line,
                            &at.path,
                            format!("{first} and {second} have the same prefix and instance"),
                        );
                    }
                }
            }
            if entry.value.value == Value::Null {
                continue;
            }
            let Some(name) = self.text(&At { node: &entry.value, path }) else { continue };
            if name.text.trim().is_empty() {
                self.report(name.line, &name.path, "empty environment name");
            }
            self.trial(&name);
            environments.insert(entry.key.clone(), name.text.to_owned());
        }
        Some(environments)
    }
}
