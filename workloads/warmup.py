"""The steps at the start of a run that say nothing about its speed."""

WARMUP_STEPS = 5
"""Unpaced steps in which this machine's CPU time is measured; tagged `warmup`."""
BASELINE_STEPS_AT_LEAST = 5
"""Healthy steps after the warm-up from which a fault is sized."""
FIRST_FAULTY_STEP = WARMUP_STEPS + BASELINE_STEPS_AT_LEAST
