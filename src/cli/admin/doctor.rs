//! `stackorder admin doctor`: findings as a table or as JSON, and the exit code that follows (spec 22 §17).

use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::Format;
use crate::cli::{Outcome, output, serve};
use crate::clock::SystemClock;
use crate::doctor::examine::examine;
use crate::doctor::{Finding, Severity, findings};
use crate::github::client::{ClientSettings, GitHubClient};
use crate::graph::text::harmless;
use crate::ids::RepoName;

/// Look for what keeps the server from working, in its settings, its database and at GitHub; change nothing.
///
/// It reads the same environment variables as `serve`. Exit 0 when everything is well, else 1.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  stackorder admin doctor\n  stackorder admin doctor --repo acme/infra --warnings-ok\n  stackorder admin doctor --format json"
)]
pub(super) struct DoctorArgs {
    /// Look only at this repository, owner/name; may be given several times
    #[arg(long = "repo", value_name = "REPOSITORY")]
    repos: Vec<String>,
    /// Leave with 0 where there are warnings and no problems
    #[arg(long)]
    warnings_ok: bool,
}

pub(super) async fn run(args: &DoctorArgs, format: Format) -> anyhow::Result<Outcome> {
    let only = args.repos.iter().map(|name| RepoName::parse(name)).collect::<Result<Vec<RepoName>, _>>()?;
    let settings = serve::load()?;
    let clock = Arc::new(SystemClock::default());
    let github = GitHubClient::new(ClientSettings {
        api_url: settings.github_api_url.clone(),
        app_id: settings.app.id,
        private_key_pem: settings.app.private_key_pem.clone(),
        clock: clock.clone(),
        user_agent: format!("stackorder/{}", env!("CARGO_PKG_VERSION")),
        writes: settings.writes,
    })?;
    let found = findings(&examine(&settings, &github, &*clock, &only).await);
    match format {
        Format::Text => output::print_coloured(&text(&found))?,
        Format::Json => output::print(json_of(&found).as_bytes())?,
    }
    let worst = found.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
    Ok(match worst {
        Severity::Ok => Outcome::Success,
        Severity::Warning if args.warnings_ok => Outcome::Success,
        Severity::Warning | Severity::Problem => Outcome::Error,
    })
}

fn json_of(found: &[Finding]) -> String {
    let row = |finding: &Finding| {
        json!({
            "check": finding.check(), "severity": finding.severity.as_str(), "where": finding.place,
            "what": finding.what, "fix": finding.fix, "help": finding.topic.url(),
        })
    };
    format!("{}\n", json!(found.iter().map(row).collect::<Vec<_>>()))
}

/// A line each, what to do beneath those that need it, and how many there are of each kind.
fn text(found: &[Finding]) -> String {
    let width = |of: fn(&Finding) -> usize| found.iter().map(of).max().unwrap_or_default();
    let check = width(|finding| finding.check().len());
    let place = width(|finding| harmless(&finding.place).chars().count());
    let mut out = String::new();
    for finding in found {
        let severity = coloured(finding.severity);
        let (name, at) = (finding.check(), harmless(&finding.place));
        out.push_str(&format!("{severity}  {name:check$}  {at:place$}  {}\n", harmless(&finding.what)));
        if !finding.fix.is_empty() {
            out.push_str(&format!("         {}\n         {}\n", harmless(&finding.fix), finding.topic.url()));
        }
    }
    let count = |severity| found.iter().filter(|finding| finding.severity == severity).count();
    let (problems, warnings) = (count(Severity::Problem), count(Severity::Warning));
    let plural = |number: usize| if number == 1 { "" } else { "s" };
    out.push_str(&format!(
        "\n{problems} problem{}, {warnings} warning{}, {} ok\n",
        plural(problems),
        plural(warnings),
        count(Severity::Ok)
    ));
    out
}

/// As wide as the longest of them.
fn coloured(severity: Severity) -> String {
    let colour = match severity {
        Severity::Ok => "\x1b[32m",
        Severity::Warning => "\x1b[33m",
        Severity::Problem => "\x1b[1;31m",
    };
    format!("{colour}{:7}\x1b[0m", severity.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::Topic;

    #[test]
    fn findings_are_lines_with_what_to_do_beneath() {
        let finding = |topic, severity, place: &str, what: &str, fix: &str| Finding {
            topic,
            severity,
            place: place.to_owned(),
            what: what.to_owned(),
            fix: fix.to_owned(),
        };
        let found = [
            finding(Topic::Database, Severity::Ok, "server", "the database answers", ""),
            finding(
                Topic::RequiredChecks,
                Severity::Warning,
                "acme/infra",
                "main requires it\x1b[2J from any source",
                "Pin it.",
            ),
            finding(Topic::Webhook, Severity::Problem, "server", "no address", "Set one."),
        ];
        let shown = anstream::adapter::strip_str(&text(&found)).to_string();
        insta::assert_snapshot!(shown, @r"
        ok       database         server      the database answers
        warning  required-checks  acme/infra  main requires it\u{1b}[2J from any source
                 Pin it.
                 https://github.com/stackorder/stackorder/blob/main/docs/troubleshooting.md#doctor-required-checks
        problem  webhook          server      no address
                 Set one.
                 https://github.com/stackorder/stackorder/blob/main/docs/troubleshooting.md#doctor-webhook

        1 problem, 1 warning, 1 ok
        ");
        let read: serde_json::Value = serde_json::from_str(&json_of(&found)).unwrap();
        assert_eq!(read[1]["check"], "required-checks");
        assert_eq!(read[2]["severity"], "problem");
        assert!(read[2]["help"].as_str().unwrap().ends_with("#doctor-webhook"));
    }
}
