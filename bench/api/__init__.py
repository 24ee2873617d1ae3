"""Runs, metrics, verdicts and findings over HTTP: `lockstep api`, and the reading half of watch."""
