"""The verdict about an op trace: from whichever tool it comes, its operations are all there is."""

from analyzer.trace_verdict.verdict import examine

__all__ = ["examine"]
