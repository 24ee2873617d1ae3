"""Takes the stacks of ranks on this machine, and keeps them beside their dumps."""

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from analyzer.hang.standing import facts
from collector.clock import Clock
from collector.contract.flight_recorder import EVIDENCE_FILE
from collector.contract.stacks import FILE, Depth, Stacks, as_text, stacks_name
from collector.sources.rank_ring import Rank
from collector.sources.stacks import Asked, read_stacks

SECONDS = 10.0
"""For the stacks of all that are asked for: py-spy takes 0.1 s a process, 1 s on a busy machine."""


def take_stacks(
    ranks: Iterable[Rank],
    chosen: Collection[int],
    depth: Depth,
    proc: Path,
    clock: Clock,
    seconds: float = SECONDS,
) -> list[Stacks]:
    """The stacks of the chosen ones among these ranks of one run; see read_stacks."""
    by_rank = {rank.key[1]: rank for rank in ranks}
    asked = [_asked(by_rank[number]) for number in chosen if number in by_rank]
    return read_stacks(asked, depth, proc, clock, seconds)


def _asked(rank: Rank) -> Asked:
    run, number = rank.key
    file = rank.path.parent / stacks_name(run, number)
    return Asked(number, rank.header.identity.node, rank.pid, file)


def save_stacks(folder: Path, evidence: dict[str, Any], stacks: Sequence[Stacks]) -> None:
    """Write them into a folder of dumps, and what they say into its evidence.

    Args:
        evidence: What `lockstep.dumps.save` wrote there.

    Raises:
        OSError: They cannot be written.
    """
    told = [{"rank": one.rank, "kind": one.kind.value, "value": one.value} for one in facts(stacks)]
    tree = {**evidence, "facts": [*evidence["facts"], *told]}
    (folder / FILE).write_text(as_text(sorted(stacks, key=lambda one: one.rank)))
    (folder / EVIDENCE_FILE).write_text(json.dumps(tree, indent=1))
