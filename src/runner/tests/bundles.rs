//! What a bundle may hold and where its files may go.

use std::fs;
use std::path::PathBuf;

use crate::runner::bundle::{Found, complete, digest, find, put_in_place};

struct Directories {
    _base: tempfile::TempDir,
    bundle: PathBuf,
    stack: PathBuf,
    own: PathBuf,
}

fn directories() -> Directories {
    let base = tempfile::tempdir().unwrap();
    let [bundle, stack, own] = ["bundle", "stack", "own"].map(|name| base.path().join(name));
    fs::create_dir_all(bundle.join("files")).unwrap();
    fs::create_dir_all(&stack).unwrap();
    Directories { _base: base, bundle, stack, own }
}

#[test]
fn the_digest_covers_every_path_and_content() {
    let at = directories();
    fs::write(at.bundle.join("a.tfplan"), "plan").unwrap();
    let plain = digest(&at.bundle).unwrap();
    fs::write(at.bundle.join("files/x"), "1").unwrap();
    let with_file = digest(&at.bundle).unwrap();
    fs::rename(at.bundle.join("files/x"), at.bundle.join("files/y")).unwrap();
    let renamed = digest(&at.bundle).unwrap();
    assert!(plain != with_file && with_file != renamed);
    std::os::unix::fs::symlink("y", at.bundle.join("files/z")).unwrap();
    assert!(digest(&at.bundle).unwrap_err().to_string().contains("symbolic links"));
}

#[test]
fn only_modules_of_the_tools_own_directory_travel() {
    let at = directories();
    for path in [".terraform/modules/m/f.zip", ".terraform/providers/p.zip", "f.zip"] {
        fs::create_dir_all(at.stack.join(path).parent().unwrap()).unwrap();
        fs::write(at.stack.join(path), path).unwrap();
    }
    complete(&at.bundle, &at.stack, &["**/*.zip".to_owned()]).unwrap();
    assert!(at.bundle.join("files/f.zip").is_file());
    assert!(at.bundle.join("files/.terraform/modules/m/f.zip").is_file());
    assert!(!at.bundle.join("files/.terraform/providers").exists());
}

#[test]
fn files_go_in_place_and_the_checkouts_own_come_back() {
    let at = directories();
    fs::write(at.bundle.join(".terraform.lock.hcl"), "theirs").unwrap();
    fs::create_dir_all(at.bundle.join("files/.terraform/modules")).unwrap();
    fs::write(at.bundle.join("files/.terraform/modules/m"), "module").unwrap();
    fs::write(at.bundle.join("files/new"), "new").unwrap();
    fs::write(at.stack.join(".terraform.lock.hcl"), "own").unwrap();

    let mut in_place = put_in_place(&at.bundle, &at.stack, &at.own).unwrap();
    assert_eq!(fs::read_to_string(at.stack.join(".terraform.lock.hcl")).unwrap(), "theirs");
    assert!(!at.stack.join(".terraform/modules/m").exists(), "init would clear it");
    in_place.put_modules().unwrap();
    assert!(at.stack.join(".terraform/modules/m").is_file());

    in_place.undo().unwrap();
    assert_eq!(fs::read_to_string(at.stack.join(".terraform.lock.hcl")).unwrap(), "own");
    assert!(!at.stack.join("new").exists());
}

#[test]
fn no_file_of_a_bundle_is_written_through_a_link() {
    let at = directories();
    let outside = at.own.parent().unwrap().join("outside");
    fs::create_dir_all(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, at.stack.join("linked")).unwrap();
    fs::create_dir_all(at.bundle.join("files/linked")).unwrap();
    fs::write(at.bundle.join("files/linked/x"), "x").unwrap();
    assert!(put_in_place(&at.bundle, &at.stack, &at.own).is_err());
    assert!(!outside.join("x").exists());
}

#[test]
fn a_bundle_has_exactly_one_plan() {
    let at = directories();
    assert_eq!(find(&at.own), Ok(Found::Nothing));
    assert!(find(&at.bundle).is_err(), "a directory with other things is no bundle");
    fs::write(at.bundle.join("a.tar.age"), "").unwrap();
    assert!(matches!(find(&at.bundle), Ok(Found::Encrypted(_))));
    fs::write(at.bundle.join("a.tfplan"), "").unwrap();
    assert!(find(&at.bundle).is_err());
}
