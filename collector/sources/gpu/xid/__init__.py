"""XIDs of all GPUs, told by NVML, the kernel log and DCGM, each counted once."""
