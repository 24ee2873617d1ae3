"""The reference runs: one file each, and one line in the registry."""
