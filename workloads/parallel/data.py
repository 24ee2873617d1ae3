"""Data parallel: gradients averaged over replicas in flat buckets, while backward still runs."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import Protocol

import torch
from torch import nn

from lockstep.workloads.parallel.comm import Comm, Pending

LEAST_BYTES = 256 * 1024
MOST_BUCKETS = 8
"""A small all-reduce over gloo costs up to 3 ms of latency where ranks outnumber cores."""
ALIGNED = 16
"""Elements: a parameter inside a flat tensor begins on a cache line."""


class Bucket(Protocol):
    """Neighbouring parameters whose gradients travel together."""

    parameters: list[nn.Parameter]

    def zero(self) -> None:
        """Begin a step: no gradient yet."""
        ...

    def start(self) -> Pending:
        """Begin to sum the gradients over the replicas."""
        ...

    def average(self) -> None:
        """The sum is there: make it a mean."""
        ...

    def held(self, parameter: nn.Parameter) -> torch.Tensor:
        """The part of the mean gradient that this rank has, after `average`."""
        ...


class FlatGradients:
    """The gradients of some parameters one after the other in one tensor, where backward adds up.

    Args:
        multiple: The number of elements is padded to a multiple of this.
    """

    def __init__(self, parameters: list[nn.Parameter], multiple: int = 1) -> None:
        self.parameters = parameters
        self.places, size = places(parameters)
        self.flat = torch.zeros(-(-size // multiple) * multiple, device=parameters[0].device)
        for parameter, begin in zip(parameters, self.places, strict=True):
            view = self.flat[begin : begin + parameter.numel()]
            parameter.grad = view.view_as(parameter)


class ReplicatedBucket(FlatGradients):
    """A bucket that every replica has whole: all-reduced in place."""

    def __init__(self, parameters: list[nn.Parameter], comm: Comm, tag: str) -> None:
        super().__init__(parameters)
        self._collective = comm.collective("dp-all-reduce", "dp", f"grads.{tag}")

    def zero(self) -> None:
        """See Bucket."""
        self.flat.zero_()

    def start(self) -> Pending:
        """See Bucket."""
        return self._collective.start_all_reduce(self.flat)

    def average(self) -> None:
        """See Bucket."""
        self.flat.div_(self._collective.size)

    def held(self, parameter: nn.Parameter) -> torch.Tensor:
        """See Bucket."""
        assert parameter.grad is not None
        return parameter.grad


class OverlappedBuckets:
    """Starts each bucket as soon as the last backward pass of a step has filled it.

    Every rank starts them in the same order: a bucket that is ready early waits for those before.

    Args:
        backwards: Backward passes of a step: its micro-batches.
        computed: Called with how far a backward pass has come, as a ratio of the stage's
            parameters, before the gradients up to there are sent: an emulated device has them only
            then.
    """

    def __init__(
        self, stages: Sequence[Sequence[Bucket]], backwards: int,
        computed: Callable[[float], None] = lambda _share: None,
    ) -> None:  # fmt: skip
        self._buckets = [bucket for stage in reversed(stages) for bucket in stage]
        self._shares = [share for stage in reversed(stages) for share in _shares(stage)]
        self._backwards = backwards
        self._computed = computed
        self._missing = [0] * len(self._buckets)
        self._pending: list[Pending] = []
        for index, bucket in enumerate(self._buckets):
            for parameter in bucket.parameters:
                hook = partial(self._accumulated, index)
                parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]

    def zero(self) -> None:
        """Begin a step."""
        self._pending.clear()
        for index, bucket in enumerate(self._buckets):
            bucket.zero()
            self._missing[index] = len(bucket.parameters) * self._backwards

    def finish(self) -> None:
        """Return when every gradient is its mean over the replicas.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        for bucket in self._buckets[len(self._pending) :]:  # with parameters that nothing used
            self._pending.append(bucket.start())
        for bucket, pending in zip(self._buckets, self._pending, strict=True):
            pending.wait()
            bucket.average()

    def _accumulated(self, index: int, _parameter: torch.Tensor) -> None:
        self._missing[index] -= 1
        while len(self._pending) < len(self._buckets) and not self._missing[len(self._pending)]:
            self._computed(self._shares[len(self._pending)])
            self._pending.append(self._buckets[len(self._pending)].start())


def bucketed(parameters: Sequence[nn.Parameter], size: int | None) -> list[list[nn.Parameter]]:
    """The parameters of a stage in groups, last layer first, as backward fills them.

    Args:
        size: Bytes of a group at most, but for a single larger parameter; None = as many as make
            a few groups.
    """
    if size is None:
        size = max(LEAST_BYTES, sum(p.nbytes for p in parameters) // MOST_BUCKETS)
    buckets: list[list[nn.Parameter]] = []
    filled = 0
    for parameter in reversed(parameters):
        if not buckets or filled + parameter.nbytes > size:
            buckets.append([])
            filled = 0
        buckets[-1].append(parameter)
        filled += parameter.nbytes
    return buckets


def places(parameters: Iterable[nn.Parameter]) -> tuple[list[int], int]:
    """Where each parameter begins in a flat tensor, and the tensor's elements."""
    steps = [-(-parameter.numel() // ALIGNED) * ALIGNED for parameter in parameters]
    ends = list(accumulate(steps, initial=0))
    return ends[:-1], ends[-1]


def flattened(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """One after the other."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def unflatten(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Write them back."""
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    views = [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]
    torch._foreach_copy_(list(tensors), views)


def _shares(stage: Sequence[Bucket]) -> list[float]:
    """How much of the stage each bucket and those before it are."""
    sizes = [sum(parameter.numel() for parameter in bucket.parameters) for bucket in stage]
    return [end / sum(sizes) for end in accumulate(sizes)]


# Data parallel alone: every rank has the whole model, gradients are averaged over all ranks.


class Replicas:
    """The gradients of a model that every rank of the group `dp` has whole.

    One rank alone communicates nothing.

    Args:
        parameters: In the order of the forward pass; float32.
        computed: See OverlappedBuckets.
        backwards: Backward passes of a step.
        bucket_bytes: See `bucketed`.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], comm: Comm,
        computed: Callable[[float], None] = lambda _share: None, *,
        backwards: int = 1, bucket_bytes: int | None = None,
    ) -> None:  # fmt: skip
        self._parameters = list(parameters)
        buckets: list[Bucket] = []
        if comm.size("dp") > 1:
            groups = bucketed(self._parameters, bucket_bytes)
            buckets = [
                ReplicatedBucket(group, comm, str(index)) for index, group in enumerate(groups)
            ]
        self._alone = not buckets
        self._buckets = OverlappedBuckets([buckets] if buckets else [], backwards, computed)

    def zero(self) -> None:
        """Begin a step, before its first backward pass: no gradient yet."""
        if self._alone:
            for parameter in self._parameters:
                parameter.grad = None
        else:
            self._buckets.zero()

    def finish(self) -> None:
        """Return when every gradient is its mean over the replicas.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        self._buckets.finish()

    @torch.no_grad()
    def norm(self) -> torch.Tensor:
        """Norm of the mean gradients over the whole model, float64, after `finish`."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if not gradients:
            return torch.zeros((), dtype=torch.float64, device=self._parameters[0].device)
        norms = [norm.double().square() for norm in torch._foreach_norm(gradients)]
        return torch.stack(norms).sum().sqrt()
