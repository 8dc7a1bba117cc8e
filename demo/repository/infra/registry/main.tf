terraform {
  backend "s3" {}
}

variable "retention_days" {
  type = number
}

data "terraform_remote_state" "kyc" {
  backend = "s3"
  config = {
    bucket = "stackorder-example-state"
    key    = "kyc/production.tfstate"
    region = "us-east-1"
  }
}

# The token was sensitive where it came from; a remote state forgets that, so Stackorder masks it by its value.
resource "terraform_data" "registry" {
  input = {
    queue          = data.terraform_remote_state.kyc.outputs.queue
    callback_token = data.terraform_remote_state.kyc.outputs.callback_token
    retention_days = var.retention_days
  }
}

output "registry" {
  value = "registry.example.com"
}
