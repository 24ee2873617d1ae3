"""Whether the numbers can be trusted: who is scraped, how old it is, what the analyzer says."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lockstep.analyzer.read.prometheus.promql import lasting
from lockstep.analyzer.shapes.labels import target_of
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import Check, Health, Severity
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.directory import Directory

STALE = 3.0
"""Scrapes without an answer after which a page is old."""
BACK = 3600.0
COLUMNS = {
    "age_seconds": "{at} - max by (job, instance) (timestamp({build}))",
    "series": "max by (job, instance) (scrape_samples_scraped)",
    "scrape_seconds": "max by (job, instance) (scrape_duration_seconds)",
}


def health(
    asking: Asking, known: Directory, at: float, now: float, scrape: float,
    missing: tuple[str, ...], silent: tuple[str, ...],
) -> Health:  # fmt: skip
    """protocol.Source.health.

    Args:
        asking: The Prometheus.
        known: The nodes whose collectors were scraped lately.
        at, now: Unix seconds of the last that is known, and of this moment.
        scrape: Seconds between two scrapes.
        missing: What an answer lacked.
        silent: Nodes that do not answer, as on every page (Known.silent).
    """
    up = {
        target_of(labels): value
        for labels, value in asking.instant(f"last_over_time(up[{lasting(BACK)}])", at)
        if target_of(labels) in known.node_of
    }
    frame = pd.DataFrame(
        {"node": [known.node_of[target] for target in known.node_of],
         "up": [up.get(target, 0.0) > 0 and known.node_of[target] not in silent
                for target in known.node_of]}
    )  # fmt: skip
    for name, query in COLUMNS.items():
        words = query.format(at=f"{at:.3f}", build=m.BUILD_INFO.name)
        values = {target_of(labels): value for labels, value in asking.instant(words, at)}
        if values:
            frame[name] = [values.get(target, np.nan) for target in known.node_of]
    never = [name for name in silent if name not in known.nodes]
    frame = pd.concat([frame, pd.DataFrame({"node": never, "up": False})], ignore_index=True)
    checks = [
        _fresh(now - at, scrape), _answers(len({*known.nodes, *silent}), silent),
        _sources(asking, known, at),
        _synchronised(asking, at), *_analyzer(asking, at, scrape),
        *(Check("Whole answers", Severity.WARNING, f"{sentence}.") for sentence in missing),
    ]  # fmt: skip
    return Health(tuple(checks), frame)


def _fresh(age: float, scrape: float) -> Check:
    if age > STALE * scrape:
        return Check(
            "Age", Severity.WARNING, f"The newest scrape is {age:.0f} s old.",
            "Look whether Prometheus still scrapes the collectors.",
        )  # fmt: skip
    return Check("Age", Severity.OK, f"The newest scrape is {age:.0f} s old.")


def _answers(count: int, silent: Sequence[str]) -> Check:
    if not count:
        return Check("Collectors", Severity.UNKNOWN, "No collector is known.",
                     "Let Prometheus scrape lockstep collect of each node.")  # fmt: skip
    if not silent:
        return Check("Collectors", Severity.OK, f"All {count} collectors answer.")
    shown = ", ".join(silent[:5]) + (f" and {len(silent) - 5} more" if len(silent) > 5 else "")
    return Check(
        "Collectors", Severity.WARNING, f"{len(silent)} of {count} do not answer: {shown}.",
        "On the node: lockstep doctor",
    )  # fmt: skip


def _sources(asking: Asking, known: Directory, at: float) -> Check:
    query = f"topk(64, {m.SOURCE_UP.name} == 0 and {m.SOURCE_AVAILABLE.name} == 1)"
    rows = asking.instant(query, at)
    if not rows and not asking.instant(f"count({m.SOURCE_UP.name})", at):
        return Check("Sources", Severity.UNKNOWN, "No collector reports its sources.",
                     "On a node: lockstep doctor")  # fmt: skip
    if not rows:
        return Check("Sources", Severity.OK, "Every source that a node has answers.")
    names = sorted({f"{one.get('source', '')} on {known.name(one)}" for one, _ in rows})
    return Check(
        "Sources", Severity.WARNING, f"{len(names)} sources fail: {', '.join(names[:5])}.",
        "On the node: lockstep doctor",
    )  # fmt: skip


def _synchronised(asking: Asking, at: float) -> Check:
    rows = asking.instant(f"count({m.CLOCK_SYNCHRONIZED.name} == 0)", at)
    if rows:
        return Check(
            "Clocks", Severity.WARNING, f"{rows[0][1]:.0f} nodes have no synchronised clock.",
            "Start chrony or ntpd there.",
        )  # fmt: skip
    if not asking.instant(f"count({m.CLOCK_SYNCHRONIZED.name})", at):
        words = "No node reports whether its clock is synchronised."
        return Check("Clocks", Severity.UNKNOWN, words)
    return Check("Clocks", Severity.OK, "No node says that its clock is not synchronised.")


def _analyzer(asking: Asking, at: float, scrape: float) -> list[Check]:
    rows = asking.instant(f"{at:.3f} - max({m.LAST_EVALUATION.name})", at)
    if not rows:
        return [Check(
            "Analyzer", Severity.WARNING, "No analyzer: the runs are not judged.",
            "lockstep watch --prometheus URL, and let Prometheus scrape it",
        )]  # fmt: skip
    age = rows[0][1]
    late = age > max(60.0, 4 * scrape)
    checks = [Check(
        "Analyzer", Severity.WARNING if late else Severity.OK,
        f"lockstep watch judged {max(0.0, age):.0f} s ago.",
        "Look at its log." if late else "",
    )]  # fmt: skip
    for metric, text in (
        (m.QUERY_FAILURES, "times Prometheus did not answer it"),
        (m.ARCHIVE_FAILURES, "archives of findings could not be written"),
        (m.STATE_FAILURES, "times its state could not be saved"),
    ):
        failed = asking.instant(f"sum(increase({metric.name}[{lasting(BACK)}])) > 0.5", at)
        checks += [
            Check("Analyzer", Severity.WARNING, f"{value:.0f} {text} in the last hour.",
                  "Look at its log.")
            for _, value in failed
        ]  # fmt: skip
    return checks
