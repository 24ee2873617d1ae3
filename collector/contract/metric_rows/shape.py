"""The shape of a metric and of one value of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple, NewType

from lockstep.collector.contract.metric_rows.ranges import Range, of_unit

Series = NewType("Series", str)
"""One series at its place: `metric{label="value",...}`, as `label_text` writes labels."""
PLACES = frozenset({"gpu", "uuid", "run", "rank"})
"""Labels that tell the place of a series: columns of the archive, an axis of a Grid."""


def label_text(labels: Mapping[str, str]) -> str:
    """Labels as text, in the archive and in the keys of a Grid.

    `name="value"` joined by commas, sorted by name, without PLACES.
    """
    return ",".join(f'{name}="{labels[name]}"' for name in sorted(labels) if name not in PLACES)


_LABEL = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')


class Sample(NamedTuple):
    """One value on its way to the page; `labels` are values in the order of the metric's labels."""

    metric: "Metric"
    labels: tuple[str, ...]
    value: float


_new = tuple.__new__
"""Makes a sample as its class does, without a call more: there are thousands a second."""


class Kind(StrEnum):
    """Prometheus metric types in use."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Unshown(StrEnum):
    """Why no dashboard of Grafana shows a metric.

    It is kept for verdicts, alerts, reports and the pages of `lockstep dashboard`.
    """

    IDENTITY = "Identity of a thing, to join on; no value over time."
    STANDING = (
        "A limit, a mode or a size that stands: the margin, the share or the alert says more."
    )
    GPU_DETAIL = "Detail of one GPU: the page of the GPU in `lockstep dashboard` has it."
    HOST_DETAIL = "Detail of one host: pressure, share and traffic of the node say it at a glance."
    EVIDENCE = (
        "Evidence that alerts and causes weigh: LockstepGpu…, LockstepNvlink… and LockstepPcie…."
    )
    PART = "A part of what is shown: lag, missing ranks and bus bandwidth are made of them."
    END_OF_RANK = "The end of one rank: verdicts read it, and the finding says it in words."
    OWN_VALUE = "A number of one program: the Run page of `lockstep dashboard` shows those it has."
    OWN_TROUBLE = (
        "A collector's own trouble: errors by source and reason, which are shown, say it too."
    )
    REMEDIATION = (
        "Between watch, who acts on nodes, and its log: breaker and quarantines are shown."
    )


@dataclass(frozen=True, slots=True)
class Metric:
    """A family on the page. Units are base units and end the name; counters end in `_total`.

    Attributes:
        bounds: Upper bounds of a histogram's buckets, ascending, without infinity.
        unshown: Why no dashboard of Grafana shows it; None: at least one does.
        family: Name under which the page groups it: its own, or its histogram's.
        within: What it can be: its unit's range (`ranges`), or one of its own.
        parts: What the samples of a histogram are of: `_bucket`, `_count` and `_sum`.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    bounds: tuple[float, ...] = ()
    family: str = ""
    unshown: Unshown | None = field(default=None, compare=False, kw_only=True)
    within: Range = field(default=None, compare=False, kw_only=True)  # type: ignore[assignment]
    parts: tuple["Metric", ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", self.family or self.name)
        object.__setattr__(self, "within", self.within or of_unit(self.name))
        object.__setattr__(self, "parts", self._parts() if self.kind is Kind.HISTOGRAM else ())

    def __call__(self, value: float, *labels: str) -> Sample:
        """A sample of this metric; a histogram has `histogram` instead.

        Raises:
            ValueError: The number of label values is not the number of labels.
        """
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} takes labels {self.labels}, got {labels}")
        return _new(Sample, (self, labels, value))

    def series(self, **labels: str) -> Series:
        """One of its series at a place: the key under which a Grid has it.

        Raises:
            ValueError: These are not all of its labels but PLACES.
        """
        wanted = set(self.labels) - PLACES
        if labels.keys() != wanted:
            raise ValueError(f"{self.name} takes labels {sorted(wanted)}, got {sorted(labels)}")
        text = label_text(labels)
        return Series(f"{self.name}{{{text}}}" if text else self.name)

    def selector(self, **labels: str) -> tuple[str, ...]:
        """Some of its labels, each as it stands in the text of a series.

        Raises:
            ValueError: It has no label of that name.
        """
        unknown = sorted(labels.keys() - set(self.labels))
        if unknown:
            raise ValueError(f"{self.name} has no label {', '.join(unknown)}")
        return tuple(f'{name}="{value}"' for name, value in sorted(labels.items()))

    def check_labels(self, text: str) -> None:
        """Whether a part of `label_text` can be in one of its series.

        Raises:
            ValueError: It names labels that the metric has not, or not in their order.
        """
        names = _LABEL.findall(text)
        if names != sorted(set(names) & set(self.labels)) or bool(text) != bool(names):
            raise ValueError(f"{self.name} has no series with {text}")

    def histogram(self, counts: Sequence[int], total: float, *labels: str) -> tuple[Sample, ...]:
        """The samples of a histogram, those of one set of labels together.

        Args:
            counts: How many fell into each bucket and, last, beyond all bounds; not cumulated.
            total: Sum of all that was measured.
            labels: Label values, without `le`.

        Raises:
            ValueError: This is no histogram, or there is not one count a bucket.
        """
        if not self.parts or len(counts) != len(self.bounds) + 1:
            raise ValueError(f"{self.name} has {len(self.bounds)} bounds, got {len(counts)} counts")
        bucket, count, whole = self.parts
        bounds = (*map(repr, self.bounds), "+Inf")
        cumulated = tuple(accumulate(counts))
        return (
            *(bucket(number, *labels, le) for le, number in zip(bounds, cumulated, strict=True)),
            count(cumulated[-1], *labels),
            whole(total, *labels),
        )

    def _parts(self) -> tuple["Metric", ...]:
        # Counters, as all parts of a histogram: so they are carried over resets like others.
        return tuple(
            Metric(self.name + suffix, Kind.COUNTER, labels, self.help, family=self.name)
            for suffix, labels in (
                ("_bucket", (*self.labels, "le")), ("_count", self.labels), ("_sum", self.labels)
            )
        )  # fmt: skip
