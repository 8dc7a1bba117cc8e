# Source this to send Terraform's S3 backend and remote states to the emulator:  . localstack/environment.sh
# The names under localhost.localstack.cloud are answered by public DNS with 127.0.0.1, buckets included.
export AWS_ENDPOINT_URL_S3=http://s3.localhost.localstack.cloud:4566
export AWS_ENDPOINT_URL_STS=http://127.0.0.1:4566
export AWS_EC2_METADATA_DISABLED=true
export AWS_ACCESS_KEY_ID=test
export AWS_SECRET_ACCESS_KEY=test
export CHECKPOINT_DISABLE=1
