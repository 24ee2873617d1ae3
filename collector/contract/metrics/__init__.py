"""Every metric on the collector's page: name, type, labels, help. One row a metric.

A row lies in the file of its subject; all are reached as `metrics.NAME`.
"""

from collector.contract.metrics import (
    allocation,
    events,
    gpu,
    host,
    monitor,
    nccl,
    network,
    training,
)
from collector.contract.metrics.allocation import *
from collector.contract.metrics.events import *
from collector.contract.metrics.gpu import *
from collector.contract.metrics.host import *
from collector.contract.metrics.monitor import *
from collector.contract.metrics.nccl import *
from collector.contract.metrics.network import *
from collector.contract.metrics.shape import Kind as Kind
from collector.contract.metrics.shape import Metric as Metric
from collector.contract.metrics.shape import Sample as Sample
from collector.contract.metrics.training import *

METRICS: dict[str, Metric] = {
    value.name: value
    for subject in (monitor, host, network, gpu, events, allocation, nccl, training)
    for value in vars(subject).values()
    if isinstance(value, Metric)
}
"""Every metric by name, in the order of the page."""
SAMPLES: dict[str, Metric] = {
    one.name: one for metric in METRICS.values() for one in metric.parts or (metric,)
}
"""What samples are of, by name: a histogram is told in its parts."""
