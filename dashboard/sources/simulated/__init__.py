"""A fleet that exists only in a program, for demonstration and measurement."""

from dashboard.sources.simulated.source import SimulatedSource

__all__ = ["SimulatedSource"]
