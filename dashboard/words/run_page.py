"""The numbers of the page of a run, and what it would gain without somebody."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lockstep.analyzer.report.figures import cell
from lockstep.analyzer.rules.alert_rules.training import BELOW_BASELINE
from lockstep.dashboard.shapes import Lines, RunRow
from lockstep.dashboard.words import what_if
from lockstep.dashboard.words.said import Number, lost
from lockstep.dashboard.words.verdict import mapping, number, pair, records


def gain(verdict: Mapping[str, Any] | None) -> tuple[str, str]:
    """What the run would gain without its culprit, with its interval; and how that is known.

    Returns:
        The sentence, empty where nobody is to be left out or it is not known; and the method, or
        why it is not known.
    """
    if verdict is None:
        return "", ""
    known = mapping(verdict.get("what_if"))
    first = what_if.without(known)
    if first:
        return first, what_if.method(known)
    if records(verdict.get("culprits")):
        return "", what_if.method({**known, "method": ""})
    return "", ""


def numbers(
    row: RunRow, verdict: Mapping[str, Any] | None, charts: Sequence[Lines]
) -> tuple[Number, ...]:
    """Slowdown, loss of GPU time, steps, rate, and how well the hardware is used."""
    verdict = verdict or {}
    ends = pair(verdict.get("slowdown_interval"))
    between = (
        ""
        if ends is None
        else f", 95 % interval {cell(ends[0], 'ratio')} to {cell(ends[1], 'ratio')}"
    )
    against = () if row.baseline is None else (
        Number("Against its baseline", cell(row.baseline, "ratio"),
               f"{row.baseline - 1:+.0%} steps per second", row.baseline < BELOW_BASELINE,
               "Mean of the last quarter of an hour, as the alert LockstepRunSlowVsBaseline."),
    )  # fmt: skip
    return (
        Number("Step time over ideal", cell(number(verdict.get("slowdown")), "ratio"),
               help=f"1 is a run that no rank holds back{between}. Unknown: it was not analyzed."),
        Number(*lost(number(verdict.get("lost_gpu_hours"))),
               help="GPUs times the time that they waited for culprits so far."),
        Number("Steps", cell(_steps(charts), "count"),
               help=f"In this range; {row.ranks} ranks."),
        Number(*_rate(charts), help="Median over this range."),
        *against,
        _use(_chart(charts, "mfu")),
    )  # fmt: skip


def _chart(charts: Sequence[Lines], key: str) -> Lines | None:
    return next((chart for chart in charts if chart.key == key and chart.values), None)


def _median(chart: Lines | None) -> float | None:
    if chart is None:
        return None
    for values in chart.values.values():
        if np.isfinite(values).any():
            return float(np.nanmedian(values))
    return None


def _steps(charts: Sequence[Lines]) -> int | None:
    steps = [
        chart.steps[np.isfinite(chart.steps)]
        for chart in charts
        if chart.steps is not None and np.isfinite(chart.steps).any()
    ]
    if not steps:
        return None
    return int(max(each.max() for each in steps) - min(each.min() for each in steps)) + 1


def _use(chart: Lines | None) -> Number:
    """How well the hardware is used: a share of its peak, or FLOP/s where that is not known."""
    if chart is None:
        return Number("MFU", cell(None, ""), help="It was not reported.")
    words = f"{chart.title}. {chart.help}"
    if chart.unit != "ratio":
        return Number("Model FLOPs of a rank", cell(_median(chart), "flops"), help=words)
    label = "MFU" if "MFU" in chart.title else "Share of the peak"
    return Number(label, _share(_median(chart)), help=words)


def _share(value: float | None) -> str:
    return cell(None, "") if value is None else f"{100 * value:.2g} %"


def _rate(charts: Sequence[Lines]) -> tuple[str, str]:
    chart = _chart(charts, "throughput")
    value = _median(chart)
    if chart is None or value is None:
        return "Rate", cell(None, "")
    return f"Rate ({chart.unit})", cell(value, "count") if value >= 100 else f"{value:.3g}"
