"""Files that NCCL Inspector writes."""
