"""The sharded optimizer: each replica updates its part of every flat bucket (ZeRO stage 1).

As Megatron-LM's distributed optimizer (Rajbhandari et al. 2020, arXiv 1910.02054): gradients are
reduce-scattered, AdamW keeps moments for this rank's part alone, parameters are all-gathered.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from lockstep.workloads.models.optimizer import MOMENTS, Moments, Optimizer, Rate
from lockstep.workloads.parallel.comm import Comm, Pending
from lockstep.workloads.parallel.data import FlatGradients


class ShardedBucket(FlatGradients):
    """A bucket whose mean gradient and optimizer state are divided over the replicas.

    Attributes:
        shard: This rank's part of the values, with its part of the mean gradient.
    """

    def __init__(self, parameters: list[nn.Parameter], comm: Comm, tag: str) -> None:
        size = comm.size("dp")
        super().__init__(parameters, multiple=size)
        self._scatter = comm.collective("grads-reduce-scatter", "dp", f"grads.{tag}")
        self._gather = comm.collective("params-all-gather", "dp", f"params.{tag}")
        self._values = torch.zeros_like(self.flat)
        for parameter, begin in zip(parameters, self.places, strict=True):
            view = self._values[begin : begin + parameter.numel()].view_as(parameter)
            parameter.data = view.copy_(parameter.data)
        part = self.flat.numel() // size
        self._begin = comm.rank("dp") * part
        self.shard = nn.Parameter(self._values[self._begin : self._begin + part])
        self.shard.grad = torch.zeros_like(self.shard)
        self._place_of = dict(zip(parameters, self.places, strict=True))

    @property
    def gradient(self) -> torch.Tensor:
        """This rank's part of the mean gradient."""
        assert self.shard.grad is not None
        return self.shard.grad

    def zero(self) -> None:
        """See Bucket."""
        self.flat.zero_()

    def start(self) -> Pending:
        """See Bucket."""
        return self._scatter.start_reduce_scatter(self.gradient, self.flat)

    def average(self) -> None:
        """See Bucket."""
        self.gradient.div_(self._scatter.size)

    def held(self, parameter: nn.Parameter) -> torch.Tensor:
        """See Bucket; flat, and empty where another rank has all of it."""
        place = self._place_of[parameter] - self._begin
        begin, end = max(0, place), min(self.shard.numel(), place + parameter.numel())
        return self.gradient[begin : max(begin, end)]

    def start_gather(self) -> Pending:
        """Begin to give every replica the values of all parts."""
        return self._gather.start_all_gather(self._values, self.shard.detach())

    def whole(self, part: torch.Tensor) -> dict[nn.Parameter, torch.Tensor]:
        """From this rank's part of something as large as the values: its tensors by parameter."""
        flat = torch.empty_like(self._values)
        self._gather.all_gather(flat, part)
        return {
            parameter: flat[begin : begin + parameter.numel()].view_as(parameter)
            for parameter, begin in self._place_of.items()
        }

    def part(self, tensors: Mapping[nn.Parameter, torch.Tensor]) -> torch.Tensor:
        """The inverse of `whole`."""
        flat = torch.zeros_like(self._values)
        for parameter, begin in self._place_of.items():
            flat[begin : begin + parameter.numel()] = tensors[parameter].reshape(-1)
        return flat[self._begin : self._begin + self.shard.numel()].clone()


class ShardedOptimizer(Optimizer):
    """AdamW of this rank's parts; every step ends with all of the parameters on every rank."""

    def __init__(self, buckets: Sequence[ShardedBucket], rate: Rate) -> None:
        super().__init__([bucket.shard for bucket in buckets], rate)
        self._buckets = buckets

    def step(self, step: int, norm: torch.Tensor) -> float:
        """As Optimizer.step.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        rate = super().step(step, norm)
        for pending in [bucket.start_gather() for bucket in self._buckets]:
            pending.wait()
        return rate

    def moments(self) -> Moments:
        """As Optimizer.moments, gathered from all parts: every replica takes part."""
        moments: Moments = {}
        for bucket in self._buckets:
            for name in MOMENTS:
                for parameter, tensor in bucket.whole(self.adam.state[bucket.shard][name]).items():
                    moments.setdefault(parameter, {})[name] = tensor
        return moments

    def take(self, updates: int, moments: Moments) -> None:
        """As Optimizer.take: of whole moments, this rank's parts."""
        super().take(
            updates,
            {
                bucket.shard: {
                    name: bucket.part({p: moments[p][name] for p in bucket.parameters})
                    for name in MOMENTS
                }
                for bucket in self._buckets
            },
        )
