"""What cannot be is left out and counted, whichever source told it: the one place where it is."""

from collections.abc import Iterable, Sequence

from lockstep.collector.contract.metrics import Sample
from lockstep.collector.reading import IMPLAUSIBLE, Rejected


def plausible(samples: Iterable[Sample]) -> tuple[Sequence[Sample], list[Rejected]]:
    """The samples within the ranges of their metrics, and the others, each with what it was."""
    told = tuple(samples)
    outside = [
        sample for sample in told
        if not sample[0].within[0] <= sample[2] <= sample[0].within[1] and sample[2] == sample[2]
    ]  # fmt: skip
    if not outside:  # nearly always, and this is every value of every reading
        return told, []
    refused = set(map(id, outside))
    return [one for one in told if id(one) not in refused], [_refused(one) for one in outside]


def _refused(sample: Sample) -> Rejected:
    metric, labels, value = sample
    pairs = ",".join(
        f'{name}="{text}"' for name, text in zip(metric.labels, labels, strict=False) if text
    )
    low, high, reason = metric.within
    return Rejected(
        IMPLAUSIBLE,
        f"{metric.name}{{{pairs}}} is {value:g}; it can be {low:g} to {high:g} ({reason})",
    )
