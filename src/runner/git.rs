//! Questions to `git`, asked without a shell and with bounded answers.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::environment::Environment;
use crate::ids::{RepoName, Sha};

/// Most bytes of one answer: the names of a million files.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// How git leaves when it looked and found nothing; what kept it from looking has another code.
const NOTHING_FOUND: i32 = 1;

/// Compares names. A `.gitmodules` may ask git to pass over a submodule, and its commit would change unseen.
const DIFF: [&str; 6] = ["diff", "--name-status", "-z", "--relative", "--no-ext-diff", "--ignore-submodules=untracked"];

/// Why git did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitError {
    #[error("cannot run git: {0}")]
    NotThere(String),
    #[error("git {command}: {message}")]
    Failed { command: String, message: String, code: Option<i32> },
    #[error("{0:?} is not a git revision")]
    Revision(String),
}

/// A repository, or any directory to ask about one. Paths are relative to it, in and out.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    root: PathBuf,
    env: Environment,
}

/// A path of the working tree that is not as the index has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Git knows nothing of it and does not ignore it.
    Untracked(String),
    Deleted(String),
    Modified(String),
}

/// The index and the working tree beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkingCopy {
    pub index: Vec<TreeEntry>,
    /// Files of the index that git does not keep in the working tree, as in a sparse checkout.
    pub skipped: Vec<TreeEntry>,
    pub differences: Vec<Difference>,
}

/// What changed between two commits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Old and new paths, sorted.
    pub paths: Vec<String>,
    /// Those of them that the head no longer has.
    pub deleted: Vec<String>,
}

/// A file of a commit or of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    pub kind: TreeKind,
    /// Of the blob or, for a submodule, of the commit.
    pub id: String,
    pub path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeKind {
    File,
    /// A symbolic link.
    Link,
    Submodule,
}

impl TreeKind {
    fn of_mode(mode: &str) -> Self {
        match mode {
            "120000" => Self::Link,
            "160000" => Self::Submodule,
            _ => Self::File,
        }
    }
}

impl Git {
    pub fn new(root: impl Into<PathBuf>, env: &Environment) -> Self {
        // A GIT_DIR of the caller would make every answer about another repository.
        let env = env.clone().without(|name| matches!(name, "GIT_DIR" | "GIT_WORK_TREE" | "GIT_INDEX_FILE"));
        Self { program: program(&env), root: root.into(), env }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The top directory of the working tree, `None` outside of any.
    pub fn top_level(&self) -> Option<PathBuf> {
        let text = self.line(&["rev-parse", "--show-toplevel"]).ok()?;
        (!text.is_empty()).then(|| PathBuf::from(text))
    }

    pub fn is_repository(&self) -> bool {
        self.line(&["rev-parse", "--is-inside-work-tree"]).is_ok_and(|answer| answer == "true")
    }

    /// The commit of a revision; `None` when there is no such commit here.
    pub fn commit_of(&self, revision: &str) -> Result<Option<Sha>, GitError> {
        let revision = checked(revision)?;
        let commit = format!("{revision}^{{commit}}");
        match self.line(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]) {
            Ok(text) => Ok(Sha::parse(&text).ok()),
            Err(GitError::Failed { code: Some(NOTHING_FOUND), .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where two commits parted; `None` when they share no history here.
    pub fn merge_base(&self, a: &str, b: &str) -> Result<Option<Sha>, GitError> {
        let (a, b) = (checked(a)?, checked(b)?);
        match self.line(&["merge-base", "--end-of-options", a, b]) {
            Ok(text) => Ok(Sha::parse(text.lines().next().unwrap_or_default()).ok()),
            Err(GitError::Failed { code: Some(NOTHING_FOUND), .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Everything that differs between two commits; a rename is a deletion and an addition.
    pub fn changes(&self, from: &Sha, to: &Sha) -> Result<Changes, GitError> {
        self.differing(&[from.as_str(), to.as_str()])
    }

    /// Everything that differs between a commit and the working tree, with files that git does not know yet.
    pub fn changes_with_edits(&self, from: &Sha) -> Result<Changes, GitError> {
        let mut changes = self.differing(&[from.as_str()])?;
        for difference in self.differences(&["ls-files", "-z", "-t", "--others", "--exclude-standard"])? {
            if let Difference::Untracked(path) = difference {
                changes.paths.push(path);
            }
        }
        changes.paths.sort();
        changes.paths.dedup();
        Ok(changes)
    }

    fn differing(&self, ends: &[&str]) -> Result<Changes, GitError> {
        let args = [&DIFF[..], &["--no-renames", "--end-of-options"], ends, &["--"]];
        let answer = self.text(&args.concat())?;
        let mut fields = answer.split('\0').filter(|field| !field.is_empty());
        let mut changes = Changes::default();
        while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
            if status == "D" {
                changes.deleted.push(path.to_owned());
            }
            changes.paths.push(path.to_owned());
        }
        changes.paths.sort();
        changes.paths.dedup();
        changes.deleted.sort();
        Ok(changes)
    }

    /// The renames that git finds between two commits, or a commit and the tracked files of the working tree: old path
    /// and new.
    pub fn renames(&self, from: &Sha, to: Option<&Sha>) -> Result<Vec<(String, String)>, GitError> {
        let ends: Vec<&str> = std::iter::once(from).chain(to).map(Sha::as_str).collect();
        let args = [&DIFF[..], &["--find-renames", "--diff-filter=R", "--end-of-options"], &ends, &["--"]];
        let answer = self.text(&args.concat())?;
        let mut fields = answer.split('\0').filter(|field| !field.is_empty());
        let mut renames = Vec::new();
        while let (Some(_), Some(old), Some(new)) = (fields.next(), fields.next(), fields.next()) {
            renames.push((old.to_owned(), new.to_owned()));
        }
        renames.sort();
        Ok(renames)
    }

    /// `owner/name` and host of the remote `origin`.
    pub fn origin(&self) -> Option<(String, RepoName)> {
        parse_remote(&self.line(&["remote", "get-url", "origin"]).ok()?)
    }

    /// The branch that `origin/HEAD` stands for.
    pub fn default_branch(&self) -> Option<String> {
        let name = self.line(&["symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"]).ok()?;
        name.strip_prefix("refs/remotes/origin/").map(str::to_owned)
    }

    /// Whether tracked files differ from `HEAD`, or untracked ones are there.
    pub fn is_dirty(&self) -> Result<bool, GitError> {
        Ok(!self.bytes(&["status", "--porcelain", "-z"])?.is_empty())
    }

    /// A file at a commit; `None` when the commit has no such file.
    pub fn show(&self, commit: &Sha, path: &str) -> Result<Option<Vec<u8>>, GitError> {
        match self.bytes(&["cat-file", "blob", &format!("{commit}:./{path}")]) {
            Ok(bytes) => Ok(Some(bytes)),
            // Git leaves with one code for "there is none" and for "it cannot be read".
            Err(error @ GitError::Failed { .. }) => {
                let listed = self.bytes(&["ls-tree", "-z", commit.as_str(), "--", path])?;
                if listed.is_empty() { Ok(None) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    /// Fetches one commit without its history, unless it is here.
    pub fn fetch_commit(&self, commit: &Sha) -> Result<(), GitError> {
        if self.commit_of(commit.as_str())?.is_some() {
            return Ok(());
        }
        self.bytes(&["fetch", "--quiet", "--no-tags", "--depth=1", "origin", commit.as_str()]).map(|_| ())
    }

    /// Every file of a commit.
    pub fn tree(&self, commit: &Sha) -> Result<Vec<TreeEntry>, GitError> {
        let answer = self.text(&["ls-tree", "-r", "-z", commit.as_str()])?;
        let entry = |line: &str| {
            let (head, path) = line.split_once('\t')?;
            let mut words = head.split(' ');
            let (mode, _kind, id) = (words.next()?, words.next()?, words.next()?);
            Some(TreeEntry { kind: TreeKind::of_mode(mode), id: id.to_owned(), path: path.to_owned() })
        };
        Ok(answer.split('\0').filter_map(entry).collect())
    }

    /// Every file of the index, and how the working tree differs from it. Git is asked everything at once.
    pub fn working_copy(&self) -> Result<WorkingCopy, GitError> {
        let flags = |asked: [&'static str; 2]| ["ls-files", "-z", "-t", asked[0], asked[1]];
        std::thread::scope(|scope| {
            let unknown = scope.spawn(move || self.differences(&flags(["--others", "--exclude-standard"])));
            let known = scope.spawn(move || self.differences(&flags(["--deleted", "--modified"])));
            let mut copy = self.index()?;
            for asked in [unknown, known] {
                copy.differences.extend(asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(copy)
        })
    }

    fn index(&self) -> Result<WorkingCopy, GitError> {
        let answer = self.text(&["ls-files", "-z", "-v", "--stage", "--cached"])?;
        let mut copy = WorkingCopy::default();
        for line in answer.split('\0') {
            let Some((head, path)) = line.split_once('\t') else { continue };
            let mut words = head.split(' ');
            let (Some(tag), Some(mode), Some(id)) = (words.next(), words.next(), words.next()) else { continue };
            let entry = TreeEntry { kind: TreeKind::of_mode(mode), id: id.to_owned(), path: path.to_owned() };
            // In lower case: git was told to take the file for unchanged, and does not look at it.
            if tag == "h" {
                copy.differences.push(Difference::Modified(path.to_owned()));
            }
            if tag.eq_ignore_ascii_case("s") { copy.skipped.push(entry) } else { copy.index.push(entry) }
        }
        Ok(copy)
    }

    fn differences(&self, args: &[&str]) -> Result<Vec<Difference>, GitError> {
        let answer = self.text(args)?;
        let difference = |line: &str| {
            let (tag, path) = line.split_once(' ')?;
            let path = path.to_owned();
            match tag {
                "?" => Some(Difference::Untracked(path)),
                "R" => Some(Difference::Deleted(path)),
                "C" | "M" => Some(Difference::Modified(path)),
                _ => None,
            }
        };
        Ok(answer.split('\0').filter_map(difference).collect())
    }

    /// Whether the history ends early because the clone was made so.
    pub fn is_shallow(&self) -> bool {
        self.line(&["rev-parse", "--is-shallow-repository"]).is_ok_and(|answer| answer == "true")
    }

    /// A process that answers with one blob after the other.
    pub(super) fn blobs(&self) -> Result<Blobs, GitError> {
        let mut child = self
            .command(&["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| GitError::NotThere(error.to_string()))?;
        let (Some(ask), Some(answer)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(GitError::NotThere("its pipes are missing".to_owned()));
        };
        Ok(Blobs { child, ask, answer: std::io::BufReader::new(answer) })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("-C")
            .arg(&self.root)
            .args(["-c", "core.quotePath=false", "-c", "core.fsmonitor=false"])
            .args(args)
            .env_clear()
            .envs(self.env.iter())
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn bytes(&self, args: &[&str]) -> Result<Vec<u8>, GitError> {
        let ended =
            |message: String, code: Option<i32>| GitError::Failed { command: args[0].to_owned(), message, code };
        let failed = |message: String| ended(message, None);
        let mut child = self.command(args).spawn().map_err(|error| GitError::NotThere(error.to_string()))?;
        // Whoever reads one pipe to its end must not be waited for on the other.
        let errors = child.stderr.take().map(|pipe| std::thread::spawn(move || read_text(pipe)));
        let mut answer = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            pipe.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut answer).map_err(|error| failed(error.to_string()))?;
        }
        if answer.len() as u64 > ANSWER_BYTES_MAX {
            return Err(failed(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes")));
        }
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        if status.success() {
            return Ok(answer);
        }
        let message = errors.and_then(|thread| thread.join().ok()).unwrap_or_default();
        let message = if message.trim().is_empty() { status.to_string() } else { message.trim().to_owned() };
        Err(ended(message, status.code()))
    }

    /// Paths that are no UTF-8 become paths with replacement characters, which nothing owns.
    fn text(&self, args: &[&str]) -> Result<String, GitError> {
        let bytes = self.bytes(args)?;
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    fn line(&self, args: &[&str]) -> Result<String, GitError> {
        Ok(self.text(args)?.trim_end().to_owned())
    }
}

/// Git by its path: a process can then be started without copying this one.
fn program(env: &Environment) -> PathBuf {
    let folders = env.get("PATH").into_iter().flat_map(std::env::split_paths);
    let found = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join("git"));
    found.into_iter().find(|file| file.is_file()).unwrap_or_else(|| PathBuf::from("git"))
}

fn read_text(pipe: impl Read) -> String {
    /// Enough for any message of git.
    const MESSAGE_BYTES_MAX: u64 = 64 * 1024;
    let mut bytes = Vec::new();
    let mut pipe = pipe;
    let read = pipe.by_ref().take(MESSAGE_BYTES_MAX).read_to_end(&mut bytes);
    let _rest = std::io::copy(&mut pipe, &mut std::io::sink());
    if read.is_ok() { String::from_utf8_lossy(&bytes).into_owned() } else { String::new() }
}

/// A revision that git cannot take for an option.
fn checked(revision: &str) -> Result<&str, GitError> {
    let trimmed = revision.trim();
    if trimmed.is_empty() || trimmed.starts_with('-') || trimmed.chars().any(char::is_control) {
        return Err(GitError::Revision(revision.to_owned()));
    }
    Ok(trimmed)
}

/// Host and repository of `host:owner/repo.git`, `ssh://host/owner/repo` or `https://host/owner/repo`.
fn parse_remote(url: &str) -> Option<(String, RepoName)> {
    let (host, path) = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?,
        None => url.split_once(':')?,
    };
    let host = host.rsplit('@').next().unwrap_or(host);
    let host = host.split(':').next().unwrap_or(host);
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    Some((host.to_owned(), RepoName::parse(path).ok()?))
}

/// `git cat-file --batch`, kept open.
#[derive(Debug)]
pub(super) struct Blobs {
    child: Child,
    ask: ChildStdin,
    answer: std::io::BufReader<ChildStdout>,
}

impl Blobs {
    /// The content of a blob, or why it is not given.
    pub(super) fn read(&mut self, id: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
        use std::io::{BufRead, Write};
        let broken = |error: std::io::Error| format!("git cat-file: {error}");
        writeln!(self.ask, "{id}").and_then(|()| self.ask.flush()).map_err(broken)?;
        let mut header = String::new();
        self.answer.read_line(&mut header).map_err(broken)?;
        let size = header.trim_end().rsplit(' ').next().and_then(|size| size.parse::<u64>().ok());
        let Some(size) = size else { return Err(format!("git cat-file: {}", header.trim_end())) };
        let mut content = Vec::new();
        if size > bytes_max {
            let mut skipped = (&mut self.answer).take(size + 1);
            std::io::copy(&mut skipped, &mut std::io::sink()).map_err(broken)?;
            return Err(format!("it is larger than {bytes_max} bytes"));
        }
        (&mut self.answer).take(size + 1).read_to_end(&mut content).map_err(broken)?;
        content.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        Ok(content)
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_read_in_all_their_spellings() {
        for url in [
            "git@github.com:acme/infra.git",
            "https://github.com/acme/infra",
            "https://x-access-token:abc@github.com/acme/infra.git/",
            "ssh://git@github.com:22/acme/infra.git",
        ] {
            let (host, repo) = parse_remote(url).unwrap();
            assert_eq!((host.as_str(), repo.as_str()), ("github.com", "acme/infra"), "{url}");
        }
        for url in ["/srv/git/infra.git", "https://github.com/infra", "nothing"] {
            assert!(parse_remote(url).is_none(), "{url}");
        }
    }

    #[test]
    fn a_revision_can_never_become_an_option() {
        for revision in ["", " ", "--output=/etc/passwd", "-h", "a\nb"] {
            assert!(checked(revision).is_err(), "{revision:?}");
        }
        assert_eq!(checked("origin/main"), Ok("origin/main"));
    }
}
