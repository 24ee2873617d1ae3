"""A Prometheus, or what speaks its HTTP API, as a Source."""
