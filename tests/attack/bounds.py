"""How often an attack is tried: a few times among the other tests, all that one likes by hand."""

import os

VARIABLE = "LOCKSTEP_ATTACK"
"""A factor: 10 = ten times as many as among the other tests, which make 1."""


def times(count: int) -> int:
    """So many, by the factor of the environment; at least one."""
    return max(1, round(count * float(os.environ.get(VARIABLE, "1"))))
