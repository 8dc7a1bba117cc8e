//! A stand-in for Terraform, for machines that have neither Terraform nor OpenTofu.
//!
//! It plans and applies `terraform_data` for real: the same files, the same S3 state and lock objects, the same exit
//! codes. Everything else it refuses by name. It never claims to be the real tool: `version` says what it is.
//!
//! - `value`, `expression`: known, unknown and sensitive values, and evaluating HCL to them.
//! - `configuration`, `variables`: the files of a stack and its modules, and where variables get their values.
//! - `evaluation`: the walk that plans and applies.
//! - `backend`, `state`: where the state is, and what it looks like.
//! - `plan`: a plan as JSON, as text, and as a file.

mod backend;
mod configuration;
mod evaluation;
mod expression;
mod plan;
mod state;
mod value;
mod variables;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use self::backend::Backend;
use self::configuration::{Modules, Sources};
use self::evaluation::{Machine, Phase, Record, Walk};
use self::state::{OutputValue, Remote, State, output_json};
use self::value::Value;
use crate::clock::{Clock as _, Millis, SystemClock, rfc3339};

/// What `version -json` and state files say.
pub const VERSION: &str = "1.11.4-standin";

/// One call of the tool.
pub struct Invocation {
    /// Without the program's name.
    pub arguments: Vec<String>,
    /// The stack directory.
    pub directory: PathBuf,
    pub environment: BTreeMap<String, String>,
    pub now: Millis,
}

impl Invocation {
    /// The call that this process is: its directory and environment, and the arguments after `standin-tool --`.
    pub fn of_this_process(arguments: Vec<String>, now: Millis) -> std::io::Result<Self> {
        // A variable that is no text is none of the tool's.
        let texts = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        Ok(Self { arguments, directory: std::env::current_dir()?, environment: texts.collect(), now })
    }
}

/// The script that stands on `PATH` as `terraform` and hands its arguments to this binary.
pub fn script(binary: &Path) -> String {
    let quoted = binary.to_string_lossy().replace('\'', "'\\''");
    format!("#!/bin/sh\nexec '{quoted}' demo standin-tool -- \"$@\"\n")
}

/// Runs the command that this process was started for, on its own standard streams.
pub fn run_here(arguments: Vec<String>) -> i32 {
    match Invocation::of_this_process(arguments, SystemClock::default().now()) {
        Ok(invocation) => run(invocation, std::io::stdout(), std::io::stderr()),
        Err(error) => {
            anstream::eprintln!("error: {error}");
            1
        }
    }
}

/// Runs one command and gives its exit code. Runs on a thread of its own: the caller may be inside a runtime.
pub fn run(invocation: Invocation, out: impl Write + Send + 'static, err: impl Write + Send + 'static) -> i32 {
    let thread = std::thread::spawn(move || {
        let (mut out, mut err) = (out, err);
        let tool = Tool { invocation: &invocation, out: RefCell::new(&mut out) };
        match tool.command() {
            Ok(code) => code,
            Err(error) => {
                // Nothing is left to do when the error stream is closed.
                let _ = writeln!(err, "\nError: {error}\n");
                1
            }
        }
    });
    thread.join().unwrap_or(1)
}

struct Tool<'a> {
    invocation: &'a Invocation,
    out: RefCell<&'a mut dyn Write>,
}

type Done = Result<i32, String>;

impl Tool<'_> {
    fn command(&self) -> Done {
        let arguments: Vec<&str> = self.invocation.arguments.iter().map(String::as_str).collect();
        match arguments.as_slice() {
            ["version" | "-version" | "--version", rest @ ..] => self.version(&Flags::parse(rest, &["json"])?),
            ["init", rest @ ..] => {
                let known = ["input", "no-color", "backend-config", "reconfigure", "lockfile", "upgrade", "get"];
                self.init(&Flags::parse(rest, &known)?)
            }
            ["workspace", "select", rest @ ..] => self.select(&Flags::parse(rest, &["or-create", "no-color"])?),
            ["workspace", "show"] => self.print(&self.workspace()),
            ["plan", rest @ ..] => self.plan(&Flags::parse(rest, &PLAN_FLAGS)?),
            ["show", rest @ ..] => self.show(&Flags::parse(rest, &["json", "no-color"])?),
            ["apply", rest @ ..] => self.apply(&Flags::parse(rest, &PLAN_FLAGS)?),
            ["output", rest @ ..] => self.output(&Flags::parse(rest, &["json", "no-color"])?),
            ["force-unlock", rest @ ..] => self.force_unlock(&Flags::parse(rest, &["force"])?),
            [] => Err("the stand-in needs a command".to_owned()),
            [command, ..] => Err(format!("the command {command} is not played here")),
        }
    }

    fn version(&self, flags: &Flags<'_>) -> Done {
        if flags.has("json") {
            let platform = format!("{}_{}", std::env::consts::OS, std::env::consts::ARCH);
            let version = json!({ "terraform_version": VERSION, "platform": platform, "provider_selections": {}, "terraform_outdated": false });
            return self.print(&format!("{version:#}"));
        }
        self.print(&format!("stackorder stand-in for Terraform v{VERSION}"))
    }

    fn init(&self, flags: &Flags<'_>) -> Done {
        let (modules, _) = self.load()?;
        let block =
            modules["."].backend.clone().ok_or("the stack has no backend \"s3\", which is all that is played here")?;
        let settings = backend::settings(&block, &flags.all("backend-config"), self.directory())?;
        backend::remember(self.directory(), &settings, flags.has("reconfigure"))?;
        self.print("Initializing the backend...\n\nTerraform has been successfully initialized! (stand-in)")
    }

    fn select(&self, flags: &Flags<'_>) -> Done {
        let [name] = flags.plain.as_slice() else {
            return Err("workspace select takes one name".to_owned());
        };
        let backend = backend::open(self.directory(), name)?;
        let exists = *name == "default" || self.remote()?.get(&backend.bucket, &backend.key)?.is_some();
        if !exists {
            if !flags.has("or-create") {
                return Err(format!("Workspace {name:?} doesn't exist."));
            }
            let state = State { serial: 0, lineage: new_id(), ..State::default() };
            self.remote()?.put(&backend.bucket, &backend.key, state.to_bytes())?;
        }
        backend::select_workspace(self.directory(), name)?;
        self.print(&format!("Switched to workspace \"{name}\"."))
    }

    fn plan(&self, flags: &Flags<'_>) -> Done {
        if !flags.plain.is_empty() {
            return Err(format!("Too many command line arguments: {}", flags.plain.join(" ")));
        }
        let workspace = self.workspace();
        let backend = backend::open(self.directory(), &workspace)?;
        let remote = self.remote()?;
        let lock = flags.value("lock") != Some("false");
        let _lock = if lock { self.lock(&remote, &backend, "OperationTypePlan")? } else { None };
        let prior = read_state(&remote, &backend)?;
        let (changed, saved) = self.planned(flags, &remote, &prior, &workspace)?;
        if let Some(out) = flags.value("out") {
            std::fs::write(self.directory().join(out), saved)
                .map_err(|error| format!("cannot write the plan file {out}: {error}"))?;
            self.print(&format!("\nSaved the plan to: {out}"))?;
        }
        Ok(if changed && flags.has("detailed-exitcode") { 2 } else { 0 })
    }

    /// Plans and prints; whether there are changes, and the plan file.
    fn planned(
        &self,
        flags: &Flags<'_>,
        remote: &Remote,
        prior: &State,
        workspace: &str,
    ) -> Result<(bool, Vec<u8>), String> {
        let (modules, sources) = self.load()?;
        let given = variables::Given {
            directory: self.directory(),
            environment: &self.invocation.environment,
            flags: &flags.given,
        };
        let variables = given.values(&modules["."])?;
        let runner = Runner { tool: self, remote };
        let walk = Walk {
            modules: &modules,
            workspace,
            variables: &variables,
            prior,
            phase: Phase::Plan,
            machine: &runner,
            record: RefCell::default(),
        };
        let record = walk.run();
        if !record.errors.is_empty() {
            return Err(joined(&record));
        }
        let origin =
            plan::Origin { prior, variables: &variables, sources: &sources, workspace, now: self.invocation.now };
        self.print(&plan::to_text(&record, prior))?;
        Ok((plan::has_changes(&record, prior), plan::save(&record, &origin)))
    }

    fn show(&self, flags: &Flags<'_>) -> Done {
        let [file] = flags.plain.as_slice() else {
            return Err("show takes one plan file; showing a state is not played here".to_owned());
        };
        let saved = self.open_plan(file)?;
        if flags.has("json") { self.print(&saved.json.to_string()) } else { self.print(&saved.text) }
    }

    fn apply(&self, flags: &Flags<'_>) -> Done {
        let workspace = self.workspace();
        let backend = backend::open(self.directory(), &workspace)?;
        let remote = self.remote()?;
        let _lock = self.lock(&remote, &backend, "OperationTypeApply")?;
        let prior = read_state(&remote, &backend)?;
        let saved = match flags.plain.as_slice() {
            [file] => self.open_plan(file)?,
            [] if flags.has("auto-approve") => plan::open(&self.planned(flags, &remote, &prior, &workspace)?.1)?,
            [] => return Err("apply takes a plan file, or -auto-approve".to_owned()),
            more => return Err(format!("Too many command line arguments: {}", more.join(" "))),
        };
        if (saved.lineage.as_str(), saved.serial) != (prior.lineage.as_str(), prior.serial) {
            return Err("Saved plan is stale\n\nThe given plan file can no longer be applied because the state was \
                        changed by another operation after the plan was created."
                .to_owned());
        }
        if saved.workspace != workspace {
            return Err(format!("the plan was made in workspace {:?}, this is {workspace:?}", saved.workspace));
        }
        let (modules, _) = configuration::load(|directory| {
            saved.sources.get(directory).cloned().ok_or_else(|| format!("the plan file has no module {directory}"))
        })?;
        let runner = Runner { tool: self, remote: &remote };
        let walk = Walk {
            modules: &modules,
            workspace: &workspace,
            variables: &saved.variables,
            prior: &prior,
            phase: Phase::Apply(saved.actions.clone()),
            machine: &runner,
            record: RefCell::default(),
        };
        let record = walk.run();
        let after = state_after(&prior, &record);
        if after != prior {
            remote.put(&backend.bucket, &backend.key, after.to_bytes())?;
        }
        if !record.errors.is_empty() {
            return Err(joined(&record));
        }
        let count = |name: &[&str]| saved.actions.values().filter(|action| name.contains(&action.names()[0])).count();
        let replaced = saved.actions.values().filter(|action| action.names().len() == 2).count();
        self.print(&format!(
            "\nApply complete! Resources: {} added, {} changed, {} destroyed.",
            count(&["create"]) + replaced,
            count(&["update"]),
            count(&["delete"])
        ))
    }

    fn output(&self, flags: &Flags<'_>) -> Done {
        if !flags.has("json") || !flags.plain.is_empty() {
            return Err("only output -json is played here".to_owned());
        }
        let backend = backend::open(self.directory(), &self.workspace())?;
        let state = read_state(&self.remote()?, &backend)?;
        let outputs: serde_json::Map<_, _> = state
            .outputs
            .iter()
            .map(|(name, output)| {
                let mut json = output_json(output);
                json["sensitive"] = json!(output.sensitive);
                (name.clone(), json)
            })
            .collect();
        self.print(&format!("{:#}", serde_json::Value::Object(outputs)))
    }

    fn force_unlock(&self, flags: &Flags<'_>) -> Done {
        let [id] = flags.plain.as_slice() else {
            return Err("force-unlock takes one lock ID".to_owned());
        };
        if !flags.has("force") {
            return Err("force-unlock needs -force: nobody can be asked here".to_owned());
        }
        let backend = backend::open(self.directory(), &self.workspace())?;
        let (remote, key) = (self.remote()?, lock_key(&backend));
        let held = remote.get(&backend.bucket, &key)?.ok_or("Failed to unlock state: no lock is held")?;
        let held: serde_json::Value = serde_json::from_slice(&held).unwrap_or_default();
        if held["ID"] != json!(id) {
            return Err(format!("Failed to unlock state: lock ID {id:?} does not match existing lock {}", held["ID"]));
        }
        remote.delete(&backend.bucket, &key)?;
        self.print("Terraform state has been successfully unlocked!")
    }

    fn lock<'r>(
        &self,
        remote: &'r Remote,
        backend: &Backend,
        operation: &str,
    ) -> Result<Option<StateLock<'r>>, String> {
        if !backend.locks {
            return Ok(None);
        }
        let key = lock_key(backend);
        let who = self.invocation.environment.get("GITHUB_JOB").map_or("stand-in", String::as_str);
        let info = json!({
            "ID": new_id(), "Operation": operation, "Info": "", "Who": who, "Version": VERSION,
            "Created": rfc3339(self.invocation.now), "Path": format!("{}/{}", backend.bucket, backend.key),
        });
        if remote.create(&backend.bucket, &key, info.to_string().into_bytes())? {
            return Ok(Some(StateLock { remote, bucket: backend.bucket.clone(), key }));
        }
        let held = remote.get(&backend.bucket, &key)?.unwrap_or_default();
        let held: serde_json::Value = serde_json::from_slice(&held).unwrap_or_default();
        let line = |name: &str| format!("  {name:<10} {}\n", held[name].as_str().unwrap_or_default());
        let lines: String = ["ID", "Path", "Operation", "Who", "Version", "Created"].map(line).concat();
        Err(format!("Error acquiring the state lock: PreconditionFailed (412)\n\nLock Info:\n{lines}"))
    }

    /// The stack's files and those of its modules.
    fn load(&self) -> Result<(Modules, Sources), String> {
        configuration::load(|directory| read_directory(&self.directory().join(directory), directory))
    }

    fn open_plan(&self, file: &str) -> Result<plan::Saved, String> {
        let bytes = std::fs::read(self.directory().join(file))
            .map_err(|error| format!("Failed to load {file:?} as a plan file: {error}"))?;
        plan::open(&bytes)
    }

    fn directory(&self) -> &Path {
        &self.invocation.directory
    }

    fn workspace(&self) -> String {
        match self.invocation.environment.get("TF_WORKSPACE") {
            Some(name) if !name.is_empty() => name.clone(),
            _ => backend::workspace(self.directory()),
        }
    }

    fn remote(&self) -> Result<Remote, String> {
        Remote::new(&self.invocation.environment)
    }

    fn print(&self, text: &str) -> Done {
        let mut out = self.out.borrow_mut();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| format!("cannot print: {error}"))?;
        Ok(0)
    }
}

/// Held until dropped. A killed process leaves it, as the real tool does.
struct StateLock<'r> {
    remote: &'r Remote,
    bucket: String,
    key: String,
}

impl Drop for StateLock<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.remote.delete(&self.bucket, &self.key) {
            tracing::error!(error, "the state lock could not be released");
        }
    }
}

/// The machine of a walk: this process, and the bucket.
struct Runner<'a, 't> {
    tool: &'a Tool<'t>,
    remote: &'a Remote,
}

impl Machine for Runner<'_, '_> {
    fn remote_outputs(&self, bucket: &str, key: &str) -> Result<Option<BTreeMap<String, OutputValue>>, String> {
        let state = self.remote.get(bucket, key)?;
        state.map(|bytes| Ok(State::parse(&bytes)?.outputs)).transpose()
    }

    fn local_exec(&self, address: &str, command: &str, environment: &BTreeMap<String, String>) -> Result<(), String> {
        self.say(&format!("{address}: Provisioning with 'local-exec'..."));
        let mut process = tokio::process::Command::new("/bin/sh");
        process
            // Both streams on one pipe, in the order they were written.
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(self.tool.directory())
            .env_clear()
            .envs(&self.tool.invocation.environment)
            .envs(environment)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .kill_on_drop(true);
        let failed = |error: std::io::Error| format!("local-exec provisioner error: {address}: {error}");
        self.remote.runtime().block_on(async {
            let mut child = process.spawn().map_err(failed)?;
            let mut lines = BufReader::new(child.stdout.take().expect("its standard output is piped")).lines();
            loop {
                let line = tokio::select! {
                    line = lines.next_line() => line.map_err(failed)?,
                    // The command dies with its handle, the lock and the state are seen to by the caller.
                    _ = tokio::signal::ctrl_c() => return Err(format!("execution halted: {address}")),
                };
                match line {
                    Some(line) => self.say(&format!("{address} (local-exec): {line}")),
                    None => break,
                }
            }
            let status = child.wait().await.map_err(failed)?;
            match status.success() {
                true => Ok(()),
                false => Err(format!("local-exec provisioner error: {address}: {status}")),
            }
        })
    }

    fn new_id(&self) -> String {
        new_id()
    }

    fn say(&self, line: &str) {
        // A closed pipe does not stop an apply half-way.
        let _ = self.tool.print(line);
    }
}

/// Flags of one command: `-name` or `-name=value`.
struct Flags<'a> {
    given: Vec<(&'a str, &'a str)>,
    plain: Vec<&'a str>,
}

const PLAN_FLAGS: [&str; 11] = [
    "input",
    "no-color",
    "lock",
    "lock-timeout",
    "detailed-exitcode",
    "out",
    "var-file",
    "var",
    "auto-approve",
    "compact-warnings",
    "parallelism",
];

impl<'a> Flags<'a> {
    fn parse(arguments: &[&'a str], known: &[&str]) -> Result<Self, String> {
        let (mut given, mut plain) = (Vec::new(), Vec::new());
        for argument in arguments {
            let Some(flag) = argument.strip_prefix('-') else {
                plain.push(*argument);
                continue;
            };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
            if !known.contains(&name) {
                return Err(format!("the flag -{name} is not played here"));
            }
            given.push((name, value));
        }
        Ok(Self { given, plain })
    }

    fn has(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value != "false")
    }

    /// The last one wins.
    fn value(&self, name: &str) -> Option<&'a str> {
        self.given.iter().rev().find(|(it, _)| *it == name).map(|(_, value)| *value)
    }

    fn all(&self, name: &str) -> Vec<String> {
        self.given.iter().filter(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned()).collect()
    }
}

fn read_directory(path: &Path, name: &str) -> Result<BTreeMap<String, String>, String> {
    let failed = |error: std::io::Error| format!("Unreadable module directory {name}: {error}");
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let file = entry.file_name().to_string_lossy().into_owned();
        if file.ends_with(".tf.json") || file.ends_with("override.tf") {
            return Err(format!("{name}/{file}: JSON and override files are not played here"));
        }
        if file.ends_with(".tf") {
            files.insert(file, std::fs::read_to_string(entry.path()).map_err(failed)?);
        }
    }
    Ok(files)
}

fn read_state(remote: &Remote, backend: &Backend) -> Result<State, String> {
    match remote.get(&backend.bucket, &backend.key)? {
        Some(bytes) => State::parse(&bytes),
        None => Ok(State::default()),
    }
}

/// The state an apply leaves; the same as before when nothing in it has changed.
fn state_after(prior: &State, record: &Record) -> State {
    let mut outputs = record.outputs.clone();
    for output in outputs.values_mut() {
        output.value = output.value.plain();
    }
    if !record.errors.is_empty() {
        // What could not be evaluated keeps its last value.
        for (name, output) in &prior.outputs {
            outputs.entry(name.clone()).or_insert_with(|| output.clone());
        }
    }
    outputs.retain(|_, output| output.value != Value::Null);
    let mut after = State { outputs, instances: record.instances.clone(), ..prior.clone() };
    if after != *prior {
        after.serial += 1;
        if after.lineage.is_empty() {
            after.lineage = new_id();
        }
    }
    after
}

fn joined(record: &Record) -> String {
    record.errors.iter().cloned().collect::<Vec<_>>().join("\n\nError: ")
}

fn lock_key(backend: &Backend) -> String {
    format!("{}.tflock", backend.key)
}

fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests;
