"""Every metric that Lockstep exports: name, type, labels, help. One row a metric.

A row lies in the file of its subject; all are reached as `metrics.NAME`.
"""

from lockstep.collector.contract.metrics import (
    allocation,
    analyzer,
    delivery,
    events,
    gpu,
    host,
    monitor,
    nccl,
    network,
    process,
    reference,
    remediation,
    training,
)
from lockstep.collector.contract.metrics.allocation import *
from lockstep.collector.contract.metrics.analyzer import *
from lockstep.collector.contract.metrics.delivery import *
from lockstep.collector.contract.metrics.events import *
from lockstep.collector.contract.metrics.gpu import *
from lockstep.collector.contract.metrics.host import *
from lockstep.collector.contract.metrics.monitor import *
from lockstep.collector.contract.metrics.nccl import *
from lockstep.collector.contract.metrics.network import *
from lockstep.collector.contract.metrics.process import *
from lockstep.collector.contract.metrics.reference import *
from lockstep.collector.contract.metrics.remediation import *
from lockstep.collector.contract.metrics.shape import Kind as Kind
from lockstep.collector.contract.metrics.shape import Metric as Metric
from lockstep.collector.contract.metrics.shape import Sample as Sample
from lockstep.collector.contract.metrics.shape import Series as Series
from lockstep.collector.contract.metrics.shape import Unshown as Unshown
from lockstep.collector.contract.metrics.shape import label_text as label_text
from lockstep.collector.contract.metrics.training import *

EXPORTERS = {
    "collector": (monitor, process, host, network, gpu, events, allocation, nccl, training),
    "analyzer": (analyzer, delivery, process),
    "reference runs": (reference,),
    "remediator": (remediation, process),
}
"""Who exports which subjects."""
EXPORTED: dict[str, dict[str, Metric]] = {
    exporter: {
        value.name: value
        for subject in subjects
        for value in vars(subject).values()
        if isinstance(value, Metric)
    }
    for exporter, subjects in EXPORTERS.items()
}
"""Exporter -> its metrics by name, in the order of its page."""
METRICS = EXPORTED["collector"]
"""Those of the collector's page."""
EVERY: dict[str, Metric] = {name: one for rows in EXPORTED.values() for name, one in rows.items()}
"""Those of all pages."""
PENDING: dict[str, str] = {
    **dict.fromkeys(EXPORTED["reference runs"], "no program of this version makes reference runs"),
    remediation.NODE_QUARANTINED.name: "no mode of `lockstep nodes` taints nodes yet",
}
"""Series that this version does not export, or never as more than 0, and why: rules that need one
are not rendered."""
SAMPLES: dict[str, Metric] = {
    one.name: one for metric in METRICS.values() for one in metric.parts or (metric,)
}
"""What samples are of, by name: a histogram is told in its parts."""
