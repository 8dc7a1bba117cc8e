variable "stage" {
  type = string
}

output "tags" {
  value = {
    stage      = var.stage
    managed_by = "terraform"
  }
}
