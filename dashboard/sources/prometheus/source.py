"""A Prometheus as a Source."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from lockstep.analyzer.read.archive.files import Files
from lockstep.collector.contract.archive import RUN_FILE
from lockstep.dashboard.protocol import Source
from lockstep.dashboard.shapes import (
    Answer,
    Event,
    FindingRow,
    FleetMetric,
    FleetSnapshot,
    Health,
    LedgerRow,
    Lines,
    Matrix,
    NodeFacts,
    RunRow,
    Span,
)
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.sources.grid import MOST_POINTS, grid
from lockstep.dashboard.sources.prometheus import events, folders, node_facts
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.charts import gpu_charts, node_charts
from lockstep.dashboard.sources.prometheus.directory import Member, sample
from lockstep.dashboard.sources.prometheus.findings import findings, lost_gpu_hours, said, verdict
from lockstep.dashboard.sources.prometheus.fleet import fleet
from lockstep.dashboard.sources.prometheus.health import health
from lockstep.dashboard.sources.prometheus.known import Known
from lockstep.dashboard.sources.prometheus.ledgers import ledgers
from lockstep.dashboard.sources.prometheus.ranks import collectives, rank_times, ranks
from lockstep.dashboard.sources.prometheus.run_charts import run_charts
from lockstep.dashboard.sources.prometheus.runs import (
    REFINED,
    against_baselines,
    causes,
    goes_on,
    refined,
    row,
    seen,
    slowdowns,
    statuses,
)
from lockstep.dashboard.trouble import Kind, TroubleError

WINDOWS = 300
"""Of a matrix."""
EVENT_POINTS = 300
CLOSING = 900.0
"""Seconds after the end of a run in which the end of a finding is looked for."""
MOST_PAGES = 64
NO_OPERATIONS = (
    "lockstep watch --out DIR keeps the operations of a finding; lockstep dashboard --prometheus"
    " URL --findings DIR reads them"
)
T = TypeVar("T")


class PrometheusSource:
    """A Prometheus, or what speaks its HTTP API.

    Args:
        url: Of it; credentials in it, or in the environment (analyzer.read.prometheus.access).
        findings: Folder where `lockstep watch` keeps the archives of findings; None = none.
        environment: None = the process'.

    Raises:
        TroubleError: That is no address. Whether anything answers there shows later.
    """

    def __init__(
        self, url: str, findings: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._asking = Asking(url, environment)
        self._findings = findings
        self._known = Known(self._asking)
        self.name = self._asking.url
        self.live = True

    def answer(self, span: Span | None = None, run: str = "") -> Answer:
        asking, now = self._asking, self._asking.now()
        last = self._known.latest()
        if last is None:
            return Answer(self.name, True, None, now, math.nan, (0, 0), asking.warnings)
        known, silent = self._known.directory(self._known.at(span)), self._known.silent()
        every = {*known.nodes, *silent}
        return Answer(
            name=self.name, live=True, at=last, now=now, scrape_seconds=self._known.scrape(),
            nodes=(len(every), len(every) - len(silent)), missing=asking.warnings,
        )  # fmt: skip

    def extent(self) -> Span:
        return self._known.extent()

    def runs(self, span: Span | None = None) -> tuple[RunRow, ...]:
        span = self._known.extent() if span is None else span
        runs = seen(self._asking, span, self._known.scrape())
        now, step = self._asking.now(), grid(span, self._known.scrape(), MOST_POINTS).step
        at = self._known.at(span)
        told, against = slowdowns(self._asking, at), against_baselines(self._asking, at)
        judged = statuses(self._asking, at, self._known.scrape())
        rows, open_ = [], self.findings(span)
        for index, one in enumerate(runs):
            known: tuple[Member, ...] = ()
            kept: tuple[folders.Kept, ...] = ()
            words: Mapping[str, Any] = {"slowdown": told.get(one.run)}
            if one.run in judged:
                status, sentence = said(one.run, (), judged[one.run], None, ended=False)
                words = {**words, "status": status, "sentence": sentence}
            if index < REFINED:
                one = refined(self._asking, one, self._known.scrape(), step)
                known = self._known.members(one.run, one.span.end)
                words = folders.verdict(self._findings, one.run) or words
                kept = folders.kept(self._findings, one.run)
            found_row = row(
                self._asking, one, known, now, self._known.scrape(), words, kept,
                causes(open_, one.run),
            )  # fmt: skip
            rows.append(replace(
                found_row, baseline=against.get(one.run),
                lost_gpu_hours=_first(lost_gpu_hours(open_, one.run), found_row.lost_gpu_hours),
            ))  # fmt: skip
        return tuple(rows)

    def run(self, run: str) -> RunRow:
        on_grid = self._known.seen(run)
        against = against_baselines(self._asking, self._known.at(None)).get(run)
        return replace(row(
            self._asking, on_grid, self._known.members(run, on_grid.span.end), self._asking.now(),
            self._known.scrape(), self.verdict(run), folders.kept(self._findings, run),
            causes(self.findings(on_grid.span, run), run),
        ), baseline=against)  # fmt: skip

    def spec(self, run: str) -> Mapping[str, Any]:
        on_grid = self._known.seen(run)
        for archived in folders.kept(self._findings, run):
            document = Files(archived.folder).whole_document(RUN_FILE)
            if document is not None:
                return document
        members = self._known.members(run, on_grid.span.end)
        sizes = {name: max((getattr(member, name) for member in members), default=-1) + 1
                 for name in ("dp", "pp", "tp")}  # fmt: skip
        world = max([len(members), *(member.world for member in members)])
        nodes = len({member.node for member in members})
        return {"run": run, "layout": {"world": world, **sizes, "nodes": nodes}}

    def verdict(self, run: str) -> Mapping[str, Any] | None:
        on_grid = self._known.seen(run)
        at, scrape, last = on_grid.span.end, self._known.scrape(), self._known.at(None)
        ended = not goes_on(on_grid, last, scrape)
        at = at if ended else last
        slowdown = slowdowns(self._asking, at, run).get(run)
        judged = statuses(self._asking, at, scrape, run).get(run)
        rows = self.findings(on_grid.span, run)
        told_of = verdict(
            self._asking, self._findings, run, at, slowdown, rows, judged, ended=ended
        )
        lost = lost_gpu_hours(rows, run)
        return told_of if told_of is None or lost is None else {**told_of, "lost_gpu_hours": lost}

    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        now, looked = self._asking.now(), span
        if run:
            life = self._known.life(run)
            if span.start < life.end and span.end > life.start:
                # A finding ends after its run: when watch closes it.
                end = life.end + CLOSING if span.end >= life.end else span.end
                looked = Span(max(span.start, life.start), end)
        rows = findings(self._asking, self._findings, looked, run, self._known.scrape(), now)
        return tuple(row for row in rows if row.since < span.end)

    def events(self, span: Span, run: str = "", node: str = "") -> tuple[Event, ...]:
        # Of a run: the steps of a grid over a longer range would be longer than what happened.
        looked = self._known.known_part(run, span) if run and not node else span
        within = grid(looked, self._known.scrape(), EVENT_POINTS, self._asking.now())
        at = self._known.at(looked)
        known = self._known.directory(at)
        rows = [finding for finding in self.findings(span, run) if not node or finding.node == node]
        happened = list(events.of_findings(rows))
        if node:
            self._known.targets(node, at)
            happened += events.of_hardware(self._asking, known, known.targets[node], within, run,
                                       self._known.scrape())  # fmt: skip
        elif run:
            here = self._known.members(run, self._known.seen(run).span.end)
            named = {row.node for row in rows}
            first = [member.target for member in here if member.node in named]
            rest = [member.target for member in sample(here, MOST_PAGES)]
            pages = list(dict.fromkeys([*first, *rest]))[:MOST_PAGES]
            happened += events.of_hardware(self._asking, known, pages, within, run,
                                       self._known.scrape())  # fmt: skip
        else:
            happened += events.of_all(self._asking, known, within)
        if run:
            mine = self._known.known_part(run, span)
            within = grid(mine, self._known.scrape(), EVENT_POINTS, self._asking.now())
            happened += events.of_run(self._asking, run, within, self._known.scrape())
        happened = [
            event
            for event in happened
            if event.at < span.end and (event.until or event.at) >= span.start
        ]
        return tuple(sorted(happened, key=lambda one: one.at)[-events.MOST_EVENTS :])

    def run_lines(self, run: str, span: Span) -> tuple[Lines, ...]:
        found, life = self._known.members_in(run, span), self._known.life(run)
        within = self._known.grid(self._known.known_part(run, span))
        return run_charts(self._asking, run, found, within, self._known.scrape(), life)

    def ranks(self, run: str, span: Span) -> pd.DataFrame:
        found, span = self._known.members_in(run, span), self._known.known_part(run, span)
        return ranks(self._asking, run, found, span, self._known.scrape())

    def rank_times(self, run: str, span: Span) -> Matrix:
        first = self.ranks(run, span)["rank"].tolist()
        looked = self._known.known_part(run, span)
        within = grid(looked, self._known.scrape(), WINDOWS, self._asking.now())
        members = self._known.members_in(run, span)
        return rank_times(self._asking, run, members, within, self._known.scrape(), first)

    def collectives(self, run: str, span: Span) -> pd.DataFrame:
        found, span = self._known.members_in(run, span), self._known.known_part(run, span)
        return collectives(self._asking, run, found, span, self._known.scrape())

    def arrivals(self, run: str, span: Span) -> Matrix:
        return self._archived(run, lambda source: source.arrivals(run, span))

    def operations(self, run: str, rank: int, span: Span) -> pd.DataFrame:
        return self._archived(run, lambda source: source.operations(run, rank, span))

    def trace(self, run: str, span: Span) -> bytes:
        return self._archived(run, lambda source: source.trace(run, span))

    def fleet(self, metric: FleetMetric, at: float | None = None) -> FleetSnapshot:
        moment = self._known.at(None if at is None else Span(at, at))
        known = self._known.directory(moment)
        return fleet(
            self._asking,
            known,
            self._known.places(moment),
            metric,
            moment,
            self._known.scrape(),
            self._known.silent(),
        )

    def nodes(self) -> tuple[str, ...]:
        return self._known.directory(self._known.at(None)).nodes

    def node(self, node: str, span: Span) -> NodeFacts:
        at = self._known.at(span)
        targets = self._known.targets(node, at)
        rack = self._known.directory(at).rack.get(node, {})
        return node_facts.facts(self._asking, node, targets, span, at, rack)

    def node_lines(self, node: str, span: Span) -> tuple[Lines, ...]:
        at = self._known.at(span)
        targets = self._known.targets(node, at)
        here = node_facts.runs(self._asking, targets, span, at)
        peers = [
            member
            for run in here[:1]
            for member in self._known.members(run, at)
            if member.node != node
        ]
        return node_charts(
            self._asking, targets, peers, self._known.grid(span), self._known.scrape()
        )

    def gpu_lines(self, node: str, gpu: int, span: Span) -> tuple[Lines, ...]:
        at = self._known.at(span)
        targets = self._known.targets(node, at)
        known = node_facts.gpus(self._asking, targets, at)
        if gpu not in known:
            raise TroubleError(
                Kind.UNKNOWN_ID, f"{node} has no GPU {gpu} that is known here.",
                "Choose one of its GPUs.", tuple(map(str, known)),
            )  # fmt: skip
        return gpu_charts(self._asking, targets, gpu, self._known.grid(span), self._known.scrape())

    def health(self, run: str = "") -> Health:
        at, asking = self._known.at(None), self._asking
        known = self._known.directory(at)
        return health(
            asking, known, at, asking.now(), self._known.scrape(), asking.warnings,
            self._known.silent(),
        )  # fmt: skip

    def ledgers(self, span: Span, run: str = "") -> tuple[LedgerRow, ...]:
        moment = self._known.at(span)
        looked = Span(min(span.start, moment), moment)
        return ledgers(self._asking, looked, run, self.findings(looked, run))

    def folder(self, run: str) -> Path | None:
        archives = folders.kept(self._findings, run)
        return archives[0].folder if archives else None

    def _archived(self, run: str, ask: Callable[[Source], T]) -> T:
        """What the newest archive of a finding says, which has the operations of its steps."""
        self._known.seen(run)
        for kept in folders.kept(self._findings, run):
            if (kept.folder / "ops.parquet").exists():
                return ask(ArchiveSource(kept.folder))
        raise TroubleError(
            Kind.NOT_TOLD, f"Prometheus has no single operations of run {run}.", NO_OPERATIONS
        )


def _first(*values: float | None) -> float | None:
    """The first that is known."""
    return next((value for value in values if value is not None), None)
