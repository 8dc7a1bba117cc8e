terraform {
  backend "s3" {
    bucket       = "stackorder-example-state"
    key          = "staging/vpc.tfstate"
    region       = "us-east-1"
    use_lockfile = true
  }
}

variable "rollout" {
  type    = string
  default = "ok"
}

module "vpc" {
  source  = "../../../modules/vpc"
  name    = "staging"
  cidr    = "10.20.0.0/16"
  rollout = var.rollout

  subnets = {
    a = "10.20.0.0/20"
    b = "10.20.16.0/20"
  }
}

output "vpc_id" {
  value = module.vpc.id
}

output "network" {
  value = {
    cidr       = module.vpc.cidr
    subnet_ids = module.vpc.subnet_ids
  }
}
