"""A fleet that exists only in a program, for demonstration and measurement."""

from lockstep.dashboard.sources.simulated.source import SimulatedSource

__all__ = ["SimulatedSource"]
