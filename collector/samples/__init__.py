"""Readings to samples, one file a subject."""
