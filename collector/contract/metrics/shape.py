"""The shape of a metric and of one value of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Sample(NamedTuple):
    """One value on its way to the page; `labels` are values in the order of the metric's labels."""

    metric: "Metric"
    labels: tuple[str, ...]
    value: float


class Kind(StrEnum):
    """Prometheus metric types in use."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Metric:
    """A family on the page. Units are base units and end the name; counters end in `_total`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    def __call__(self, value: float, *labels: str) -> Sample:
        """A sample of this metric.

        Raises:
            ValueError: The number of label values is not the number of labels.
        """
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} takes labels {self.labels}, got {labels}")
        return Sample(self, labels, value)
