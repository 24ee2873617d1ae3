"""Values that go to the page as they were told."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from collector.contract.metrics import Metric, Sample
from collector.gpu_reading import Gpu


class Row(NamedTuple):
    """What a GPU told of one metric, by further label values, and its samples."""

    told: Mapping[str, float]
    samples: tuple[Sample, ...]


def rows(
    gpu: Gpu,
    metrics: Mapping[str, Metric],
    before: Mapping[str, Row],
    folded: Callable[[Gpu, str, Mapping[str, float]], Mapping[str, float]],
) -> dict[str, Row]:
    """A row for every one of these metrics that was told; the one of before if that is the same.

    `folded` gives what goes to the page of what a GPU told of a metric, by further label values.

    Without the check of `Metric.__call__`, which would be a third of a reading's cost: that every
    value has its labels is tested where the values are made.
    """
    who = (str(gpu.index), gpu.uuid)
    said: dict[str, Row] = {}
    for name, told in gpu.values.items():
        metric, row = metrics.get(name), before.get(name)
        if metric is None:
            continue
        if row is None or (row.told is not told and row.told != told):
            samples = (
                Sample(metric, (*who, *labels.split("/")) if labels else who, value)
                for labels, value in folded(gpu, name, told).items()
            )
            row = Row(told, tuple(samples))
        said[name] = row
    return said
