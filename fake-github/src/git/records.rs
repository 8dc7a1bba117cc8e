//! What git prints, as values. Anything that is not in the expected form is left out.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub sha: String,
    pub tree: String,
    pub parents: Vec<String>,
    pub author: Signature,
    pub committer: Signature,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub name: String,
    pub email: String,
    /// RFC 3339, UTC.
    pub date: String,
}

#[derive(Debug, Clone)]
pub struct TreeEntry {
    pub mode: String,
    /// `blob`, `tree` or `commit` (a submodule).
    pub kind: String,
    pub sha: String,
    pub size: Option<u64>,
    pub path: String,
}

#[derive(Debug, Clone)]
pub struct FileChange {
    /// GitHub's words: `added`, `removed`, `modified`, `renamed`, `copied`, `changed`.
    pub status: &'static str,
    pub path: String,
    pub previous: Option<String>,
    pub sha: String,
    pub additions: i64,
    pub deletions: i64,
    pub patch: Option<String>,
}

/// One ref and what it points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ref {
    pub name: String,
    pub sha: String,
    pub kind: String,
}

pub struct NewCommit<'a> {
    pub branch: &'a str,
    pub message: &'a str,
    pub name: &'a str,
    pub email: &'a str,
    pub at_ms: i64,
    /// `None` removes the file.
    pub files: &'a [(&'a str, Option<Vec<u8>>)],
    /// Where a new branch starts; an existing one goes on from its own head.
    pub from: Option<&'a str>,
}

/// One line of `for-each-ref`: name, object and type, separated by NUL.
pub fn parse_ref(line: &str) -> Option<Ref> {
    let mut fields = line.split('\0').map(str::to_owned);
    Some(Ref { name: fields.next()?, sha: fields.next()?, kind: fields.next()? })
}

pub fn parse_commit(record: &str) -> Option<Commit> {
    let record = record.trim_end_matches(['\n', '\u{1e}']);
    let fields: Vec<&str> = record.splitn(10, '\0').collect();
    let [sha, tree, parents, an, ae, ad, cn, ce, cd, message] = fields.as_slice() else { return None };
    let signature = |name: &str, email: &str, date: &str| Signature {
        name: name.to_owned(),
        email: email.to_owned(),
        date: date.to_owned(),
    };
    Some(Commit {
        sha: (*sha).to_owned(),
        tree: (*tree).to_owned(),
        parents: parents.split_whitespace().map(str::to_owned).collect(),
        author: signature(an, ae, ad),
        committer: signature(cn, ce, cd),
        message: message.trim_end().to_owned(),
    })
}

pub fn parse_tree_entry(line: &str) -> Option<TreeEntry> {
    let (meta, path) = line.split_once('\t')?;
    let mut fields = meta.split_whitespace().map(str::to_owned);
    Some(TreeEntry {
        mode: fields.next()?,
        kind: fields.next()?,
        sha: fields.next()?,
        size: fields.next()?.parse().ok(),
        path: path.to_owned(),
    })
}

pub fn parse_raw_diff(text: &str) -> Vec<FileChange> {
    let mut fields = text.split('\0').peekable();
    let mut changes = Vec::new();
    while let Some(meta) = fields.next_if(|field| field.starts_with(':')) {
        let words: Vec<&str> = meta.split(' ').collect();
        let [_, _, _, sha, letter] = words.as_slice() else { break };
        let Some(first) = fields.next() else { break };
        let renamed = letter.starts_with(['R', 'C']);
        let second = if renamed { fields.next() } else { None };
        changes.push(FileChange {
            status: match letter.chars().next() {
                Some('A') => "added",
                Some('D') => "removed",
                Some('R') => "renamed",
                Some('C') => "copied",
                Some('T') => "changed",
                _ => "modified",
            },
            path: second.unwrap_or(first).to_owned(),
            previous: second.map(|_| first.to_owned()),
            sha: (*sha).to_owned(),
            additions: 0,
            deletions: 0,
            patch: None,
        });
    }
    for change in &mut changes {
        let Some(counts) = fields.next() else { break };
        let mut columns = counts.splitn(3, '\t');
        change.additions = columns.next().and_then(|n| n.parse().ok()).unwrap_or(0);
        change.deletions = columns.next().and_then(|n| n.parse().ok()).unwrap_or(0);
        if columns.next().is_some_and(str::is_empty) {
            fields.next();
            fields.next();
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    #[test]
    fn a_raw_diff_knows_renames_and_counts() {
        let text = format!(
            ":100644 100644 {SHA} {SHA} M\0a.tf\0:100644 100644 {SHA} {SHA} R090\0old.tf\0new.tf\0:000000 100644 {SHA} {SHA} A\0b\0\
             1\t2\ta.tf\03\t0\t\0old.tf\0new.tf\0-\t-\tb\0"
        );
        let changes = parse_raw_diff(&text);
        let shown: Vec<_> = changes
            .iter()
            .map(|change| {
                (change.status, change.path.as_str(), change.previous.as_deref(), change.additions, change.deletions)
            })
            .collect();
        assert_eq!(
            shown,
            [("modified", "a.tf", None, 1, 2), ("renamed", "new.tf", Some("old.tf"), 3, 0), ("added", "b", None, 0, 0)]
        );
    }

    #[test]
    fn a_commit_keeps_the_paragraphs_of_its_message() {
        let record = format!("{SHA}\0{SHA}\0\0A\0a@e\0D1\0B\0b@e\0D2\0Title\n\nBody\n\u{1e}");
        let commit = parse_commit(&record).unwrap();
        assert_eq!((commit.message.as_str(), commit.parents.len()), ("Title\n\nBody", 0));
        assert_eq!(parse_commit("not a commit"), None);
    }

    #[test]
    fn a_directory_has_no_size() {
        let entry = parse_tree_entry(&format!("040000 tree {SHA}       -\tsome dir")).unwrap();
        assert_eq!((entry.kind.as_str(), entry.size, entry.path.as_str()), ("tree", None, "some dir"));
    }
}
