"""From an archive, a Prometheus or a trace to a verdict and its files."""
