//! Typed access to a YAML tree that collects every problem instead of stopping at the first.
//!
//! Each reader method reports what it does not like and answers `None`; its caller keeps the default.
//! Nulls never get this far: a key without a value is absent ([`Mapping::take`]).

use crate::config::problem::{PROBLEMS_MAX, Problem, key_path, nearest, quoted};
use crate::config::yaml::{Entry, Node, Value};

/// A node and the key path that leads to it.
#[derive(Debug, Clone)]
pub(super) struct At<'n> {
    pub(super) node: &'n Node,
    pub(super) path: String,
}

/// A text from the file and where it stands.
#[derive(Debug, Clone)]
pub(super) struct TextAt<'n> {
    pub(super) text: &'n str,
    pub(super) line: u32,
    pub(super) path: String,
}

/// The problems of one file so far.
#[derive(Debug)]
pub(super) struct Reader<'f> {
    pub(super) file: &'f str,
    /// Where a key belongs that is known, but not where it stands.
    place_of: fn(&str) -> Option<String>,
    pub(super) problems: Vec<Problem>,
}

/// The keys of one mapping that were read as known.
#[derive(Debug)]
pub(super) struct Mapping<'n> {
    path: String,
    entries: Vec<&'n Entry>,
}

/// Most items of one list, and most keys of one mapping with free names.
pub(super) const ITEMS_MAX: usize = 10_000;

impl<'f> Reader<'f> {
    pub(super) fn new(file: &'f str, place_of: fn(&str) -> Option<String>) -> Self {
        Self { file, place_of, problems: Vec::new() }
    }

    pub(super) fn report(&mut self, line: u32, path: &str, message: impl Into<String>) {
        if self.is_full() {
            return;
        }
        let (file, path, message) = (self.file.to_owned(), path.to_owned(), message.into());
        self.problems.push(Problem { file, line: Some(line), path, message });
    }

    /// Whether further problems would only be noise.
    fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    /// Reports what a rule says about a text, with the text when it is not empty.
    pub(super) fn check(&mut self, at: &TextAt<'_>, rule: Result<(), String>) {
        if let Err(broken) = rule {
            let message = if at.text.trim().is_empty() { broken } else { format!("{}: {broken}", quoted(at.text)) };
            self.report(at.line, &at.path, message);
        }
    }

    /// Where a name belongs if it is meant as a key of the configuration, as the end of a message.
    pub(super) fn if_a_key(&self, name: &str) -> String {
        (self.place_of)(name).map(|place| format!("; {place}")).unwrap_or_default()
    }

    fn wrong_type(&mut self, at: &At<'_>, expected: &str) {
        let found = match &at.node.value {
            Value::Null => "nothing".to_owned(),
            Value::Scalar { text, .. } => quoted(text),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        };
        self.report(at.node.line, &at.path, format!("expected {expected}, found {found}"));
    }

    /// A mapping whose keys are all in `known`. Keys starting with `x-` are ignored, others reported.
    pub(super) fn mapping<'n>(&mut self, at: &At<'n>, known: &[&str]) -> Option<Mapping<'n>> {
        let entries = self.entries(at)?;
        let (known_entries, unknown): (Vec<&Entry>, Vec<&Entry>) =
            entries.into_iter().partition(|entry| known.contains(&entry.key.as_str()));
        for entry in unknown.into_iter().filter(|entry| !entry.key.starts_with("x-")) {
            if self.is_full() {
                break;
            }
            let meant = || nearest(&entry.key, known).map(|name| format!("did you mean `{name}`?"));
            let advice = (self.place_of)(&entry.key).or_else(meant).map(|advice| format!("; {advice}"));
            let message = format!("key {} is not known here{}", quoted(&entry.key), advice.unwrap_or_default());
            self.report(entry.line, &key_path(&at.path, &entry.key), message);
        }
        Some(Mapping { path: at.path.clone(), entries: known_entries })
    }

    /// The entries of a mapping.
    pub(super) fn entries<'n>(&mut self, at: &At<'n>) -> Option<Vec<&'n Entry>> {
        let Value::Map(entries) = &at.node.value else {
            self.wrong_type(at, "a mapping");
            return None;
        };
        if entries.len() > ITEMS_MAX {
            self.report(at.node.line, &at.path, format!("{} keys, more than the {ITEMS_MAX} allowed", entries.len()));
            return None;
        }
        Some(entries.iter().collect())
    }

    /// A text, number or boolean, exactly as it was written.
    pub(super) fn text<'n>(&mut self, at: &At<'n>) -> Option<TextAt<'n>> {
        match &at.node.value {
            Value::Scalar { text, .. } => Some(TextAt { text, line: at.node.line, path: at.path.clone() }),
            _ => {
                self.wrong_type(at, "a text");
                None
            }
        }
    }

    /// A list of texts. An item without a value is an empty text, which each list judges for itself.
    pub(super) fn texts<'n>(&mut self, at: &At<'n>) -> Option<Vec<TextAt<'n>>> {
        let Value::List(nodes) = &at.node.value else {
            self.wrong_type(at, "a list of texts");
            return None;
        };
        if nodes.len() > ITEMS_MAX {
            self.report(at.node.line, &at.path, format!("{} items, more than the {ITEMS_MAX} allowed", nodes.len()));
            return None;
        }
        let mut texts = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let path = format!("{}[{index}]", at.path);
            match node.value {
                Value::Null => texts.push(TextAt { text: "", line: node.line, path }),
                _ => texts.extend(self.text(&At { node, path })),
            }
        }
        Some(texts)
    }

    pub(super) fn boolean(&mut self, at: &At<'_>) -> Option<bool> {
        if let Value::Scalar { text, plain: true } = &at.node.value {
            match text.as_str() {
                "true" | "True" | "TRUE" => return Some(true),
                "false" | "False" | "FALSE" => return Some(false),
                _ => {}
            }
        }
        self.wrong_type(at, "true or false");
        None
    }

    pub(super) fn integer(&mut self, at: &At<'_>) -> Option<i64> {
        if let Value::Scalar { text, plain: true } = &at.node.value
            && let Ok(number) = text.parse()
        {
            return Some(number);
        }
        self.wrong_type(at, "an integer");
        None
    }

    /// An integer that is at least `least` and fits the model.
    pub(super) fn count(&mut self, at: &At<'_>, least: u32) -> Option<u32> {
        let number = self.integer(at)?;
        if number >= i64::from(least)
            && let Ok(count) = u32::try_from(number)
        {
            return Some(count);
        }
        let rule = match (number < 0, least) {
            (true, 0) => "must not be negative".to_owned(),
            _ if number < i64::from(least) => format!("must be at least {least}"),
            _ => format!("must be at most {}", u32::MAX),
        };
        self.report(at.node.line, &at.path, format!("{}: {rule}", quoted(&number.to_string())));
        None
    }

    /// One of a set of words.
    pub(super) fn choice<T: Copy>(&mut self, at: &At<'_>, choices: &[(&str, T)]) -> Option<T> {
        let written = self.text(at)?;
        if let Some((_, chosen)) = choices.iter().find(|(word, _)| *word == written.text) {
            return Some(*chosen);
        }
        let allowed: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let message = format!("{} is not one of {}", quoted(written.text), allowed.join(", "));
        self.report(written.line, &written.path, message);
        None
    }
}

impl<'n> Mapping<'n> {
    /// The value of a key; a key without a value is absent.
    pub(super) fn take(&self, key: &str) -> Option<At<'n>> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        match entry.value.value {
            Value::Null => None,
            _ => Some(At { node: &entry.value, path: key_path(&self.path, key) }),
        }
    }
}
