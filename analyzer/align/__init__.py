"""The alignment of a run's series: one clock, one grid of windows and ranks."""
