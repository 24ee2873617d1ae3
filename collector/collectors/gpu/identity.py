"""Which GPU this is: model, firmware, place."""

from collections.abc import Iterator

from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.gpu_reading import Gpu

_OWN = 2
"""Labels gpu and uuid come first."""


def collect(gpu: Gpu) -> Iterator[Sample]:
    """One info series, of a GPU or of a MIG device."""
    metric = m.MIG_INFO if gpu.is_mig else m.GPU_INFO
    told = {"simulated": "false"} | dict(gpu.info)
    words = (told.get(label, "") for label in metric.labels[_OWN:])
    yield metric(1, str(gpu.index), gpu.uuid, *words)
