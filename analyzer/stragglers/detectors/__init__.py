"""Registered searches, one file each; `DETECTORS` in analyzer/stragglers/registry.py."""
