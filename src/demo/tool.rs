//! Which tool the demo's jobs run: Terraform or OpenTofu from `PATH`, else the stand-in, said as such.

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::standin;

/// The oldest versions whose s3 backend locks with a lock file.
const OLDEST: (u64, u64) = (1, 10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ToolChoice {
    Terraform,
    Tofu,
    StandIn,
}

/// The tool as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoTool {
    pub choice: ToolChoice,
    pub version: String,
}

impl fmt::Display for DemoTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.choice {
            ToolChoice::Terraform => write!(f, "terraform {}", self.version),
            ToolChoice::Tofu => write!(f, "tofu {}", self.version),
            ToolChoice::StandIn => write!(f, "stand-in {}", self.version),
        }
    }
}

impl DemoTool {
    /// The one asked for, else the first on `PATH`, else the stand-in.
    pub fn find(asked: Option<ToolChoice>) -> anyhow::Result<Self> {
        match asked {
            Some(ToolChoice::StandIn) => Ok(Self::stand_in()),
            Some(choice) => {
                let name = program_of(choice);
                let found = version_of(name)?.with_context(|| format!("{name} is not on PATH"))?;
                Self::checked(choice, found)
            }
            None => {
                for choice in [ToolChoice::Terraform, ToolChoice::Tofu] {
                    if let Some(found) = version_of(program_of(choice))? {
                        return Self::checked(choice, found);
                    }
                }
                Ok(Self::stand_in())
            }
        }
    }

    fn stand_in() -> Self {
        Self { choice: ToolChoice::StandIn, version: standin::VERSION.to_owned() }
    }

    fn checked(choice: ToolChoice, version: String) -> anyhow::Result<Self> {
        let mut parts = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
        let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        if found < OLDEST {
            bail!(
                "{} {version} is too old: the sample locks its state with a lock file, which takes {}.{} or newer",
                program_of(choice),
                OLDEST.0,
                OLDEST.1
            );
        }
        Ok(Self { choice, version })
    }

    /// What the sample's `tool` has to be.
    pub fn configured_name(&self) -> &'static str {
        match self.choice {
            ToolChoice::Terraform | ToolChoice::StandIn => "terraform",
            ToolChoice::Tofu => "tofu",
        }
    }

    /// Puts what the jobs need into a directory of their `PATH`: for the stand-in a `terraform` that is this very program.
    pub fn install(&self, bin: &Path, program: &Path) -> anyhow::Result<()> {
        if self.choice != ToolChoice::StandIn {
            return Ok(());
        }
        let path = bin.join("terraform");
        std::fs::write(&path, standin::script(program)).with_context(|| format!("cannot write {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// The program that jobs, and the story's own checks, start.
    pub fn program(&self, bin: &Path) -> PathBuf {
        match self.choice {
            ToolChoice::StandIn => bin.join("terraform"),
            ToolChoice::Terraform | ToolChoice::Tofu => PathBuf::from(program_of(self.choice)),
        }
    }
}

fn program_of(choice: ToolChoice) -> &'static str {
    match choice {
        ToolChoice::Terraform | ToolChoice::StandIn => "terraform",
        ToolChoice::Tofu => "tofu",
    }
}

/// `None` when there is no such program; an error when it cannot say its version.
fn version_of(program: &str) -> anyhow::Result<Option<String>> {
    let output = Command::new(program)
        .args(["version", "-json"])
        .env("CHECKPOINT_DISABLE", "1")
        .env_remove("TF_CLI_CONFIG_FILE")
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot run {program}")),
    };
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).with_context(|| format!("{program} version -json printed no JSON"))?;
    let version = json["terraform_version"].as_str().with_context(|| format!("{program} told no version"))?;
    Ok(Some(version.to_owned()))
}
