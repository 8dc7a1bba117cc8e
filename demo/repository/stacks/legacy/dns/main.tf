terraform {
  backend "s3" {
    bucket       = "stackorder-example-state"
    key          = "legacy/dns.tfstate"
    region       = "us-east-1"
    use_lockfile = true
  }
}

data "terraform_remote_state" "vpc" {
  backend = "s3"
  config = {
    bucket = "stackorder-example-state"
    key    = "prod/vpc.tfstate"
    region = "us-east-1"
  }
}

resource "terraform_data" "zone" {
  input = {
    name = "legacy.example.com"
    vpc  = data.terraform_remote_state.vpc.outputs.vpc_id
  }
}

output "zone" {
  value = "legacy.example.com"
}
