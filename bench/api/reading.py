"""What the API tells of a folder of archives: `runs/`, or what `lockstep watch --out` writes."""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from lockstep.analyzer.read.archive.files import moment, part, whole
from lockstep.analyzer.read.archive.load import Archive
from lockstep.analyzer.shapes.run import LoadError
from lockstep.bench import results as table_of_results
from lockstep.bench.api import forms
from lockstep.bench.api.lines import Line, Summary, Wish, lines, names, sized
from lockstep.bench.api.shapes import Refusal, absent, bad_value, conflict
from lockstep.collector.contract.archive import RESULTS_FILE
from lockstep.dashboard.shapes import FindingRow, RunRow, Severity, Span
from lockstep.dashboard.sources.archive.guard import BROKEN
from lockstep.dashboard.sources.folder import FolderSource
from lockstep.dashboard.starting.process import tail
from lockstep.dashboard.starting.progress import lines as log_lines
from lockstep.dashboard.trouble import Kind, TroubleError

Tree = dict[str, Any]
ALWAYS = Span(-math.inf, math.inf)
FAILED = frozenset({"failed", "hung", "stopped"})
LAST_LINES = 20
MOST_NAMED = 8
RESULTS_TABLE = "results.parquet"
RANK_LOG = "logs/rank-{}.log"
STATUSES = {
    Kind.UNKNOWN_ID: (HTTPStatus.NOT_FOUND, "unknown_run"),
    Kind.NO_SOURCE: (HTTPStatus.NOT_FOUND, "no_archive"),
    Kind.EMPTY: (HTTPStatus.NOT_FOUND, "empty"),
    Kind.NOT_ANALYZED: (HTTPStatus.NOT_FOUND, "not_analyzed"),
    Kind.NOT_TOLD: (HTTPStatus.NOT_FOUND, "not_told"),
    Kind.REFUSED: (HTTPStatus.CONFLICT, "unreadable"),
    Kind.UNREADABLE: (HTTPStatus.CONFLICT, "unreadable"),
    Kind.UNREACHABLE: (HTTPStatus.CONFLICT, "unreadable"),
}
_NUMBER = re.compile(r"-?[0-9]{1,11}(\.[0-9]{1,9})?", re.ASCII)


class Reading:
    """Answers questions about the archives of a folder; many threads ask."""

    def __init__(self, folder: Path, tables: Sequence[Path] = ()) -> None:
        """Looks at nothing yet.

        Args:
            folder: Of the archives.
            tables: Of results of `lockstep bench`, beside those in the folder.
        """
        self.folder = folder
        self._tables = tuple(tables)
        self._source = FolderSource(folder)

    def runs(self) -> tuple[RunRow, ...]:
        """The newest first; none where the folder is not there yet."""
        with _broken_is_refused():
            return self._source.runs() if self.folder.is_dir() else ()

    def run(self, name: str) -> RunRow:
        """One run.

        Raises:
            Refusal: There is none, or its archive cannot be read.
        """
        for each in self.runs():
            if each.run == name:
                return each
        raise self.unknown(name)

    def unknown(self, name: str) -> Refusal:
        """That there is no such run, and which there are."""
        there = [each.run for each in self.runs()[:MOST_NAMED]]
        known = f"there are {', '.join(there)}" if there else "there is none yet"
        return absent("unknown_run", f"there is no run {name[:200]!r}; {known}")

    def archive(self, name: str) -> Path:
        """The folder of the archive that answers for a run."""
        return Path(self.run(name).folder)

    def detail(self, name: str) -> Tree:
        """A run, and how it failed."""
        row = self.run(name)
        meta: Mapping[str, Any] = {}
        try:
            with _broken_is_refused():
                meta = self._source.spec(name)
        except Refusal:  # an archive that cannot be read: its row says why
            pass
        return {
            **info(row),
            "failure": failure(Path(row.folder), meta) if row.state in FAILED else None,
        }  # fmt: skip

    def verdict(self, name: str) -> Tree:
        """verdict.json."""
        self.run(name)
        with _broken_is_refused():
            told = self._source.verdict(name)
        if told is None:
            raise absent(
                "not_analyzed", f"the run {name} has no verdict yet: lockstep analyze makes one"
            )
        return dict(told)

    def results(self, name: str) -> Tree:
        """results.json."""
        with _broken_is_refused():
            told = Archive(self.archive(name)).files.document(RESULTS_FILE)
        if told is None:
            raise absent("no_results", f"the run {name} left no results, as one that was ended")
        return dict(told)

    def bench_results(self, bench: str = "") -> list[Tree]:
        """Rows of `lockstep bench`, of all benchmarks or of one.

        Raises:
            Refusal: There is no such benchmark, or a table cannot be read.
        """
        try:
            rows = table_of_results.read(*self._results())
        except (table_of_results.ResultError, OSError) as error:
            raise conflict("unreadable", str(error)) from None
        if bench and bench not in (known := {str(each["bench"]) for each in rows}):
            there = (
                f"there are {', '.join(sorted(known)[:MOST_NAMED])}" if known else "there is none"
            )
            raise absent("unknown_bench", f"there is no benchmark {bench[:200]!r}; {there}")
        return [dict(each) for each in rows if bench in ("", each["bench"])]

    def _results(self) -> Iterator[Path]:
        """Tables in the folder, and one level below; no links."""
        yield from self._tables
        if not self.folder.is_dir():
            return
        for place in (self.folder, *sorted(self.folder.iterdir())):
            table = place / RESULTS_TABLE
            if not place.is_symlink() and table.is_dir() and not table.is_symlink():
                yield table

    def findings(self, name: str = "") -> list[Tree]:
        """Of a run, or of all, the newest first."""
        if name:
            self.run(name)
        if not self.folder.is_dir():
            return []
        with _broken_is_refused():
            return [finding(each) for each in self._source.findings(ALWAYS, name)]

    def series(self, name: str) -> Tree:
        """Which series a run has."""
        with _broken_is_refused():
            return {"run": name, "series": names(self.archive(name))}

    def metrics(self, name: str, wish: Wish) -> tuple[Sequence[Line], Sequence[Summary] | None]:
        """Series of a run, in windows where that is wished.

        Raises:
            Refusal: There is no such run or metric, or they are too many for one answer.
        """
        folder = self.archive(name)
        with _broken_is_refused():
            found = lines(folder, wish)
            if not found and wish.metrics:
                known = {each["metric"] for each in names(folder)}
                if missing := [each for each in wish.metrics if each not in known]:
                    raise _unknown_metric(name, missing[0], known)
            return found, sized(found, wish.summarize)


def info(row: RunRow, behind: str | None = None) -> Tree:
    """A run as lists show it."""
    told = asdict(row)
    kept = ("workload", "nodes", "ranks", "layout", "status", "sentence", "culprits", "provenance")
    going = row.state in ("running", "stopping", "analyzing", "reporting", "unknown")
    return {
        "run": row.run, "state": row.state, **{name: told[name] for name in kept},
        "started": iso(row.span.start), "ended": None if going else iso(row.span.end),
        "slowdown": _or_none(row.slowdown), "lost_gpu_hours": _or_none(row.lost_gpu_hours),
        "provenance": list(row.provenance), "behind": behind, "command": row.command or None,
        "name": row.name or None,
    }  # fmt: skip


def failure(folder: Path, meta: Mapping[str, Any]) -> Tree:
    """Who ended a run, and what was said last."""
    outcome = part(meta, "outcome")
    told = outcome.get("ranks")
    ranks = [rank for each in told if (rank := whole(each)) is not None] if isinstance(
        told, list) else []  # fmt: skip
    places = _places(folder)
    reason = outcome.get("reason")
    last: tuple[str, ...] = ()
    if ranks and (log := _inside(folder, RANK_LOG.format(ranks[0]))) is not None:
        last = log_lines(tail(log))[-LAST_LINES:]
    return {
        "reason": reason if isinstance(reason, str) and reason else "it was stopped, or killed",
        "ranks": ranks,
        "nodes": sorted({places[rank][0] for rank in ranks if rank in places}),
        "pods": sorted({pod for rank in ranks if rank in places and (pod := places[rank][1])}),
        "last_lines": list(last),
    }  # fmt: skip


def finding(row: FindingRow) -> Tree:
    """A finding as JSON."""
    return {
        "finding": row.finding, "tier": "page" if row.severity is Severity.CRITICAL else "record",
        "open": row.open, "run": row.run, "node": row.node or None, "gpu": row.gpu,
        "rank": row.rank, "link": row.link or None, "cause": row.cause,
        "confidence": _or_none(row.confidence), "place_confidence": _or_none(row.place_confidence),
        "slowdown": _or_none(row.slowdown), "since": iso(row.since), "until": iso(row.until),
        "sentence": row.sentence,
    }  # fmt: skip


def iso(seconds: float | None) -> str | None:
    """A moment in UTC; None where it is none."""
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def when(field: str, word: str | None, default: float) -> float:
    """Unix seconds of a word: a number, or ISO 8601 (UTC where it has no zone).

    Raises:
        Refusal: It is neither.
    """
    if word is None:
        return default
    # In a query a + that was not escaped is a blank.
    seconds = moment(float(word) if _NUMBER.fullmatch(word) else word.replace(" ", "+"))
    if seconds is None and _NUMBER.fullmatch(word) and float(word) == 0:
        return 0.0
    if seconds is None:
        raise bad_value(
            field,
            f"{field} is {word[:60]!r}; it must be unix seconds, or a date as 2026-11-24T13:00:00Z",
        )
    return seconds


def packed(
    form: str, name: str, lines: Sequence[Line], summaries: Sequence[Summary] | None
) -> tuple[str, bytes]:
    """Content type and body of series."""
    if form == "parquet":
        return forms.PARQUET, forms.parquet(lines, summaries)
    if form == "zip":
        return forms.ZIP, forms.zipped(name, lines, summaries)
    return forms.JSON, forms.dumped({"run": name, "series": forms.series(lines, summaries)})


@contextmanager
def _broken_is_refused() -> Iterator[None]:
    """What is broken in an archive is said of it, as a 4xx: it is no fault of ours."""
    try:
        yield
    except TroubleError as trouble:
        status, error = STATUSES[trouble.kind]
        raise Refusal(status, error, trouble.sentence) from None
    except LoadError as error:
        raise conflict("unreadable", str(error)) from None
    except BROKEN as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise conflict("unreadable", f"the archive holds something unreadable: {first}") from error


def _unknown_metric(name: str, metric: str, known: set[str]) -> Refusal:
    there = f"it has {', '.join(sorted(known)[:MOST_NAMED])}" if known else "it has none"
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    return absent("unknown_metric", f"the run {name} has no metric {metric[:200]!r}; {there}{more}")


def _places(folder: Path) -> dict[int, tuple[str, str]]:
    """Rank -> its node and pod."""
    try:
        frame = Archive(folder).ranks.frame()
        rows = zip(frame["rank"], frame["node"], frame["pod"], strict=True)
        return {int(rank): (str(node), "" if pod is None or pod != pod else str(pod))
                for rank, node, pod in rows}  # fmt: skip
    except (LoadError, *BROKEN):
        return {}


def _inside(folder: Path, name: str) -> Path | None:
    """A file of an archive that is no link and no pipe."""
    path = folder / name
    real = path.is_file() and not path.is_symlink()
    return path if real and os.path.realpath(path).startswith(f"{folder.resolve()}/") else None


def _or_none(value: float | None) -> float | None:
    return None if value is None else forms.number(value)
