"""One deviation of one part."""

from dataclasses import dataclass

from lockstep.analyzer.hardware.anomalies.panel import Panel
from lockstep.analyzer.hardware.anomalies.watched import Subject


@dataclass(frozen=True, slots=True)
class Deviation:
    """Hardware that is not as its peers are.

    Attributes:
        subject: The part it is about.
        metric: The contract's metric that tells of it.
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


def deviation(
    panel: Panel, subject: Subject, metric: str, column: int, since: float, words: str,
    *, of_node: bool = False, size: float | None = None,
) -> Deviation:  # fmt: skip
    """The deviation of a column; its text begins with the part's name."""
    node, gpu = (panel.nodes[column], None) if of_node else panel.places[column]
    return Deviation(subject, metric, node, gpu, size, float(since), f"{who(node, gpu)}{words}")
