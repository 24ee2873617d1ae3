"""Alertmanagers: every one is sent every finding, and their webhook is read."""
