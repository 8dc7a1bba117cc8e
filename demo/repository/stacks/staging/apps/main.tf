terraform {
  backend "s3" {
    bucket       = "stackorder-example-state"
    key          = "staging/apps.tfstate"
    region       = "us-east-1"
    use_lockfile = true
  }
}

variable "rollout" {
  type    = string
  default = "ok"
}

resource "terraform_data" "app" {
  count = 2

  input = {
    name = "app-${count.index}"
  }
  triggers_replace = [var.rollout]

  provisioner "local-exec" {
    command = "exec sh ${path.module}/../../../scripts/rollout.sh ${var.rollout}"
  }
}

output "apps" {
  value = [for app in terraform_data.app : app.id]
}
