variable "name" {
  type = string
}

variable "stage" {
  type = string
}

variable "node_groups" {
  type = map(number)
}

variable "rollout" {
  type    = string
  default = "ok"
}

module "common" {
  source = "../common"
  stage  = var.stage
}

resource "terraform_data" "cluster" {
  input = {
    name    = var.name
    version = "1.31"
    tags    = module.common.tags
  }
  triggers_replace = [var.rollout]

  provisioner "local-exec" {
    command = "exec sh ${path.module}/../../scripts/rollout.sh ${var.rollout}"
  }
}

resource "terraform_data" "node_group" {
  for_each = var.node_groups

  input = {
    cluster = terraform_data.cluster.id
    name    = each.key
    size    = each.value
  }
}

output "cluster_name" {
  value = var.name
}
