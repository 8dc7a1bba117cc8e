terraform {
  backend "s3" {}
}

variable "stage" {
  type = string
}

variable "workers" {
  type = number
}

variable "callback_token" {
  type      = string
  sensitive = true
}

resource "terraform_data" "queue" {
  input = {
    name = "kyc-${var.stage}"
  }
}

resource "terraform_data" "worker" {
  count = var.workers

  input = {
    name  = "kyc-${var.stage}-${count.index}"
    queue = terraform_data.queue.id
  }
}

output "queue" {
  value = "kyc-${var.stage}"
}

output "callback_token" {
  value     = var.callback_token
  sensitive = true
}
