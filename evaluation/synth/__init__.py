"""Labelled synthetic runs, all drawn from a seed: op traces, and whole fleets with telemetry.

Nothing here knows how verdicts are found: neither detectors nor causes nor their thresholds are
imported (import-linter), so that a score over these runs is no tautology.
"""
