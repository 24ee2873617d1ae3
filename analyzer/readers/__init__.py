"""Inputs as Runs."""
