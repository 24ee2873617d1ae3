"""Values that go to the page as they were told."""

from collections.abc import Iterable, Iterator

from collector.contract.metrics import Metric, Sample
from collector.gpu_reading import Gpu


def rows(gpu: Gpu, metrics: Iterable[Metric]) -> Iterator[Sample]:
    """A sample for every value of these metrics.

    Without the check of `Metric.__call__`, which would be a third of a reading's cost: that every
    value has its labels is tested where the values are made.
    """
    values, who = gpu.values, (str(gpu.index), gpu.uuid)
    for metric in metrics:
        for labels, value in values.get(metric.name, _NOTHING).items():
            yield Sample(metric, (*who, *labels.split("/")) if labels else who, value)


_NOTHING: dict[str, float] = {}
