"""Timelines for ui.perfetto.dev: what every rank did, and beside it what it had done ideally."""

from lockstep.analyzer.read.optrace.load import run_of_trace
