//! The text of a first `stackorder.yaml`: keys for what the files prove, comments that ask for everything else.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Findings, LISTED_MAX};
use super::globs;
use crate::config::model::Tool;

/// A file in the making.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub text: String,
    /// In the order of the text; each begins a comment there.
    pub questions: Vec<String>,
    /// Whether the line `environments:` is there, as a key or as a comment.
    has_environments: bool,
}

/// Directory names that say nothing but which deployment lies below.
const ENVIRONMENTS: [&str; 12] =
    ["dev", "development", "stage", "staging", "stg", "qa", "uat", "preprod", "pre-prod", "prod", "prd", "production"];
/// Names that may mean one, or something else.
const PERHAPS_ENVIRONMENTS: [&str; 6] = ["int", "nonprod", "non-prod", "sandbox", "test", "testing"];
/// Most prefixes of `environments`; a longer list hides what it says.
const PREFIXES_MAX: usize = 12;
/// Longest line of a comment, in bytes.
const COMMENT_BYTES_MAX: usize = 116;

const HEAD: &str = "\
# yaml-language-server: $schema=https://raw.githubusercontent.com/stackorder/stackorder/main/docs/schema/stackorder.json
#
# Written by `stackorder init` from what stands in this repository.
# A comment that begins with `?` asks you something; delete it once it is answered.
# `stackorder config validate` checks this file, `stackorder config show` prints what counts for each stack.
version: 1
";

/// Writes the file; the stacks under the environment `default` are only known once it has been scanned with.
pub(super) fn write(findings: &Findings) -> Written {
    let mut written = Written { text: HEAD.to_owned(), ..Written::default() };
    written.tool(findings);
    written.stacks(findings);
    written.modules(findings);
    written.backends(findings);
    written.gate();
    written.environments(&findings.stacks);
    written
}

impl Written {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Text as comment lines of bounded length.
    fn comment(&mut self, text: &str) {
        let mut line = "#".to_owned();
        for word in text.split(' ') {
            if line.len() + 1 + word.len() > COMMENT_BYTES_MAX && line.len() > 1 {
                self.line(&line);
                line = "#".to_owned();
            }
            line.push(' ');
            line.push_str(word);
        }
        self.line(&line);
    }

    fn question(&mut self, question: String) {
        self.comment(&format!("? {question}"));
        self.questions.push(question);
    }

    fn tool(&mut self, findings: &Findings) {
        let found = &findings.tool;
        self.line("");
        if found.is_disputed() {
            let why = harmless(&found.why());
            self.question(format!(
                "Which tool runs here, terraform or tofu? Without the key it is terraform. Found: {why}."
            ));
            return self.line("# tool: tofu");
        }
        let tool = found.tool().unwrap_or_default();
        match found.tool() {
            Some(tool) => {
                self.comment(&format!("{}.", harmless(&found.why())));
                self.line(&format!("tool: {}", tool.as_str()));
            }
            None => {
                self.comment("Nothing here says which tool runs, so it is the default.");
                self.line(&format!("tool: {}", Tool::default().as_str()));
            }
        }
        match (found.version(tool), found.versions(tool).as_slice()) {
            (Some(version), _) => self.line(&format!("tool_version: {}", text(version))),
            (None, []) => {
                self.question("Which version do jobs install? Without the key it is the newest one.".to_owned());
                self.line("# tool_version: \"1.11.4\"");
            }
            (None, several) => {
                let several = several.join(", ");
                self.question(format!(
                    "Several versions are asked for ({several}). One for all stands here; a stack's own belongs into \
                     the .stackorder.yaml of its directory."
                ));
                self.line("# tool_version:");
            }
        }
    }

    fn stacks(&mut self, findings: &Findings) {
        let discover = globs::discover(&findings.stacks);
        self.line("");
        self.comment(&format!(
            "Found: {}.",
            counted(findings.stacks.len(), "directory", "directories", "with an s3 backend")
        ));
        match &discover {
            Some(globs) => {
                self.line("stacks:");
                self.line(&format!("  discover: {}", list(globs)));
            }
            None => {
                self.line("# stacks:");
                self.line("#   discover: [\"stacks/**\"]        # the default");
            }
        }
        if !findings.doubtful.is_empty() {
            self.question(format!(
                "These have an s3 backend but are modules or lie among them: {}. Is one of them a stack? Then name it.",
                listed(&findings.doubtful)
            ));
            let doubtful: Vec<String> = findings.doubtful.iter().take(LISTED_MAX).cloned().collect();
            self.line(&format!("#   include: {}", list(&doubtful)));
        }
        if findings.has_backend_at_the_top {
            self.question(
                "The top of the repository has an s3 backend, too, but a stack needs a directory of its own. Where do \
                 its files move?"
                    .to_owned(),
            );
        }
        if !findings.var_files.is_empty() {
            self.question("Is each of these files one deployment of its own? One glob can say so.".to_owned());
            self.line("#   instances:");
        }
        for found in findings.var_files.iter().take(LISTED_MAX) {
            self.line(&format!("#     from_var_files: {}", text(&found.glob)));
            self.comment(&format!("      ({} in {})", listed(&found.names), listed(&found.stacks)));
        }
    }

    fn modules(&mut self, findings: &Findings) {
        let all: BTreeSet<String> = findings.modules.union(&findings.doubtful).cloned().collect();
        if let Some(globs) = globs::modules(&all, &findings.stacks, findings.has_module_directory) {
            self.line("");
            self.comment("Directories that stacks call as modules; none of them is taken for a stack.");
            self.line("modules:");
            self.line(&format!("  paths: {}", list(&globs)));
        }
    }

    fn backends(&mut self, findings: &Findings) {
        if findings.open_backends.is_empty() {
            return;
        }
        self.line("");
        self.question(format!(
            "Where does the state of these stacks lie? Bucket or key of their backend are not written down: {}. Values \
             for one stack belong into its .stackorder.yaml; here they count for every stack.",
            listed(&findings.open_backends)
        ));
        self.line("# backend_config:");
        for file in findings.backend_files.iter().take(LISTED_MAX) {
            self.line(&format!("#   - {}", text(file)));
        }
        self.line("#   - 'key={{ .Path }}{{ with .Instance }}/{{ . }}{{ end }}.tfstate'");
    }

    fn gate(&mut self) {
        self.line("");
        self.question("How many people must approve before an apply? Without the key it is nobody.".to_owned());
        self.line("# apply:");
        self.line("#   require_approvals: 1");
    }

    fn environments(&mut self, stacks: &BTreeSet<String>) {
        let sure = prefixes(stacks, &ENVIRONMENTS);
        let by_last_name = every_path_ends_in_one(stacks);
        self.line("");
        match (sure.len(), by_last_name) {
            (0, _) => {}
            (..=PREFIXES_MAX, _) => {
                self.comment(
                    "By the names of directories: applies run under these environments of GitHub. Create them with \
                     their reviewers first; GitHub makes one that is missing without any.",
                );
                self.begin_environments("environments:");
                for (prefix, name) in &sure {
                    self.line(&format!("  {}: {}", text(prefix), text(name)));
                }
            }
            (_, Some(tops)) => {
                self.comment(
                    "By the last name of each path: applies run under these environments of GitHub. Create them with \
                     their reviewers first; GitHub makes one that is missing without any.",
                );
                self.begin_environments("environments:");
                for top in tops {
                    self.line(&format!("  {}: \"{{{{ base .Path }}}}\"", text(&top)));
                }
            }
            (count, None) => {
                self.question(format!(
                    "Under which environments of GitHub do applies run? {count} directories are named like one, too \
                     many to list; a name may be a template, such as {}.",
                    quoted("{{ base .Path }}")
                ));
                self.begin_environments("# environments:");
                for (prefix, name) in sure.iter().take(LISTED_MAX) {
                    self.line(&format!("#   {}: {}", text(prefix), text(name)));
                }
            }
        }
        let perhaps = prefixes(stacks, &PERHAPS_ENVIRONMENTS);
        if !perhaps.is_empty() {
            self.question(
                "Are these environments of GitHub, too? Their names may also mean something else.".to_owned(),
            );
            self.begin_environments("# environments:");
            for (prefix, name) in perhaps.iter().take(PREFIXES_MAX) {
                self.line(&format!("#   {}: {}", text(prefix), text(name)));
            }
        }
    }

    /// The key stands once, also after a person has taken the comment signs away.
    fn begin_environments(&mut self, line: &str) {
        if !self.has_environments {
            self.line(line);
            self.has_environments = true;
        }
    }

    /// Asks about the stacks that no rule gives an environment; nothing but comments is added.
    pub(super) fn ask_about_default(&mut self, keys: &BTreeSet<String>) {
        let Some(first) = keys.iter().next() else { return };
        self.question(format!(
            "Under which environment of GitHub do these apply? Without a word it is `default`, where plans run, too: {}.",
            listed(keys)
        ));
        self.begin_environments("# environments:");
        self.line(&format!("#   {}: production", text(&format!("{}/", crate::ids::split_key(first).0))));
    }
}

/// The shortest prefix of each path that ends in one of the names, with the name in lower case.
fn prefixes(stacks: &BTreeSet<String>, names: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for path in stacks.iter().filter(|path| !path.contains(':')) {
        let mut end = 0;
        for segment in path.split('/') {
            end += segment.len() + 1;
            let name = segment.to_ascii_lowercase();
            // Whatever a sure name is part of, an unsure one below it is no second environment.
            if ENVIRONMENTS.contains(&name.as_str()) || names.contains(&name.as_str()) {
                if names.contains(&name.as_str()) {
                    found.insert(format!("{}/", &path[..end - 1]), name);
                }
                break;
            }
        }
    }
    found
}

/// The directories at the top, if every stack's last name is an environment in lower case.
fn every_path_ends_in_one(stacks: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let ends = |path: &String| path.rsplit('/').next().is_some_and(|name| ENVIRONMENTS.contains(&name));
    let top = |path: &String| format!("{}/", path.split('/').next().unwrap_or_default());
    stacks.iter().all(|path| ends(path) && !path.contains(':')).then(|| stacks.iter().map(top).collect())
}

/// A text as YAML writes it; JSON's quotes are YAML's, too.
fn text(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

fn list(values: &[String]) -> String {
    format!("[{}]", values.iter().map(|value| text(value)).collect::<Vec<_>>().join(", "))
}

fn quoted(value: &str) -> String {
    crate::config::problem::quoted(value)
}

/// The first few names; each on one line, whatever it is called.
fn listed(names: &BTreeSet<String>) -> String {
    let shown: Vec<String> = names.iter().take(LISTED_MAX).map(|name| harmless(name)).collect();
    let more = names.len().saturating_sub(LISTED_MAX);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// A name in a comment must not end the comment.
fn harmless(name: &str) -> String {
    name.chars()
        .map(|character| if character.is_control() || is_line_break(character) { '\u{fffd}' } else { character })
        .collect()
}

/// Line ends that are no control characters.
fn is_line_break(character: char) -> bool {
    matches!(character, '\u{2028}' | '\u{2029}')
}

fn counted(count: usize, one: &str, many: &str, which: &str) -> String {
    format!("{count} {} {which}", if count == 1 { one } else { many })
}
