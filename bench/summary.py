"""Repeats of a cell as one line: a mean with its interval."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Summary:
    """A cell over its repeats.

    Attributes:
        step_seconds: Mean over repeats; None = none finished.
        interval: 95 %, Student's; None = fewer than two.
        failures: Reasons, of repeats that did not finish.
    """

    bench: str
    cell: str
    finished: int
    repeats: int
    step_seconds: float | None
    interval: tuple[float, float] | None
    samples_per_second: float | None
    time_to_goal_seconds: float | None
    communication_share: float | None
    verdicts: tuple[str, ...]
    failures: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self)


def summaries(rows: Iterable[Mapping[str, Any]]) -> list[Summary]:
    """One a cell, in the order of the rows."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((str(row["bench"]), str(row["cell"])), []).append(row)
    return [_summary(*key, group) for key, group in groups.items()]


def mean_interval(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """Mean of repeats, and Student's 95 % interval of it; None = fewer than two."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, None
    from scipy.stats import t

    error = statistics.stdev(values) / math.sqrt(len(values))
    margin = float(t.ppf(0.975, len(values) - 1)) * error
    return mean, (mean - margin, mean + margin)


def _summary(bench: str, cell: str, rows: Sequence[Mapping[str, Any]]) -> Summary:
    good = [row for row in rows if row.get("status") == "finished"]

    def mean(name: str) -> float | None:
        values = [row[name] for row in good if row.get(name) is not None]
        return statistics.fmean(values) if values else None

    speeds = [row["step_seconds"] for row in good if row.get("step_seconds")]
    step, interval = mean_interval(speeds) if speeds else (None, None)
    return Summary(
        bench, cell, len(good), len(rows), step, interval, mean("samples_per_second"),
        mean("time_to_goal_seconds"), mean("communication_share"),
        tuple(sorted({str(row["verdict"]) for row in good if row.get("verdict")})),
        tuple(_failure(row) for row in rows if row.get("status") != "finished"),
    )  # fmt: skip


def _failure(row: Mapping[str, Any]) -> str:
    who = " and ".join(row.get("failed_ranks") or [])
    return f"{row.get('status')}{f' ({who})' if who else ''}: {row.get('reason')}"


def header() -> tuple[str, ...]:
    """Of `summary_row`."""
    return ("cell", "finished", "ms a step", "95 %", "samples/s", "to goal", "comm.", "verdict")


def summary_row(summary: Summary) -> tuple[str, ...]:
    """As a row of a table; a dash is what is not known."""

    def number(value: float | None, form: str, scale: float = 1.0) -> str:
        return "-" if value is None else format(scale * value, form)

    low_high = "-" if summary.interval is None else " to ".join(
        f"{1e3 * each:.2f}" for each in summary.interval
    )  # fmt: skip
    said = ", ".join(summary.verdicts) or "-"
    return (
        summary.cell, f"{summary.finished} of {summary.repeats}",
        number(summary.step_seconds, ".2f", 1e3),
        low_high, number(summary.samples_per_second, ".1f"),
        number(summary.time_to_goal_seconds, ".1f"), number(summary.communication_share, ".0%"),
        f"{said}; {summary.failures[0]}" if summary.failures else said,
    )  # fmt: skip
