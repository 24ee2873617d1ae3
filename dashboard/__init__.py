"""The dashboard: node level and model level on one page."""
