"""What the loop of train.py trains: the shape that every task gives it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from lockstep.workloads.parallel.comm import Comm, Segment
from lockstep.workloads.parallel.mesh import Mesh
from lockstep.workloads.spec import RunSpec

BatchT = TypeVar("BatchT")


@dataclass(frozen=True, slots=True)
class Context:
    """What a task needs to know of the rank that it is set up for.

    Attributes:
        data: What the task's `prepare` returned.
        segment: A `with` block around one micro-batch's "forward" or "backward", with its tag.
        computed: Told the share of a backward pass that is done, as gradients become known.
        device: Where the model is.
    """

    spec: RunSpec
    rank: int
    mesh: Mesh
    comm: Comm
    data: Path
    segment: Segment
    computed: Callable[[float], None]
    device: torch.device


@dataclass(frozen=True, slots=True)
class Counts:
    """What this rank counts in a step, so that the ranks' sum is the run's."""

    samples: int
    tokens: int
    flops: float


@dataclass(frozen=True, slots=True)
class Update:
    """What a step did to the weights.

    Attributes:
        rate: The learning rate.
        norm: Norm of the gradients over the whole model, maybe still on its way on the device.
        skipped: Steps so far that changed nothing because the norm was not finite; likewise.
    """

    rate: float
    norm: torch.Tensor
    skipped: torch.Tensor


class Trainable(Protocol[BatchT]):
    """Everything of one rank that learns; the loop calls `batch` from the loader's thread.

    A step is: `batch` (phase data), `train` (forward and backward, by `Context.segment`),
    `reduce` (phase grad_sync), `update` (phase optimizer).
    """

    @property
    def counts(self) -> Counts:
        """What the rank counts in every step."""
        ...

    @property
    def tells(self) -> bool:
        """Whether this rank knows the loss and keeps the log: exactly one rank does."""
        ...

    def batch(self, step: int) -> BatchT:
        """This rank's part of a step's samples; the same whenever it is asked for."""
        ...

    def train(self, batch: BatchT) -> torch.Tensor | None:
        """Gradients of the batch; the mean loss, where this rank knows it."""
        ...

    def reduce(self) -> None:
        """Make the gradients those of all replicas.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        ...

    def update(self, step: int) -> Update:
        """Change the weights."""
        ...

    def evaluate(self) -> Mapping[str, float]:
        """Metrics over the validation data, the same on every rank, by the names of goals.py.

        Empty where the task has no validation data. Raises PeerLostError as `reduce` does.
        """
        ...

    def results(self) -> dict[str, Any]:
        """What the task found out beside steps and metrics, as JSON types; may be empty."""
        ...
