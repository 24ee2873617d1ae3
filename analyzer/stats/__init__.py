"""Statistics of ranks over windows: how slow, since when, how certain."""
