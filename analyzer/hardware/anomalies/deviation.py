"""One deviation of one part, and the deviations as the anomalies of a verdict."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lockstep.analyzer.causes.registry import CAUSES
from lockstep.analyzer.causes.symptoms.series import STRONG
from lockstep.analyzer.hardware.anomalies.panel import Panel
from lockstep.analyzer.hardware.anomalies.watched_metrics import Subject
from lockstep.analyzer.shapes.run import Culprit, RankInfo
from lockstep.analyzer.shapes.wording import utc


@dataclass(frozen=True, slots=True)
class Deviation:
    """Hardware that is not as its peers are.

    Attributes:
        subject: The part it is about.
        metric: The contract's metric that reports it.
        node: Where.
        gpu: Index of the GPU on it; None = the node's own.
        size: Distance from the peers in spreads (symptoms.series.MILD is the least); None = an
            event, which deviates by being there.
        since: Unix seconds of its begin.
        text: The facts in one sentence.
    """

    subject: Subject
    metric: str
    node: str
    gpu: int | None
    size: float | None
    since: float
    text: str


def who(node: str, gpu: int | None) -> str:
    """A part, at the start of a sentence or in it."""
    return node if gpu is None else f"GPU {gpu} of {node}"


def as_deviation(
    panel: Panel, subject: Subject, metric: str, column: int, since: float, words: str,
    *, of_node: bool = False, size: float | None = None,
) -> Deviation:  # fmt: skip
    """The deviation of a column; its text begins with the part's name."""
    node, gpu = (panel.nodes[column], None) if of_node else panel.places[column]
    return Deviation(subject, metric, node, gpu, size, float(since), f"{who(node, gpu)}{words}")


OF_NODE: Mapping[Subject, frozenset[str]] = {
    subject: frozenset(spec.cause for spec in CAUSES if subject in spec.explains)
    for subject in Subject
}
"""What of a node's own hardware explains which causes."""
PARTS = tuple(Subject)


def merge_deviations(deviations: Iterable[Deviation]) -> tuple[Deviation, ...]:
    """One deviation for each part of each GPU or node: the gravest, with what the others add."""
    parts: dict[tuple[str, int | None, Subject], list[Deviation]] = {}
    for deviation in deviations:
        parts.setdefault((deviation.node, deviation.gpu, deviation.subject), []).append(deviation)
    one = [_merged(sorted(together, key=_order)) for together in parts.values()]
    return tuple(sorted(one, key=_order))


def anomalies_json(
    deviations: Iterable[Deviation], ranks: Sequence[RankInfo], culprits: Sequence[Culprit]
) -> tuple[Mapping[str, Any], ...]:
    """The anomalies as JSON types: those that cost time first, else in their order.

    Keys: docs/reference/verdict.md.
    """
    uuids = {(info.node, info.gpu): info.uuid for info in ranks if info.gpu is not None}
    with_cost = [
        (deviation, any(_explains(deviation, culprit) for culprit in culprits))
        for deviation in deviations
    ]
    return tuple(
        {
            "node": deviation.node,
            "gpu": deviation.gpu,
            "uuid": uuids.get((deviation.node, deviation.gpu))
            if deviation.gpu is not None
            else None,
            "metric": deviation.metric,
            "deviation": deviation.size,
            "since": utc(deviation.since),
            "costs_time": costs,
            "text": deviation.text,
        }
        for deviation, costs in sorted(with_cost, key=lambda one: not one[1])
    )


def _order(deviation: Deviation) -> tuple[bool, bool, int, float, str, int, str]:
    """What must be seen first: what broke, then what deviates beyond any doubt, part by part.

    Spreads of different parts do not measure the same: half of a PCIe link's lanes are seventy of
    its spreads, half of a clock twenty of its own. They decide between deviations of one part.
    """
    size = float("inf") if deviation.size is None else abs(deviation.size)
    gpu = -1 if deviation.gpu is None else deviation.gpu
    part = PARTS.index(deviation.subject)
    return (
        deviation.size is not None, size < STRONG, part, -size, deviation.node, gpu, deviation.text
    )  # fmt: skip


def _merged(together: Sequence[Deviation]) -> Deviation:
    first = together[0]
    part = who(first.node, first.gpu)
    more = (
        deviation.text.removeprefix(part).removeprefix(":").strip() for deviation in together[1:]
    )
    text = "; ".join(dict.fromkeys((first.text, *more)))
    return replace(first, text=text, since=min(deviation.since for deviation in together))


def _explains(deviation: Deviation, culprit: Culprit) -> bool:
    if culprit.node != deviation.node:
        return False
    if deviation.gpu is not None:
        return culprit.gpu == deviation.gpu
    return culprit.cause in OF_NODE.get(deviation.subject, ())
