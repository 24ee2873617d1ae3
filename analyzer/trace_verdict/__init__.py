"""The verdict about an op trace: from whichever tool it comes, its operations are all there is."""

from analyzer.trace_verdict.verdict import verdict_of_trace

__all__ = ["verdict_of_trace"]
