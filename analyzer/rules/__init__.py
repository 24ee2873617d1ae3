"""Alerts and recording rules for Prometheus."""
