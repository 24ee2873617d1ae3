"""Timelines for ui.perfetto.dev: what every rank did, and beside it what it had done ideally."""
