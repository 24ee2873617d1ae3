"""Series that several replicas of a server wrote: the same pages, told apart by a label.

Replicas are not merged sample by sample: they scrape at other moments, by clocks of their own, and
a counter read by turns would seem to fall. One tells, and another where that one is silent.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.read.prometheus.decoding import Series
from lockstep.analyzer.shapes.labels import Target, target_of

_USUAL = re.compile(r"_*(?:[a-z0-9]+_+)*replica_*", re.IGNORECASE)
"""`replica` (Thanos), `prometheus_replica` (Prometheus operator), `__replica__` (Mimir, Cortex)."""
HOLE = 1.5
"""Of the time between two scrapes: one is missing (halfway between none and one)."""
NEAR = 0.5
"""Of it: another replica's sample so near is the same scrape again."""

Identity = tuple[str, ...]
"""A replica: what each replica label says, empty = nothing."""
Key = tuple[tuple[str, str], ...]


def replica_labels(names: Iterable[str], named: Sequence[str] = ()) -> Identity:
    """Of label names those that may name replicas: named so by somebody, or called so."""
    return tuple(sorted(one for one in names if one in named or _USUAL.fullmatch(one)))


def merged(series: Sequence[Series], named: Sequence[str] = ()) -> list[Series]:
    """Each series once: as one replica of its target tells it, and another where that is silent.

    Args:
        series: As several replicas tell them, or one.
        named: Labels that name replicas, beside those called so.
    """
    names = {name for one in series for name in one.labels}
    labels = replica_labels(names, named)
    if not labels:
        return list(series)
    by_key: dict[Key, dict[Identity, Series]] = {}
    for one in series:
        rest = {name: text for name, text in one.labels.items() if name not in labels}
        identity = tuple(one.labels.get(name, "") for name in labels)
        by_key.setdefault(tuple(sorted(rest.items())), {})[identity] = one
    scrapes: dict[Target, dict[Identity, list[NDArray[np.int64]]]] = {}
    for told in by_key.values():
        for identity, one in told.items():
            times = scrapes.setdefault(target_of(one.labels), {})
            times.setdefault(identity, []).append(one.times)
    chosen = {
        target: _moments({one: np.unique(np.concatenate(each)) for one, each in of_target.items()})
        for target, of_target in scrapes.items()
        if len(of_target) > 1
    }
    return [
        _one(told, chosen.get(target_of(dict(key)), {}), dict(key)) for key, told in by_key.items()
    ]


def _moments(scrapes: Mapping[Identity, NDArray[np.int64]]) -> dict[Identity, NDArray[np.int64]]:
    """Of each replica of a target the scrapes that count; milliseconds, none counted twice."""
    first, *others = sorted(scrapes, key=lambda one: (-len(scrapes[one]), one))
    found = {first: scrapes[first]}
    taken = scrapes[first]
    usual = float(np.median(np.diff(taken))) if len(taken) > 1 else 0.0
    for one in others:
        times = scrapes[one]
        place = np.searchsorted(taken, times)
        edged = np.concatenate([[-np.inf], taken, [np.inf]])
        before, after = edged[place], edged[place + 1]
        near = np.minimum(times - before, after - times) <= NEAR * usual
        found[one] = times[~near & (after - before > HOLE * usual)]
        taken = np.union1d(taken, found[one])
    return found


def _one(
    told: Mapping[Identity, Series],
    moments: Mapping[Identity, NDArray[np.int64]],
    labels: Mapping[str, str],
) -> Series:
    """One series of what replicas tell of it; what only one tells is as that one tells it."""
    if not moments:
        (only,) = told.values()
        return only
    parts = []
    for identity, one in told.items():
        counts = np.isin(one.times, moments[identity])
        parts.append((one.times[counts], one.values[counts]))
    times, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    if len(told) == 1 or not len(times):
        most = max(told.values(), key=lambda one: len(one.times))
        return Series(labels, most.times, most.values)
    order = np.argsort(times, kind="stable")
    return Series(labels, times[order], values[order])
