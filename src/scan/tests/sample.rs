//! The example repository of spec 32 §2, cut down to what the graph sees.

use crate::scan::MemoryFiles;

fn backend(key: &str) -> String {
    format!(
        "terraform {{\n  backend \"s3\" {{\n    bucket       = \"stackorder-example-state\"\n    key          = \"{key}\"\n    \
         region       = \"us-east-1\"\n    use_lockfile = true\n  }}\n}}\n"
    )
}

fn module(name: &str, source: &str) -> String {
    format!("module \"{name}\" {{\n  source = \"{source}\"\n}}\n")
}

fn reads(key: &str) -> String {
    format!(
        "data \"terraform_remote_state\" \"vpc\" {{\n  backend = \"s3\"\n  config = {{\n    bucket = \"stackorder-example-state\"\n    \
         key    = \"{key}\"\n    region = \"us-east-1\"\n  }}\n}}\n"
    )
}

pub fn sample() -> MemoryFiles {
    let resource = "resource \"terraform_data\" \"it\" {\n  input = 1\n}\n";
    MemoryFiles::default()
        .with(
            "stackorder.yaml",
            "version: 1\ntool: terraform\nstacks:\n  discover: [\"stacks/**\", \"infra/**\"]\n  instances:\n    \
             from_var_files: workspaces/*.tfvars.json\nenvironments:\n  stacks/prod/: production\n  \
             stacks/staging/: staging\napply:\n  mode: before_merge\n  require_approvals: 1\npropagate:\n  \
             cross_repo: plan\ndrift:\n  schedule: \"0 6 * * 1-5\"\n  open_issue: true\n",
        )
        .with("README.md", "# Example\n")
        .with("modules/vpc/main.tf", resource)
        .with("modules/eks/main.tf", module("common", "../common") + resource)
        .with("modules/common/main.tf", resource)
        .with("stacks/prod/vpc/main.tf", backend("prod/vpc.tfstate") + &module("vpc", "../../../modules/vpc"))
        .with("stacks/prod/eks/main.tf", backend("prod/eks.tfstate") + &module("eks", "../../../modules/eks"))
        .with("stacks/prod/eks/.stackorder.yaml", "depends_on: [stacks/prod/vpc]\n")
        .with("stacks/prod/apps/main.tf", backend("prod/apps.tfstate") + &reads("prod/vpc.tfstate"))
        .with("stacks/staging/vpc/main.tf", backend("staging/vpc.tfstate") + &module("vpc", "../../../modules/vpc"))
        .with("stacks/staging/apps/main.tf", backend("staging/apps.tfstate") + resource)
        .with("stacks/staging/apps/.stackorder.yaml", "depends_on: [stacks/staging/vpc]\nplan_output: summary\n")
        .with("stacks/legacy/dns/main.tf", backend("legacy/dns.tfstate") + &reads("prod/vpc.tfstate"))
        .with("stacks/legacy/dns/.stackorder.yaml", "ignore_inferred: [stacks/prod/vpc]\n")
        .with("infra/state.s3.tfbackend", "bucket = \"stackorder-example-state\"\nregion = \"us-east-1\"\nuse_lockfile = true\n")
        .with("infra/kyc/main.tf", "terraform {\n  backend \"s3\" {}\n}\n")
        .with(
            "infra/kyc/.stackorder.yaml",
            "backend_config:\n  - infra/state.s3.tfbackend\n  - 'key=kyc/{{ .Instance }}.tfstate'\n",
        )
        .with("infra/kyc/workspaces/production.tfvars.json", "{\"size\": 3}\n")
        .with("infra/kyc/workspaces/staging.tfvars.json", "{\"size\": 1}\n")
        .with("infra/registry/main.tf", "terraform {\n  backend \"s3\" {}\n}\n")
        .with(
            "infra/registry/.stackorder.yaml",
            "instances: [shared]\ndepends_on: [infra/kyc:production]\nbackend_config:\n  - infra/state.s3.tfbackend\n  - \
             'key=registry/{{ .Instance }}.tfstate'\n",
        )
}
