"""What costs time by a run's own design, one file a kind; no worker is blamed for it."""

from collections.abc import Callable, Sequence

from lockstep.analyzer.operations.structure import experts, lengths, pauses, stages
from lockstep.analyzer.operations.structure.facts import Facts, Structure

KINDS: tuple[Callable[[Facts], Sequence[Structure]], ...] = (
    stages.find,
    lengths.find,
    experts.find,
    pauses.find,
)


def structures(facts: Facts) -> tuple[Structure, ...]:
    """All that is found, the costliest first."""
    found = [one for find in KINDS for one in find(facts)]
    return tuple(sorted(found, key=lambda one: -(one.share or 0.0)))
