//! Graphs written in one line.

use crate::graph::model::{Edge, EdgeType, Graph, Module, ModuleKind, NodeRef, Stack};

/// `a <- b` (b depends on a), `a <= b` (b reads the state of a), `m/x < b` (b uses the module x), or a lone key;
/// separated by commas. Keys are their own paths.
pub fn graph(text: &str) -> Graph {
    let mut graph = Graph { repo: "acme/infra".to_owned(), ..Graph::default() };
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let cut = [(" <- ", EdgeType::DependsOn), (" <= ", EdgeType::ReadsState), (" < ", EdgeType::UsesModule)]
            .into_iter()
            .find_map(|(arrow, kind)| part.split_once(arrow).map(|(to, from)| (to, from, kind)));
        match cut {
            None => add(&mut graph, part),
            Some((to, from, kind)) => {
                add(&mut graph, to);
                add(&mut graph, from);
                graph.edges.push(Edge {
                    from: node(from),
                    to: node(to),
                    kind,
                    inferred: kind == EdgeType::ReadsState,
                    meta: [].into(),
                });
            }
        }
    }
    graph.sort();
    graph
}

fn node(name: &str) -> NodeRef {
    match name.strip_prefix("m/") {
        Some(_) => NodeRef::module(module_key(name)),
        None => NodeRef::stack(name),
    }
}

fn module_key(name: &str) -> String {
    format!("acme/infra//{name}")
}

fn add(graph: &mut Graph, name: &str) {
    if name.starts_with("m/") {
        let key = module_key(name);
        if graph.modules.iter().all(|module| module.key != key) {
            let (path, source) = (name.to_owned(), format!("./{name}"));
            graph.modules.push(Module { key, kind: ModuleKind::Local, path, source, reference: String::new() });
        }
    } else if graph.stacks.iter().all(|stack| stack.key != name) {
        let (path, instance) = crate::ids::split_key(name);
        graph.stacks.push(Stack {
            key: name.to_owned(),
            path: path.to_owned(),
            instance: instance.unwrap_or_default().to_owned(),
            ..Stack::default()
        });
    }
}
