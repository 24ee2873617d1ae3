"""One look at everything that lives, through Prometheus."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.findings.finding import Kind
from lockstep.analyzer.findings.finding_lifecycle import READING_SECONDS
from lockstep.analyzer.read.places import Places
from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.analyzer.read.prometheus.answers import Series
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.kubernetes import places
from lockstep.analyzer.shapes.labels import number
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metric_rows.ranges import RELATION, SECONDS, Range
from lockstep.watch.look.members import Members, members, namesakes
from lockstep.watch.look.panel import (
    CLOCK,
    KNOWN,
    OWN,
    POWER,
    STEPS,
    TEMPERATURE,
    Panel,
    of_gpus,
    of_ranks,
)

Floats = NDArray[np.float64]
T = TypeVar("T")
Answer = list[tuple[Mapping[str, str], float]]

RATE_CHECKS = 20
EVENT_SECONDS = 3600.0
"""An error of hardware is a finding for so long."""
LEAST_RATE_SECONDS = 60.0
"""A rate needs two scrapes: 15 s apart, as a rule, however often this looks."""
INVENTORY_EVERY = 20
"""Looks: links and ports are counted once in so many."""
LESS_SECONDS = 15.0
"""For all questions together that a cycle can do without."""


@dataclass(frozen=True, slots=True)
class Look:
    """What Prometheus told at one moment.

    Attributes:
        now: Unix seconds on its clock.
        members: Every rank that is told of, also those that are gone since at most ten minutes.
        panel: The checks since the last look, its last one first.
        up: (R,) 1 = the rank's process is there, 0 = it is gone, NaN = not told.
        told: run -> unix seconds of the newest scrape that tells of it.
        own: (R,) own seconds per step in the last minutes, NaN = not known.
        own_lately: The same in the last minute.
        step_rate: (R,) steps per second in the last minutes.
        clock: (R,) SM clock of the rank's GPU.
        telling: (R,) how many metrics of questions.OF_DIAGNOSIS are told of the rank.
        open: run -> seconds since its oldest collective under way began.
        stopped: run -> ranks that are frozen, or stuck outside every collective.
        pages: Of each collector that was scraped: labels and unix seconds.
        lost: Labels of targets that tell it, and how many GPUs the driver no longer counts.
        xids: Labels and unix seconds of the hardware's errors, those of the last hour.
        error_pages: Targets that would tell of such errors.
        links, ports: Labels and how many NVLinks are up, and whether the port is active; None =
            not asked this time.
        places: Where nodes stand; None = not asked this time.
        unanswered: Why a question was not answered that the cycle can do without.
        blind: Kinds of findings of which nothing is known therefore.
        namesakes: Runs whose name two programs have, and on which nodes: their numbers are mixed.
    """

    now: float
    members: Members
    panel: Panel
    up: Floats
    told: Mapping[str, float]
    own: Floats
    own_lately: Floats
    step_rate: Floats
    clock: Floats
    telling: Floats
    open: Mapping[str, float]
    stopped: Mapping[str, frozenset[int]]
    pages: Answer
    lost: Answer
    xids: Answer
    error_pages: frozenset[tuple[str, str]]
    links: Answer | None
    ports: Answer | None
    places: Places | None
    unanswered: tuple[str, ...] = ()
    blind: frozenset[Kind] = frozenset()
    namesakes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def living(self) -> NDArray[np.bool_]:
        """(R,) whether the rank's process is told to be there."""
        return np.asarray(self.up == 1)

    def pages_of(self, run: str) -> frozenset[tuple[str, str]]:
        """(job, instance) of the pages that tell of a run."""
        columns, members = self.members.columns_of_run[run], self.members
        jobs, instances = members.job[columns].tolist(), members.instance[columns].tolist()
        return frozenset(zip(jobs, instances, strict=True))


@dataclass(frozen=True, slots=True)
class _Questions:
    """How one look asks: all answers are about the same moment and the same ranks."""

    connection: Connection
    now: float
    members: Members
    times: Floats
    interval: float
    unanswered: list[str]

    def instant(self, query: str, within: Range | None = None) -> Answer:
        return self.connection.instant(query, self.now, within=within or ask.WITHIN.get(query))

    def by_rank(self, query: str, within: Range | None = None) -> Floats:
        return of_answer(self.instant(query, within), self.members)

    def over(self, query: str, within: Range | None = None) -> list[Series]:
        return self.connection.over(
            query, float(self.times[0]), float(self.times[-1]), self.interval,
            within=within or ask.WITHIN.get(query),
        )  # fmt: skip

    def ranks_over(self, query: str) -> Floats:
        return of_ranks(self.over(query), self.times, self.members)

    def optional(self, question: Callable[[], T]) -> T | None:
        """An answer that the cycle can do without; None = there was none, and why is noted."""
        try:
            return question()
        except SourceError as error:
            self.unanswered.append(str(error))
            return None

    def gpus_over(self, metric: m.Metric, selector: str) -> Floats | None:
        query = ask.gauge(metric, selector, self.interval)
        return self.optional(
            lambda: of_gpus(self.over(query, metric.within), self.times, self.members)
        )


@dataclass(frozen=True, slots=True)
class _Hardware:
    """What a cycle can do without; None = it was not answered, or not asked this time."""

    own_lately: Floats | None
    stopped: Answer | None
    telling: Floats | None
    lost: Answer | None
    errors: Answer | None
    gauges: Mapping[str, Floats | None]
    links: Answer | None
    ports: Answer | None
    places: Places | None

    @property
    def blind(self) -> frozenset[Kind]:
        """Kinds of findings of which nothing is known therefore."""
        missing = {
            Kind.STOP: self.stopped is None,
            Kind.EVENT: self.lost is None or self.errors is None,
            Kind.HARDWARE: any(gauge is None for gauge in self.gauges.values()),
        }
        return frozenset(kind for kind, is_missing in missing.items() if is_missing)


def look(
    connection: Connection, since: float, interval: float, most: int, *, inventory: bool
) -> Look:
    """Ask Prometheus about everything that lives.

    Args:
        connection: To the Prometheus.
        since: Unix seconds of the last check that was judged; -inf = none was.
        interval: Seconds between two checks.
        most: Checks to look back at most.
        inventory: Whether to count links and ports, and to ask where nodes stand.

    Raises:
        SourceError: Prometheus does not answer, or not whole, what a cycle cannot do without.
    """
    now = connection.now()
    infos = connection.instant(ask.INFOS, now)
    who = members(infos)
    times = _times(since, now, interval, most)
    asking = _Questions(connection, now, who, times, interval, [])
    seconds = max(LEAST_RATE_SECONDS, RATE_CHECKS * interval)
    ranks = {
        name: asking.ranks_over(query)
        for name, query in ((OWN, ask.OWN), (STEPS, ask.STEPS), (KNOWN, ask.KNOWN))
    }
    up, runs = asking.by_rank(ask.LIVING), by_run(asking.instant(ask.TOLD))
    own_now = asking.by_rank(ask.own_seconds_query(seconds), SECONDS)
    step_rate = asking.by_rank(ask.rate(m.TRAIN_STEPS, seconds), RELATION)
    waits, pages = by_run(asking.instant(ask.OPEN)), asking.instant(ask.PAGES)
    hardware = _hardware(asking, inventory=inventory)
    twins = namesakes(infos, lambda: asking.instant(ask.UP_BY_PAGE))
    unknown = np.full((len(times), len(who)), np.nan)
    gauges = {name: unknown if gauge is None else gauge for name, gauge in hardware.gauges.items()}
    panel = Panel(times, who, {**ranks, **gauges})
    return Look(
        now=now,
        members=who,
        panel=panel,
        up=up,
        told=runs,
        own=own_now,
        own_lately=np.full(len(who), np.nan)
        if hardware.own_lately is None
        else hardware.own_lately,
        step_rate=step_rate,
        clock=_last(panel.told[CLOCK]),
        telling=np.zeros(len(who)) if hardware.telling is None else np.nan_to_num(hardware.telling),
        open=waits,
        stopped=ranks_by_run(hardware.stopped or []),
        pages=pages,
        lost=hardware.lost or [],
        xids=[
            (labels, when)
            for labels, when in hardware.errors or []
            if "xid" in labels and abs(now - when) < EVENT_SECONDS
        ],
        error_pages=frozenset(
            (labels.get("job", ""), labels.get("instance", ""))
            for labels, value in hardware.errors or []
            if "xid" in labels or value == 0
        ),
        links=hardware.links,
        ports=hardware.ports,
        places=hardware.places,
        unanswered=tuple(asking.unanswered),
        blind=hardware.blind,
        namesakes=twins,
    )


def _hardware(asking: _Questions, *, inventory: bool) -> _Hardware:
    """What hardware reports, asked last and in a time of its own.

    One answer that does not end, or is too large, must not blind the watch to everything else.
    """
    instant, optional = asking.instant, asking.optional
    with asking.connection.within(LESS_SECONDS):
        return _Hardware(
            own_lately=optional(
                lambda: asking.by_rank(ask.own_seconds_query(READING_SECONDS), SECONDS)
            ),
            stopped=optional(lambda: instant(ask.STOPPED)),
            telling=optional(lambda: asking.by_rank(ask.TELLING)),
            lost=optional(lambda: instant(ask.LOST)),
            errors=optional(lambda: instant(ask.XIDS)),
            gauges={
                CLOCK: asking.gpus_over(m.GPU_CLOCK, 'domain="sm",'),
                TEMPERATURE: asking.gpus_over(m.GPU_TEMPERATURE, 'sensor="gpu",'),
                POWER: asking.gpus_over(m.GPU_POWER, ""),
            },
            links=optional(lambda: instant(ask.LINKS)) if inventory else None,
            ports=optional(lambda: instant(ask.PORTS)) if inventory else None,
            places=optional(lambda: places(asking.connection, asking.now)) if inventory else None,
        )


def of_answer(answer: Answer, who: Members) -> Floats:
    """(R,) of an answer by run and rank."""
    found = np.full(len(who), np.nan)
    for labels, value in answer:
        rank = number(labels, "rank")
        column = None if rank is None else who.column.get((labels.get("run", ""), rank))
        if column is not None:
            found[column] = value
    return found


def by_run(answer: Answer) -> dict[str, float]:
    """By run."""
    return {
        run: value
        for labels, value in answer
        if (run := labels.get("run", "")) and math.isfinite(value)
    }


def ranks_by_run(answer: Answer) -> dict[str, frozenset[int]]:
    """The ranks of an answer, by run."""
    found: dict[str, set[int]] = {}
    for labels, _ in answer:
        rank = number(labels, "rank")
        if rank is not None:
            found.setdefault(labels.get("run", ""), set()).add(rank)
    return {run: frozenset(ranks) for run, ranks in found.items()}


def _times(since: float, now: float, interval: float, most: int) -> Floats:
    """The checks up to now; the first is the last one that was judged, or lies before them."""
    back = now - most * interval
    count = int((now - since) / interval + 1e-6) if since > back else most
    first = since if since > back else now - count * interval
    return np.asarray(first + interval * np.arange(max(count, 0) + 1), dtype=np.float64)


def _last(values: Floats) -> Floats:
    """(R,) the newest value of each column."""
    found: Floats = values[0].copy()
    for row in values[1:]:
        np.copyto(found, row, where=np.isfinite(row))
    return found
