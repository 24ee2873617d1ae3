"""How slow, since when and how certainly: statistics of ranks over windows."""
