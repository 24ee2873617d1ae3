"""What a node knows, as a Prometheus page."""
