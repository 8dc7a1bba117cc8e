settings = {
  log_level = "info"
  region    = "us-east-1"
}
