"""Ranks that mpirun starts."""
