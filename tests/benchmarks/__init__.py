"""Measurements behind the figures of docs/scores.md; run by `make bench`, not by pytest."""
