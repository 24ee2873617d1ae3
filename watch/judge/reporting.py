"""What is told of each rank, its GPU and its node now, and what was told before."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.read.prometheus.questions import OF_DIAGNOSIS
from lockstep.watch.judge.hardware import Target
from lockstep.watch.judge.inventory import KEEP_SECONDS
from lockstep.watch.judge.members import Members
from lockstep.watch.judge.panel import KNOWN, OWN, STEPS

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
DIAGNOSED = {least: f"{least} of what is diagnosed" for least in range(1, len(OF_DIAGNOSIS) + 1)}
"""How many metrics of `questions.OF_DIAGNOSIS` -> the word that so many are told: whichever goes
away takes the last word with it."""
OF_RANKS = frozenset((OWN, STEPS, KNOWN, *DIAGNOSED.values()))
"""What every rank tells; all else only those on a GPU."""
RANKS = "ranks"
"""Of a node: that a rank lives on it."""
FORGET_RANKS_SECONDS = 3600.0
"""As streams.FORGET_SECONDS: a rank that is not told of for so long is of a run that ended."""
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
        told: Word -> (R,) whether it is told of the rank, its GPU, or by its page, now.
        members: Of all runs.
        now: Unix seconds.
    """
    found = {
        node: {word: when for word, when in words.items() if abs(now - when) < KEEP_SECONDS}
        for node, words in before.items()
    }
    for word, here in told.items():
        for node in np.unique(members.node[here]).tolist():
            found.setdefault(node, {})[word] = now
    return {node: words for node, words in found.items() if words}


def untold(before: Before, told: Mapping[str, Bools], members: Members) -> Bools:
    """(R,) whether something is missing of a rank that its node, or that of a peer, tells.

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
            applies = (members.uuid[columns] != "") | (word in OF_RANKS)
            found[columns] |= ~told[word][columns] & applies
    return found


def with_ranks(before: Before, members: Members, up: Floats, now: float) -> Before:
    """With the nodes on which ranks live; those that are told to have ended are forgotten.

    A rank of which nobody tells any more has not ended: who is gone is told of for ten minutes.

    Args:
        before: As it was.
        members: Of all runs.
        up: (R,) 1 = its process is there, 0 = it is gone, NaN = not told.
        now: Unix seconds.
    """
    lives = set(members.node[up == 1].tolist())
    ended = set(members.node[up == 0].tolist()) - set(members.node[up != 0].tolist())
    found = {node: dict(words) for node, words in before.items()}
    for node in lives:
        found.setdefault(node, {})[RANKS] = now
    for node, words in found.items():
        if node in ended or now - words.get(RANKS, now) > FORGET_RANKS_SECONDS:
            words.pop(RANKS, None)
    return found
