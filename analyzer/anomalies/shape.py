"""One deviation of one part, and what was not to be trusted."""

from dataclasses import dataclass

from analyzer.anomalies.watched import Subject


@dataclass(frozen=True, slots=True)
class Deviation:
    """Hardware that is not as its peers are.

    Attributes:
        subject: The part it is about.
        metric: The contract's metric that tells of it.
        node: Where.
        gpu: Index of the GPU on it; None = the node's own.
        size: Distance from the peers in spreads (peers.DEVIATES is the least); None = an event,
            which deviates by being there.
        since: Unix seconds of its begin.
        text: The facts in one sentence.
        slows: Whether it is of the kind that slows a GPU for certain.
    """

    subject: Subject
    metric: str
    node: str
    gpu: int | None
    size: float | None
    since: float
    text: str
    slows: bool = False

    @property
    def grave(self) -> float:
        """Events first, then by distance."""
        return float("inf") if self.size is None else self.size


def who(node: str, gpu: int | None) -> str:
    """A part, at the start of a sentence or in it."""
    return node if gpu is None else f"GPU {gpu} of {node}"
