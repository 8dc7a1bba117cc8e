terraform {
  backend "s3" {
    bucket       = "stackorder-example-state"
    key          = "prod/eks.tfstate"
    region       = "us-east-1"
    use_lockfile = true
  }
}

variable "rollout" {
  type    = string
  default = "ok"
}

module "eks" {
  source  = "../../../modules/eks"
  name    = "prod"
  stage   = "prod"
  rollout = var.rollout

  node_groups = {
    general = 3
    spot    = 2
  }
}

output "cluster_name" {
  value = module.eks.cluster_name
}
