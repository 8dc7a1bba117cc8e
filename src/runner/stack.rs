//! Which stack `--stack` names, and its settings (spec 12 §4).

use super::ScannedTree;
use super::stop::Stop;
use crate::config::effective::{Effective, Instance, effective, instances};
use crate::config::model::StackConfig;
use crate::config::parse::parse_stack_config;
use crate::config::stack_file;
use crate::graph::model::Backend;
use crate::ids::StackKey;
use crate::scan::files::{Files, Tree};

/// A stack that a job works on.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenStack {
    pub key: StackKey,
    pub settings: Effective,
    /// Where the scan found its state to live.
    pub backend: Option<Backend>,
}

/// Finds a stack by its key. A suffix that names no instance is a Terraform workspace, where there are no instances.
pub fn choose(checkout: &ScannedTree, argument: &str) -> Result<ChosenStack, Stop> {
    let asked = StackKey::parse(argument).map_err(|error| Stop::failed(format!("--stack: {error}")))?;
    let path = asked.path();
    let tree = Tree::new(checkout.tree.list());
    if !tree.is_directory(path) {
        return Err(Stop::failed(format!("--stack {asked}: the checkout has no directory {path:?}")));
    }
    let files: Vec<String> = tree.below(path).map(str::to_owned).collect();
    let config = &checkout.scanned.config;
    let stack_config = stack_config(checkout, &tree, path)?;
    let found = instances(config, stack_config.as_ref(), path, &files)?.instances;

    let chosen = match pick(&asked, &found, stack_config.as_ref())? {
        Pick::Instance(instance) => Chosen { instance, workspace: None },
        Pick::Workspace(name) => {
            Chosen { instance: Instance { name: name.clone(), var_file: None }, workspace: Some(name) }
        }
    };
    let mut settings = effective(config, stack_config.as_ref(), path, &chosen.instance)?;
    if let Some(workspace) = chosen.workspace {
        settings.workspace = workspace;
    }
    let key =
        StackKey::of(path, &chosen.instance.name).map_err(|error| Stop::failed(format!("--stack {asked}: {error}")))?;
    let node = checkout.scanned.graph.stacks.iter().find(|stack| !stack.external && stack.key == key.as_str());
    Ok(ChosenStack { settings, backend: node.and_then(|stack| stack.backend.clone()), key })
}

struct Chosen {
    instance: Instance,
    /// Instead of the configured one.
    workspace: Option<String>,
}

enum Pick {
    Instance(Instance),
    /// A workspace that nobody configured.
    Workspace(String),
}

fn pick(asked: &StackKey, found: &[Instance], config: Option<&StackConfig>) -> Result<Pick, Stop> {
    if let Some(named) = found.iter().find(|instance| instance.name == asked.instance()) {
        return Ok(Pick::Instance(named.clone()));
    }
    // One instance that neither a list nor a var file declares comes from the configured workspace, or is the unnamed.
    let declared = config.is_some_and(|config| !config.instances.is_empty());
    let only = match found {
        [only] if !declared && only.var_file.is_none() => Some(only),
        _ => None,
    };
    match (only, asked.instance()) {
        (Some(only), "") => Ok(Pick::Instance(only.clone())),
        (Some(_), workspace) => Ok(Pick::Workspace(workspace.to_owned())),
        (None, asked_for) => {
            let names: Vec<String> =
                found.iter().map(|instance| format!("{}:{}", asked.path(), instance.name)).collect();
            let problem = if asked_for.is_empty() { "has instances" } else { "has no such instance" };
            Err(Stop::failed(format!("--stack {asked} {problem}; name one of {}", names.join(", "))))
        }
    }
}

fn stack_config(checkout: &ScannedTree, tree: &Tree, path: &str) -> Result<Option<StackConfig>, Stop> {
    let file = stack_file(path);
    if tree.kind(&file).is_none() {
        return Ok(None);
    }
    let bytes = checkout.tree.read(&file).map_err(|reason| Stop::failed(format!("{file}: {reason}")))?;
    Ok(Some(parse_stack_config(&file, &bytes)?))
}
