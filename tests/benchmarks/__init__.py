"""Measurements behind the figures of the README; run by `make bench`, not by pytest."""
