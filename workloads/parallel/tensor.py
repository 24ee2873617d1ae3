"""Tensor and sequence parallel by hand: regions, linear layers, embedding and loss.

Names and places of the collectives are Megatron-LM's (arXiv 1909.08053 and 2205.05198). Hidden
states are (sequence, batch, hidden); with sequence parallel each rank holds its part of the
sequence outside attention and feed-forward. On one rank every region is the identity.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from lockstep.workloads.parallel.comm import Collective, Comm


@dataclass(frozen=True, slots=True)
class TensorParallel:
    """This rank's part in its tensor-parallel group.

    Attributes:
        comm: None on one rank.
        sequence: Whether norms and residuals are split along the sequence.
    """

    size: int = 1
    rank: int = 0
    sequence: bool = False
    comm: Comm | None = None

    def collective(self, op: str, tag: str) -> Collective | None:
        """A place that communicates; None on one rank."""
        return self.comm.collective(op, "tp", tag) if self.comm and self.size > 1 else None

    def part(self, size: int) -> int:
        """This rank's share of a dimension that divides."""
        return size // self.size


SERIAL = TensorParallel()


class _Copy(torch.autograd.Function):
    """Identity forward, all-reduce backward (Megatron's f)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, backward: Collective) -> torch.Tensor:
        ctx.backward_collective = backward
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        grad = grads[0].contiguous()
        ctx.backward_collective.all_reduce(grad)
        return grad, None


class _Reduce(torch.autograd.Function):
    """All-reduce forward, identity backward (Megatron's g)."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: torch.Tensor, forward: Collective) -> torch.Tensor:
        x = x.contiguous()
        forward.all_reduce(x)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grads[0], None


class _Gather(torch.autograd.Function):
    """All-gather along the sequence forward, reduce-scatter backward."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, forward: Collective, backward: Collective
    ) -> torch.Tensor:
        ctx.backward_collective = backward
        whole = x.new_empty((x.shape[0] * forward.size, *x.shape[1:]))
        forward.all_gather(whole, x.contiguous())
        return whole

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _scattered(grads[0], ctx.backward_collective), None, None


class _ReduceScatter(torch.autograd.Function):
    """Reduce-scatter along the sequence forward, all-gather backward."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, forward: Collective, backward: Collective
    ) -> torch.Tensor:
        ctx.backward_collective = backward
        return _scattered(x, forward)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        collective: Collective = ctx.backward_collective
        whole = grads[0].new_empty((grads[0].shape[0] * collective.size, *grads[0].shape[1:]))
        collective.all_gather(whole, grads[0].contiguous())
        return whole, None, None


def _scattered(whole: torch.Tensor, collective: Collective) -> torch.Tensor:
    part = whole.new_empty((whole.shape[0] // collective.size, *whole.shape[1:]))
    collective.reduce_scatter(part, whole.contiguous())
    return part


class Enter(nn.Module):
    """Into the tensor-parallel region: every rank gets the whole sequence."""

    def __init__(self, parallel: TensorParallel, tag: str) -> None:
        super().__init__()
        self._sequence = parallel.sequence
        self._gather = parallel.collective("tp-all-gather", tag) if parallel.sequence else None
        backward = "tp-reduce-scatter" if parallel.sequence else "tp-all-reduce"
        self._backward = parallel.collective(backward, f"{tag}.grad")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Hidden states of the whole sequence."""
        if self._backward is None:
            return x
        if self._gather is not None:
            return _apply(_Gather, x, self._gather, self._backward)
        return _apply(_Copy, x, self._backward)


class Leave(nn.Module):
    """Out of the tensor-parallel region: partial sums of all ranks become one."""

    def __init__(self, parallel: TensorParallel, tag: str) -> None:
        super().__init__()
        forward = "tp-reduce-scatter" if parallel.sequence else "tp-all-reduce"
        self._forward = parallel.collective(forward, tag)
        self._gather = (
            parallel.collective("tp-all-gather", f"{tag}.grad") if parallel.sequence else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sums over the group; with sequence parallel this rank's part of the sequence."""
        if self._forward is None:
            return x
        if self._gather is not None:
            return _apply(_ReduceScatter, x, self._forward, self._gather)
        return _apply(_Reduce, x, self._forward)


class ColumnParallel(nn.Module):
    """A linear layer whose outputs are split over the ranks; `stacked` layers share one input.

    Weight (outputs / size, inputs); of several layers (stacked, outputs / size, inputs), so that
    one product makes them all.
    """

    def __init__(
        self, inputs: int, outputs: int, parallel: TensorParallel, *, bias: bool, stacked: int = 1
    ) -> None:
        super().__init__()
        shape = [parallel.part(outputs)] if stacked == 1 else [stacked, parallel.part(outputs)]
        self._split = len(shape) - 1
        self.weight = sharded(nn.Parameter(torch.empty(*shape, inputs)), self._split)
        self.bias = sharded(nn.Parameter(torch.empty(shape)), self._split) if bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, inputs) to (…, stacked · outputs / size)."""
        if self._split == 0:
            return functional.linear(x, self.weight, self.bias)
        bias = None if self.bias is None else self.bias.flatten()
        return functional.linear(x, self.weight.flatten(0, 1), bias)


class RowParallel(nn.Module):
    """A linear layer whose inputs are split over the ranks; its bias is added once, after."""

    def __init__(
        self, inputs: int, outputs: int, parallel: TensorParallel, tag: str, *, bias: bool
    ) -> None:
        super().__init__()
        self.weight = sharded(nn.Parameter(torch.empty(outputs, parallel.part(inputs))), 1)
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        self.leave = Leave(parallel, tag)
        self._alone = parallel.size == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, inputs / size) to (…, outputs)."""
        if self._alone:
            return functional.linear(x, self.weight, self.bias)
        x = self.leave(functional.linear(x, self.weight))
        return x if self.bias is None else x + self.bias


class VocabularyParallelEmbedding(nn.Module):
    """An embedding whose rows are split over the ranks."""

    def __init__(self, vocabulary: int, hidden: int, parallel: TensorParallel, tag: str) -> None:
        super().__init__()
        self._rows = parallel.part(vocabulary)
        self._first = parallel.rank * self._rows
        self._whole = parallel.size == 1
        self.weight = sharded(nn.Parameter(torch.empty(self._rows, hidden)), 0)
        self.leave = Leave(parallel, tag)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Token ids (sequence, batch) to hidden states."""
        if self._whole:
            return functional.embedding(ids, self.weight)
        local = ids - self._first
        foreign = (local < 0) | (local >= self._rows)
        embedded = functional.embedding(local.masked_fill(foreign, 0), self.weight)
        partial: torch.Tensor = self.leave(embedded.masked_fill(foreign.unsqueeze(-1), 0.0))
        return partial


class _CrossEntropy(torch.autograd.Function):
    """Cross entropy over logits split by vocabulary: two all-reduces, none backward."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, targets: torch.Tensor, first: int,
        largest: Collective, sums: Collective,
    ) -> torch.Tensor:  # fmt: skip
        logits = logits.float()
        peak = logits.max(dim=-1).values
        largest.all_reduce(peak, dist.ReduceOp.MAX)
        shifted = logits - peak.unsqueeze(-1)
        local = targets - first
        foreign = (local < 0) | (local >= logits.shape[-1])
        local = local.masked_fill(foreign, 0)
        wanted = shifted.gather(-1, local.unsqueeze(-1)).squeeze(-1).masked_fill(foreign, 0.0)
        exponents = shifted.exp_()
        both = torch.stack((wanted, exponents.sum(dim=-1)))
        sums.all_reduce(both)
        softmax = exponents.div_(both[1].unsqueeze(-1))
        ctx.save_for_backward(softmax, local, foreign)
        return both[1].log() - both[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        softmax, local, foreign = ctx.saved_tensors
        grad = softmax.scatter_add(-1, local.unsqueeze(-1), (foreign.float() - 1.0).unsqueeze(-1))
        return grad.mul_(grads[0].unsqueeze(-1)), None, None, None, None


class VocabularyParallelLoss(nn.Module):
    """Mean cross entropy over logits whose vocabulary is split over the ranks."""

    def __init__(self, parallel: TensorParallel) -> None:
        super().__init__()
        self._rank = parallel.rank
        self._largest = parallel.collective("tp-all-reduce", "loss.max")
        self._sums = parallel.collective("tp-all-reduce", "loss.sum")

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Logits (sequence, batch, vocabulary / size) and ids (sequence, batch) to a scalar."""
        if self._largest is None or self._sums is None:
            return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        first = self._rank * logits.shape[-1]
        loss = _apply(_CrossEntropy, logits, targets, first, self._largest, self._sums)
        return loss.mean()


def sharded(parameter: nn.Parameter, dimension: int) -> nn.Parameter:
    """Mark a parameter as this rank's part, split along a dimension."""
    parameter.shard_dimension = dimension  # type: ignore[attr-defined]
    return parameter


def shard_dimension(parameter: nn.Parameter) -> int | None:
    """The dimension along which a parameter is split over the group; None = every rank has it."""
    dimension: int | None = getattr(parameter, "shard_dimension", None)
    return dimension


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> torch.Tensor:
    result: torch.Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return result
