"""The pages: one file each, listed in registry.py."""
