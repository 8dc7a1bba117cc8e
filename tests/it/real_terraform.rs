//! Terraform as the oracle: which directories `terraform init -backend=false` says call which modules, and what it refuses.
//!
//! Nothing here reaches a network: providers come from an empty mirror, the registries are a listener of this process, and
//! git finds every host in a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use stackorder::ids::normalise_path;
use stackorder::scan::module_source::{self, Source};
use tempfile::TempDir;

use crate::machine;

/// The repository that every checkout of these tests is said to be.
pub const REPO: &str = "acme/infra";

pub struct Terraform {
    program: PathBuf,
    /// Its configuration, an empty mirror of providers, and the git repositories of the world.
    place: TempDir,
}

/// What one `init` found.
#[derive(Debug, Default)]
pub struct Init {
    /// Calling directory and key of the module.
    pub edges: BTreeSet<(String, String)>,
    /// Every directory of the checkout that was read.
    pub directories: BTreeSet<String>,
    pub refusals: Vec<Refusal>,
    /// Errors without a place in a file.
    pub unplaced: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    pub file: String,
    pub line: u32,
    pub summary: String,
}

impl Terraform {
    /// The one on `PATH`; `None` after saying that the test did not run.
    pub fn for_test(name: &str) -> Option<Self> {
        let program = machine::program_for(name, "terraform")?;
        let place = tempfile::tempdir().unwrap();
        let port = serve_registry();
        let mirror = place.path().join("mirror");
        std::fs::create_dir(&mirror).unwrap();
        let registry = |host: &str| {
            format!("host \"{host}\" {{\n  services = {{ \"modules.v1\" = \"http://127.0.0.1:{port}/\" }}\n}}\n")
        };
        let config = format!(
            "disable_checkpoint = true\nprovider_installation {{\n  filesystem_mirror {{\n    path = {mirror:?}\n  }}\n}}\n{}{}",
            registry("registry.terraform.io"),
            registry("registry.example.com"),
        );
        std::fs::write(place.path().join("terraform.rc"), config).unwrap();
        for repository in ["github.com/acme/mods.git", "github.com/acme/infra.git", "git.example.com/g/mods.git"] {
            make_repository(&place.path().join("git").join(repository));
        }
        Some(Self { program, place })
    }

    /// Runs `init` in a directory of the checkout, whose root has no links in its path.
    pub fn init(&self, root: &Path, directory: &str) -> Init {
        let here = root.join(directory);
        let git = format!("url.file://{}/git/.insteadOf", self.place.path().display());
        let output = Command::new(&self.program)
            .args(["init", "-backend=false", "-input=false", "-no-color", "-json"])
            .current_dir(&here)
            .env("TF_CLI_CONFIG_FILE", self.place.path().join("terraform.rc"))
            .env("CHECKPOINT_DISABLE", "1")
            .env("GIT_CONFIG_COUNT", "2")
            .env("GIT_CONFIG_KEY_0", &git)
            .env("GIT_CONFIG_VALUE_0", "https://")
            .env("GIT_CONFIG_KEY_1", &git)
            .env("GIT_CONFIG_VALUE_1", "ssh://git@")
            .output()
            .unwrap();
        let mut init = Init::default();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            // Some early failures are told as plain text even so; they have no place.
            match serde_json::from_str::<Value>(line) {
                Ok(message) if message["diagnostic"]["severity"] == "error" => {
                    init.error(directory, &message["diagnostic"]);
                }
                Ok(_) => {}
                Err(_) => init.unplaced.push(line.to_owned()),
            }
        }
        let manifest = std::fs::read(here.join(".terraform/modules/modules.json")).unwrap_or_default();
        init.manifest(root, directory, &serde_json::from_slice(&manifest).unwrap_or_default());
        init
    }
}

impl Init {
    fn error(&mut self, directory: &str, diagnostic: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (summary, detail) = (text(&diagnostic["summary"]), text(&diagnostic["detail"]));
        let range = &diagnostic["range"];
        let place = match range["filename"].as_str() {
            Some(file) => Some((file.to_owned(), range["start"]["line"].as_u64().unwrap_or_default())),
            None => place_in_words(&detail),
        };
        match place {
            Some((file, line)) => self.refusals.push(Refusal {
                file: normalise_path(&format!("{directory}/{file}")),
                line: u32::try_from(line).unwrap(),
                summary,
            }),
            None => self.unplaced.push(format!("{summary}: {detail}")),
        }
    }

    fn manifest(&mut self, root: &Path, directory: &str, manifest: &Value) {
        let modules: Vec<&Value> = manifest["Modules"].as_array().into_iter().flatten().collect();
        let places: BTreeMap<&str, Option<String>> =
            modules.iter().map(|module| (key(module), local_directory(root, directory, module))).collect();
        // Without any call there is no manifest, but the directory was read.
        self.directories = places.values().flatten().cloned().chain([directory.to_owned()]).collect();
        for module in modules.iter().filter(|module| !key(module).is_empty()) {
            let caller = key(module).rsplit_once('.').map_or("", |(caller, _)| caller);
            // What a module from elsewhere calls lies elsewhere too.
            let Some(Some(from)) = places.get(caller) else { continue };
            if let Some(to) = places[key(module)].as_ref().map(|path| local_key(path)).or_else(|| remote(module)) {
                self.edges.insert((from.clone(), to));
            }
        }
    }
}

fn key(module: &Value) -> &str {
    module["Key"].as_str().unwrap_or_default()
}

/// Where a module lies in the checkout: nowhere if it was fetched, or if there is no such directory.
fn local_directory(root: &Path, directory: &str, module: &Value) -> Option<String> {
    let dir = module["Dir"].as_str().filter(|dir| !dir.is_empty() && !dir.starts_with(".terraform/"))?;
    let real = root.join(directory).join(dir).canonicalize().ok().filter(|path| path.is_dir())?;
    Some(real.strip_prefix(root).ok()?.to_str()?.to_owned())
}

/// The key of a module that was fetched, worked out from the address as Terraform records it.
fn remote(module: &Value) -> Option<String> {
    let text = |name: &str| module[name].as_str().unwrap_or_default();
    match module_source::parse(text("Source"), text("Version"), "github.com") {
        Source::Remote(remote) => Some(remote.key),
        Source::Local(_) | Source::Unsupported => None,
    }
}

/// `… for module "x" at ../file.tf:3.`, where an error about a directory names the call.
fn place_in_words(detail: &str) -> Option<(String, u64)> {
    let (_, place) = detail.rsplit_once(" at ")?;
    let (file, line) = place.trim_end_matches('.').rsplit_once(':')?;
    Some((file.to_owned(), line.parse().ok()?))
}

/// A repository with a module at its root and one in `net`, tagged `v1`.
fn make_repository(path: &Path) {
    std::fs::create_dir_all(path.join("net")).unwrap();
    std::fs::write(path.join("main.tf"), "").unwrap();
    std::fs::write(path.join("net/main.tf"), "module \"root\" {\n  source = \"../\"\n}\n").unwrap();
    let author = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
    for args in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "--message", "first"], &["tag", "v1"]]
    {
        let done = Command::new("git").args(author).args(args).current_dir(path).output().unwrap();
        assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

/// A registry that knows version 1.0.0 of every module, until the process ends; its port.
fn serve_registry() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
    port
}

fn answer(mut stream: TcpStream) {
    let mut request = String::new();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while let Some(Ok(line)) = lines.next() {
        if line.is_empty() {
            break;
        }
        request = if request.is_empty() { line } else { request };
    }
    let answer = if request.contains("/versions ") {
        let body = r#"{"modules": [{"versions": [{"version": "1.0.0"}]}]}"#;
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    } else {
        "HTTP/1.1 204 No Content\r\nX-Terraform-Get: git::https://github.com/acme/mods.git?ref=v1\r\nConnection: close\r\n\r\n".to_owned()
    };
    // A client that went away has heard enough.
    let _ = stream.write_all(answer.as_bytes());
}

/// The key of a local module; that of the repository root is what git sources give it.
fn local_key(path: &str) -> String {
    if path.is_empty() { REPO.to_owned() } else { format!("{REPO}//{path}") }
}
