//! Bare repositories on disk, through the `git` program.
//!
//! Everything here is git and nothing is GitHub: names, objects, refs, diffs, test merges. A missing object is `None`.
//!
//! - `records`: what git prints, as values; `kept`: what it need not print again.

mod kept;
mod records;

pub use records::{Commit, FileChange, NewCommit, Ref, Signature, TreeEntry};

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail};

use kept::{Kept, Refs};
use records::{parse_commit, parse_raw_diff, parse_ref, parse_tree_entry};

/// The commit id that stands for "no commit" in pushes.
pub const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

/// The directory of bare repositories, `owner/name.git` each.
pub struct GitStore {
    root: PathBuf,
    /// Commits never change, so each is read once.
    commits: Mutex<BTreeMap<(String, String), Arc<Commit>>>,
    kept: Kept,
}

impl GitStore {
    pub fn new(root: PathBuf) -> GitStore {
        GitStore { root, commits: Mutex::new(BTreeMap::new()), kept: Kept::default() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, repo: &str) -> PathBuf {
        self.root.join(format!("{repo}.git"))
    }

    pub fn init(&self, repo: &str, default_branch: &str) -> anyhow::Result<()> {
        let path = self.path(repo);
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        self.run(
            repo,
            &["init", "--quiet", "--bare", "--template=", &format!("--initial-branch={default_branch}"), "."],
        )?;
        let settings = [
            ("http.receivepack", "true"),
            ("uploadpack.allowAnySHA1InWant", "true"),
            ("uploadpack.allowFilter", "true"),
            ("receive.hideRefs", "refs/pull"),
            ("gc.auto", "0"),
        ];
        for (key, value) in settings {
            self.run(repo, &["config", key, value])?;
        }
        Ok(())
    }

    /// The commit that a branch, tag, full ref or commit id names.
    pub fn resolve(&self, repo: &str, name: &str) -> Option<String> {
        if name.starts_with('-') || name.is_empty() {
            return None;
        }
        let refs = self.all_refs(repo);
        let prefixes: &[&str] = if name.starts_with("refs/") { &[""] } else { &["refs/heads/", "refs/tags/", "refs/"] };
        let found = prefixes.iter().find_map(|prefix| refs.get(&format!("{prefix}{name}")));
        match found {
            Some(found) if found.kind == "commit" => Some(found.sha.clone()),
            Some(found) => self.peel(repo, &found.sha),
            None => self.peel(repo, name),
        }
    }

    /// The commit behind a name that is no ref of its own, or behind an annotated tag.
    fn peel(&self, repo: &str, name: &str) -> Option<String> {
        let commit = format!("{name}^{{commit}}");
        let ask = ["rev-parse", "--verify", "--quiet", "--end-of-options", commit.as_str()];
        let answer = self.ask(repo, &ask, &[name])?;
        Some(String::from_utf8_lossy(&answer).trim().to_owned()).filter(|sha| !sha.is_empty())
    }

    /// The full name of a branch or tag; a commit id stays as it is.
    pub fn full_ref(&self, repo: &str, name: &str) -> Option<String> {
        let candidates = [name.to_owned(), format!("refs/heads/{name}"), format!("refs/tags/{name}")];
        let known =
            candidates.into_iter().find(|full| full.starts_with("refs/") && self.object_at(repo, full).is_some());
        known.or_else(|| self.resolve(repo, name))
    }

    /// What a ref points to, without peeling.
    pub fn object_at(&self, repo: &str, full_ref: &str) -> Option<Ref> {
        self.refs(repo, full_ref).into_iter().find(|found| found.name == full_ref)
    }

    /// The ref of this name, or the refs below it, sorted by name.
    pub fn refs(&self, repo: &str, prefix: &str) -> Vec<Ref> {
        let below = format!("{}/", prefix.trim_end_matches('/'));
        let refs = self.all_refs(repo);
        refs.values().filter(|found| found.name == prefix || found.name.starts_with(&below)).cloned().collect()
    }

    fn all_refs(&self, repo: &str) -> Arc<Refs> {
        self.kept.refs(repo, || {
            let format = "--format=%(refname)%00%(objectname)%00%(objecttype)";
            let Ok(output) = self.run(repo, &["for-each-ref", format]) else { return Refs::new() };
            let lines = String::from_utf8_lossy(&output).into_owned();
            lines.lines().filter_map(parse_ref).map(|found| (found.name.clone(), found)).collect()
        })
    }

    /// To be called after a push, which git itself carries out.
    pub fn refs_moved(&self, repo: &str) {
        self.kept.refs_moved(repo);
    }

    pub fn commit(&self, repo: &str, sha: &str) -> Option<Arc<Commit>> {
        let key = (repo.to_owned(), sha.to_owned());
        if let Some(known) = self.commits.lock().expect("no panic while reading commits").get(&key) {
            return Some(known.clone());
        }
        let commit = Arc::new(parse_commit(&self.log(repo, &["-1", "--end-of-options", sha])?)?);
        self.commits.lock().expect("no panic while reading commits").insert(key, commit.clone());
        Some(commit)
    }

    /// Commits of a range such as `old..new`, newest first.
    pub fn commits(&self, repo: &str, range: &[&str], max: usize) -> Vec<Arc<Commit>> {
        let limit = format!("-{max}");
        let mut args = vec![limit.as_str(), "--end-of-options"];
        args.extend(range);
        let Some(text) = self.log(repo, &args) else { return Vec::new() };
        text.split('\u{1e}').filter_map(|record| parse_commit(record.trim_start_matches('\n'))).map(Arc::new).collect()
    }

    fn log(&self, repo: &str, args: &[&str]) -> Option<String> {
        let mut all = vec!["log", "--no-color", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"];
        all.push("--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%ad%x00%cn%x00%ce%x00%cd%x00%B%x1e");
        all.extend(args);
        Some(String::from_utf8_lossy(&self.run(repo, &all).ok()?).into_owned())
    }

    pub fn count(&self, repo: &str, range: &str) -> i64 {
        self.line(repo, &["rev-list", "--count", "--end-of-options", range]).and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    pub fn merge_base(&self, repo: &str, a: &str, b: &str) -> Option<String> {
        self.line(repo, &["merge-base", a, b])
    }

    pub fn is_ancestor(&self, repo: &str, ancestor: &str, of: &str) -> bool {
        self.run(repo, &["merge-base", "--is-ancestor", ancestor, of]).is_ok()
    }

    pub fn read_file(&self, repo: &str, commit: &str, path: &str) -> Option<Vec<u8>> {
        let entry = self.tree_entry(repo, commit, path)?;
        (entry.kind == "blob").then(|| self.blob(repo, &entry.sha))?
    }

    pub fn blob(&self, repo: &str, sha: &str) -> Option<Vec<u8>> {
        self.ask(repo, &["cat-file", "blob", sha], &[sha]).map(|blob| blob.to_vec())
    }

    pub fn tree_entry(&self, repo: &str, commit: &str, path: &str) -> Option<TreeEntry> {
        let path = path.trim_matches('/');
        self.ls_tree(repo, commit, &["--end-of-options", commit, "--", path])
            .into_iter()
            .find(|entry| entry.path == path)
    }

    /// Entries directly inside a directory, or of everything below with `recursive`. Paths are from the root.
    pub fn tree(&self, repo: &str, tree: &str, directory: &str, recursive: bool) -> Vec<TreeEntry> {
        let directory = directory.trim_matches('/');
        let inside = format!("{directory}/");
        let mut args = if recursive { vec!["-r", "-t"] } else { Vec::new() };
        args.extend(["--end-of-options", tree]);
        if !directory.is_empty() {
            args.extend(["--", inside.as_str()]);
        }
        self.ls_tree(repo, tree, &args)
    }

    fn ls_tree(&self, repo: &str, tree: &str, args: &[&str]) -> Vec<TreeEntry> {
        let mut ask = vec!["ls-tree", "-z", "--long", "--full-tree"];
        ask.extend(args);
        let Some(output) = self.ask(repo, &ask, &[tree]) else { return Vec::new() };
        let text = String::from_utf8_lossy(&output).into_owned();
        text.split('\0').filter_map(parse_tree_entry).collect()
    }

    /// Writes one commit on a branch and returns its id.
    pub fn write_commit(&self, repo: &str, commit: &NewCommit) -> anyhow::Result<String> {
        let branch_ref = format!("refs/heads/{}", commit.branch);
        let parent = match self.resolve(repo, &branch_ref) {
            Some(own) => Some(own),
            None => commit.from.and_then(|from| self.resolve(repo, from)),
        };
        let mut stream = Vec::new();
        let signature = format!("{} <{}> {} +0000", commit.name, commit.email, commit.at_ms.div_euclid(1000));
        write!(stream, "commit {branch_ref}\nauthor {signature}\ncommitter {signature}\n")?;
        write!(stream, "data {}\n{}\n", commit.message.len(), commit.message)?;
        if let Some(parent) = parent {
            writeln!(stream, "from {parent}")?;
        }
        for (path, content) in commit.files {
            if path.is_empty() || path.starts_with('/') || path.contains(['\n', '"']) {
                bail!("not a path of a repository: {path:?}");
            }
            let Some(content) = content else {
                writeln!(stream, "D {path}")?;
                continue;
            };
            // Scripts arrive without a mode; git would otherwise lose that they can be run.
            let mode = if content.starts_with(b"#!") { "100755" } else { "100644" };
            write!(stream, "M {mode} inline {path}\ndata {}\n", content.len())?;
            stream.extend_from_slice(content);
            stream.push(b'\n');
        }
        let written = self.run_with(repo, &["fast-import", "--quiet", "--force", "--date-format=raw"], &stream, &[]);
        self.refs_moved(repo);
        written?;
        self.resolve(repo, &branch_ref).context("the commit was not written")
    }

    /// The tree of merging two commits; `Ok(None)` on a conflict.
    pub fn merge_tree(&self, repo: &str, base: &str, head: &str) -> anyhow::Result<Option<String>> {
        let output = self.command(repo, &["merge-tree", "--write-tree", "--no-messages", base, head]).output()?;
        match output.status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)),
            Some(1) => Ok(None),
            _ => bail!("git merge-tree: {}", String::from_utf8_lossy(&output.stderr).trim()),
        }
    }

    pub fn commit_tree(
        &self,
        repo: &str,
        tree: &str,
        parents: &[&str],
        message: &str,
        (name, email, at_ms): (&str, &str, i64),
    ) -> anyhow::Result<String> {
        let mut args = vec!["commit-tree", tree];
        for parent in parents {
            args.extend(["-p", parent]);
        }
        let date = format!("{} +0000", at_ms.div_euclid(1000));
        let env = [
            ("GIT_AUTHOR_NAME", name),
            ("GIT_AUTHOR_EMAIL", email),
            ("GIT_AUTHOR_DATE", &date),
            ("GIT_COMMITTER_NAME", name),
            ("GIT_COMMITTER_EMAIL", email),
            ("GIT_COMMITTER_DATE", &date),
        ];
        let output = self.run_with(repo, &args, message.as_bytes(), &env)?;
        Ok(String::from_utf8_lossy(&output).trim().to_owned())
    }

    pub fn update_ref(&self, repo: &str, name: &str, sha: &str) -> anyhow::Result<()> {
        self.move_refs(repo, &["update-ref", name, sha])
    }

    pub fn delete_ref(&self, repo: &str, name: &str) -> anyhow::Result<()> {
        self.move_refs(repo, &["update-ref", "-d", name])
    }

    fn move_refs(&self, repo: &str, args: &[&str]) -> anyhow::Result<()> {
        let moved = self.run(repo, args).map(drop);
        self.refs_moved(repo);
        moved
    }

    /// An annotated tag; a lightweight one is `update_ref`.
    pub fn annotated_tag(&self, repo: &str, tag: &str, sha: &str, message: &str, at_ms: i64) -> anyhow::Result<String> {
        let date = at_ms.div_euclid(1000);
        let object = format!(
            "object {sha}\ntype commit\ntag {tag}\ntagger GitHub <noreply@github.test> {date} +0000\n\n{message}\n"
        );
        let output = self.run_with(repo, &["mktag"], object.as_bytes(), &[])?;
        let tag_sha = String::from_utf8_lossy(&output).trim().to_owned();
        self.update_ref(repo, &format!("refs/tags/{tag}"), &tag_sha)?;
        Ok(tag_sha)
    }

    pub fn cat_file(&self, repo: &str, kind: &str, sha: &str) -> Option<String> {
        self.run(repo, &["cat-file", kind, sha]).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Copies the objects of a commit from one repository to another, as a fork's pull request needs.
    pub fn fetch(&self, into: &str, from: &str, refspec: &str) -> anyhow::Result<()> {
        let source = self.path(from);
        self.move_refs(into, &["fetch", "--quiet", &source.to_string_lossy(), refspec])
    }

    /// Files changed between two trees, with patches up to GitHub's size.
    pub fn diff(&self, repo: &str, from: &str, to: &str) -> Vec<FileChange> {
        let from = if from == NO_COMMIT { EMPTY_TREE } else { from };
        let raw = ["diff-tree", "-r", "-z", "-M", "--raw", "--numstat", "--end-of-options", from, to];
        let Some(output) = self.ask(repo, &raw, &[from, to]) else { return Vec::new() };
        let mut changes = parse_raw_diff(&String::from_utf8_lossy(&output));
        let patch = ["diff-tree", "-r", "-M", "-p", "--no-color", "--no-prefix", "--end-of-options", from, to];
        let text = self.ask(repo, &patch, &[from, to]).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        // The raw part and the patch part list the files in the same order.
        let bodies = text.split("diff --git ").skip(1);
        for (change, body) in changes.iter_mut().zip(bodies) {
            const PATCH_BYTES_MAX: usize = 100_000;
            let hunk = body.find("\n@@").map(|at| body[at + 1..].trim_end_matches('\n').to_owned());
            change.patch = hunk.filter(|hunk| hunk.len() <= PATCH_BYTES_MAX);
        }
        changes
    }

    /// The output for arguments that name these objects; by their full ids it never changes, and is asked for once.
    fn ask(&self, repo: &str, args: &[&str], objects: &[&str]) -> Option<Arc<Vec<u8>>> {
        let ask = || self.run(repo, args).ok();
        let is_id = |name: &&str| name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if objects.iter().all(is_id) { self.kept.answer(&[&[repo], args].concat(), ask) } else { ask().map(Arc::new) }
    }

    fn line(&self, repo: &str, args: &[&str]) -> Option<String> {
        let output = self.run(repo, args).ok()?;
        let line = String::from_utf8_lossy(&output).trim().to_owned();
        (!line.is_empty()).then_some(line)
    }

    pub fn run(&self, repo: &str, args: &[&str]) -> anyhow::Result<Vec<u8>> {
        self.run_with(repo, args, &[], &[])
    }

    fn run_with(&self, repo: &str, args: &[&str], input: &[u8], env: &[(&str, &str)]) -> anyhow::Result<Vec<u8>> {
        let mut command = self.command(repo, args);
        command.envs(env.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start git")?;
        let mut stdin = child.stdin.take().context("git has no standard input")?;
        let output = std::thread::scope(|scope| {
            // A second thread feeds it, or both sides could wait on a full pipe. A git that stops reading says why.
            scope.spawn(move || stdin.write_all(input).ok());
            child.wait_with_output()
        })?;
        if !output.status.success() {
            let name = args.first().copied().unwrap_or_default();
            bail!("git {name} in {repo}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(output.stdout)
    }

    fn command(&self, repo: &str, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.path(repo)).args(args);
        isolate(&mut command);
        command
    }
}

/// The tree without entries, known to every git.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Keeps the settings and hooks of the person's own git away.
pub fn isolate(command: &mut Command) {
    for (key, value) in ISOLATION {
        command.env(key, value);
    }
    for key in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"] {
        command.env_remove(key);
    }
}

pub const ISOLATION: [(&str, &str); 6] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_COMMITTER_NAME", "GitHub"),
    ("GIT_COMMITTER_EMAIL", "noreply@github.test"),
    ("TZ", "UTC"),
];
