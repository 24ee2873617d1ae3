"""NVML, in a child process."""
