"""What turns the gradients of one step's backward passes into those of the whole model's batch.

Averaging over replicas, Megatron-LM's finalize_model_grads, then clipping by the norm over all
ranks.
"""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import nn

from lockstep.workloads.models.gpt import Gpt
from lockstep.workloads.parallel.comm import Comm, Segment
from lockstep.workloads.parallel.data import (
    Bucket,
    OverlappedBuckets,
    ReplicatedBucket,
    bucketed,
    flattened,
    unflatten,
)
from lockstep.workloads.parallel.mesh import Mesh
from lockstep.workloads.parallel.sharded import ShardedBucket
from lockstep.workloads.parallel.tensor import TensorParallel, shard_dimension


class Gradients:
    """The gradients of one rank's stages.

    Args:
        backwards: Backward passes of a step: its micro-batches.
        sharded: Whether each replica keeps only its part of the mean gradients.
        computed: See OverlappedBuckets.

    Attributes:
        parameters: All of this rank.
        shards: The buckets, where they are sharded.
    """

    def __init__(
        self, chunks: Sequence[Gpt], parallel: TensorParallel, mesh: Mesh, comm: Comm, *,
        backwards: int = 1, sharded: bool = False, bucket_bytes: int | None = None,
        computed: Callable[[float], None] = lambda _share: None,
    ) -> None:  # fmt: skip
        self.parameters = [p for chunk in chunks for p in chunk.parameters()]
        self._tied = _tied_weight(chunks, comm.size("pp"))
        self.shards: list[ShardedBucket] = []
        stages: list[list[Bucket]] = []
        if comm.size("dp") > 1:
            for index, chunk in enumerate(chunks):
                tagged = [
                    (f"{index}.{number}", group)
                    for number, group in enumerate(self._groups(chunk, bucket_bytes, sharded))
                ]
                if sharded:
                    mine = [ShardedBucket(group, comm, tag) for tag, group in tagged]
                    self.shards += mine
                    stages.append([*mine])
                else:
                    stages.append([ReplicatedBucket(group, comm, tag) for tag, group in tagged])
        self._buckets = OverlappedBuckets(stages, backwards, computed)
        self._bucket_of = {p: b for stage in stages for b in stage for p in b.parameters}
        self._whole = [p for p in self.parameters if shard_dimension(p) is None]
        self._over_sequence = (
            comm.collective("layernorm-grads-all-reduce", "tp", "sequence-parallel")
            if parallel.sequence and parallel.size > 1
            else None
        )
        self._over_ends = (
            comm.collective("embedding-grads-all-reduce", "pp", "embedding", group=mesh.ends)
            if self._tied is not None
            else None
        )
        # Parts of shards are on one rank of the world each.
        self._norms = [
            comm.collective("optimizer-clip-main-grad", name, f"clip.{name}")
            for name in (("world",) if self.shards else ("tp", "pp"))
            if comm.size(name) > 1
        ]
        self._once = _counted_once(chunks, parallel, self._tied)

    def zero(self) -> None:
        """Begin a step: no gradient yet."""
        if self._bucket_of:
            self._buckets.zero()
        else:
            for parameter in self.parameters:
                parameter.grad = None

    def finish(self) -> None:
        """Average over the replicas, then sum the parts that ranks hold of one gradient.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        self._buckets.finish()
        if self._over_sequence is not None and (parts := self._held(self._whole)):
            flat = flattened(parts)
            self._over_sequence.all_reduce(flat)
            unflatten(flat, parts)
        if self._over_ends is not None and self._tied is not None:
            for part in self._held([self._tied]):
                self._over_ends.all_reduce(part)

    @torch.no_grad()
    def clip(self, limit: float) -> torch.Tensor:
        """Scale the gradients so that their norm over the whole model is at most `limit`.

        Returns:
            The norm before; where it is not finite, the gradients are of no use.
        """
        squares = [norm.double().square() for norm in torch._foreach_norm(self._held(self._once))]
        device = self.parameters[0].device
        nothing = torch.zeros((), dtype=torch.float64, device=device)  # other ranks have it all
        total = torch.stack(squares).sum() if squares else nothing
        for collective in self._norms:
            collective.all_reduce(total, dist.ReduceOp.SUM)
        norm = total.sqrt()
        scale = (limit / (norm + 1e-6)).clamp(max=1.0).float()
        every = [shard.gradient for shard in self.shards] or self._held(self.parameters)
        torch._foreach_mul_(every, scale)
        return norm

    def _groups(
        self, chunk: Gpt, bucket_bytes: int | None, sharded: bool
    ) -> list[list[nn.Parameter]]:
        """The parameters of each bucket of a stage.

        Sharded, an embedding that two stages share is alone in its bucket (as in Megatron-LM):
        both stages then divide it over the replicas in the same way.
        """
        parameters = list(chunk.parameters())
        if not sharded or not any(p is self._tied for p in parameters):
            return bucketed(parameters, bucket_bytes)
        rest = bucketed([p for p in parameters if p is not self._tied], bucket_bytes)
        alone = [p for p in parameters if p is self._tied]
        return [*rest, alone] if chunk.part.has_embedding else [alone, *rest]

    def _held(self, parameters: Sequence[nn.Parameter]) -> list[torch.Tensor]:
        """What this rank has of their gradients; what it has nothing of is left out."""
        if not self._bucket_of:
            return [p.grad for p in parameters if p.grad is not None]
        parts = [self._bucket_of[parameter].held(parameter) for parameter in parameters]
        return [part for part in parts if part.numel()]


def _tied_weight(chunks: Sequence[Gpt], stages: int) -> nn.Parameter | None:
    """This rank's copy of an embedding that two stages share."""
    if stages == 1 or not chunks[0].config.tied:
        return None
    if chunks[0].part.has_embedding:
        return chunks[0].tokens.weight
    return chunks[-1].output.weight if chunks[-1].part.has_output else None


def _counted_once(
    chunks: Sequence[Gpt], parallel: TensorParallel, tied: nn.Parameter | None
) -> list[nn.Parameter]:
    """The parameters that this rank counts in the norm: none is counted on two ranks."""
    first_stage = chunks[0].part.has_embedding
    return [
        parameter
        for chunk in chunks
        for parameter in chunk.parameters()
        if (shard_dimension(parameter) is not None or parallel.rank == 0)
        and not (parameter is tied and not first_stage)
    ]


class Accumulation:
    """Forward and backward of a whole model, micro-batch by micro-batch."""

    def __init__(self, model: Gpt, micro_batches: int, segment: Segment) -> None:
        self._model = model
        self._micro_batches = micro_batches
        self._segment = segment

    def step(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """As Pipeline.step: gradients are the mean over micro-batches; the mean loss comes back."""
        losses: list[torch.Tensor] = []
        batches = zip(
            ids.chunk(self._micro_batches), targets.chunk(self._micro_batches), strict=True
        )
        for index, (inputs, wanted) in enumerate(batches):
            tag = f"c0.m{index}"
            with self._segment("forward", tag):
                loss = self._model.mean_loss(self._model(inputs), wanted)
            losses.append(loss.detach())
            with self._segment("backward", tag):
                torch.autograd.backward(loss / self._micro_batches)
        return torch.stack(losses).mean()

    @torch.no_grad()
    def evaluate(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss, forward only; shapes as `step`."""
        with self._segment("forward", "evaluation"):
            return self._model.mean_loss(self._model(ids), targets)
