//! What changed besides files (spec 11 §9): settings of stacks, and stacks that are gone.
//! Whoever has git works these out, because only they see both sides.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Edge, Graph, STACK_UNREAD, Stack};
use super::resolution::RemovedStack;
use crate::config::effective::{Effective, Instance, effective};
use crate::config::model::RepoConfig;
use crate::scan::directory::is_terraform_file;
use crate::scan::files::parent;

/// Keys of stacks whose effective settings differ between the root files of merge base and head, sorted.
/// Settings that cannot be worked out on one side count as different.
pub fn changed_settings(graph: &Graph, base: &RepoConfig, head: &RepoConfig) -> Vec<String> {
    if base == head {
        return Vec::new();
    }
    let differs = |stack: &&Stack| {
        let instance = Instance { name: stack.instance.clone(), var_file: None };
        let of = |config| effective(config, stack.config.as_ref(), &stack.path, &instance).ok().map(Told::of);
        // Which file a changed glob picks for an instance is not in the graph, so it counts as another file.
        let picked = |config: &RepoConfig| config.stacks.instances.from_var_files.clone();
        let other_file = !stack.instance.is_empty() && picked(base) != picked(head);
        let (before, after) = (of(base), of(head));
        other_file || before.is_none() || before != after
    };
    let stacks = graph.stacks.iter().filter(|stack| !stack.external).filter(differs);
    let keys: BTreeSet<String> = stacks.map(|stack| stack.key.clone()).collect();
    keys.into_iter().collect()
}

/// The settings that reach the tool.
#[derive(PartialEq)]
struct Told {
    backend_config: Vec<String>,
    var_files: Vec<String>,
    env: BTreeMap<String, crate::config::model::EnvValue>,
    tool: crate::config::model::Tool,
    tool_version: String,
}

impl Told {
    fn of(settings: Effective) -> Self {
        let Effective { backend_config, var_files, env, tool, tool_version, .. } = settings;
        Self { backend_config, var_files, env, tool, tool_version }
    }
}

/// Stacks of the merge base that the head lacks, sorted by key, for the directories in which a Terraform file was
/// deleted or renamed away, and for instances that are gone while their directory stays.
/// `deleted` are the old paths; `renames` what git paired, old path to new.
pub fn removed_stacks(
    base: &Graph,
    head: &Graph,
    deleted: &[String],
    renames: &[(String, String)],
) -> Vec<RemovedStack> {
    let left = |graph: &Graph| -> BTreeSet<String> {
        graph.stacks.iter().filter(|stack| !stack.external).map(|stack| stack.key.clone()).collect()
    };
    let head_keys = left(head);
    let own = head.stacks.iter().filter(|stack| !stack.external);
    let head_paths: BTreeSet<&str> = own.map(|stack| stack.path.as_str()).collect();
    let emptied: BTreeSet<&str> = deleted
        .iter()
        .chain(renames.iter().map(|(from, _)| from))
        .filter(|path| is_terraform_file(path))
        .map(|path| parent(path))
        .collect();
    // A stack whose files the head only has where nobody can read them is still there.
    let unread: BTreeSet<&str> =
        head.warnings.iter().filter(|it| it.code == STACK_UNREAD).map(|it| parent(&it.file)).collect();
    let gone = base.stacks.iter().filter(|stack| {
        let path = stack.path.as_str();
        let is_left = stack.external || head_keys.contains(&stack.key) || unread.contains(path);
        !is_left && (head_paths.contains(path) || emptied.contains(path))
    });
    let mut removed: Vec<RemovedStack> = gone
        .map(|stack| RemovedStack {
            key: stack.key.clone(),
            path: stack.path.clone(),
            state: state_of(stack),
            renamed_to: renamed_to(stack, &head_keys, renames),
        })
        .collect();
    removed.sort();
    removed
}

/// The edges of the base by which stacks that are still there came after removed ones, sorted.
pub fn cut_edges(base: &Graph, head: &Graph, removed: &[RemovedStack]) -> Vec<Edge> {
    let removed: BTreeSet<&str> = removed.iter().map(|stack| stack.key.as_str()).collect();
    let left: BTreeSet<&str> =
        head.stacks.iter().filter(|stack| !stack.external).map(|stack| stack.key.as_str()).collect();
    let is_cut = |edge: &&Edge| {
        edge.kind.orders() && removed.contains(edge.to.key.as_str()) && left.contains(edge.from.key.as_str())
    };
    let mut cut: Vec<Edge> = base.edges.iter().filter(is_cut).cloned().collect();
    cut.sort_by(|a, b| (&a.from, a.kind, &a.to).cmp(&(&b.from, b.kind, &b.to)));
    cut
}

/// `s3://bucket/key`, where both are known.
pub fn state_of(stack: &Stack) -> String {
    match &stack.backend {
        Some(backend) if !backend.bucket.is_empty() && !backend.key.is_empty() => {
            format!("s3://{}/{}", backend.bucket, backend.object_key(&stack.workspace))
        }
        Some(_) | None => String::new(),
    }
}

/// The stack of the same instance in the one directory that most Terraform files went to.
fn renamed_to(stack: &Stack, head_keys: &BTreeSet<String>, renames: &[(String, String)]) -> String {
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, to) in renames.iter().filter(|(from, _)| is_terraform_file(from) && parent(from) == stack.path) {
        *votes.entry(parent(to)).or_default() += 1;
    }
    let most = votes.values().copied().max().unwrap_or_default();
    let mut winners = votes.iter().filter(|(_, count)| **count == most);
    let (Some((directory, _)), None) = (winners.next(), winners.next()) else { return String::new() };
    let same_instance = match stack.instance.as_str() {
        "" => (*directory).to_owned(),
        instance => format!("{directory}:{instance}"),
    };
    if head_keys.contains(&same_instance) && same_instance != stack.key { same_instance } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::parse_repo_config;
    use crate::scan::tests::sample::sample;
    use crate::scan::{EntryKind, MemoryFiles, ScanOptions, scan};

    fn graph(files: &MemoryFiles) -> Graph {
        scan(files, &ScanOptions::new("acme/infra", "")).expect("the checkout is valid").graph
    }

    fn config(text: &str) -> RepoConfig {
        parse_repo_config("stackorder.yaml", text.as_bytes()).expect("the file is valid")
    }

    fn paths(list: &[&str]) -> Vec<String> {
        list.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn only_stacks_whose_own_settings_differ_are_changed() {
        let graph = graph(&sample());
        let base = config("version: 1");
        let changed = |head: &str| changed_settings(&graph, &base, &config(head));
        assert_eq!(changed("version: 1 # a comment\nenvironments: { stacks/: x }"), Vec::<String>::new());
        assert_eq!(changed("version: 1\ntool: tofu").len(), 9);
        let legacy = r#"env: { TF_VAR_x: '{{ if eq .Name "dns" }}new{{ end }}' }"#;
        let all = changed(legacy);
        assert_eq!(all.len(), 9, "a variable that is now set, even to nothing, is a change for every stack");
        let before = config("env: { TF_VAR_x: '' }");
        assert_eq!(changed_settings(&graph, &before, &config(legacy)), ["stacks/legacy/dns"]);
    }

    #[test]
    fn deleted_directories_and_instances_are_removed_with_their_state() {
        let before = graph(&sample());
        let mut files = sample();
        files.remove("stacks/prod/eks/main.tf");
        files.remove("infra/kyc/workspaces/staging.tfvars.json");
        let deleted = paths(&["stacks/prod/eks/main.tf", "infra/kyc/workspaces/staging.tfvars.json"]);
        let removed = removed_stacks(&before, &graph(&files), &deleted, &[]);
        let rows: Vec<(&str, &str)> = removed.iter().map(|stack| (stack.key.as_str(), stack.state.as_str())).collect();
        assert_eq!(
            rows,
            [
                ("infra/kyc:staging", "s3://stackorder-example-state/kyc/staging.tfstate"),
                ("stacks/prod/eks", "s3://stackorder-example-state/prod/eks.tfstate"),
            ]
        );
        // A stack that only the configuration no longer finds was not deleted.
        assert_eq!(removed_stacks(&before, &graph(&files), &[], &[]).len(), 1);
        // Nor does another repository's directory of the same name stay here.
        let mut head = graph(&files);
        let elsewhere = Stack {
            key: "acme/x//e".to_owned(),
            path: "stacks/prod/eks".to_owned(),
            external: true,
            ..Stack::default()
        };
        head.stacks.push(elsewhere);
        assert_eq!(removed_stacks(&before, &head, &[], &[]).len(), 1);
    }

    #[test]
    fn a_stack_that_nobody_can_read_any_more_is_not_removed() {
        let before = graph(&sample());
        let mut files = sample();
        files.remove("stacks/prod/eks/main.tf");
        let reason = "permission denied".to_owned();
        let head = graph(&files.with_entry("stacks/prod/eks/main.tf", EntryKind::BadLink { reason }));
        assert_eq!(removed_stacks(&before, &head, &paths(&["stacks/prod/eks/main.tf"]), &[]), []);
    }

    /// atlantis#5511: both sides of a rename count.
    #[test]
    fn a_renamed_stack_points_to_its_new_place() {
        let before = graph(&sample());
        let mut files = sample();
        files.remove("stacks/legacy/dns/main.tf");
        let files = files.with("stacks/core/dns/main.tf", "terraform {\n  backend \"s3\" {}\n}\n");
        let renames = [("stacks/legacy/dns/main.tf".to_owned(), "stacks/core/dns/main.tf".to_owned())];
        let removed = removed_stacks(&before, &graph(&files), &[], &renames);
        assert_eq!(removed.len(), 1);
        assert_eq!((removed[0].key.as_str(), removed[0].renamed_to.as_str()), ("stacks/legacy/dns", "stacks/core/dns"));
    }
}
