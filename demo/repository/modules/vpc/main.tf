variable "name" {
  type = string
}

variable "cidr" {
  type = string
}

variable "subnets" {
  type = map(string)
}

variable "rollout" {
  type    = string
  default = "ok"
}

resource "terraform_data" "vpc" {
  input = {
    name = var.name
    cidr = var.cidr
  }
}

resource "terraform_data" "subnet" {
  for_each = var.subnets

  input = {
    name = "${var.name}-${each.key}"
    cidr = each.value
    vpc  = terraform_data.vpc.id
  }
}

resource "terraform_data" "routes" {
  input = {
    destination = "0.0.0.0/0"
    vpc         = terraform_data.vpc.id
  }
  triggers_replace = [var.rollout]

  provisioner "local-exec" {
    command = "exec sh ${path.module}/../../scripts/rollout.sh ${var.rollout}"
  }
}

output "id" {
  value = terraform_data.vpc.id
}

output "cidr" {
  value = var.cidr
}

output "subnet_ids" {
  value = { for zone, subnet in terraform_data.subnet : zone => subnet.id }
}
