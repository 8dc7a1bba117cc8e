//! Checkouts on disk for tests: written file by file, scanned as the command line scans them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use stackorder::graph::model::{EdgeType, Graph, NodeKind, NodeRef};
use stackorder::runner::checkout::WorkingTree;
use stackorder::runner::environment::Environment;
use stackorder::runner::git::Git;
use stackorder::scan::{ScanOptions, scan};
use tempfile::TempDir;

use crate::real_terraform::REPO;

pub struct Checkout {
    /// All links resolved.
    pub root: PathBuf,
    _place: TempDir,
}

impl Checkout {
    pub fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        Self { root: place.path().canonicalize().unwrap(), _place: place }
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.parent_made(path);
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// A symbolic link with this text.
    pub fn link(&self, path: &str, target: &str) {
        let path = self.parent_made(path);
        std::os::unix::fs::symlink(target, &path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    fn parent_made(&self, path: &str) -> PathBuf {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub fn graph(&self) -> Graph {
        let tree = WorkingTree::open(&self.root, &Git::new(&self.root, &Environment::of_process())).unwrap();
        scan(&tree, &ScanOptions::new(REPO, "")).unwrap_or_else(|errors| panic!("{errors:?}")).graph
    }
}

/// The keys of the modules that each directory calls, as pairs.
pub fn module_edges(graph: &Graph) -> BTreeSet<(String, String)> {
    let edges = graph.edges.iter().filter(|edge| edge.kind == EdgeType::UsesModule);
    edges.map(|edge| (directory(&edge.from).to_owned(), edge.to.key.clone())).collect()
}

/// The directory that a stack without instances or a local module stands for.
fn directory(node: &NodeRef) -> &str {
    match node.kind {
        NodeKind::Stack => &node.key,
        NodeKind::Module => node.key.strip_prefix(REPO).and_then(|key| key.strip_prefix("//")).unwrap_or(&node.key),
    }
}

/// The odd files of `tests/fixtures/scan`, by the name of their folder and their own.
pub fn fixtures() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scan");
    let mut found = Vec::new();
    for folder in sorted(&root).into_iter().filter(|path| path.is_dir()) {
        for path in sorted(&folder) {
            let text = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
            let content = std::fs::read(&path).unwrap();
            found.push(Fixture { folder: text(&folder), name: text(&path), content });
        }
    }
    found
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// One odd construct.
#[derive(Debug, Clone)]
pub struct Fixture {
    pub folder: String,
    pub name: String,
    pub content: Vec<u8>,
}

impl Fixture {
    /// The name without its endings: what the construct is called.
    pub fn construct(&self) -> &str {
        let name = self.name.trim_start_matches('.');
        name.split('.').next().unwrap_or(name)
    }
}

/// What the odd files expect around them: modules of every kind at two levels below the root.
pub fn furnish(checkout: &Checkout) {
    for module in ["before", "after", "here", "with blank", "größe", "100%25"] {
        checkout.write(&format!("modules/{module}/main.tf"), "");
    }
    checkout.write("modules/chain/main.tf", "module \"next\" {\n  source = \"../before\"\n}\n");
    checkout.write("modules/json/main.tf.json", r#"{"module": {"next": {"source": "../before"}}}"#);
    checkout.write("modules/ping/main.tf", "module \"pong\" {\n  source = \"../pong\"\n}\n");
    checkout.write("modules/pong/main.tf", "module \"ping\" {\n  source = \"../ping\"\n}\n");
    checkout.write("modules/bare/README.md", "no configuration");
    checkout.write("node_modules/m/main.tf", "");
    checkout.write("stacks/other/main.tf", "");
    checkout.link("modules/linked", "chain");
    checkout.link("linked", "modules");
}

/// What the odd files expect in their own directory, `before` in a file of its own.
pub fn furnish_directory(checkout: &Checkout, directory: &str) {
    checkout.write(&format!("{directory}/before.tf"), call("before"));
    checkout.write(&format!("{directory}/inner/main.tf"), "");
    checkout.write(&format!("{directory}/.hidden/main.tf"), "");
}

/// A call from two levels below the root.
pub fn call(module: &str) -> String {
    format!("module \"{module}\" {{\n  source = \"../../modules/{module}\"\n}}\n")
}
