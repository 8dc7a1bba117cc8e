//! `stackorder explain`.

use clap::Args;

use super::affected::until;
use super::{Outcome, colour, table};
use crate::config::ROOT_FILE;
use crate::graph::explain::{Because, Explanation, Step};
use crate::runner::Job;
use crate::runner::affected::affected_until;
use crate::runner::console::Format;
use crate::runner::explain::explain;
use crate::runner::stop::Stop;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  stackorder explain stacks/prod/eks --base main\n  \
                        stackorder explain infra/network:production --format json")]
pub(super) struct Flags {
    /// Key of the stack
    #[arg(value_name = "STACK")]
    stack: String,
    /// Compare with this commit or branch [default: the default branch of origin]
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Count what is not committed too, and files that git does not know yet
    #[arg(long)]
    working_tree: bool,
}

pub(super) fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let found = affected_until(job, flags.base.as_deref(), until(flags.working_tree))?;
    if !found.resolution.cycles.is_empty() {
        let (cycles, stop) = table::cycles(&found.resolution);
        job.console.note(&cycles);
        return Err(stop);
    }
    let explanation = explain(&found, &flags.stack)?;
    job.console.result(&match job.console.format {
        Format::Json => serde_json::to_string(&explanation).expect("an explanation has text keys"),
        Format::Text | Format::Picture(_) => words(&explanation, &found.graph().repo),
    });
    Ok(Outcome::Success)
}

/// The explanation for people. Modules of the repository are named by their directory.
fn words(explanation: &Explanation, repo: &str) -> String {
    let Some(wave) = explanation.wave else { return negative(explanation) };
    let reasons: Vec<String> = explanation.because.iter().map(|because| colour::reason(because.reason)).collect();
    let stack = colour::bold(&colour::harmless(&explanation.stack));
    let mut lines = vec![format!("{stack}: {} ({})", colour::wave(wave, &format!("wave {wave}")), reasons.join(", "))];
    lines.push("why it is affected:".to_owned());
    for because in &explanation.because {
        lines.push(format!("  {}", colour::reason(because.reason)));
        lines.extend(chain(because, repo));
    }
    lines.push(format!("why wave {wave}:"));
    lines.extend(explanation.order.iter().zip(0_u32..).map(|(step, wave)| {
        let first = colour::wave(wave, &format!("wave {wave}"));
        format!("  {} ({first}) comes first: {}", colour::harmless(&step.from), sentence(step, repo))
    }));
    lines.push(match explanation.after.as_slice() {
        [] => "  it waits for no other affected stack".to_owned(),
        after => colour::harmless(&format!("  it waits for {}", after.join(", "))),
    });
    lines.join("\n")
}

fn negative(explanation: &Explanation) -> String {
    let stack = colour::bold(&colour::harmless(&explanation.stack));
    let headline = match &explanation.removed {
        None => format!("{stack}: the change does not reach it"),
        Some(removed) => {
            let state = if removed.state.is_empty() {
                String::new()
            } else {
                format!(" (state {})", colour::harmless(&removed.state))
            };
            let moved = match removed.renamed_to.as_str() {
                "" => String::new(),
                to => format!("; its files are now in {to}"),
            };
            format!("{stack}: removed by the change{}", colour::harmless(&format!("{state}{moved}")))
        }
    };
    let reasons = explanation.why_not.iter().map(|why| format!("  {}", colour::harmless(why)));
    std::iter::once(headline).chain(reasons).collect::<Vec<_>>().join("\n")
}

fn chain(because: &Because, repo: &str) -> Vec<String> {
    if because.chain.is_empty() {
        return vec!["    no single changed path leads to it".to_owned()];
    }
    because.chain.iter().map(|step| format!("    {}", sentence(step, repo))).collect()
}

fn sentence(step: &Step, repo: &str) -> String {
    let prefix = format!("{repo}//");
    let named = |text: &str| colour::harmless(text.strip_prefix(&prefix).unwrap_or(text));
    let (from, to) = (named(&step.from), named(&step.to));
    match step.by.as_str() {
        "changed" => format!("{from} changed, a file of {to}"),
        "watch_path" => format!("{from} changed, which {to} reads or watches"),
        "config" if step.from == ROOT_FILE => format!("{from} changed, and with it the settings of {to}"),
        "config" => format!("{from} changed, a hook that runs for {to}"),
        "removed" => format!("{to} is removed"),
        "uses_module" => format!("{to} uses {from}"),
        "reads_state" => format!("{to} reads the state of {from}"),
        "depends_on" => format!("{to} depends on {from}"),
        other => format!("{to} is reached by {from} ({other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::explain::{Evidence, explain};
    use crate::graph::resolution::BaseFacts;
    use crate::graph::{ResolveRequest, resolve};
    use crate::scan::tests::sample::sample;
    use crate::scan::{MemoryFiles, ScanOptions, scan};

    fn explained(key: &str, paths: &[&str]) -> String {
        explained_in(&sample(), key, paths)
    }

    fn explained_in(files: &MemoryFiles, key: &str, paths: &[&str]) -> String {
        let scanned = scan(files, &ScanOptions::new("acme/infra", "")).unwrap();
        let changed_paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let request = ResolveRequest { changed_paths: changed_paths.clone(), ..ResolveRequest::default() };
        let evidence = Evidence {
            graph: &scanned.graph,
            configs: &[&scanned.config],
            changed_paths: &changed_paths,
            base: &BaseFacts::default(),
            resolution: &resolve(&scanned.graph, &scanned.config, &request),
        };
        plain(&words(&explain(&evidence, key), "acme/infra"))
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_chain_is_told_from_the_file_to_the_stack_and_the_wave_by_who_comes_first() {
        let text = explained("stacks/prod/eks", &["modules/common/main.tf", "modules/vpc/main.tf"]);
        insta::assert_snapshot!(text, @r"
        stacks/prod/eks: wave 1 (module, dependent)
        why it is affected:
          module
            modules/common/main.tf changed, a file of modules/common
            modules/eks uses modules/common
            stacks/prod/eks uses modules/eks
          dependent
            modules/vpc/main.tf changed, a file of modules/vpc
            stacks/prod/vpc uses modules/vpc
            stacks/prod/eks depends on stacks/prod/vpc
        why wave 1:
          stacks/prod/vpc (wave 0) comes first: stacks/prod/eks depends on stacks/prod/vpc
          it waits for stacks/prod/vpc
        ");
    }

    /// Nested directories: the path is the inner stack's alone, and the outer one says whose it is.
    #[test]
    fn a_path_of_a_stack_inside_is_not_taken_for_one_of_the_stack_around_it() {
        let files = sample().with(
            "stacks/prod/vpc/inner/main.tf",
            "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"inner\"\n  }\n}\n",
        );
        let text = explained_in(&files, "stacks/prod/vpc", &["stacks/prod/vpc/inner/main.tf"]);
        assert!(text.contains("stacks/prod/vpc/inner/main.tf changed and belongs to stacks/prod/vpc/inner"), "{text}");
    }

    #[test]
    fn a_var_file_that_is_gone_is_not_said_to_be_ignored() {
        let mut files = sample();
        files.remove("infra/kyc/workspaces/staging.tfvars.json");
        let text = explained_in(&files, "infra/kyc:production", &["infra/kyc/workspaces/staging.tfvars.json"]);
        let says = "infra/kyc/workspaces/staging.tfvars.json changed, and the instance that it made is gone";
        assert!(text.contains(says), "{text}");
    }

    #[test]
    fn a_stack_that_is_not_reached_says_what_did_not_change() {
        insta::assert_snapshot!(explained("stacks/legacy/dns", &["modules/common/main.tf"]), @r"
        stacks/legacy/dns: the change does not reach it
          the changed path is not below stacks/legacy/dns
          it uses no module of this repository
          it depends on no other stack
        ");
        insta::assert_snapshot!(explained("stacks/prod/vpc", &["stacks/prod/eks/main.tf", "x.sh"]), @r"
        stacks/prod/vpc: the change does not reach it
          none of the 2 changed paths is below stacks/prod/vpc
          it uses the module modules/vpc, which did not change
          it depends on no other stack
          stacks/prod/eks is affected and depends on it, but a change reaches only what comes after
        ");
        insta::assert_snapshot!(explained("stacks/prod/vpc", &[]), @r"
        stacks/prod/vpc: the change does not reach it
          nothing differs between the base and HEAD
        ");
    }
}
