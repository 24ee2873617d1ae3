"""Series of a run, put on one clock and one grid of windows and ranks."""
