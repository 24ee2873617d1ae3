"""Ranks in words."""

from collections.abc import Iterable

MOST_NAMED = 12
"""Stretches of ranks in a sentence; the JSON has them all."""


def ranks_told(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0-7, 9`."""
    every = sorted(set(ranks))
    return f"rank{'' if len(every) == 1 else 's'} {stretches(every)}"


def stretches(ranks: Iterable[int]) -> str:
    """`0-7, 9`."""
    every = sorted(set(ranks))
    found: list[list[int]] = []
    for rank in every:
        if found and rank == found[-1][1] + 1:
            found[-1][1] = rank
        else:
            found.append([rank, rank])
    told = [f"{a}" if a == b else f"{a}-{b}" for a, b in found[:MOST_NAMED]]
    return ", ".join(told) + (f" and more ({len(every)})" if len(found) > MOST_NAMED else "")
