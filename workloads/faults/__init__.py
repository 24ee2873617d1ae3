"""Labelled faults: what to inject, how, and what it measurably did."""
