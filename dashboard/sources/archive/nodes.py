"""A node of an archive: its facts, its GPUs, and its checks."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from lockstep.analyzer.causes.symptoms.network_counters import REGISTERS
from lockstep.analyzer.read.archive.series import NOBODY, UP, Series
from lockstep.analyzer.report.sections.checks import Check as Limit
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metrics import Metric
from lockstep.dashboard.shapes import Check, NodeFacts, Severity, Span
from lockstep.dashboard.sources.archive.health import answering
from lockstep.dashboard.sources.check_table import (
    CRITICAL,
    LIMITS,
    MOST_OFFSET,
    NEXT_STEPS,
    SOURCES,
    STATES,
    State,
)

WANTED: tuple[Metric | str, ...] = (
    *dict.fromkeys(limit.metric for limit in LIMITS.values()), *(state.metric for state in STATES),
    metrics.SOURCE_AVAILABLE, metrics.CLOCK_OFFSET, metrics.IB_SATURATED,
)  # fmt: skip


def checks(series: Sequence[Series], span: Span) -> tuple[Check, ...]:
    """The list for one node, what is bad first.

    Args:
        series: WANTED of the node.
        span: Over which counters are judged.
    """
    results = [_limit(limit, series, span) for limit in LIMITS.values()]
    results += [_state(state, series) for state in STATES]
    results.append(_clock(series))
    rank = [Severity.CRITICAL, Severity.WARNING, Severity.NOTE, Severity.OK, Severity.UNKNOWN]
    return tuple(sorted(results, key=lambda each: rank.index(each.severity)))


def _limit(limit: Limit, series: Sequence[Series], span: Span) -> Check:
    mine = [line for line in series
            if line.metric == limit.metric.name and limit.label in line.labels]  # fmt: skip
    if not any(np.isfinite(each.values).sum() > limit.counts for each in mine):
        return Check(limit.what, Severity.UNKNOWN, "told once" if mine else "not told")
    by_gpu: dict[str, float] = {}
    for each in mine:
        place = (
            f"GPU {each.gpu}" if each.gpu >= 0 else f"rank {each.rank}" if each.rank >= 0 else ""
        )
        grown = _grown(each) if limit.counts else float(np.nanmax(each.values, initial=0.0))
        by_gpu[place] = by_gpu.get(place, 0.0) + grown
    most = limit.limit * max(span.seconds, 0.0) if limit.share else limit.limit
    place, value = max(by_gpu.items(), key=lambda each: each[1])
    number = f"{value:.1f} s" if limit.unit == "seconds" else f"{value:.0f}"
    where = f" on {place}" if place and value > most else ""
    registers = REGISTERS.get(limit.metric.name, frozenset())
    standing = sorted(
        {line.label["kind"] for line in series
         if line.metric == metrics.IB_SATURATED.name and line.label.get("kind") in registers}
    )  # fmt: skip
    if value <= most and standing:
        text = f"{number} in this range, and unknown, at their maximum: {', '.join(standing)}"
        return Check(limit.what, Severity.UNKNOWN, text)
    if value <= most:
        return Check(limit.what, Severity.OK, f"{number} in this range")
    severity = Severity.CRITICAL if limit.what in CRITICAL else Severity.WARNING
    return Check(limit.what, severity, f"{number}{where} in this range", NEXT_STEPS[limit.what])


def _grown(series: Series) -> float:
    """Of a counter over the range; a reset counts from 0."""
    steps = np.diff(series.values)
    return float(np.where(steps >= 0, steps, series.values[1:]).sum()) if len(steps) else 0.0


def _state(state: State, series: Sequence[Series]) -> Check:
    mine = [line for line in series if line.metric == state.metric and len(line.values)]
    if state is SOURCES:
        mine = answering(series)
    if not mine:
        return Check(state.name, Severity.UNKNOWN, "not told")
    if state.metric == UP:
        failed = int(sum((each.values < 1).sum() for each in mine))
        whole = sum(len(each.values) for each in mine)
        bad = [f"{failed} of {whole}"] if failed else []
    else:
        bad = [_where(each) for each in mine if each.values[-1] < 1]
    if not bad:
        return Check(state.name, Severity.OK, "all of them" if len(mine) > 1 else "yes")
    more = f" and {len(bad) - 4} more" if len(bad) > 4 else ""
    return Check(state.name, state.severity, f"{', '.join(bad[:4])}{more} {state.bad}".strip(),
                 state.next_step)  # fmt: skip


def _where(series: Series) -> str:
    words = [f"GPU {series.gpu}"] if series.gpu >= 0 else []
    return " ".join([*words, *series.label.values()])[:80] or "it"


def _clock(series: Sequence[Series]) -> Check:
    offsets = [float(np.abs(line.values).max()) for line in series
            if line.metric == metrics.CLOCK_OFFSET.name and len(line.values)]  # fmt: skip
    if not offsets:
        return Check("clock offset", Severity.UNKNOWN, "not told")
    bad = max(offsets) > MOST_OFFSET
    return Check("clock offset", Severity.WARNING if bad else Severity.OK,
                 f"at most {1e3 * max(offsets):.1f} ms",
                 "Times of this node cannot be compared with others'." if bad else "")  # fmt: skip


# Who a node is: its facts, its GPUs, and who runs on it.

INFOS: tuple[Metric, ...] = (
    metrics.NODE_INFO, metrics.GPU_INFO, metrics.BUILD_INFO, metrics.HOST_CPUS,
    metrics.HOST_MEMORY_TOTAL,
)  # fmt: skip
SHOWN: tuple[tuple[str, str, str], ...] = (
    ("host", metrics.NODE_INFO.name, "hostname"), ("kernel", metrics.NODE_INFO.name, "kernel"),
    ("emulated", metrics.NODE_INFO.name, "emulated"), ("GPU model", metrics.GPU_INFO.name, "model"),
    ("driver", metrics.GPU_INFO.name, "driver"), ("CUDA", metrics.GPU_INFO.name, "cuda"),
    ("VBIOS", metrics.GPU_INFO.name, "vbios"),
    ("GPUs simulated", metrics.GPU_INFO.name, "simulated"),
    ("collector", metrics.BUILD_INFO.name, "version"),
)  # fmt: skip
"""Name of the fact, metric, label."""
GIB = 1 << 30
LONGEST = 200


def facts(
    node: str, series: Sequence[Series], who: pd.DataFrame, run: str,
    places: Mapping[str, str], checks: tuple[Check, ...],
) -> NodeFacts:  # fmt: skip
    """All that is known of it.

    Args:
        node: Its name.
        series: INFOS of the node.
        who: Who the ranks are.
        run: Id of the run.
        places: Kind -> name of where it stands (rack, leaf, storage).
        checks: What was looked at.
    """
    lines_of_place = {kind: name[:LONGEST] for kind, name in places.items()}
    for name, metric, label in SHOWN:
        words = {line.label.get(label, "") for line in series if line.metric == metric} - {""}
        if words:
            lines_of_place[name] = ", ".join(sorted(words))[:LONGEST]
    for line in series:
        if line.metric == metrics.HOST_CPUS.name and len(line.values):
            lines_of_place["processors"] = f"{line.values[-1]:.0f}"
        if line.metric == metrics.HOST_MEMORY_TOTAL.name and len(line.values):
            lines_of_place["memory"] = f"{line.values[-1] / GIB:.0f} GiB"
    mine = who[who["node"] == node]
    models = {line.gpu: line.label.get("model", "")[:LONGEST] for line in series
              if line.metric == metrics.GPU_INFO.name and line.gpu != NOBODY}  # fmt: skip
    by_gpu = mine.dropna(subset=["gpu"]).set_index("gpu")
    rows = []
    for gpu in sorted({*models, *(int(each) for each in by_gpu.index)}):
        there = by_gpu.loc[[gpu]] if gpu in by_gpu.index else None
        rows.append((
            gpu, "" if there is None else there["uuid"].iloc[0], models.get(gpu, ""),
            "" if there is None else run, None if there is None else int(there["rank"].iloc[0]),
        ))  # fmt: skip
    gpus = pd.DataFrame(rows, columns=["gpu", "uuid", "model", "run", "rank"])
    return NodeFacts(
        node=node, facts=lines_of_place, gpus=gpus.astype({"rank": "Int32"}),
        runs=(run,) if len(mine) else (), checks=checks,
    )  # fmt: skip
