"""Series that several replicas of a server wrote: the same pages, distinguished by a label.

Replicas are not merged sample by sample: they scrape at other moments, by clocks of their own, and
a counter read by turns would seem to fall. One reports, and another where that one is silent. Where
the server itself counts and adds, matchers leave out the replicas that repeat.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.read.prometheus.answers import Series
from lockstep.analyzer.read.prometheus.promql import one_of
from lockstep.analyzer.read.prometheus.questions import LOOK_BACK
from lockstep.analyzer.shapes.labels import Target, target_of
from lockstep.analyzer.shapes.windows import MAX_GAP

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
    """Each series once: as one replica of its target reports it, and another where that is silent.

    Args:
        series: As several replicas report them, or one.
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
    series: Mapping[Identity, Series],
    moments: Mapping[Identity, NDArray[np.int64]],
    labels: Mapping[str, str],
) -> Series:
    """One series of what replicas report of it; what only one reports is as that one reports it."""
    if not moments:
        (only,) = series.values()
        return only
    parts = []
    for identity, one in series.items():
        counts = np.isin(one.times, moments[identity])
        parts.append((one.times[counts], one.values[counts]))
    times, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    if len(series) == 1 or not len(times):
        most = max(series.values(), key=lambda one: len(one.times))
        return Series(labels, most.times, most.values)
    order = np.argsort(times, kind="stable")
    return Series(labels, times[order], values[order])


Answer = Sequence[tuple[Mapping[str, str], float]]


@dataclass(frozen=True, slots=True)
class Reported:
    """What a replica reports of the pages.

    Attributes:
        targets: Whose pages.
        newest: Unix seconds of its newest sample.
        interval: Seconds between two scrapes.
    """

    targets: frozenset[Target]
    newest: float
    interval: float


@dataclass(frozen=True, slots=True)
class Choice:
    """Which replicas are asked.

    Attributes:
        labels: That name replicas.
        asked: The replicas that report, of shards one of each.
        silent: Those that mostly repeat.
        lost: Targets that only silent ones report.
        matchers: For each selector; empty = there are no replicas.
    """

    labels: Identity = ()
    asked: tuple[Identity, ...] = ()
    silent: tuple[Identity, ...] = ()
    lost: frozenset[Target] = field(default_factory=frozenset)
    matchers: str = ""

    @property
    def words(self) -> str:
        """What is done, for people; empty = nothing is."""
        if not self.silent:
            return ""
        names = [", ".join(filter(None, one)) or "none" for one in (*self.asked, *self.silent)]
        asked, others = names[: len(self.asked)], names[len(self.asked) :]
        said = (
            f"series come from replicas ({', '.join(self.labels)}): {', '.join(asked)} counts,"
            f" not {', '.join(others)}"
        )
        lost = f"; {len(self.lost)} targets that only those have are not seen"
        return said + (lost if self.lost else "")


def choice(newest: Answer, scrapes: Answer, labels: Identity) -> Choice:
    """Which replicas are asked, by the answers to questions.NEWEST and SCRAPES.

    Args:
        newest: Labels and unix seconds.
        scrapes: Labels and how many.
        labels: That may name replicas.
    """

    def who(series: Mapping[str, str]) -> Identity:
        return tuple(series.get(name, "") for name in labels)

    most: dict[Identity, float] = {}
    for series, count in scrapes:
        most[who(series)] = max(most.get(who(series), 1.0), count)
    times: dict[Identity, dict[Target, float]] = {}
    for series, time in newest:
        times.setdefault(who(series), {})[target_of(series)] = time
    return choose({
        one: Reported(frozenset(each), max(each.values()), LOOK_BACK / most.get(one, 1.0))
        for one, each in times.items()
    }, labels)  # fmt: skip


def choose(reported: Mapping[Identity, Reported], labels: Identity) -> Choice:
    """One replica for each target: of those that live the one with most targets, then by name.

    Who reports mostly targets that none of those asked before has is a shard, and is asked; its few
    shared targets count twice, which is less than to lose all others.

    Args:
        reported: What each reports.
        labels: What their names stand in.
    """
    newest = max((one.newest for one in reported.values()), default=0.0)

    def order(replica: Identity) -> tuple[bool, int, Identity]:
        behind = newest - reported[replica].newest > MAX_GAP * reported[replica].interval
        return behind, -len(reported[replica].targets), replica

    asked: list[Identity] = []
    silent: list[Identity] = []
    seen: frozenset[Target] = frozenset()
    for one in sorted(reported, key=order):
        if len(reported[one].targets & seen) * 2 <= len(reported[one].targets):
            asked.append(one)
            seen |= reported[one].targets
        else:
            silent.append(one)
    lost = frozenset[Target]().union(*(reported[one].targets for one in silent)) - seen
    return Choice(labels, tuple(asked), tuple(silent), lost, _matchers(asked, silent, labels))


def _matchers(asked: Sequence[Identity], silent: Sequence[Identity], labels: Identity) -> str:
    """Excludes the silent alone: what has another value, or no such label, repeats nobody."""
    found = []
    for place, label in enumerate(labels):
        without = {one[place] for one in silent} - {one[place] for one in asked}
        if without:
            found.append(f"{label}!~{one_of(sorted(without))}")
    return ",".join(found)
