"""Which pages of a run are read in full, which runs are diagnosed next, and how far back."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.watch.judge.members import Members

MOST_PAGES = 8
"""A run on more nodes is read in part: those of suspects, and of some of their peers."""
SUSPECT_PAGES = 3
SHARE = 5.0
"""A diagnosis looks back so many times the age of what it is about: it is then a fifth of the time,
and slowness.significance names what lasts a seventh."""

Targets = Mapping[str, Sequence[str]]
"""job -> instances."""


@dataclass(frozen=True, slots=True)
class Pages:
    """What is read of a run, the suspects' pages first; `part` = not all of its pages."""

    targets: Targets
    part: bool


def pages(
    members: Members,
    run: str,
    suspects: Iterable[int],
    ratio: NDArray[np.float64],
    silent: Collection[tuple[str, str]] = (),
) -> Pages:
    """The pages of a run, or of its suspects and of those of their peers that are most ordinary.

    Args:
        members: Of all runs.
        run: The run's id.
        suspects: Its ranks that are suspected, the gravest first; without any the slowest are.
        ratio: (R,) own time over the peers' median.
        silent: (job, instance) of pages that told of the run and do no more: what they told last
            says whether others went before.
    """
    columns = members.columns_of_run[run]
    gone = sorted(silent)
    every = [*_pages_of(members, columns), *gone]
    slowest = columns[np.argsort(-np.nan_to_num(ratio[columns], nan=0.0), kind="stable")]
    wanted = [members.column[run, rank] for rank in suspects if (run, rank) in members.column]
    suspected = _pages_of(members, np.array([*wanted, *slowest.tolist()]), SUSPECT_PAGES)
    first = [*gone[:SUSPECT_PAGES], *suspected]
    if len(every) <= MOST_PAGES:
        return Pages(_by_job(dict.fromkeys([*first, *every])), part=False)
    mine = set(members.stratum[wanted or slowest[:1]].tolist())
    peers = columns[np.isin(members.stratum[columns], sorted(mine))]
    far = np.abs(np.nan_to_num(ratio[peers], nan=np.inf) - 1.0)
    usual = _pages_of(members, peers[np.argsort(far, kind="stable")], MOST_PAGES)
    chosen = list(dict.fromkeys([*first, *usual]))[:MOST_PAGES]
    return Pages(_by_job(chosen), part=True)


@dataclass(frozen=True, slots=True)
class Wish:
    """A run that might be diagnosed.

    Attributes:
        urgent: Something about it is new: it goes before all others.
        watched: A finding about it is open, or nearly.
        age: Seconds since its last diagnosis; inf = never.
        onset: Unix seconds at which what is new began; None = nothing is.
    """

    run: str
    urgent: bool
    watched: bool
    age: float
    onset: float | None = None


def due_diagnoses(wishes: Iterable[Wish], interval: float, window: float) -> list[Wish]:
    """Those to diagnose now, the most important first.

    What is urgent is diagnosed in each cycle, what is watched in every fourth, others once in half
    the time that a diagnosis looks back.
    """
    ready = [
        one
        for one in wishes
        if one.urgent or one.age >= (4 * interval if one.watched else window / 2)
    ]
    return sorted(ready, key=lambda one: (not one.urgent, -one.age, one.run))


def reach(onset: float | None, now: float, interval: float, window: float) -> float:
    """Seconds that a diagnosis looks back."""
    if onset is None:
        return window
    return min(window, max(SHARE * (now - onset), 20 * interval))


def _pages_of(
    members: Members, columns: NDArray[np.int64], most: int | None = None
) -> list[tuple[str, str]]:
    """(job, instance) of columns, in their order, each once."""
    found: dict[tuple[str, str], None] = {}
    for column in columns.tolist():
        found.setdefault((str(members.job[column]), str(members.instance[column])))
        if len(found) == most:
            break
    return list(found)


def _by_job(chosen: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    targets: dict[str, list[str]] = {}
    for job, instance in chosen:
        targets.setdefault(job, []).append(instance)
    return {job: tuple(some) for job, some in targets.items()}
