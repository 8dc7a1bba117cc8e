//! The subset of Go's text templates that configuration values may use (spec 10 §5.1).
//!
//! A text holding `{{` is a template, any other text is itself. [`Template::parse`] refuses everything outside the
//! subset by name, in every branch, so that [`Template::render`] can fail only over the types and sizes of values.
//! There are no loops: rendering takes time in proportion to the template, and never gives more than
//! [`OUTPUT_BYTES_MAX`] bytes.
//!
//! - `lex`: the text to tokens, trim markers and comments applied.
//! - `syntax`: tokens to the tree of a template; names, arguments and variables are checked here.
//! - `render`: the tree and the fields of one instance to text.
//! - `functions`: what the functions of the subset compute.

mod functions;
mod lex;
mod render;
mod syntax;

use crate::config::problem::quoted;

/// Most bytes that a template, or any function inside it, may produce.
pub const OUTPUT_BYTES_MAX: usize = 4096;
/// Most bytes of a template's own text: far above what any setting needs, and a bound on what rendering copies.
const TEMPLATE_BYTES_MAX: usize = 4 * OUTPUT_BYTES_MAX;

/// What a template can say about the instance it is rendered for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    pub path: String,
    /// The last segment of the path.
    pub name: String,
    /// Empty for the unnamed instance.
    pub instance: String,
    pub key: String,
}

impl Fields {
    /// The fields of one instance of a directory.
    pub fn of(path: &str, instance: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default();
        let key = if instance.is_empty() { path.to_owned() } else { format!("{path}:{instance}") };
        Self { path: path.to_owned(), name: name.to_owned(), instance: instance.to_owned(), key }
    }

    /// What a template is tried with when a file is parsed.
    pub fn sample() -> Self {
        Self::of("stacks/sample", "sample")
    }
}

/// Why a template cannot be read or rendered; the message names what was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template {}: {reason}", quoted(.template))]
pub struct TemplateError {
    pub template: String,
    pub reason: String,
}

/// A parsed value: rendered once per instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    text: String,
    program: Option<syntax::Program>,
}

impl Template {
    /// Parses a value; one without `{{` is plain text and always parses.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let program = if is_template(text) { Some(program(text).map_err(|reason| error(text, reason))?) } else { None };
        Ok(Self { text: text.to_owned(), program })
    }

    /// The text for one instance.
    pub fn render(&self, fields: &Fields) -> Result<String, TemplateError> {
        match &self.program {
            None => Ok(self.text.clone()),
            Some(program) => render::render(program, fields).map_err(|reason| error(&self.text, reason)),
        }
    }
}

/// Parses and renders in one step.
pub fn render(text: &str, fields: &Fields) -> Result<String, TemplateError> {
    Template::parse(text)?.render(fields)
}

/// Whether the text is a template at all.
pub fn is_template(text: &str) -> bool {
    text.contains("{{")
}

fn program(text: &str) -> Result<syntax::Program, String> {
    if text.len() > TEMPLATE_BYTES_MAX {
        return Err(format!("longer than {TEMPLATE_BYTES_MAX} bytes"));
    }
    syntax::parse(lex::tokens(text)?)
}

fn error(template: &str, reason: String) -> TemplateError {
    TemplateError { template: template.to_owned(), reason }
}

#[cfg(test)]
mod tests;
