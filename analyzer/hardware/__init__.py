"""Hardware that deviates from its peers, with and without a run."""
