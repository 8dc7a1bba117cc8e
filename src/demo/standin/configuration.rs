//! Reading the sample's `.tf` files; whatever is not `terraform_data` and its like is refused by name.

use std::collections::BTreeMap;

use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Body, Structure};

/// Modules inside modules; the sample has two levels.
const MODULE_DEPTH_MAX: usize = 8;

/// Directory (relative to the stack, `.` for itself) to its files: name and text.
pub(super) type Sources = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Default)]
pub(super) struct Module {
    pub(super) variables: BTreeMap<String, Variable>,
    pub(super) locals: BTreeMap<String, Expression>,
    pub(super) resources: BTreeMap<String, Resource>,
    pub(super) remote_states: BTreeMap<String, RemoteState>,
    pub(super) calls: BTreeMap<String, Call>,
    pub(super) outputs: BTreeMap<String, Output>,
    pub(super) backend: Option<BTreeMap<String, Expression>>,
}

#[derive(Default)]
pub(super) struct Variable {
    pub(super) default: Option<Expression>,
    pub(super) kind: Option<Expression>,
    pub(super) sensitive: bool,
}

pub(super) enum Repeat {
    Once,
    Count(Expression),
    ForEach(Expression),
}

pub(super) struct Resource {
    pub(super) repeat: Repeat,
    pub(super) input: Option<Expression>,
    pub(super) triggers_replace: Option<Expression>,
    pub(super) provisioners: Vec<LocalExec>,
}

pub(super) struct LocalExec {
    pub(super) command: Expression,
    pub(super) environment: Option<Expression>,
}

pub(super) struct RemoteState {
    pub(super) config: Expression,
    pub(super) workspace: Option<Expression>,
}

pub(super) struct Call {
    /// Directory of the module, relative to the stack.
    pub(super) directory: String,
    pub(super) arguments: BTreeMap<String, Expression>,
}

pub(super) struct Output {
    pub(super) value: Expression,
    pub(super) sensitive: bool,
}

/// The stack's module and every module it calls, by directory.
pub(super) type Modules = BTreeMap<String, Module>;

/// Reads the stack and the modules it calls; `read` gives the files of one directory.
pub(super) fn load(
    mut read: impl FnMut(&str) -> Result<BTreeMap<String, String>, String>,
) -> Result<(Modules, Sources), String> {
    let (mut modules, mut sources) = (Modules::new(), Sources::new());
    let mut waiting = vec![(".".to_owned(), 0)];
    while let Some((directory, depth)) = waiting.pop() {
        if modules.contains_key(&directory) {
            continue;
        }
        if depth > MODULE_DEPTH_MAX {
            return Err(format!("modules are called more than {MODULE_DEPTH_MAX} levels deep, at {directory}"));
        }
        let files = read(&directory)?;
        let mut module = Module::default();
        for (name, text) in &files {
            let at = |error: String| format!("{directory}/{name}: {error}");
            let body: Body = text.parse().map_err(|error: hcl_edit::parser::Error| at(error.to_string()))?;
            for structure in body.iter() {
                read_structure(&mut module, &directory, structure).map_err(at)?;
            }
        }
        waiting.extend(module.calls.values().map(|call| (call.directory.clone(), depth + 1)));
        modules.insert(directory.clone(), module);
        sources.insert(directory, files);
    }
    Ok((modules, sources))
}

fn read_structure(module: &mut Module, directory: &str, structure: &Structure) -> Result<(), String> {
    let Structure::Block(block) = structure else {
        return Err("an argument stands outside of any block".to_owned());
    };
    let labels: Vec<&str> = block.labels.iter().map(hcl_edit::structure::BlockLabel::as_str).collect();
    match (block.ident.as_str(), labels.as_slice()) {
        ("terraform", []) => read_terraform(module, &block.body),
        ("variable", [name]) => {
            let [default, kind, sensitive] =
                attributes(block, ["default", "type", "sensitive"], &["description", "nullable"])?;
            let sensitive = is_true(sensitive.as_ref());
            module.variables.insert((*name).to_owned(), Variable { default, kind, sensitive });
            Ok(())
        }
        ("locals", []) => {
            for attribute in block.body.attributes() {
                module.locals.insert(attribute.key.as_str().to_owned(), attribute.value.clone());
            }
            Ok(())
        }
        ("resource", ["terraform_data", name]) => {
            module.resources.insert((*name).to_owned(), read_resource(block)?);
            Ok(())
        }
        ("data", ["terraform_remote_state", name]) => {
            let [backend, config, workspace] = attributes(block, ["backend", "config", "workspace"], &[])?;
            if backend.as_ref().and_then(Expression::as_str) != Some("s3") {
                return Err(format!("terraform_remote_state {name}: only the backend s3 is played here"));
            }
            let config = config.ok_or_else(|| format!("terraform_remote_state {name} has no config"))?;
            module.remote_states.insert((*name).to_owned(), RemoteState { config, workspace });
            Ok(())
        }
        ("module", [name]) => {
            let mut arguments: BTreeMap<String, Expression> =
                block.body.attributes().map(|it| (it.key.as_str().to_owned(), it.value.clone())).collect();
            let source = arguments.remove("source");
            let source = source.as_ref().and_then(Expression::as_str).unwrap_or_default();
            if !source.starts_with("./") && !source.starts_with("../") {
                return Err(format!("module {name}: only local modules are played here, not {source:?}"));
            }
            for refused in ["count", "for_each", "providers", "depends_on", "version"] {
                if arguments.contains_key(refused) {
                    return Err(format!("module {name}: {refused} is not played here"));
                }
            }
            module.calls.insert((*name).to_owned(), Call { directory: join(directory, source), arguments });
            Ok(())
        }
        ("output", [name]) => {
            let [value, sensitive] = attributes(block, ["value", "sensitive"], &["description"])?;
            let value = value.ok_or_else(|| format!("output {name} has no value"))?;
            module.outputs.insert((*name).to_owned(), Output { value, sensitive: is_true(sensitive.as_ref()) });
            Ok(())
        }
        (kind, labels) => Err(format!("{kind} {} is not played here", labels.join(" "))),
    }
}

fn read_terraform(module: &mut Module, body: &Body) -> Result<(), String> {
    for structure in body.iter() {
        match structure {
            Structure::Block(block) if block.ident.as_str() == "backend" => {
                if block.labels.first().map(hcl_edit::structure::BlockLabel::as_str) != Some("s3") {
                    return Err("only the backend s3 is played here".to_owned());
                }
                let entries = block.body.attributes().map(|it| (it.key.as_str().to_owned(), it.value.clone()));
                module.backend = Some(entries.collect());
            }
            Structure::Block(block) => return Err(format!("terraform: {} is not played here", block.ident.as_str())),
            Structure::Attribute(it) if it.key.as_str() == "required_version" => {}
            Structure::Attribute(it) => return Err(format!("terraform: {} is not played here", it.key.as_str())),
        }
    }
    Ok(())
}

fn read_resource(block: &Block) -> Result<Resource, String> {
    let mut provisioners = Vec::new();
    let mut plain = block.clone();
    plain.body.remove_blocks("provisioner");
    for provisioner in block.body.get_blocks("provisioner") {
        if provisioner.labels.first().map(hcl_edit::structure::BlockLabel::as_str) != Some("local-exec") {
            return Err("only the provisioner local-exec is played here".to_owned());
        }
        let [command, environment] = attributes(provisioner, ["command", "environment"], &[])?;
        let command = command.ok_or("a provisioner has no command")?;
        provisioners.push(LocalExec { command, environment });
    }
    let [input, triggers_replace, count, for_each] =
        attributes(&plain, ["input", "triggers_replace", "count", "for_each"], &[])?;
    let repeat = match (count, for_each) {
        (None, None) => Repeat::Once,
        (Some(count), None) => Repeat::Count(count),
        (None, Some(for_each)) => Repeat::ForEach(for_each),
        (Some(_), Some(_)) => return Err("a resource has both count and for_each".to_owned()),
    };
    Ok(Resource { repeat, input, triggers_replace, provisioners })
}

/// The named arguments of a block; any other argument or block is refused.
fn attributes<const N: usize>(
    block: &Block,
    names: [&str; N],
    ignored: &[&str],
) -> Result<[Option<Expression>; N], String> {
    let mut found = [const { None }; N];
    for structure in block.body.iter() {
        let name = match structure {
            Structure::Attribute(attribute) => attribute.key.as_str(),
            Structure::Block(inner) => {
                return Err(format!("{} in {} is not played here", inner.ident.as_str(), block.ident.as_str()));
            }
        };
        match (names.iter().position(|it| *it == name), structure) {
            (Some(at), Structure::Attribute(attribute)) => found[at] = Some(attribute.value.clone()),
            _ if ignored.contains(&name) => {}
            _ => return Err(format!("{name} in {} is not played here", block.ident.as_str())),
        }
    }
    Ok(found)
}

fn is_true(expression: Option<&Expression>) -> bool {
    expression.and_then(Expression::as_bool).unwrap_or(false)
}

/// Joins two relative directories and cleans the result: `../a` + `../b` is `../b`.
pub(super) fn join(directory: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in directory.split('/').chain(relative.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}
