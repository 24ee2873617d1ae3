"""Findings on their way to Alertmanager, and alerts on their way to post-mortems."""
