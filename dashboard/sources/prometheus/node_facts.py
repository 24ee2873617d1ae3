"""Who a node is, and what was looked at on it: the newest value of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analyzer.readers.prometheus.labels import Target, number, page_label
from analyzer.readers.prometheus.promql import lasting, of_targets, series
from collector.contract import metrics as m
from dashboard.shapes import Check, NodeFacts, Severity, Span
from dashboard.sources.prometheus.asking import Asking, Row

THROTTLED = 0.1
"""Share of the last minutes under thermal slowdown from which on it is critical; LockstepGpu
ThermalViolation of alert_rules/gpu.py waits longer."""
BACK = 300.0


@dataclass(frozen=True, slots=True)
class _Looked:
    """One check: a query, and the words if its value is above a limit."""

    name: str
    query: str
    limit: float
    bad: str
    good: str
    severity: Severity = Severity.CRITICAL
    next_step: str = ""


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
    gpus = asking.instant(series(m.GPU_INFO.name, pages), at)
    ranks = asking.instant(series(m.RANK_INFO.name, pages), at)
    told = {"node": node, "scraped at": ", ".join(sorted({one[1] for one in targets}))}
    told |= {kind: name for kind, name in where.items() if name}
    for labels, _ in infos[:1]:
        told |= {
            name: words for name in ("hostname", "kernel") if (words := page_label(labels, name))
        }
    for name in ("model", "driver", "vbios", "cuda"):
        values = sorted({labels[name] for labels, _ in gpus if labels.get(name)})
        if values:
            told[f"GPU {name}"] = ", ".join(values)
    simulated = any(labels.get("simulated") == "true" for labels, _ in gpus)
    if simulated:
        told["GPU telemetry"] = "simulated"
    step = lasting(max(BACK, span.seconds))
    query = f"group by (run) (last_over_time({series(m.RANK_UP.name, pages)}[{step}]))"
    runs = {labels.get("run", "") for labels, _ in asking.instant(query, max(span.end, at))}
    return NodeFacts(
        node=node, facts=told, gpus=_gpus(gpus, ranks), runs=tuple(sorted(runs - {""})),
        checks=tuple(_checks(asking, pages, at)),
    )  # fmt: skip


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


def _checks(asking: Asking, pages: str, at: float) -> list[Check]:
    back = lasting(BACK)

    def grown(metric: m.Metric, words: str = "") -> str:
        inside = f"{pages},{words}" if words else pages
        return f"sum(increase({series(metric.name, inside)}[{lasting(3600)}]))"

    heat = series(m.GPU_CLOCK_EVENT_SECONDS.name, f'{pages},reason=~"hw_thermal|sw_thermal"')
    looked = (
        _Looked("Answers", f"1 - min({series('up', pages)})", 0.0, "Its collector does not answer.",
                "Its collector answers.", next_step="Look at the collector: lockstep doctor"),
        _Looked("XID errors", grown(m.GPU_XID_ERRORS), 0.0, "XIDs in the last hour: {:.0f}.",
                "No XID in the last hour.", next_step="Look at the events of its GPUs."),
        _Looked("Memory errors", grown(m.GPU_ECC_ERRORS, 'type="uncorrected",counter="volatile"'),
                0.0, "Uncorrected errors in the last hour: {:.0f}.",
                "No uncorrected error in the last hour.", next_step="Drain the node."),
        _Looked("Heat", f"max(rate({heat}[{back}]))", THROTTLED,
                "A GPU was throttled for heat {:.0%} of the last 5 minutes.",
                "No GPU is throttled for heat.", next_step="Look at fans and inlet air."),
        _Looked("Links", grown(m.NET_CARRIER_CHANGES), 0.0,
                "A link came or went {:.0f} times in the last hour.",
                "No link came or went in the last hour.", Severity.WARNING,
                "Look at cable, optics and switch port."),
        _Looked("Clock", f"1 - min({series(m.CLOCK_SYNCHRONIZED.name, pages)})", 0.0,
                "Its clock is not synchronised.", "Its clock is synchronised.", Severity.WARNING,
                "Start chrony or ntpd."),
        _Looked("Sources", f"count({series(m.SOURCE_UP.name, pages)} == 0)"
                f" or 0 * count({series(m.SOURCE_UP.name, pages)})", 0.0,
                "{:.0f} sources of its collector fail.", "All sources of its collector answer.",
                Severity.WARNING, "Data health says which."),
    )  # fmt: skip
    return [_check(one, asking.instant(one.query, at)) for one in looked]


def _check(one: _Looked, rows: list[Row]) -> Check:
    if not rows:
        return Check(one.name, Severity.UNKNOWN, "Nobody tells.", "")
    value = rows[0][1]
    if value > one.limit + 1e-9:
        return Check(one.name, one.severity, one.bad.format(value), one.next_step)
    return Check(one.name, Severity.OK, one.good)
