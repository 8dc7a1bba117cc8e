//! The files that `stackorder demo` brings along: the sample monorepo and the actions its workflows call.
//!
//! They are part of the binary, so that an installed one needs no checkout. The tests compare both lists with the
//! directories they were written from.

/// Path, content, and whether the file is executable.
pub type File = (&'static str, &'static [u8], bool);

const EXECUTABLE: bool = true;
const PLAIN: bool = false;

macro_rules! file {
    ($root:literal, $path:literal, $mode:expr) => {
        ($path, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $root, "/", $path)), $mode)
    };
}

/// The sample monorepo, `demo/repository`, sorted by path.
pub fn repository_files() -> &'static [File] {
    REPOSITORY
}

/// A text file of the sample monorepo, as it was shipped.
pub fn sample_file(path: &str) -> anyhow::Result<String> {
    let found = REPOSITORY.iter().find(|(name, _, _)| *name == path);
    let (_, bytes, _) = found.ok_or_else(|| anyhow::anyhow!("the sample has no {path}"))?;
    Ok(String::from_utf8(bytes.to_vec())?)
}

/// The repository of the actions, `actions`, sorted by path.
pub fn actions_files() -> &'static [File] {
    ACTIONS
}

#[rustfmt::skip] // one line per file
const REPOSITORY: &[File] = &[
    file!("demo/repository", ".github/workflows/stackorder-plan.yml", PLAIN),
    file!("demo/repository", ".github/workflows/stackorder-run.yml", PLAIN),
    file!("demo/repository", ".gitignore", PLAIN),
    file!("demo/repository", ".stackorder/hooks/post-plan.sh", EXECUTABLE),
    file!("demo/repository", "CODEOWNERS", PLAIN),
    file!("demo/repository", "README.md", PLAIN),
    file!("demo/repository", "infra/kyc/.stackorder.yaml", PLAIN),
    file!("demo/repository", "infra/kyc/main.tf", PLAIN),
    file!("demo/repository", "infra/kyc/workspaces/production.tfvars.json", PLAIN),
    file!("demo/repository", "infra/kyc/workspaces/staging.tfvars.json", PLAIN),
    file!("demo/repository", "infra/registry/.stackorder.yaml", PLAIN),
    file!("demo/repository", "infra/registry/main.tf", PLAIN),
    file!("demo/repository", "infra/registry/workspaces/shared.tfvars.json", PLAIN),
    file!("demo/repository", "infra/state.s3.tfbackend", PLAIN),
    file!("demo/repository", "modules/common/main.tf", PLAIN),
    file!("demo/repository", "modules/eks/main.tf", PLAIN),
    file!("demo/repository", "modules/vpc/main.tf", PLAIN),
    file!("demo/repository", "scripts/rollout.sh", EXECUTABLE),
    file!("demo/repository", "stackorder.yaml", PLAIN),
    file!("demo/repository", "stacks/legacy/dns/.stackorder.yaml", PLAIN),
    file!("demo/repository", "stacks/legacy/dns/main.tf", PLAIN),
    file!("demo/repository", "stacks/prod/apps/main.tf", PLAIN),
    file!("demo/repository", "stacks/prod/apps/rollout.auto.tfvars", PLAIN),
    file!("demo/repository", "stacks/prod/apps/settings.auto.tfvars", PLAIN),
    file!("demo/repository", "stacks/prod/eks/.stackorder.yaml", PLAIN),
    file!("demo/repository", "stacks/prod/eks/main.tf", PLAIN),
    file!("demo/repository", "stacks/prod/eks/rollout.auto.tfvars", PLAIN),
    file!("demo/repository", "stacks/prod/vpc/main.tf", PLAIN),
    file!("demo/repository", "stacks/prod/vpc/rollout.auto.tfvars", PLAIN),
    file!("demo/repository", "stacks/staging/apps/.stackorder.yaml", PLAIN),
    file!("demo/repository", "stacks/staging/apps/main.tf", PLAIN),
    file!("demo/repository", "stacks/staging/apps/rollout.auto.tfvars", PLAIN),
    file!("demo/repository", "stacks/staging/vpc/main.tf", PLAIN),
    file!("demo/repository", "stacks/staging/vpc/rollout.auto.tfvars", PLAIN),
];

#[rustfmt::skip] // one line per file
const ACTIONS: &[File] = &[
    file!("actions", ".github/dependabot.yml", PLAIN),
    file!("actions", ".github/workflows/plan.yml", PLAIN),
    file!("actions", ".github/workflows/run.yml", PLAIN),
    file!("actions", ".github/zizmor.yml", PLAIN),
    file!("actions", "LICENSE", PLAIN),
    file!("actions", "README.md", PLAIN),
    file!("actions", "apply/action.yml", PLAIN),
    file!("actions", "drift/action.yml", PLAIN),
    file!("actions", "plan/action.yml", PLAIN),
    file!("actions", "prepare/action.yml", PLAIN),
    file!("actions", "prepare/export-env.sh", EXECUTABLE),
    file!("actions", "prepare/select-role.sh", EXECUTABLE),
    file!("actions", "prepare/select-session.sh", EXECUTABLE),
    file!("actions", "prepare/string-map.sh", PLAIN),
    file!("actions", "resolve/action.yml", PLAIN),
    file!("actions", "selftest.yml", PLAIN),
    file!("actions", "selftest/selftest-job.yml", PLAIN),
    file!("actions", "selftest/selftest-pull.yml", PLAIN),
    file!("actions", "selftest/selftest-run.yml", PLAIN),
    file!("actions", "selftest/selftest.sh", EXECUTABLE),
    file!("actions", "setup/action.yml", PLAIN),
    file!("actions", "setup/setup.sh", EXECUTABLE),
];

#[cfg(test)]
mod tests;
