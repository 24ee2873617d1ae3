"""Which tests run when: quick ones always, real ones before a merge, the others on request."""

import re
from binascii import crc32
from collections.abc import Iterable, Sequence
from enum import StrEnum


class Tier(StrEnum):
    """Every test is in exactly one tier.

    `make test` runs the first, `make test-real` the second, `make test-all` all three. The third
    holds the rest of every sweep, and what drives other projects' software.
    """

    QUICK = "quick"
    REAL = "real"
    SWEEP = "sweep"


REAL_MARKS = frozenset({"browser", "distributed", "gpu", "prometheus", "root", "slow", "timed"})
"""What needs the machine itself: its processes, kernel, programs or clock."""
FOREIGN_MARKS = frozenset({"cluster", "foreign", "pods"})
"""What drives other projects' software: a Kubernetes control plane, operators, Slurm, MPI."""
SWEEP_MARK = "sweep"
SAMPLE = 6
"""Cases of a sweep that are not left to the night."""
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_LONGEST_ID = 60


def tier(marks: Iterable[str], *, sampled: bool) -> Tier:
    """Of a test with these markers; `sampled` is false for the cases that a sweep leaves out."""
    marks = frozenset(marks)
    if not sampled or FOREIGN_MARKS.intersection(marks):
        return Tier.SWEEP
    return Tier.REAL if REAL_MARKS.intersection(marks) else Tier.QUICK


def sample(cases: Sequence[str], size: int = SAMPLE) -> frozenset[str]:
    """The cases of a sweep that stand for it: always the same, evenly from all its parameters.

    Chosen by a checksum of their ids: every n-th would have one value only of a parameter that
    comes round every n cases, and a new case changes nothing for the others.
    """
    return frozenset(sorted(cases, key=lambda case: (crc32(case.encode()), case))[:size])


def case_id(value: object) -> str | None:
    """The id of a parameter where pytest's own would be unreadable; None: pytest's own.

    Bytes that are no short text are told by their number: what is compressed holds the time of
    day, and two workers that collect at different seconds must collect the same tests.
    """
    if not isinstance(value, bytes):
        return None
    text = value.decode("latin-1")
    plain = text.isascii() and text.isprintable() and len(text) <= _LONGEST_ID
    return None if plain else f"{len(value)} bytes"


def unstable(case: str) -> bool:
    """Whether an id holds an address, which differs from worker to worker."""
    return _ADDRESS.search(case) is not None
