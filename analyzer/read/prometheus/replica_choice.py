"""Which replicas of a server are asked, where the server itself counts and adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lockstep.analyzer.read.prometheus.promql import lasting, one_of
from lockstep.analyzer.read.prometheus.replicas import Identity
from lockstep.analyzer.shapes.labels import Target, target_of
from lockstep.analyzer.shapes.windows import MAX_GAP
from lockstep.collector.contract.metrics import BUILD_INFO

LOOK_BACK = 300.0
"""Seconds: so long Prometheus holds on to a series' last sample (`--query.lookback-delta`)."""
NEWEST = f"timestamp({BUILD_INFO.name})"
SCRAPES = f"count_over_time({BUILD_INFO.name}[{lasting(LOOK_BACK)}])"
"""Of each page: unix seconds of the newest scrape, and how many there were."""

Answer = Sequence[tuple[Mapping[str, str], float]]


@dataclass(frozen=True, slots=True)
class Told:
    """What a replica tells of the pages.

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
        asked: The replicas that tell, of shards one of each.
        silent: Those that mostly repeat.
        lost: Targets that only silent ones tell of.
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
        lost = f"; {len(self.lost)} targets that only those tell of are not seen"
        return said + (lost if self.lost else "")


def choice(newest: Answer, scrapes: Answer, labels: Identity) -> Choice:
    """Which replicas are asked, by the answers to NEWEST and SCRAPES.

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
        one: Told(frozenset(each), max(each.values()), LOOK_BACK / most.get(one, 1.0))
        for one, each in times.items()
    }, labels)  # fmt: skip


def choose(told: Mapping[Identity, Told], labels: Identity) -> Choice:
    """One replica for each target: of those that live the one with most targets, then by name.

    Who tells mostly of targets that nobody asked before tells of is a shard, and is asked; its few
    shared targets count twice, which is less than to lose all others.

    Args:
        told: What each tells.
        labels: What their names stand in.
    """
    newest = max((one.newest for one in told.values()), default=0.0)

    def order(one: Identity) -> tuple[bool, int, Identity]:
        behind = newest - told[one].newest > MAX_GAP * told[one].interval
        return behind, -len(told[one].targets), one

    asked: list[Identity] = []
    silent: list[Identity] = []
    seen: frozenset[Target] = frozenset()
    for one in sorted(told, key=order):
        if len(told[one].targets & seen) * 2 <= len(told[one].targets):
            asked.append(one)
            seen |= told[one].targets
        else:
            silent.append(one)
    lost = frozenset[Target]().union(*(told[one].targets for one in silent)) - seen
    return Choice(labels, tuple(asked), tuple(silent), lost, _matchers(asked, silent, labels))


def _matchers(asked: Sequence[Identity], silent: Sequence[Identity], labels: Identity) -> str:
    """Excludes the silent alone: what has another value, or no such label, repeats nobody."""
    found = []
    for place, label in enumerate(labels):
        without = {one[place] for one in silent} - {one[place] for one in asked}
        if without:
            found.append(f"{label}!~{one_of(sorted(without))}")
    return ",".join(found)
