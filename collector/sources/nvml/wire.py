"""What the process that speaks NVML and its parent agree on."""

CHANGED = 3
"""Exit code: GPUs or MIG devices came or went; start anew at once."""
FAILED = 4
"""Exit code: NVML cannot be used now; the last line says why."""
NO_BINDING = 5
"""Exit code: nvidia-ml-py is not installed."""
MAX_LINE = 1 << 20
"""Bytes of one message at most; a GPU with 18 links takes 12 kB."""
