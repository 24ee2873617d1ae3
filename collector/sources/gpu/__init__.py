"""GPUs: NVML, DCGM, a dcgm-exporter, captures and simulated ones; their XIDs."""
