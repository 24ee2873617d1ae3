"""One run archive as a Source; read where it lies, never changed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lockstep.analyzer.read import places
from lockstep.analyzer.read.archive.files import ArchiveError, moment, number, part
from lockstep.analyzer.read.archive.load import Archive
from lockstep.analyzer.shapes.run import LoadError
from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics
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
from lockstep.dashboard.sources.archive import (
    charts,
    findings,
    fleet,
    health,
    nodes,
    operations,
    ranks,
    row,
)
from lockstep.dashboard.sources.archive.guard import guarded
from lockstep.dashboard.sources.archive.run_page import Page
from lockstep.dashboard.sources.archive.step_log import StepLog
from lockstep.dashboard.sources.ledgers import of_archives
from lockstep.dashboard.trouble import Kind, TroubleError
from lockstep.workloads.measure import peak

WALL = SystemClock().wall


class ArchiveSource:
    """A folder with one run (docs/reference/archive.md). `truth.json` in it is never opened."""

    def __init__(self, folder: Path, now: Callable[[], float] = WALL) -> None:
        """Looks at nothing yet.

        Args:
            folder: Of the archive.
            now: Unix seconds.
        """
        self.name = f"archive {folder}"
        self._archive = Archive(folder)
        self._files, self._scraped = self._archive.files, self._archive.series
        self._steps, self._samples = self._archive.steps, self._archive.samples
        self._ops = self._archive.ops
        self._now = now
        self._log = StepLog(self._steps)
        self._page = Page(self._log, self._archive)

    @property
    def live(self) -> bool:
        """Whether its run goes on."""
        try:
            return self._row().state == "running"
        except ArchiveError:
            return False

    @guarded
    def answer(self, span: Span | None = None, run: str = "") -> Answer:
        """How whole what it says is; the clock of a run that is over stands at its end."""
        mine = self._row()
        known = self._edges()
        going = mine.state == "running"
        there = ranks.nodes(self._who(), self._scraped)
        return Answer(
            name=self.name, live=going, at=known.end if known else None,
            now=self._now() if going else mine.span.end,
            scrape_seconds=self._scraped.interval() if self._samples.parts() else float("nan"),
            nodes=(len(there), len(there)), missing=self.missing(),
        )  # fmt: skip

    @guarded
    def extent(self) -> Span:
        """From the run's start to its end, or to the last thing that is known of it."""
        return self._span(self._files.meta())

    @guarded
    def runs(self, span: Span | None = None) -> tuple[RunRow, ...]:
        """The one run."""
        mine = self._row()
        outside = span is not None and (mine.span.start > span.end or mine.span.end < span.start)
        return () if outside else (mine,)

    @guarded
    def run(self, run: str) -> RunRow:
        """The one run."""
        return self._checked(run)

    @guarded
    def spec(self, run: str) -> Mapping[str, Any]:
        """run.json."""
        self._checked(run)
        return self._files.meta()

    @guarded
    def verdict(self, run: str) -> Mapping[str, Any] | None:
        """verdict.json."""
        self._checked(run)
        return self._files.verdict()

    @guarded
    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        """Culprits of the verdict, and the finding that `watch` made this archive for."""
        mine = self._row()
        if run and run != mine.run:
            return ()
        rows = self._findings(mine)
        return findings.newest_first(findings.during(rows, span))

    @guarded
    def events(self, span: Span, run: str = "", node: str = "") -> tuple[Event, ...]:
        """Of the hardware, the training and the verdict."""
        mine = self._row()
        if run and run != mine.run:
            return ()
        ended = mine.span.end if mine.state == "ended" else None
        events = self._page.events(mine.run, self._cut(span), span, node, ended)
        events += [finding for finding in findings.events(self.findings(span, run))
                  if not node or finding.node == node]  # fmt: skip
        return tuple(sorted(events, key=lambda each: each.at))

    @guarded
    def run_lines(self, run: str, span: Span) -> tuple[Lines, ...]:
        """The Run page, all of it with the steps at its moments."""
        self._checked(run)
        return self._page.lines(run, self._cut(span), self._peak())

    @guarded
    def ranks(self, run: str, span: Span) -> pd.DataFrame:
        """One row a rank, the slowest first."""
        self._checked(run)
        steps = self._log.steps(ranks.COLUMNS, self._cut(span))
        return ranks.table(ranks.with_unknown(self._who(), steps.ranks.tolist()), steps)

    @guarded
    def rank_times(self, run: str, span: Span) -> Matrix:
        """Own time of each rank over that of its peers."""
        self._checked(run)
        steps = self._log.steps(("own_seconds",), self._cut(span))
        return ranks.times(ranks.with_unknown(self._who(), steps.ranks.tolist()), steps)

    @guarded
    def collectives(self, run: str, span: Span) -> pd.DataFrame:
        """One row an operation, group and size."""
        self._checked(run)
        return operations.collectives(operations.calls(operations.read(self._ops, self._cut(span))))

    @guarded
    def arrivals(self, run: str, span: Span) -> Matrix:
        """By how much each rank came after the first one."""
        self._checked(run)
        calls = operations.calls(operations.read(self._ops, self._cut(span)))
        seen = sorted(int(rank) for rank in calls.rows["rank"].unique())
        return operations.arrivals(calls, ranks.with_unknown(self._who(), seen))

    @guarded
    def operations(self, run: str, rank: int, span: Span) -> pd.DataFrame:
        """Of one rank, one by one."""
        self._checked(run)
        return operations.of_rank(self._ops, rank, self._cut(span))

    @guarded
    def trace(self, run: str, span: Span) -> bytes:
        """For ui.perfetto.dev."""
        self._checked(run)
        return operations.trace(self._ops, self._steps, self._who(), self._files.meta(), run, span)

    @guarded
    def fleet(self, metric: FleetMetric, at: float | None = None) -> FleetSnapshot:
        """At a moment, or at the last scrape."""
        mine = self._row()
        edges = self._samples.edges("time")
        last = edges[1] if edges is not None else mine.span.end
        at = last if at is None else at
        # Counters and gauges are told at every scrape: the last few tell all.
        back = Span(at - fleet.LOOK_BACK * self._scraped.interval(), at)
        members = self._who()

        def table() -> pd.DataFrame:
            return self.ranks(mine.run, Span(at - fleet.STEPS_BACK, at + 1e-6))

        return fleet.fleet(
            metric, at, self._scraped.series(fleet.wanted(metric), back), members, table,
            ranks.nodes(members, self._scraped), run=mine.run,
            simulated=any("simulated" in origin for origin in mine.provenance),
        )  # fmt: skip

    @guarded
    def nodes(self) -> tuple[str, ...]:
        """Those with ranks first."""
        return ranks.nodes(self._who(), self._scraped)

    @guarded
    def node(self, node: str, span: Span) -> NodeFacts:
        """Who it is."""
        mine, told = self._row(), self._who()
        self._check_node(node, told)
        series = self._scraped.series(
            (*nodes.WANTED, *nodes.INFOS), self._cut(span), node=node
        )  # fmt: skip
        known = Span(max(span.start, self._scraped.begin()), span.end)
        place = self._places().get(node, {})
        return nodes.facts(node, series, told, mine.run, place, nodes.checks(series, known))

    @guarded
    def node_lines(self, node: str, span: Span) -> tuple[Lines, ...]:
        """Of its GPUs beside their peers, and of the host."""
        self._check_node(node, self._who())
        cut = self._cut(span)
        of_gpus = self._scraped.series(charts.OF_PEERS, cut)
        of_host = self._scraped.series(charts.OF_A_NODE, cut, node=node)
        return charts.of_node(of_host, of_gpus, node)

    @guarded
    def gpu_lines(self, node: str, gpu: int, span: Span) -> tuple[Lines, ...]:
        """Of one GPU."""
        self._check_node(node, self._who())
        series = self._scraped.series(charts.OF_A_GPU, self._cut(span), node=node, gpu=gpu)
        if not series:
            raise TroubleError(
                Kind.NOT_TOLD, f"Nothing was recorded of GPU {gpu} of {node} in this range.",
                "Choose another GPU or a longer range; a run without GPUs has none.",
            )  # fmt: skip
        return charts.of_gpu(series)

    @guarded
    def health(self, run: str = "") -> Health:
        """Of scrapes, clocks and files."""
        meta = self._files.meta()
        known = self._edges() or self._span(meta)
        end = min(known.end, self._span(meta).end)
        return health.health(self._scraped.series(health.WANTED), meta, self.missing(),
                             Span(known.start, end), self._scraped.interval())  # fmt: skip

    @guarded
    def ledgers(self, span: Span, run: str = "") -> tuple[LedgerRow, ...]:
        """Of this attempt; `lockstep ledger` and a folder of archives have all of a run."""
        if run:
            self._checked(run)
        try:
            return of_archives([self._files.folder])
        except LoadError as error:
            raise TroubleError(
                Kind.UNREADABLE, f"{error}.",
                "lockstep analyze says which file it is; remove that one to see the rest.",
            ) from error  # fmt: skip

    @guarded
    def folder(self, run: str) -> Path | None:
        """Of the archive."""
        self._checked(run)
        return self._files.folder

    def _check_node(self, node: str, frame: pd.DataFrame) -> None:
        there = ranks.nodes(frame, self._scraped)
        if node not in there:
            raise TroubleError(
                Kind.UNKNOWN_ID, f"There is no node {node[:200]!r} in {self.name}.",
                "Choose one of those that there are.", there,
            )  # fmt: skip

    def _places(self) -> places.Places:
        path = self._files.inside(places.TOPOLOGY_FILE)
        try:
            return places.read(path) if path is not None else {}
        except LoadError:  # the analyzer says what is wrong with it
            return {}

    def _who(self) -> pd.DataFrame:
        return ranks.members(self._archive.ranks, self._scraped, self._files.meta())

    def _checked(self, run: str) -> RunRow:
        mine = self._row()
        if run != mine.run:
            raise TroubleError(
                Kind.UNKNOWN_ID, f"There is no run {run[:200]!r} in {self.name}.",
                "Choose one of those that there are.", (mine.run,),
            )  # fmt: skip
        return mine

    def _row(self) -> RunRow:
        meta = self._files.meta()
        return row.row(self._files, meta, self._span(meta), self._now())

    def _span(self, meta: Mapping[str, Any]) -> Span:
        started, ended = moment(meta.get("started")), moment(meta.get("ended"))
        known = None if started is not None and ended is not None else self._edges()
        start = started if started is not None else known.start if known else 0.0
        end = ended if ended is not None else known.end if known else start
        return Span(start, end) if end >= start else Span(end, start)

    def _edges(self) -> Span | None:
        """By the statistics of the tables, without reading them."""
        edges = [self._steps.edges("start"), self._samples.edges("time")]
        moments = [
            at for pair in edges if pair is not None for at in pair if moment(at) is not None
        ]
        return Span(min(moments), max(moments)) if moments else None

    def _cut(self, span: Span) -> Span | None:
        """The span to read; None where it is all there is, which is faster."""
        whole = self._span(self._files.meta())
        return None if span.start <= whole.start and span.end >= whole.end else span

    def _findings(self, mine: RunRow) -> tuple[FindingRow, ...]:
        finding = self._files.finding()
        if finding is not None:
            return (findings.of_watch(mine.run, self._files.folder.name, finding),)
        try:
            verdict = self._files.verdict()
        except ArchiveError:  # the page of the run says that it cannot be read
            return ()
        if not verdict or not verdict["culprits"]:
            return ()
        last = [culprit.get("to_step") for culprit in verdict["culprits"]]
        ends = self._begins([each for each in last if isinstance(each, int)])
        going = mine.state == "running"
        return findings.of_verdict(mine.run, verdict, ends, mine.span.end, open_=going)

    def _begins(self, wanted: list[int]) -> Mapping[int, float]:
        if not wanted:
            return {}
        summary = self._log.summary(None)
        begins = dict(zip(summary.steps.tolist(), summary.start.tolist(), strict=True))
        return {step: begins[step] for step in wanted if step in begins}

    def _peak(self) -> peak.Peak | None:
        meta = self._files.meta()
        core = number(meta.get("measured_peak_flops"))
        if core is not None:
            return peak.of_core(core)
        model = next((each.label.get("model", "") for each in self._scraped.first(metrics.GPU_INFO)
                      if each.label.get("simulated") != "true"), "")  # fmt: skip
        return peak.of_gpu(model) if model else None

    @guarded
    def damage(self) -> tuple[str, ...]:
        """Which parts of its tables cannot be read, in words; no table is read for it."""
        words: list[str] = []
        for table in self._archive.tables:
            table.look()
            words += table.missing()
        return tuple(words)

    @guarded
    def missing(self) -> tuple[str, ...]:
        """What was looked for and not found, in words; no table is read for it."""
        words = [f"no {table.name}" for table in self._archive.tables if not table.parts()]
        words += self.damage()
        lost = number(part(self._files.meta(), "recording").get("lost_steps"))
        if lost:
            words.append(f"{lost:.0f} steps of ranks were overwritten before they were recorded")
        return tuple(words)
