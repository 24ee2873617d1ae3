"""Whether the numbers of an archive can be trusted."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lockstep.analyzer.read.archive.files import number, part
from lockstep.analyzer.read.archive.series import UP, Series
from lockstep.analyzer.shapes.windows import MAX_GAP
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metrics import Metric
from lockstep.dashboard.shapes import Check, Health, Severity, Span

WANTED: tuple[Metric | str, ...] = (
    UP, metrics.SCRAPE_SERIES, metrics.SCRAPE_DURATION, metrics.SOURCE_UP, metrics.SOURCE_AVAILABLE,
    metrics.BUILD_INFO,
    metrics.EVENTS_DROPPED,
)  # fmt: skip
CLOCK_ERROR = 0.001
"""Seconds from which the order of arrivals at fast collectives is not certain."""


def health(
    series: Sequence[Series], meta: Mapping[str, Any], missing: Sequence[str], span: Span,
    interval: float,
) -> Health:  # fmt: skip
    """Checks and the scraped pages."""
    pages = _pages(series, span)
    checks = [
        _scrapes(pages), _ages(pages, interval), _sources(series), _recording(meta), _clock(meta),
        _versions(series), _missing(missing),
    ]  # fmt: skip
    return Health(tuple(checks), pages)


def answering(series: Sequence[Series]) -> list[Series]:
    """SOURCE_UP of those sources whose thing is there at all: no node has all of them."""
    there = {(line.node, line.label.get("source")) for line in series
             if line.metric == metrics.SOURCE_AVAILABLE.name and len(line.values)
             and line.values[-1] >= 1}  # fmt: skip
    known = any(line.metric == metrics.SOURCE_AVAILABLE.name for line in series)
    return [line for line in series
            if line.metric == metrics.SOURCE_UP.name and len(line.values)
            and (not known or (line.node, line.label.get("source")) in there)]  # fmt: skip


def _pages(series: Sequence[Series], span: Span) -> pd.DataFrame:
    """One row a node."""
    by_node: dict[str, dict[str, Series]] = {}
    for line in series:
        if line.metric in (UP, metrics.SCRAPE_SERIES.name, metrics.SCRAPE_DURATION.name):
            by_node.setdefault(line.node, {})[line.metric] = line
    rows = []
    for node, told in by_node.items():
        up = told.get(UP)
        good = up.times[up.values >= 1] if up is not None else np.zeros(0)
        size, seconds = (told.get(name.name) for name in
                         (metrics.SCRAPE_SERIES, metrics.SCRAPE_DURATION))  # fmt: skip
        rows.append({
            "node": node, "up": bool(up is not None and up.values[-1] >= 1),
            "age_seconds": max(span.end - float(good[-1]), 0.0) if len(good) else np.nan,
            "series": float(size.values[-1]) if size is not None else np.nan,
            "scrape_seconds": float(np.median(seconds.values)) if seconds is not None else np.nan,
            "failed": int((up.values < 1).sum()) if up is not None else 0,
            "scrapes": len(up.values) if up is not None else 0,
        })  # fmt: skip
    columns = ["node", "up", "age_seconds", "series", "scrape_seconds", "failed", "scrapes"]
    return pd.DataFrame(rows, columns=columns)


def _scrapes(pages: pd.DataFrame) -> Check:
    if pages.empty:
        return Check("Scrapes", Severity.UNKNOWN, "no samples were recorded",
                     "lockstep run records them unless its settings say otherwise.")  # fmt: skip
    failed, whole = int(pages["failed"].sum()), int(pages["scrapes"].sum())
    if not failed:
        return Check("Scrapes", Severity.OK, f"all {whole} answered")
    worst = pages.sort_values("failed", ascending=False).iloc[0]
    return Check("Scrapes", Severity.WARNING,
                 f"{failed} of {whole} failed, most of them ({worst['failed']}) of {worst['node']}",
                 "Charts have gaps there: look whether that collector ran.")  # fmt: skip


def _ages(pages: pd.DataFrame, interval: float) -> Check:
    if pages.empty:
        return Check("Age", Severity.UNKNOWN, "no node was scraped")
    old = pages[~(pages["age_seconds"] <= MAX_GAP * interval)]
    if old.empty:
        return Check("Age", Severity.OK, f"every node was scraped to the end, every {interval:g} s")
    names = ", ".join(str(each) for each in old["node"].head(4))
    return Check("Age", Severity.WARNING, f"{len(old)} nodes were not scraped to the end: {names}",
                 "Their last values are old, and are not shown as if they were new.")  # fmt: skip


def _sources(series: Sequence[Series]) -> Check:
    mine = answering(series)
    if not mine:
        return Check("Sources", Severity.UNKNOWN, "no collector reported its sources")
    down = [f"{each.label.get('source', '')} of {each.node}" for each in mine
            if each.values[-1] < 1]  # fmt: skip
    if not down:
        return Check("Sources", Severity.OK, f"all {len(mine)} answered at the end")
    more = f" and {len(down) - 4} more" if len(down) > 4 else ""
    return Check("Sources", Severity.NOTE, f"down at the end: {', '.join(down[:4])}{more}",
                 "lockstep doctor on the node says what is missing.")  # fmt: skip


def _recording(meta: Mapping[str, Any]) -> Check:
    recording = part(meta, "recording")
    if not recording:
        return Check("Recording", Severity.UNKNOWN, "run.json says nothing of it")
    lost, failed = number(recording.get("lost_steps")), number(recording.get("failed_requests"))
    if lost is None or failed is None:
        return Check("Recording", Severity.UNKNOWN, "run.json does not say what was lost")
    if not lost and not failed:
        return Check("Recording", Severity.OK, "no step was lost, no request failed")
    return Check("Recording", Severity.WARNING,
                 f"{lost:.0f} steps were lost and {failed:.0f} requests failed",
                 "The recorder was starved: give it a processor.")  # fmt: skip


def _clock(meta: Mapping[str, Any]) -> Check:
    error = number(part(meta, "clock").get("offset_error_seconds"))
    if error is None:
        return Check("Clocks", Severity.UNKNOWN, "run.json does not say how exact they are",
                     "Verdicts from windows need no clocks; arrivals do.")  # fmt: skip
    good = error <= CLOCK_ERROR
    return Check("Clocks", Severity.OK if good else Severity.WARNING,
                 f"aligned to {1e6 * error:.3g} µs",
                 "" if good else "Do not trust arrivals that differ by less.")  # fmt: skip


def _versions(series: Sequence[Series]) -> Check:
    versions = {line.label.get("version", "") for line in series
            if line.metric == metrics.BUILD_INFO.name} - {""}  # fmt: skip
    if not versions:
        return Check("Versions", Severity.UNKNOWN, "no collector reported its version")
    words = ", ".join(sorted(versions))[:200]
    if len(versions) == 1:
        return Check("Versions", Severity.OK, f"all collectors are {words}")
    return Check("Versions", Severity.NOTE, f"collectors differ: {words}",
                 "Update them together: metrics may differ.")  # fmt: skip


def _missing(missing: Sequence[str]) -> Check:
    if not missing:
        return Check("Files", Severity.OK, "all that an archive can hold is there")
    return Check("Files", Severity.WARNING, "; ".join(missing)[:1000],
                 "Pages that need it say so; the others are whole.")  # fmt: skip
