//! YAML text to a tree of nodes that know their line.
//!
//! Only the first document is read. Aliases and merge keys are expanded here, within a budget, so that readers see
//! plain lists and mappings. Scalars keep the text they were written with: `1.10` stays `1.10`.
//! This module knows nothing about which keys exist.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::problem::{PROBLEMS_MAX, key_path};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag, options};

/// Most bytes of a configuration file; GitHub's Contents API sends no more inline.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Most levels of nesting, after aliases are expanded: the deepest key has six.
const DEPTH_MAX: usize = 32;
/// Most bytes of the whole tree after aliases are expanded, counting [`NODE_BYTES`] for each node.
const TREE_BYTES_MAX: usize = 8 * FILE_BYTES_MAX;
/// What a node costs besides its text, so that a file of empty nodes is bounded too.
const NODE_BYTES: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub line: u32,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    /// `plain` when it was written without quotes, and so may stand for a number or a boolean.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub line: u32,
    pub value: Node,
}

/// Something the YAML itself does wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    pub line: Option<u32>,
    /// The key path, where one is known.
    pub path: String,
    pub message: String,
}

impl YamlError {
    fn at(line: u32, message: impl Into<String>) -> Self {
        Self { line: Some(line), path: String::new(), message: message.into() }
    }
}

/// What could be read of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// `None` when there is nothing in it.
    pub root: Option<Node>,
    /// Every key that stands twice in one mapping; the tree has the first of them.
    pub repeated: Vec<YamlError>,
}

/// The first document of a file. One that is no YAML gives the error that ended the reading.
pub fn read(bytes: &[u8]) -> Result<Document, Vec<YamlError>> {
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("the file has {} bytes, more than the {FILE_BYTES_MAX} that are read", bytes.len());
        return Err(vec![YamlError { line: None, path: String::new(), message }]);
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let newlines = bytes[..e.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        vec![YamlError::at(line_number(newlines + 1), "the file is not UTF-8 text")]
    })?;
    let mut builder = Builder::default();
    match builder.first_document(text) {
        Err(error) => {
            builder.errors.push(error);
            Err(builder.errors)
        }
        Ok(root) => Ok(Document { root: root.filter(|node| node.value != Value::Null), repeated: builder.errors }),
    }
}

fn line_number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

/// A list or mapping whose end has not been read yet.
enum Open {
    List { line: u32, anchor: usize, nodes: Vec<Node> },
    Map { line: u32, anchor: usize, entries: Vec<Entry>, merged: Vec<Node>, key: Option<Key> },
}

struct Key {
    text: String,
    line: u32,
    is_merge: bool,
}

/// An anchored node, kept until the end of the document.
struct Anchored {
    node: Node,
    bytes: usize,
    height: usize,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: BTreeMap<usize, Anchored>,
    bytes: usize,
    errors: Vec<YamlError>,
}

impl Builder {
    fn first_document(&mut self, text: &str) -> Result<Option<Node>, YamlError> {
        let options = options! { emit_comments: false, flow_nesting_limit: DEPTH_MAX, block_nesting_limit: DEPTH_MAX };
        for next in Parser::new_from_str_with_options(text, options) {
            let (event, span) = next.map_err(|e| syntax_error(&e))?;
            let line = line_number(span.start.line());
            let closed = match event {
                Event::DocumentEnd | Event::StreamEnd => return Ok(None),
                Event::SequenceStart(_, anchor, tag) => {
                    check_tag(tag.as_deref(), line)?;
                    self.push(Open::List { line, anchor, nodes: Vec::new() }, line)?;
                    continue;
                }
                Event::MappingStart(_, anchor, tag) => {
                    check_tag(tag.as_deref(), line)?;
                    let (entries, merged) = (Vec::new(), Vec::new());
                    self.push(Open::Map { line, anchor, entries, merged, key: None }, line)?;
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => self.close()?,
                Event::Scalar(text, style, anchor, tag) => {
                    check_tag(tag.as_deref(), line)?;
                    let as_text = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                    let plain = style == ScalarStyle::Plain && !as_text;
                    (self.scalar(&text, plain, span)?, anchor)
                }
                Event::Alias(anchor) => (self.aliased(anchor, line)?, 0),
                _ => continue,
            };
            if let Some(root) = self.place(closed)? {
                return Ok(Some(root));
            }
        }
        Ok(None)
    }

    fn push(&mut self, open: Open, line: u32) -> Result<(), YamlError> {
        self.charge(NODE_BYTES, line)?;
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep(line));
        }
        self.open.push(open);
        Ok(())
    }

    fn charge(&mut self, bytes: usize, line: u32) -> Result<(), YamlError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > TREE_BYTES_MAX {
            return Err(YamlError::at(
                line,
                format!("the file holds more than {TREE_BYTES_MAX} bytes with its aliases"),
            ));
        }
        Ok(())
    }

    fn scalar(&mut self, text: &str, plain: bool, span: Span) -> Result<Node, YamlError> {
        let line = line_number(span.start.line());
        self.charge(NODE_BYTES + text.len(), line)?;
        if text.contains('\0') {
            return Err(YamlError::at(line, "a value holds a NUL character"));
        }
        let is_key = matches!(self.open.last(), Some(Open::Map { key: None, .. }));
        let null = plain && !is_key && matches!(text, "" | "~" | "null" | "Null" | "NULL");
        let value = if null { Value::Null } else { Value::Scalar { text: text.to_owned(), plain } };
        Ok(Node { line, value })
    }

    fn aliased(&mut self, anchor: usize, line: u32) -> Result<Node, YamlError> {
        let Some(found) = self.anchors.get(&anchor) else {
            return Err(YamlError::at(line, "an alias stands inside the value that it names"));
        };
        if self.open.len() + found.height > DEPTH_MAX {
            return Err(too_deep(line));
        }
        let (node, bytes) = (found.node.clone(), found.bytes);
        self.charge(bytes, line)?;
        Ok(node)
    }

    /// Ends the innermost list or mapping.
    fn close(&mut self) -> Result<(Node, usize), YamlError> {
        match self.open.pop().expect("the parser sends an end only after its start") {
            Open::List { line, anchor, nodes } => Ok((Node { line, value: Value::List(nodes) }, anchor)),
            Open::Map { line, anchor, entries, merged, .. } => {
                let entries = self.unique(entries);
                let entries = with_merged(entries, merged)?;
                Ok((Node { line, value: Value::Map(entries) }, anchor))
            }
        }
    }

    /// Keeps the first of repeated keys and reports the others, with both lines.
    fn unique(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        let mut first_lines: BTreeMap<String, u32> = BTreeMap::new();
        let mut kept = Vec::with_capacity(entries.len());
        for entry in entries {
            if let Some(first) = first_lines.get(&entry.key) {
                let message = format!("key {:?} stands on line {first} already", entry.key);
                if self.errors.len() < PROBLEMS_MAX {
                    let path = key_path(&self.path(), &entry.key);
                    self.errors.push(YamlError { path, ..YamlError::at(entry.line, message) });
                }
                continue;
            }
            first_lines.insert(entry.key.clone(), entry.line);
            kept.push(entry);
        }
        kept
    }

    /// The key path of what is being read, inside everything that is still open.
    fn path(&self) -> String {
        self.open.iter().fold(String::new(), |path, open| match open {
            Open::List { nodes, .. } => format!("{path}[{}]", nodes.len()),
            Open::Map { key: Some(key), .. } => key_path(&path, &key.text),
            Open::Map { key: None, .. } => path,
        })
    }

    /// Puts a finished node where it belongs; gives it back when it is the document itself.
    fn place(&mut self, (node, anchor): (Node, usize)) -> Result<Option<Node>, YamlError> {
        if anchor != 0 {
            let (bytes, height) = measure(&node);
            self.charge(bytes, node.line)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), bytes, height });
        }
        match self.open.last_mut() {
            None => return Ok(Some(node)),
            Some(Open::List { nodes, .. }) => nodes.push(node),
            Some(Open::Map { entries, merged, key, .. }) => match key.take() {
                None => *key = Some(as_key(node)?),
                Some(Key { is_merge: true, .. }) => merged.push(node),
                Some(Key { text, line, .. }) => entries.push(Entry { key: text, line, value: node }),
            },
        }
        Ok(None)
    }
}

fn as_key(node: Node) -> Result<Key, YamlError> {
    match node.value {
        Value::Scalar { text, plain } => Ok(Key { is_merge: plain && text == "<<", text, line: node.line }),
        Value::Null | Value::List(_) | Value::Map(_) => Err(YamlError::at(node.line, "a key must be a text")),
    }
}

/// What `<<` brings in: a key of the mapping itself wins, then the first mapping that has it.
fn with_merged(mut entries: Vec<Entry>, merged: Vec<Node>) -> Result<Vec<Entry>, YamlError> {
    if merged.is_empty() {
        return Ok(entries);
    }
    let mut present: BTreeSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    let sources = merged.into_iter().flat_map(|node| match node.value {
        Value::List(nodes) => nodes,
        _ => vec![node],
    });
    for source in sources {
        let Value::Map(brought) = source.value else {
            return Err(YamlError::at(source.line, "a merge key takes a mapping or a list of mappings"));
        };
        for entry in brought {
            if present.insert(entry.key.clone()) {
                entries.push(entry);
            }
        }
    }
    Ok(entries)
}

/// Bytes and levels of a tree. The recursion is as deep as the tree, which [`DEPTH_MAX`] bounds.
fn measure(node: &Node) -> (usize, usize) {
    let below: Vec<(usize, usize)> = match &node.value {
        Value::Null => return (NODE_BYTES, 0),
        Value::Scalar { text, .. } => return (NODE_BYTES + text.len(), 0),
        Value::List(nodes) => nodes.iter().map(measure).collect(),
        Value::Map(entries) => entries
            .iter()
            .map(|entry| {
                let (bytes, height) = measure(&entry.value);
                (bytes + entry.key.len(), height)
            })
            .collect(),
    };
    let bytes = below.iter().map(|(bytes, _)| bytes).sum::<usize>();
    let height = below.iter().map(|(_, height)| height + 1).max().unwrap_or(1);
    (NODE_BYTES + bytes, height)
}

fn check_tag(tag: Option<&Tag>, line: u32) -> Result<(), YamlError> {
    match tag {
        Some(tag) if tag.is_custom() => Err(YamlError::at(line, format!("tag {} is not known here", tag.original()))),
        _ => Ok(()),
    }
}

fn too_deep(line: u32) -> YamlError {
    YamlError::at(line, format!("nested more than {DEPTH_MAX} levels deep"))
}

fn syntax_error(error: &ScanError) -> YamlError {
    YamlError::at(line_number(error.marker().line()), format!("not YAML: {}", error.info()))
}

#[cfg(test)]
mod tests;
