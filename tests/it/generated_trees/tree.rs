//! One generated checkout: a stack, modules that call each other, odd files between them.

use std::collections::{BTreeMap, BTreeSet};

use super::calls;
use super::chance::Chance;
use crate::checkout::{Checkout, Fixture, furnish, furnish_directory};
use crate::real_terraform::REPO;
use crate::scan_fixtures::{ALONE, ENDLESS};

/// Ways to reach one module: Terraform reads it once for each.
const WAYS_MAX: usize = 6;
const MODULES_MAX: usize = 12;
const CALLS_MAX: usize = 4;

#[derive(Default)]
pub struct Tree {
    pub stack: String,
    files: BTreeMap<String, Vec<u8>>,
    links: BTreeMap<String, String>,
    /// Directories with an odd file, and its construct.
    pub odd: BTreeMap<String, String>,
    /// The calls that were written, as calling directory and key of the module.
    pub calls: BTreeSet<(String, String)>,
    /// What was met, with the names of the odd files.
    pub constructs: BTreeSet<String>,
}

/// A directory, the path by which others call it, and the number of ways to reach it.
struct Place {
    directory: String,
    called: String,
    ways: usize,
}

impl Tree {
    pub fn generate(seed: u64, fixtures: &[Fixture]) -> Self {
        let mut chance = Chance::new(seed);
        let mut tree = Self::default();
        let (stack, construct) = *chance.pick(&[
            ("stacks/app", "stack_two_levels_down"),
            ("stacks/app", "stack_two_levels_down"),
            ("stacks/eu/prod/app", "stack_four_levels_down"),
            ("stacks/größe", "stack_with_umlaut"),
        ]);
        stack.clone_into(&mut tree.stack);
        tree.met(construct);
        let mut places = vec![Place { directory: stack.to_owned(), called: stack.to_owned(), ways: 1 }];
        for number in 0..1 + chance.below(MODULES_MAX) {
            let place = tree.place(number, &places, &mut chance);
            places.push(place);
        }
        tree.call_each_other(&mut places, &mut chance);
        for (number, place) in places.iter().enumerate() {
            tree.odd_file(&place.directory, fixtures, &mut chance);
            if chance.percent(15) {
                let (name, construct) = calls::decoy(number, &mut chance);
                tree.met(construct);
                tree.files.insert(
                    format!("{}/{name}", place.directory),
                    b"module \"decoy\" {\n  source = \"./nowhere\"\n}\n".to_vec(),
                );
            }
            // A module without any file would be no directory.
            tree.files.entry(format!("{}/outputs.tf", place.directory)).or_default();
        }
        tree
    }

    fn met(&mut self, construct: &str) {
        self.constructs.insert(construct.to_owned());
    }

    /// Where the next module lies.
    fn place(&mut self, number: usize, others: &[Place], chance: &mut Chance) -> Place {
        let inside = &chance.pick(others).directory;
        let (directory, construct) = match chance.below(14) {
            0 => (format!("{inside}/inner{number}"), "module_inside_another_directory"),
            1 => (format!("lib/deep/er/m{number}"), "module_far_down"),
            2 => (format!("modules/.hidden/m{number}"), "module_in_hidden_directory"),
            3 => (format!("modules/with blank {number}"), "module_with_blank"),
            4 => (format!("modules/größe{number}"), "module_with_umlaut"),
            5 => (format!("node_modules/m{number}"), "module_in_node_modules"),
            6 => (format!("{}/local{number}", self.stack), "module_inside_the_stack"),
            7 => (format!("stacks/m{number}"), "module_beside_the_stack"),
            8 => (format!("m{number}"), "module_at_top"),
            9 => (format!("shared/m{number}"), "module_behind_a_link"),
            10 => (format!("modules/m{number}"), "module_behind_a_linked_parent"),
            _ => (format!("modules/m{number}"), "module_plain"),
        };
        self.met(construct);
        let called = match construct {
            "module_behind_a_link" => {
                self.links.insert(format!("modules/link{number}"), format!("../{directory}"));
                format!("modules/link{number}")
            }
            "module_behind_a_linked_parent" => format!("linked/m{number}"),
            _ => directory.clone(),
        };
        Place { directory, called, ways: 0 }
    }

    /// Every place calls some of those after it, so that no call leads back.
    fn call_each_other(&mut self, places: &mut [Place], chance: &mut Chance) {
        for from in 0..places.len() {
            let ways = places[from].ways;
            if ways == 0 {
                continue;
            }
            let mut names = BTreeSet::new();
            for number in 0..chance.below(CALLS_MAX + 1) + usize::from(from == 0) {
                let to = from + 1 + chance.below(places.len() - from);
                if to == places.len() || places[to].ways + ways > WAYS_MAX {
                    continue;
                }
                places[to].ways += ways;
                let mut name = (*chance.pick(&["net", "app", "db", "straße", "a-b", "_x", "module"])).to_owned();
                while !names.insert(name.clone()) {
                    name.push_str(&number.to_string());
                }
                self.call(&places[from].directory, &places[to], &name, number, chance);
            }
        }
    }

    fn call(&mut self, from: &str, to: &Place, name: &str, number: usize, chance: &mut Chance) {
        let path = calls::relative(from, &to.called);
        let written = calls::write(name, &path, number, chance);
        written.constructs.iter().for_each(|construct| self.met(construct));
        for (file, text) in written.files {
            let path = format!("{from}/{file}");
            let is_alone = !self.files.contains_key(&path) && !self.links.contains_key(&path);
            if is_alone && number == 0 && !file.contains("override") && chance.percent(10) {
                // A file that lies elsewhere: what it calls is still seen from the link.
                self.met("file_linked");
                let real = format!("shared/files/{}", path.replace('/', "-"));
                self.links.insert(format!("{from}/linked-{file}"), calls::relative(from, &real));
                self.files.insert(real, text.into_bytes());
            } else {
                self.files.entry(path).or_default().extend_from_slice(text.as_bytes());
            }
        }
        self.calls.insert((from.to_owned(), format!("{REPO}//{}", to.directory)));
    }

    /// Puts an odd file into a directory of the depth that it is made for.
    fn odd_file(&mut self, directory: &str, fixtures: &[Fixture], chance: &mut Chance) {
        if directory.matches('/').count() != 1 || !chance.percent(60) {
            return;
        }
        // Few of many may stand in a stack alone; without this some would never be met.
        let wants_alone = directory == self.stack && chance.percent(40);
        let fixtures: Vec<&Fixture> =
            fixtures.iter().filter(|fixture| !wants_alone || fixture.folder == ALONE).collect();
        let fixture = *chance.pick(&fixtures);
        let is_fit = fixture.folder != ALONE || (directory == self.stack && !ENDLESS.contains(&fixture.construct()));
        if is_fit {
            self.met(fixture.construct());
            self.odd.insert(directory.to_owned(), fixture.construct().to_owned());
            self.files.insert(format!("{directory}/{}", fixture.name), fixture.content.clone());
        }
    }

    pub fn write(&self) -> Checkout {
        let checkout = Checkout::new();
        furnish(&checkout);
        self.odd.keys().for_each(|directory| furnish_directory(&checkout, directory));
        self.files.iter().for_each(|(path, content)| checkout.write(path, content));
        self.links.iter().for_each(|(path, target)| checkout.link(path, target));
        checkout.write("stackorder.yaml", format!("stacks:\n  discover: [none]\n  include: [{:?}]\n", self.stack));
        checkout
    }

    /// The files of one directory, to be read by a person.
    pub fn shown(&self, directory: &str) -> String {
        let files =
            self.files.iter().filter(|(path, _)| path.rsplit_once('/').is_some_and(|(parent, _)| parent == directory));
        let files = files.map(|(path, content)| {
            format!(
                "--- {path}\n{}\n",
                String::from_utf8_lossy(content).escape_debug().to_string().replace("\\n", "\n").replace("\\\"", "\"")
            )
        });
        let links = self.links.iter().map(|(path, target)| format!("--- {path} -> {target}\n"));
        files.chain(links).collect()
    }
}
