"""Data parallel alone: every rank has the whole model, and gradients are averaged over all."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from lockstep.workloads.comm import Comm
from lockstep.workloads.parallel.data import Bucket, OverlappedBuckets, ReplicatedBucket, bucketed


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
        found = [p.grad for p in self._parameters if p.grad is not None]
        if not found:
            return torch.zeros((), dtype=torch.float64, device=self._parameters[0].device)
        norms = [norm.double().square() for norm in torch._foreach_norm(found)]
        return torch.stack(norms).sum().sqrt()
