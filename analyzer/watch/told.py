"""What is told of the GPU of each rank and of its node now, and what was told before."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from analyzer.watch.hardware import Target
from analyzer.watch.inventory import KEEP_SECONDS
from analyzer.watch.members import Members

Bools = NDArray[np.bool_]
Before = Mapping[str, Mapping[str, float]]
"""Node -> what was told of it -> unix seconds at which it was told last."""


def of_targets(targets: Iterable[Target], members: Members) -> Bools:
    """(R,) whether a rank's page is one of these."""
    wanted = set(targets)
    pairs = zip(members.job.tolist(), members.instance.tolist(), strict=True)
    return np.fromiter((pair in wanted for pair in pairs), dtype=bool, count=len(members))


def remembered(before: Before, told: Mapping[str, Bools], members: Members, now: float) -> Before:
    """With what is told now; what was not for a day is forgotten.

    Args:
        before: As it was.
        told: Word -> (R,) whether it is told of the rank's GPU, or by its page, now.
        members: Of all runs.
        now: Unix seconds.
    """
    found = {
        node: {word: when for word, when in words.items() if now - when < KEEP_SECONDS}
        for node, words in before.items()
    }
    for word, here in told.items():
        for node in np.unique(members.node[here]).tolist():
            found.setdefault(node, {})[word] = now
    return {node: words for node, words in found.items() if words}


def untold(before: Before, told: Mapping[str, Bools], members: Members) -> Bools:
    """(R,) whether something is missing of a rank's GPU that its node, or that of a peer, tells.

    Args:
        before: What was told of each node, as `remembered` has it.
        told: As there.
        members: Of all runs.
    """
    found = np.zeros(len(members), dtype=bool)
    for columns in members.columns_of_run.values():
        nodes = set(members.node[columns].tolist())
        wanted = {word for node in nodes for word in before.get(node, ())}
        for word in wanted & told.keys():
            found[columns] |= ~told[word][columns] & (members.uuid[columns] != "")
    return found
