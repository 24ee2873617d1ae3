"""Every metric that Lockstep exports: name, type, labels, help. One row a metric.

A row is in the file of its subject (metric_rows/); all are reached as `metrics.NAME`.
"""

from types import ModuleType

from lockstep.collector.contract.metric_rows import (
    analyzer,
    events,
    gpu,
    host,
    monitor,
    nccl,
    network,
    nodes,
    training,
)
from lockstep.collector.contract.metric_rows.analyzer import *
from lockstep.collector.contract.metric_rows.events import *
from lockstep.collector.contract.metric_rows.gpu import *
from lockstep.collector.contract.metric_rows.host import *
from lockstep.collector.contract.metric_rows.monitor import *
from lockstep.collector.contract.metric_rows.nccl import *
from lockstep.collector.contract.metric_rows.network import *
from lockstep.collector.contract.metric_rows.nodes import *
from lockstep.collector.contract.metric_rows.shape import Kind as Kind
from lockstep.collector.contract.metric_rows.shape import Metric as Metric
from lockstep.collector.contract.metric_rows.shape import Sample as Sample
from lockstep.collector.contract.metric_rows.shape import Series as Series
from lockstep.collector.contract.metric_rows.shape import Unshown as Unshown
from lockstep.collector.contract.metric_rows.shape import label_text as label_text
from lockstep.collector.contract.metric_rows.training import *

Rows = tuple[Metric, ...]


def _of(subject: ModuleType) -> Rows:
    return tuple(value for value in vars(subject).values() if isinstance(value, Metric))


_PROCESS: Rows = (monitor.THREAD_FAILURES,)
EXPORTERS: dict[str, dict[str, Rows]] = {
    "collector": {
        "monitor": _of(monitor), "host": _of(host), "network": _of(network), "gpu": _of(gpu),
        "events": _of(events), "nccl": _of(nccl), "training": _of(training),
    },
    "analyzer": {"analyzer": _of(analyzer), "process": _PROCESS},
    "reference runs": {"reference": nodes.OF_REFERENCE_RUNS},
    "remediator": {
        "remediation": tuple(row for row in _of(nodes) if row not in nodes.OF_REFERENCE_RUNS),
        "process": _PROCESS,
    },
}  # fmt: skip
"""Exporter -> subject -> its metrics."""
EXPORTED: dict[str, dict[str, Metric]] = {
    exporter: {row.name: row for rows in subjects.values() for row in rows}
    for exporter, subjects in EXPORTERS.items()
}
"""Exporter -> its metrics by name, in the order of its page."""
METRICS = EXPORTED["collector"]
"""Those of the collector's page."""
EVERY: dict[str, Metric] = {name: one for rows in EXPORTED.values() for name, one in rows.items()}
"""Those of all pages."""
PENDING: dict[str, str] = {
    **dict.fromkeys(EXPORTED["reference runs"], "no program of this version makes reference runs"),
    nodes.NODE_QUARANTINED.name: "no mode of `lockstep nodes` taints nodes yet",
}
"""Series that this version does not export, or never as more than 0, and why: rules that need one
are not rendered."""
SAMPLES: dict[str, Metric] = {
    one.name: one for metric in METRICS.values() for one in metric.parts or (metric,)
}
"""Metrics of samples by name: a histogram has a sample for each of its parts."""
