"""NCCL jobs: RAS, Inspector and the flight recorder."""
