"""Timelines for ui.perfetto.dev: what every rank did, and beside it what it had done ideally."""

from lockstep.analyzer.read.optrace.load import trace_of_run
from lockstep.analyzer.read.optrace.windows import run_of_trace



