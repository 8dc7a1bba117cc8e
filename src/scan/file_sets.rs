//! The files that a glob stands for: where git tells of their changes, and which of them are there.
//!
//! A glob is written against names as the tool sees them, with links to directories in between; git knows a file only
//! by the place where it really is, and of a submodule nothing but the submodule.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::files::{Entry, EntryKind, Tree, parent};
use super::reader::Reader;
use crate::config::glob::PathGlobs;
use crate::config::glob::parts::{Cut, below, has_pattern, literal_start, of_path, segments};
use crate::graph::model::Warning;

/// Where the files of a glob are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Submodule(String),
    /// The glob of their own paths, as far as it is written out.
    Glob(String),
}

/// Follows the links in front of the first pattern.
pub(super) fn place(tree: &Tree<'_>, glob: &str) -> Place {
    let start = literal_start(glob);
    if let Some(submodule) = tree.submodule_of(&start) {
        return Place::Submodule(submodule.to_owned());
    }
    let directory = if has_pattern(glob) { &start } else { parent(&start) };
    Place::Glob(match tree.real_path(directory).filter(|real| real != directory) {
        None => glob.to_owned(),
        Some(real) => {
            let rest: Vec<&str> = glob.split('/').skip(segments(directory).count()).collect();
            below(&of_path(&real), &rest.join("/"))
        }
    })
}

/// Files of a glob.
#[derive(Debug, Default)]
pub(super) struct FileSet {
    /// The glob itself, then one for what it sees behind each link to a directory.
    pub globs: Vec<String>,
    /// The first files that are there.
    pub files: Vec<String>,
    /// Whether there were more links than are followed.
    pub is_cut: bool,
}

/// What there is of the files that somebody looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Presence {
    Nothing,
    /// Files that never count.
    Ignored,
    /// Files that count, or more names than are looked at.
    Files,
}

/// The sets of a checkout, each worked out once.
pub(super) struct FileSets<'a, 'f> {
    reader: &'a Reader<'f>,
    /// Links to directories with their ends, sorted.
    links: Vec<(&'a str, &'a str)>,
    found: RefCell<BTreeMap<String, Rc<FileSet>>>,
    looked_at: Cell<usize>,
}

/// That changes behind some links are not seen.
pub(super) fn too_many_links(glob: &str) -> Warning {
    let message = format!("{glob:?} looks behind more links to directories than the {GLOBS_MAX} that are followed");
    Warning::new("file_set_links", format!("{message}; a change behind the others is not seen"))
}

/// Most files of one set that are listed. Its globs stand for all of them, and a graph has to stay small enough to be
/// sent.
const FILES_MAX: usize = 100;

/// Most globs of one set: links to directories below it are rare, and each glob costs time in every resolution.
const GLOBS_MAX: usize = 100;

/// Most names that all globs of a repository are compared with, which takes some seconds.
const NAMES_MAX: usize = 10_000_000;

impl<'a, 'f> FileSets<'a, 'f> {
    pub fn of(reader: &'a Reader<'f>) -> Self {
        let links = reader.tree.directory_links().collect();
        Self { reader, links, found: RefCell::default(), looked_at: Cell::new(0) }
    }

    /// The set of a glob whose literal start has no links.
    pub fn set(&self, glob: &str) -> Rc<FileSet> {
        if let Some(known) = self.found.borrow().get(glob) {
            return known.clone();
        }
        let (globs, is_cut) = self.behind_links(glob);
        let mut files: Vec<String> = Vec::new();
        for glob in &globs {
            let wanted = FILES_MAX.saturating_sub(files.len());
            files.extend(self.matching(glob).filter(|path| self.is_file(path)).take(wanted).map(str::to_owned));
        }
        // Which names there are decides what the graph says, whatever the files hold.
        files.iter().for_each(|path| self.reader.note_name(path));
        let set = Rc::new(FileSet { globs, files, is_cut });
        self.found.borrow_mut().insert(glob.to_owned(), set.clone());
        set
    }

    /// The glob, and what is left of it behind every link that it sees. What is left only gets shorter or repeats itself,
    /// so links in circles end.
    pub fn behind_links(&self, glob: &str) -> (Vec<String>, bool) {
        let mut globs = vec![glob.to_owned()];
        let mut at = 0;
        while let Some(glob) = globs.get(at).cloned() {
            at += 1;
            let start = literal_start(&glob);
            let cut = OnceCell::new();
            for (link, target) in self.links_below(&start) {
                for rest in cut.get_or_init(|| Cut::of(&glob)).behind(link) {
                    let Place::Glob(more) = place(&self.reader.tree, &below(&of_path(target), &rest)) else { continue };
                    if globs.contains(&more) {
                        continue;
                    }
                    if globs.len() >= GLOBS_MAX {
                        return (globs, true);
                    }
                    globs.push(more);
                }
            }
        }
        (globs, false)
    }

    /// Whether anything is there that one of the globs matches. What is found counts for the tree hash.
    pub fn presence(&self, globs: &[String], ignored: &PathGlobs) -> Presence {
        let mut best = Presence::Nothing;
        for glob in globs {
            for path in self.matching(glob) {
                if !ignored.matches(path) {
                    self.reader.note_name(path);
                    return Presence::Files;
                }
                best = Presence::Ignored;
            }
        }
        if self.looked_at.get() >= NAMES_MAX { Presence::Files } else { best }
    }

    fn links_below(&self, directory: &str) -> &[(&'a str, &'a str)] {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let from = &self.links[self.links.partition_point(|(link, _)| *link < prefix.as_str())..];
        &from[..from.partition_point(|(link, _)| link.starts_with(&prefix))]
    }

    /// Every name that the glob matches, links and submodules too, in order.
    fn matching<'s>(&'s self, glob: &str) -> impl Iterator<Item = &'s str> + use<'s, 'a, 'f> {
        let globs = PathGlobs::new(&[glob.to_owned()]).ok();
        let (start, tree) = (literal_start(glob), &self.reader.tree);
        let entries = if has_pattern(glob) { tree.entries_below(&start) } else { tree.entry(&start) };
        let affordable = NAMES_MAX.saturating_sub(self.looked_at.get());
        let look = |_: &&Entry| self.looked_at.set(self.looked_at.get() + 1);
        let paths = entries.iter().take(affordable).inspect(look).map(|entry| entry.path.as_str());
        paths.filter(move |path| globs.as_ref().is_some_and(|globs| globs.matches(path)))
    }

    fn is_file(&self, path: &str) -> bool {
        matches!(self.reader.tree.kind(path), Some(EntryKind::File | EntryKind::FileLink { .. }))
    }
}
