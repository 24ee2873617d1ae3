"""Where ranks of this node stand (collector/stacks): those that somebody asks for."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from lockstep.collector.clock import Clock
from lockstep.collector.contract.stacks import Depth, Stacks, stacks_name
from lockstep.collector.sources.rank_ring import Rank
from lockstep.collector.stacks import Asked, read_stacks


def take_stacks(
    ranks: Iterable[Rank],
    chosen: Sequence[int],
    depth: Depth,
    proc: Path,
    clock: Clock,
    seconds: float,
) -> list[Stacks]:
    """The stacks of the chosen ones among these ranks of one run: see read_stacks."""
    by_rank = {rank.key[1]: rank for rank in ranks}
    asked = [_asked(by_rank[number]) for number in dict.fromkeys(chosen) if number in by_rank]
    return read_stacks(asked, depth, proc, clock, seconds)


def _asked(rank: Rank) -> Asked:
    run, number = rank.key
    file = rank.path.parent / stacks_name(run, number)
    return Asked(number, rank.header.identity.node, rank.pid, file, rank.user)
