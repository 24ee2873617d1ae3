"""Readers: each kind of input becomes a Run."""
