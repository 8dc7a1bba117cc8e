terraform {
  backend "s3" {
    bucket       = "stackorder-example-state"
    key          = "prod/apps.tfstate"
    region       = "us-east-1"
    use_lockfile = true
  }
}

variable "settings" {
  type = map(string)
}

variable "session_key" {
  type      = string
  sensitive = true
  default   = "example-session-key-7f3c"
}

variable "rollout" {
  type    = string
  default = "ok"
}

data "terraform_remote_state" "vpc" {
  backend = "s3"
  config = {
    bucket = "stackorder-example-state"
    key    = "prod/vpc.tfstate"
    region = "us-east-1"
  }
}

locals {
  replicas = {
    web    = 3
    worker = 2
  }
}

resource "terraform_data" "firewall" {
  input = {
    allow = data.terraform_remote_state.vpc.outputs.network.cidr
  }
}

resource "terraform_data" "app" {
  for_each = local.replicas

  input = {
    name     = each.key
    replicas = each.value
    settings = var.settings
  }
  triggers_replace = [var.rollout]

  provisioner "local-exec" {
    command = "exec sh ${path.module}/../../../scripts/rollout.sh ${var.rollout}"
  }
}

resource "terraform_data" "session" {
  input = {
    key = var.session_key
  }
}

output "apps" {
  value = [for name, app in terraform_data.app : name]
}
