"""A folder of run archives as a Source: `runs/`, and what `lockstep watch` keeps of findings."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pandas as pd

from lockstep.analyzer.read.verdicts import MOST_ARCHIVES
from lockstep.dashboard.shapes import (
    Answer,
    Check,
    Event,
    FindingRow,
    FleetMetric,
    FleetSnapshot,
    Health,
    LedgerRow,
    Lines,
    NodeFacts,
    RunRow,
    Severity,
    Span,
)
from lockstep.dashboard.sources.archive.findings import newest_first
from lockstep.dashboard.sources.archive.source import WALL, ArchiveSource
from lockstep.dashboard.sources.archive_index import Entry, Index
from lockstep.dashboard.sources.ledgers import of_archives
from lockstep.dashboard.trouble import Kind, TroubleError

MOST_CHOICES = 50
MOST_EVENTS_OF = 20
MOST_LEDGERS_OF = 12
"""Each is diagnosed anew."""
"""Runs whose samples are read for events of all; of more, the newest."""
MOST_FINDINGS_OF = 200


P = ParamSpec("P")
T = TypeVar("T")


def _of_its_archive(
    question: Callable[Concatenate[ArchiveSource, P], T],
) -> Callable[Concatenate["FolderSource", P], T]:
    """The question, put to the archive of the run with whose id it begins."""

    @wraps(question)
    def ask(self: "FolderSource", /, *words: P.args, **named: P.kwargs) -> T:
        return question(self.archive(str(words[0])), *words, **named)

    return ask


class FolderSource:
    """Runs side by side; questions about one run go to its archive.

    Of several archives with one run's id (those of its findings), the one that has the run's end
    answers, or the newest; the findings of all of them are told.
    """

    def __init__(self, folder: Path, now: Callable[[], float] = WALL) -> None:
        """Looks at nothing yet.

        Args:
            folder: That holds archives, one or two levels deep.
            now: Unix seconds.
        """
        self.name = f"archives in {folder}"
        self._root, self._now = folder, now
        self._index = Index(folder, now)

    @property
    def live(self) -> bool:
        """Whether a run goes on."""
        try:
            return any(entry.row.state == "running" for entry in self._index.entries())
        except TroubleError:
            return False

    def answer(self, span: Span | None = None, run: str = "") -> Answer:
        """How whole the archive of a run is; without one, which archives cannot be read."""
        if run:
            return replace(self.archive(run).answer(span), name=self.name)
        entries = self._index.entries()
        going = any(entry.row.state == "running" for entry in entries)
        ends = [entry.row.span.end for entry in entries if entry.readable]
        newest = self._newest(entries)
        count = newest[0].row.nodes if newest else 0
        return Answer(
            name=self.name, live=going, at=max(ends) if ends else None,
            now=self._now() if going or not ends else max(ends),
            scrape_seconds=newest[0].source.answer().scrape_seconds if newest else float("nan"),
            nodes=(count, count), left_out=self._left_out(entries),
        )  # fmt: skip

    def extent(self) -> Span:
        """From the first run's start to the last one's end."""
        rows = [entry.row for entry in self._index.entries() if entry.readable]
        if not rows:
            raise self._empty()
        return Span(min(row.span.start for row in rows), max(row.span.end for row in rows))

    def runs(self, span: Span | None = None) -> tuple[RunRow, ...]:
        """One row a run id, newest first."""
        rows = [entry.row for entry in self._mains().values()]
        return tuple(row for row in rows if span is None or _overlaps(row.span, span))

    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        """Of verdicts, and of what `watch` wrote."""
        entries = [entry for entry in self._index.entries()
                   if entry.readable and (not run or entry.row.run == run)]  # fmt: skip
        mains = self._mains()
        findings: list[FindingRow] = []
        for entry in entries[:MOST_FINDINGS_OF]:
            if entry.finding or mains[entry.row.run].folder == entry.folder:
                findings += _or_nothing(lambda entry=entry: entry.source.findings(span))  # type: ignore[misc]
        return newest_first(findings)

    def events(self, span: Span, run: str = "", node: str = "") -> tuple[Event, ...]:
        """Of one run, or of the newest runs in the span."""
        if run:
            return self.archive(run).events(span, run, node)
        events: list[Event] = []
        for entry in self._during(span)[:MOST_EVENTS_OF]:
            events += _or_nothing(lambda entry=entry: entry.source.events(span, "", node))  # type: ignore[misc]
        return tuple(sorted(events, key=lambda each: each.at))

    def fleet(self, metric: FleetMetric, at: float | None = None) -> FleetSnapshot:
        """Of the runs at that moment; of a GPU in two of them, the newer."""
        entries = self._at(at)
        if not entries:
            raise self._empty()
        return _together([entry.source.fleet(metric, at) for entry in entries])

    def ledgers(self, span: Span, run: str = "") -> tuple[LedgerRow, ...]:
        """Of the newest archives in the span; those of one run are its attempts."""
        folders = [
            entry.folder for entry in self._index.entries()
            if entry.readable and not entry.finding and _overlaps(entry.row.span, span)
            and (not run or entry.row.run == run)
        ]  # fmt: skip
        rows = of_archives(folders[:MOST_LEDGERS_OF])
        left = len(folders) - MOST_LEDGERS_OF
        if left <= 0 or not rows:
            return rows
        said = f"{left} older archives are not in it: lockstep ledger DIR has all"
        return (replace(rows[0], missing=(*rows[0].missing, said)), *rows[1:])

    def nodes(self) -> tuple[str, ...]:
        """Of the runs that go on, or of the newest."""
        names = [entry.source.nodes() for entry in self._at(None)]
        return tuple(dict.fromkeys(chain.from_iterable(names)))

    def node(self, node: str, span: Span) -> NodeFacts:
        """As its newest run in the span knows it."""
        entries = self._with(node, span)
        facts = entries[0].source.node(node, span)
        runs = tuple(dict.fromkeys(entry.row.run for entry in entries))
        return replace(facts, runs=runs)

    def node_lines(self, node: str, span: Span) -> tuple[Lines, ...]:
        """Of its newest run in the span."""
        return self._with(node, span)[0].source.node_lines(node, span)

    def gpu_lines(self, node: str, gpu: int, span: Span) -> tuple[Lines, ...]:
        """Of its newest run in the span."""
        return self._with(node, span)[0].source.gpu_lines(node, gpu, span)

    def health(self, run: str = "") -> Health:
        """Of a run; without one of the folder, and of the newest run in it."""
        if run:
            return self.archive(run).health()
        entries = self._index.entries()
        mine = checks(entries)
        newest = self._newest(entries)
        if not newest:
            return Health(mine, pd.DataFrame({"node": [], "up": [], "age_seconds": []}))
        health = newest[0].source.health()
        return Health((*mine, *health.checks), health.sources, about=about(
            newest[0], sum(entry.readable for entry in entries)))  # fmt: skip

    run = _of_its_archive(ArchiveSource.run)
    spec = _of_its_archive(ArchiveSource.spec)
    verdict = _of_its_archive(ArchiveSource.verdict)
    run_lines = _of_its_archive(ArchiveSource.run_lines)
    ranks = _of_its_archive(ArchiveSource.ranks)
    rank_times = _of_its_archive(ArchiveSource.rank_times)
    collectives = _of_its_archive(ArchiveSource.collectives)
    arrivals = _of_its_archive(ArchiveSource.arrivals)
    operations = _of_its_archive(ArchiveSource.operations)
    trace = _of_its_archive(ArchiveSource.trace)
    folder = _of_its_archive(ArchiveSource.folder)

    def _left_out(self, entries: Sequence[Entry]) -> tuple[str, ...]:
        """Which archives are not among the runs, and why."""
        said = unreadable(entries)
        if self._index.left_out:
            said.append(
                f"{self._index.left_out:,} older archives are not shown: the newest"
                f" {MOST_ARCHIVES:,} are."
            )
        return tuple(said)

    def _mains(self) -> dict[str, Entry]:
        """The archive that answers for each run, newest run first."""
        mains: dict[str, Entry] = {}
        for entry in self._index.entries():
            before = mains.get(entry.row.run)
            if before is None or _rank(entry) > _rank(before):
                mains[entry.row.run] = entry
        return mains

    def archive(self, run: str) -> ArchiveSource:
        """That answers for a run."""
        mains = self._mains()
        if run not in mains:
            if not mains:
                raise self._empty()
            raise TroubleError(
                Kind.UNKNOWN_ID, f"There is no run {run[:200]!r} in {self._root}.",
                "Choose one of those that there are.", tuple(mains)[:MOST_CHOICES],
            )  # fmt: skip
        return mains[run].source

    def _newest(self, entries: Sequence[Entry]) -> list[Entry]:
        """The run that ended last."""
        readable = [entry for entry in entries if entry.readable]
        return [max(readable, key=lambda each: each.row.span.end)] if readable else []

    def _at(self, at: float | None) -> list[Entry]:
        """Runs at a moment, or those that go on; else the last one before, else the newest."""
        mains = [entry for entry in self._mains().values() if entry.readable]
        if at is None:
            going = [entry for entry in mains if entry.row.state == "running"]
            return going or self._newest(mains)
        inside = [entry for entry in mains if entry.row.span.start <= at <= entry.row.span.end]
        before = [entry for entry in mains if entry.row.span.end < at]
        return inside or self._newest(before) or self._newest(mains)

    def _during(self, span: Span) -> list[Entry]:
        mains = self._mains().values()
        return [entry for entry in mains if entry.readable and _overlaps(entry.row.span, span)]

    def _with(self, node: str, span: Span) -> list[Entry]:
        """Runs in the span on a node, newest first."""
        there = [(entry, _or_nothing(entry.source.nodes)) for entry in
                 self._during(span)[:MOST_EVENTS_OF]]  # fmt: skip
        entries = [each for each, nodes in there if node in nodes]
        if not entries:
            choices = tuple(dict.fromkeys(chain.from_iterable(nodes for _, nodes in there)))
            raise TroubleError(
                Kind.UNKNOWN_ID, f"No run in this range has a node {node[:200]!r}.",
                "Choose one of those that there are, or another range.", choices[:MOST_CHOICES],
            )  # fmt: skip
        return entries

    def _empty(self) -> TroubleError:
        return TroubleError(
            Kind.EMPTY, f"{self._root} holds no run archive that can be read.",
            f"lockstep run gpt --out {self._root}/first",
        )  # fmt: skip


def _rank(entry: Entry) -> tuple[bool, bool, float]:
    """Which of two archives of one run knows more of it."""
    return entry.readable, not entry.finding, entry.row.span.end


def _overlaps(span: Span, other: Span) -> bool:
    return span.start <= other.end and span.end >= other.start


def _or_nothing(ask: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    """What an archive says; nothing where it cannot: it does not take the others away."""
    try:
        return ask()
    except TroubleError:
        return ()


def _together(fleets: Sequence[FleetSnapshot]) -> FleetSnapshot:
    """Fleets side by side; a GPU that is in two of them once, as in the first."""
    first = fleets[0]
    if len(fleets) == 1:
        return first
    nodes = np.concatenate([fleet.nodes for fleet in fleets])
    gpus = np.concatenate([fleet.gpus for fleet in fleets])
    ranks = np.concatenate([fleet.ranks for fleet in fleets])
    # On CPU a place is a rank.
    keys = [(str(node), int(gpu), int(rank) if gpu < 0 else 0)
            for node, gpu, rank in zip(nodes, gpus, ranks, strict=True)]  # fmt: skip
    kept = np.array(sorted({key: at for at, key in reversed(list(enumerate(keys)))}.values()),
                    dtype=np.int64)  # fmt: skip
    heard = set(nodes.tolist())
    return FleetSnapshot(
        metric=first.metric, at=max(fleet.at for fleet in fleets), nodes=nodes[kept],
        gpus=gpus[kept], ranks=ranks[kept],
        runs=np.concatenate([fleet.runs for fleet in fleets])[kept],
        values=np.concatenate([fleet.values for fleet in fleets])[kept],
        silent=tuple(dict.fromkeys(node for fleet in fleets for node in fleet.silent
                                   if node not in heard)),
        simulated=any(fleet.simulated for fleet in fleets),
    )  # fmt: skip


MOST_NAMED = 3
MOST_LOOKED_AT = 50
"""Of the newest archives: each part of their tables is looked at."""


def unreadable(entries: Sequence[Entry]) -> list[str]:
    """A sentence or two for each archive that cannot be read: why, and what would be right."""
    torn = [(entry.folder.name, entry.trouble) for entry in entries if entry.trouble is not None]
    said = [
        f"Archive {name[:80]} cannot be read: {trouble.sentence[:300].rstrip('.')}."
        f" {trouble.next_step}"
        for name, trouble in torn[:MOST_NAMED]
    ]
    if len(torn) > MOST_NAMED:
        said.append(f"{len(torn) - MOST_NAMED:,} more archives cannot be read.")
    return said


def checks(entries: Sequence[Entry]) -> tuple[Check, ...]:
    """How many can be read, then each that cannot, then each that is damaged."""
    torn = [entry for entry in entries if entry.trouble is not None]
    good = [entry for entry in entries if entry.readable]
    looked = good[:MOST_LOOKED_AT]
    damaged = [(entry, damage) for entry in looked if (damage := _damage(entry))]
    if not good:
        first = Check("Archives", Severity.CRITICAL, "none can be read")
    else:
        text = f"{len(good):,} of {len(entries):,} can be read"
        if len(looked) < len(good):
            text += f"; of the newest {len(looked)}, the files were looked at"
        # Those that cannot be read have lines of their own, as far as there is room.
        bad = Severity.WARNING if len(torn) > MOST_NAMED else Severity.NOTE
        first = Check("Archives", bad if torn else Severity.OK, text)
    return (
        first,
        *(
            Check(f"Archive {entry.folder.name[:80]}", Severity.WARNING,
                  "cannot be read: " + entry.trouble.sentence[:300], entry.trouble.next_step)
            for entry in torn[:MOST_NAMED] if entry.trouble is not None
        ),
        *(
            Check(f"Archive {each.folder.name[:80]}", Severity.WARNING, "; ".join(damage)[:300],
                  "Its pages count only what is left; the recorder was killed, or the disk was"
                  " full.")
            for each, damage in damaged
        ),
    )  # fmt: skip


def _damage(entry: Entry) -> tuple[str, ...]:
    try:
        return entry.source.damage()
    except TroubleError as trouble:  # it went away meanwhile
        return (trouble.sentence,)


def about(newest: Entry, count: int) -> str:
    """Of which run the checks after those of the folder are."""
    if count < 2:
        return ""
    return (
        f"What follows the archives is of run {newest.row.run[:80]}, the newest of {count:,};"
        " choose another run in the sidebar to see its own."
    )
