//! Stand-ins for the actions that workflows here use but this engine cannot run, being JavaScript.
//!
//! Each does what its original does, by its inputs and outputs; an input that it does not know is refused by name.

pub(super) mod artifacts;
mod aws;
pub(super) mod checkout;
mod tools;

use std::collections::BTreeMap;

use super::job::Runner;
use super::signals::Stop;

/// An action that has a stand-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandIn {
    Checkout,
    UploadArtifact,
    DownloadArtifact,
    Cache,
    SetupTerraform,
    SetupOpentofu,
    AwsCredentials,
}

/// The stand-in for a `uses`, whatever its version.
pub(super) fn find(uses: &str) -> Option<StandIn> {
    let (name, _version) = uses.split_once('@')?;
    Some(match name.to_ascii_lowercase().as_str() {
        "actions/checkout" => StandIn::Checkout,
        "actions/upload-artifact" => StandIn::UploadArtifact,
        "actions/download-artifact" => StandIn::DownloadArtifact,
        "actions/cache" | "actions/cache/restore" | "actions/cache/save" => StandIn::Cache,
        "hashicorp/setup-terraform" => StandIn::SetupTerraform,
        "opentofu/setup-opentofu" => StandIn::SetupOpentofu,
        "aws-actions/configure-aws-credentials" => StandIn::AwsCredentials,
        _ => return None,
    })
}

/// One use of a stand-in.
pub(super) struct Use {
    pub(super) inputs: Inputs,
    /// The environment that a process of the step would have.
    pub(super) env: BTreeMap<String, String>,
    pub(super) stop: Stop,
}

/// Runs it; its outputs, or why the step fails.
pub(super) async fn run(
    stand_in: StandIn,
    runner: &mut Runner<'_>,
    step: &Use,
) -> Result<BTreeMap<String, String>, String> {
    match stand_in {
        StandIn::Checkout => checkout::run(runner, step).await,
        StandIn::UploadArtifact => artifacts::upload(runner, step),
        StandIn::DownloadArtifact => artifacts::download(runner, step),
        StandIn::Cache => tools::cache(runner, step),
        StandIn::SetupTerraform => tools::setup(runner, step, "terraform"),
        StandIn::SetupOpentofu => tools::setup(runner, step, "tofu"),
        StandIn::AwsCredentials => aws::configure(runner, step).await,
    }
}

/// `with` of a step.
#[derive(Debug, Clone, Default)]
pub(super) struct Inputs(BTreeMap<String, String>);

impl Inputs {
    /// Names ignore case.
    pub(super) fn new(given: BTreeMap<String, String>) -> Self {
        Self(given.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect())
    }

    /// An input, trimmed; empty when it was not given.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value.trim())
    }

    /// A boolean as the actions toolkit reads it.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, String> {
        match self.text(name) {
            "" => Ok(default),
            "true" | "True" | "TRUE" => Ok(true),
            "false" | "False" | "FALSE" => Ok(false),
            odd => Err(format!("Input '{name}' is '{odd}', which is neither true nor false")),
        }
    }

    pub(super) fn number(&self, name: &str, default: i64) -> Result<i64, String> {
        match self.text(name) {
            "" => Ok(default),
            text => text.parse().map_err(|_| format!("Input '{name}' is '{text}', which is no whole number")),
        }
    }

    /// Refuses what the stand-in does not know.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), String> {
        let given = self.0.iter().filter(|(_, value)| !value.trim().is_empty());
        match given.map(|(name, _)| name).find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(format!("the input `{name}` is not supported by this engine's stand-in")),
        }
    }
}
