//! The GitHub environment that a stack's applies run under (spec 10 §6).

use crate::config::effective::{Origin, Source, Sourced};
use crate::config::model::{RepoConfig, StackConfig};
use crate::config::problem::{Problem, key_path};
use crate::config::template::Fields;
use crate::config::{ROOT_FILE, entries, stack_file};
use crate::ids::normalise_path;

/// The name of an environment and whether a rule of the configuration chose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentChoice {
    /// Never empty.
    pub name: String,
    /// False when nothing but the instance's name, or no rule at all, decided.
    pub configured: bool,
}

/// What a configuration says about environments, ready to be asked for many stacks.
#[derive(Debug, Clone)]
pub struct EnvironmentRules<'c> {
    /// The keys of `environments` that can match anything, each with its name, unrendered.
    keys: Vec<(EnvironmentKey, &'c str, &'c str)>,
}

/// One look-up in [`EnvironmentRules`]; whoever asks for many stacks keeps the rules.
pub fn environment_of(
    root: &RepoConfig,
    stack: Option<&StackConfig>,
    path: &str,
    instance: &str,
) -> Result<EnvironmentChoice, Vec<Problem>> {
    EnvironmentRules::of(root).environment_of(stack, path, instance)
}

impl<'c> EnvironmentRules<'c> {
    pub fn of(root: &'c RepoConfig) -> Self {
        let parsed = |(key, name): (&'c String, &'c String)| {
            Some((EnvironmentKey::parse(key).ok()?, key.as_str(), name.as_str()))
        };
        Self { keys: root.environments.iter().filter_map(parsed).collect() }
    }

    /// The first rule that gives a name which is not empty once rendered.
    pub fn environment_of(
        &self,
        stack: Option<&StackConfig>,
        path: &str,
        instance: &str,
    ) -> Result<EnvironmentChoice, Vec<Problem>> {
        self.sourced_environment_of(stack, path, instance).map(|choice| choice.value)
    }

    /// The same with the rule that chose it.
    pub(super) fn sourced_environment_of(
        &self,
        stack: Option<&StackConfig>,
        path: &str,
        instance: &str,
    ) -> Result<Sourced<EnvironmentChoice>, Vec<Problem>> {
        let mut rules: Vec<(Source, &str)> = Vec::new();
        if let Some(stack) = stack {
            if let Some(chosen) = stack.instances.get(instance) {
                rules.push((Source::Stack(format!("instances.{instance}.environment")), &chosen.environment));
            }
            rules.push((Source::Stack("environment".to_owned()), &stack.environment));
        }
        if let Some((key, value)) = self.best_match(path, instance) {
            rules.push((Source::Root(key_path("environments", key)), value));
        }
        for (source, value) in rules.into_iter().filter(|(_, value)| !value.is_empty()) {
            let (fields, stack_file) = (Fields::of(path, instance), stack_file(path));
            let origin = match &source {
                Source::Stack(key) => Origin::new(&stack_file, key),
                Source::Root(key) => Origin::new(ROOT_FILE, key),
                Source::Default | Source::Instance => unreachable!("every rule stands in a file"),
            };
            let name = origin.render(value, &fields, environment_name).map_err(|problem| vec![problem])?;
            if !name.trim().is_empty() {
                return Ok(Sourced { value: EnvironmentChoice { name, configured: true }, source });
            }
        }
        let (name, source) =
            if instance.is_empty() { ("default", Source::Default) } else { (instance, Source::Instance) };
        Ok(Sourced { value: EnvironmentChoice { name: name.to_owned(), configured: false }, source })
    }

    /// An instance part beats every key without one; then the longest prefix wins.
    fn best_match(&self, path: &str, instance: &str) -> Option<(&'c str, &'c str)> {
        let matching = self.keys.iter().filter(|(parsed, ..)| parsed.matches(path, instance));
        let best = matching.max_by_key(|(parsed, ..)| (parsed.instance.is_some(), parsed.prefix.len()));
        best.map(|(_, key, name)| (*key, *name))
    }

    /// Keys of `environments` that match none of these stacks, each a path and an instance.
    pub fn unused(&self, stacks: &[(&str, &str)]) -> Vec<&'c str> {
        let is_unused = |parsed: &EnvironmentKey| !stacks.iter().any(|(path, instance)| parsed.matches(path, instance));
        self.keys.iter().filter(|(parsed, ..)| is_unused(parsed)).map(|(_, key, _)| *key).collect()
    }
}

/// GitHub takes at most 255 characters.
fn environment_name(name: &str) -> entries::Rule {
    entries::one_line(name)?;
    if name.chars().count() > 255 { Err("an environment name has at most 255 characters".to_owned()) } else { Ok(()) }
}

/// A parsed key of `environments`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EnvironmentKey {
    /// Normalised; empty only together with an instance.
    pub(super) prefix: String,
    pub(super) instance: Option<String>,
}

impl EnvironmentKey {
    pub(super) fn parse(key: &str) -> Result<Self, String> {
        let (prefix, instance) = match key.rsplit_once(':') {
            Some((prefix, instance)) => (prefix, Some(instance)),
            None => (key, None),
        };
        if prefix.contains(':') {
            return Err("the prefix contains \":\"".to_owned());
        }
        if let Some(instance) = instance {
            entries::instance_name(instance)?;
        }
        let prefix = normalise_path(prefix);
        if prefix.is_empty() && instance.is_none() {
            return Err("an empty prefix needs an instance part, such as \":prod\"".to_owned());
        }
        Ok(Self { prefix, instance: instance.map(str::to_owned) })
    }

    fn matches(&self, path: &str, instance: &str) -> bool {
        let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
        let under = self.prefix.is_empty() || path.strip_prefix(&self.prefix).is_some_and(below);
        under && self.instance.as_deref().is_none_or(|wanted| wanted == instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::{parse_repo_config, parse_stack_config};

    fn root(environments: &str) -> RepoConfig {
        parse_repo_config(ROOT_FILE, format!("environments: {{{environments}}}").as_bytes()).unwrap()
    }

    fn name(root: &RepoConfig, key: &str) -> String {
        let (path, instance) = crate::ids::split_key(key);
        environment_of(root, None, path, instance.unwrap_or("")).unwrap().name
    }

    #[test]
    fn the_most_specific_key_wins_as_the_table_says() {
        let map = root("live/: a, live/core/: b, ':eu': c");
        assert_eq!(name(&map, "live/core/x"), "b");
        assert_eq!(name(&map, "live/core/x:eu"), "c");
        let more = root("live/: a, live/core/: b, ':eu': c, 'live/core/:eu': d");
        assert_eq!(name(&more, "live/core/x:eu"), "d");
        assert_eq!(name(&more, "other/x:qa"), "qa");
        assert_eq!(name(&more, "other/x"), "default");
    }

    #[test]
    fn prefixes_match_by_whole_segments() {
        let map = root(r"'.\live\prod/': p");
        assert_eq!(name(&map, "live/prod"), "p");
        assert_eq!(name(&map, "live/prod/x"), "p");
        assert_eq!(name(&map, "live/production"), "default");
    }

    #[test]
    fn a_name_that_renders_to_nothing_falls_through() {
        let map = root("live/: '{{ .Instance }}-env'");
        let stack = parse_stack_config(
            "live/x/.stackorder.yaml",
            b"environment: 'own-{{ .Name }}'
instances: { prod: { environment: '{{ if eq .Name \"y\" }}special{{ end }}' }, qa: }
",
        )
        .unwrap();
        let of = |path: &str, stack: Option<&StackConfig>| environment_of(&map, stack, path, "prod").unwrap();
        assert_eq!(of("live/y", Some(&stack)).name, "special");
        assert_eq!(of("live/x", Some(&stack)).name, "own-x");
        assert_eq!(of("live/x", None), EnvironmentChoice { name: "prod-env".to_owned(), configured: true });
        assert_eq!(of("x", None), EnvironmentChoice { name: "prod".to_owned(), configured: false });
    }
}
