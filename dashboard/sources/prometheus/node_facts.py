"""A node of Prometheus: its facts, its GPUs, and its checks."""

import pandas as pd
from collections.abc import Mapping
from collections.abc import Sequence
from lockstep.analyzer.read.prometheus.promql import lasting
from lockstep.analyzer.read.prometheus.promql import of_targets
from lockstep.analyzer.read.prometheus.promql import quoted
from lockstep.analyzer.read.prometheus.promql import series
from lockstep.analyzer.read.prometheus.questions import runs_with
from lockstep.analyzer.report.sections.checks import Check as Limit
from lockstep.analyzer.shapes.labels import Target
from lockstep.analyzer.shapes.labels import number
from lockstep.analyzer.shapes.labels import page_label
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import Check
from lockstep.dashboard.shapes import NodeFacts
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.shapes import Span
from lockstep.dashboard.sources.check_table import LIVE
from lockstep.dashboard.sources.check_table import Live
from lockstep.dashboard.sources.check_table import State
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.asking import Row
from lockstep.dashboard.sources.prometheus.directory import living_last



# What was looked at on a node: the check table, read as PromQL.

COUNTED, SHARED = 3600.0, 300.0
"""Seconds over which a counter, and a share of time, is judged; LockstepGpuThermalViolation of
alert_rules/gpu.py waits longer."""


def checks(asking: Asking, pages: str, at: float) -> tuple[Check, ...]:
    """The list for one node; `pages` are matchers of its pages."""
    return tuple(_check(asking, one, pages, at) for one in LIVE)


def _check(asking: Asking, live: Live, pages: str, at: float) -> Check:
    rows = asking.instant(_query(live.check, pages), at)
    if not rows:
        return Check(live.name, Severity.UNKNOWN, "Not reported.", "")
    value, most = rows[0][1], 0.0 if isinstance(live.check, State) else live.check.limit
    if value > most + 1e-9:
        return Check(live.name, live.severity, live.bad.format(value), live.next_step)
    return Check(live.name, Severity.OK, live.good)


def _query(check: Limit | State, pages: str) -> str:
    """Of a state how many are not well; of a limit what is compared with it."""
    if isinstance(check, State):
        selector = series(check.metric, pages)
        return f"count({selector} == 0) or 0 * count({selector})"
    label = check.label if "=" in check.label else f"reason=~{quoted(f'.*{check.label}.*')}"
    selector = series(check.metric.name, f"{pages},{label}" if check.label else pages)
    if check.share:
        return f"max(rate({selector}[{lasting(SHARED)}]))"
    return f"sum(increase({selector}[{lasting(COUNTED)}]))"


BACK = 300.0
"""Seconds within which a run on the node is one of it, however short the span."""


def facts(
    asking: Asking, node: str, targets: Sequence[Target], span: Span, at: float,
    where: Mapping[str, str],
) -> NodeFacts:  # fmt: skip
    """protocol.Source.node.

    Args:
        asking: The Prometheus.
        node: Its name.
        targets: Its pages.
        span: Whose runs are told.
        at: Unix seconds.
        where: Rack and leaf.
    """
    pages = of_targets(targets)
    infos = asking.instant(series(m.NODE_INFO.name, pages), at)
    gpu_infos = asking.instant(series(m.GPU_INFO.name, pages), at)
    rank_infos = asking.instant(series(m.RANK_INFO.name, pages), at)
    rank_infos = living_last(asking, rank_infos, at, pages)
    shown = {"node": node, "scraped at": ", ".join(sorted({target[1] for target in targets}))}
    shown |= {kind: name for kind, name in where.items() if name}
    for labels, _ in infos[:1]:
        shown |= {
            name: words for name in ("hostname", "kernel") if (words := page_label(labels, name))
        }
    for name in ("model", "driver", "vbios", "cuda"):
        values = sorted({labels[name] for labels, _ in gpu_infos if labels.get(name)})
        if values:
            shown[f"GPU {name}"] = ", ".join(values)
    simulated = any(labels.get("simulated") == "true" for labels, _ in gpu_infos)
    if simulated:
        shown["GPU telemetry"] = "simulated"
    return NodeFacts(
        node=node, facts=shown, gpus=_gpus(gpu_infos, rank_infos),
        runs=runs(asking, targets, span, at), checks=checks(asking, pages, at),
    )  # fmt: skip


def runs(asking: Asking, targets: Sequence[Target], span: Span, at: float) -> tuple[str, ...]:
    """Ids of the runs that had ranks on these pages."""
    query = runs_with(series(m.RANK_UP.name, of_targets(targets)), max(BACK, span.seconds))
    names = {labels.get("run", "") for labels, _ in asking.instant(query, max(span.end, at))}
    return tuple(sorted(names - {""}))


def gpus(asking: Asking, targets: Sequence[Target], at: float) -> list[int]:
    """Indices of the GPUs that these pages tell of."""
    rows = asking.instant(series(m.GPU_INFO.name, of_targets(targets)), at)
    return sorted({gpu for labels, _ in rows if (gpu := number(labels, "gpu")) is not None})


def _gpus(gpus: list[Row], ranks: list[Row]) -> pd.DataFrame:
    on = {
        page_label(labels, "uuid"): (page_label(labels, "run"), number(labels, "rank"))
        for labels, _ in ranks
    }
    rows = []
    for labels, _ in gpus:
        uuid = page_label(labels, "uuid")
        run, rank = on.get(uuid, ("", None))
        rows.append((number(labels, "gpu"), uuid, labels.get("model", ""), run, rank))
    frame = pd.DataFrame(rows, columns=["gpu", "uuid", "model", "run", "rank"])
    frame = frame.astype({"gpu": "Int32", "rank": "Int32"})
    return frame.sort_values("gpu", ignore_index=True)
