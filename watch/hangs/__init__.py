"""Runs that stand still: for how long they may, the dumps of their ranks, and what these say."""
