//! The odd files of `tests/fixtures/scan`, each in a stack of its own, read by Terraform and by the scan.
//!
//! Whether a file is right is Terraform's to say: where it accepts one, its module calls and ours are the same and nothing is
//! warned about; where it refuses one, a warning names the file and the line, and the files beside it still count.

use std::collections::{BTreeMap, BTreeSet};

use stackorder::graph::model::Graph;

use crate::checkout::{Checkout, Fixture, call, fixtures, furnish, furnish_directory, module_edges};
use crate::machine;
use crate::real_terraform::{Init, REPO, Refusal, Terraform};

mod differences;

pub use differences::ENDLESS;
use differences::{AT_THE_CALL, NOT_REPORTED, OTHERWISE, UNPLACED};

/// Folder of what only a root module may hold, or what has to be alone for another reason.
pub const ALONE: &str = "alone";
const FIXTURES_MIN: usize = 150;
const THREADS: usize = 2;

#[test]
fn every_odd_file_has_a_name_of_its_own() {
    let mut seen = BTreeMap::new();
    for fixture in fixtures() {
        let twice = seen.insert(fixture.construct().to_owned(), fixture.name.clone());
        assert_eq!(twice, None, "{}", fixture.name);
    }
    assert!(seen.len() >= FIXTURES_MIN, "only {} odd files", seen.len());
}

#[test]
fn odd_files_have_the_module_calls_that_terraform_finds_and_what_it_refuses_is_reported() {
    let Some(terraform) = Terraform::for_test("odd_files_have_the_module_calls_that_terraform_finds") else { return };
    let fixtures = fixtures();
    let checkout = Checkout::new();
    furnish(&checkout);
    for fixture in &fixtures {
        let directory = directory(fixture);
        furnish_directory(&checkout, &directory);
        checkout.write(&format!("{directory}/after.tf"), call("after"));
        checkout.write(&format!("{directory}/{}", fixture.name), &fixture.content);
    }
    let included = serde_json::to_string(&fixtures.iter().map(directory).collect::<Vec<_>>()).unwrap();
    checkout.write("stackorder.yaml", format!("stacks:\n  include: {included}\n"));
    let graph = checkout.graph();

    let inits = init_all(&terraform, &checkout, &fixtures);
    let mut judge = Judge::new(&graph, inits);
    fixtures.iter().for_each(|fixture| judge.fixture(fixture));
    judge.finish(fixtures.len());
}

fn directory(fixture: &Fixture) -> String {
    format!("stacks/{}", fixture.construct())
}

/// Folders are initialised together, as modules of one root; those that have to be alone one by one.
fn init_all(terraform: &Terraform, checkout: &Checkout, fixtures: &[Fixture]) -> Vec<Init> {
    let mut roots: Vec<String> = fixtures.iter().filter(|fixture| fixture.folder == ALONE).map(directory).collect();
    let folders: BTreeSet<&str> = fixtures.iter().map(|fixture| fixture.folder.as_str()).collect();
    for folder in folders.into_iter().filter(|folder| *folder != ALONE) {
        let root = format!("roots/{folder}");
        let members = fixtures.iter().filter(|fixture| fixture.folder == folder).enumerate();
        let call = |(number, fixture): (usize, &Fixture)| {
            format!("module \"m{number}\" {{\n  source = \"../../{}\"\n}}\n", directory(fixture))
        };
        checkout.write(&format!("{root}/main.tf"), members.map(call).collect::<String>());
        roots.push(root);
    }
    let share = roots.len().div_ceil(THREADS);
    std::thread::scope(|scope| {
        let init = |roots: &[String]| roots.iter().map(|root| terraform.init(&checkout.root, root)).collect::<Vec<_>>();
        let threads: Vec<_> = roots.chunks(share).map(|roots| scope.spawn(move || init(roots))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

struct Judge<'g> {
    graph: &'g Graph,
    ours: BTreeSet<(String, String)>,
    theirs: BTreeSet<(String, String)>,
    refusals: Vec<Refusal>,
    accepted: usize,
    wrong: Vec<String>,
    /// Entries of the tables that were needed.
    used: BTreeSet<&'static str>,
}

impl<'g> Judge<'g> {
    fn new(graph: &'g Graph, inits: Vec<Init>) -> Self {
        let mut judge = Self {
            graph,
            ours: module_edges(graph),
            theirs: BTreeSet::new(),
            refusals: Vec::new(),
            accepted: 0,
            wrong: Vec::new(),
            used: BTreeSet::new(),
        };
        for init in inits {
            judge.theirs.extend(init.edges);
            judge.refusals.extend(init.refusals);
            for unplaced in init.unplaced {
                match UNPLACED.iter().find(|(summary, _)| unplaced.starts_with(summary)) {
                    Some((summary, _)) => drop(judge.used.insert(summary)),
                    None => judge.wrong.push(format!("an error without a place: {unplaced}")),
                }
            }
        }
        judge
    }

    fn fixture(&mut self, fixture: &Fixture) {
        let directory = directory(fixture);
        let file = format!("{directory}/{}", fixture.name);
        let refusals: Vec<Refusal> = self.refusals.iter().filter(|refusal| refusal.file == file).cloned().collect();
        let found = if refusals.is_empty() {
            self.accepted += 1;
            self.accepted(&directory, &file)
        } else {
            self.refused(&directory, &file, &refusals)
        };
        let excuse = OTHERWISE.iter().find(|(construct, _)| *construct == fixture.construct());
        match (found, excuse) {
            (None, _) => {}
            (Some(_), Some((construct, _))) => drop(self.used.insert(construct)),
            (Some(wrong), None) => self.wrong.push(format!("{}: {wrong}", fixture.name)),
        }
    }

    /// What is wrong about a file that Terraform accepts.
    fn accepted(&self, directory: &str, file: &str) -> Option<String> {
        let (ours, theirs) = (calls(&self.ours, directory), calls(&self.theirs, directory));
        if ours != theirs {
            return Some(format!("we find {ours:?}, Terraform finds {theirs:?}"));
        }
        let warnings = self.warnings(file);
        (!warnings.is_empty()).then(|| format!("Terraform accepts it, but we say {warnings:?}"))
    }

    /// What is wrong about a file that Terraform refuses.
    fn refused(&mut self, directory: &str, file: &str, refusals: &[Refusal]) -> Option<String> {
        let ours = calls(&self.ours, directory);
        // An override file may rightly lead the first call elsewhere.
        let beside = if file.contains("_override.") { &["after"][..] } else { &["before", "after"] };
        for module in beside {
            if !ours.contains(&*format!("{REPO}//modules/{module}")) {
                return Some(format!("the call of the file beside it is lost: {ours:?}"));
            }
        }
        if is_reported(self.graph, refusals) {
            return None;
        }
        let (first, warnings) = (first(refusals), self.warnings(file));
        if let Some((summary, _)) = NOT_REPORTED.iter().find(|(summary, _)| *summary == first.summary) {
            self.used.insert(summary);
            return None;
        }
        Some(format!("Terraform says {first:?}, we say {warnings:?}"))
    }

    fn warnings(&self, file: &str) -> Vec<(Option<u32>, &str)> {
        let warnings = self.graph.warnings.iter().filter(|warning| warning.file == file);
        warnings.map(|warning| (warning.line, warning.message.as_str())).collect()
    }

    fn finish(mut self, compared: usize) {
        let tables = [OTHERWISE, NOT_REPORTED, UNPLACED].concat();
        for (name, _) in tables.iter().filter(|(name, _)| !self.used.contains(name)) {
            self.wrong.push(format!("{name}: the table of differences has it for nothing"));
        }
        assert!(self.wrong.is_empty(), "{} of {compared}:\n{}", self.wrong.len(), self.wrong.join("\n"));
        machine::say(&format!(
            "odd files: {compared} compared with Terraform, {} accepted, {} refused, {} calls",
            self.accepted,
            compared - self.accepted,
            self.theirs.len()
        ));
    }
}

/// What Terraform calls the first mistake of a file.
fn first(refusals: &[Refusal]) -> &Refusal {
    refusals.first().expect("a refused file has a mistake")
}

/// Whether a warning stands where Terraform finds the first mistake.
fn is_reported(graph: &Graph, refusals: &[Refusal]) -> bool {
    let first = first(refusals);
    // Of a directory that is not there, Terraform names the call, and we its source some lines below.
    let names_call = AT_THE_CALL.contains(&first.summary.as_str());
    graph.warnings.iter().filter(|warning| warning.file == first.file).any(|warning| {
        let is_below = warning.line.is_some_and(|line| line > first.line) && warning.code.starts_with("module_");
        warning.line == Some(first.line) || (names_call && is_below)
    })
}

/// Whether a difference stands in one of the tables. Terraform tells fewer mistakes of a root module than of others.
pub fn is_known(construct: &str, refusals: &[Refusal]) -> bool {
    OTHERWISE.iter().any(|(known, _)| *known == construct)
        || refusals.iter().any(|refusal| NOT_REPORTED.iter().any(|(summary, _)| *summary == refusal.summary))
}

fn calls<'e>(edges: &'e BTreeSet<(String, String)>, directory: &str) -> BTreeSet<&'e str> {
    edges.iter().filter(|(from, _)| from == directory).map(|(_, to)| to.as_str()).collect()
}
