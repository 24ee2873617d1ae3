"""Tagged collectives over torch.distributed, each recorded with arrival and completion."""

import torch
import torch.distributed as dist

from workloads.recording import StepRecorder
from workloads.ring import GROUP_INDEX, OP_INDEX


class PeerLostError(RuntimeError):
    """A collective failed because another rank is gone."""


class Comm:
    """The collectives of one rank.

    Blocking calls are timed by two clock reads around the call (DESIGN 3.6): on gloo the call
    returns when the operation has completed on this rank.
    """

    def __init__(self, recorder: StepRecorder, groups: dict[str, dist.ProcessGroup]) -> None:
        self._recorder = recorder
        self._groups = groups
        self._sizes = {name: dist.get_world_size(group) for name, group in groups.items()}

    def all_reduce_mean(self, tensor: torch.Tensor, *, op: str, group: str, tag: str) -> None:
        """Average `tensor` over the group, in place.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        self._all_reduce(tensor, dist.ReduceOp.SUM, op, group, tag)
        tensor.div_(self._sizes[group])

    def all_reduce_max(self, value: float, *, op: str, group: str, tag: str) -> float:
        """The largest `value` of the group.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        tensor = torch.tensor([value], dtype=torch.float64)
        self._all_reduce(tensor, dist.ReduceOp.MAX, op, group, tag)
        return float(tensor.item())

    def _all_reduce(
        self, tensor: torch.Tensor, reduction: dist.ReduceOp.RedOpType, op: str, group: str,
        tag: str,
    ) -> None:  # fmt: skip
        writer = self._recorder.writer
        op_index, group_index = OP_INDEX[op], GROUP_INDEX[group]
        size = tensor.numel() * tensor.element_size()
        arrival = writer.begin(op_index, group_index)
        try:
            dist.all_reduce(tensor, reduction, group=self._groups[group])
        except RuntimeError as error:
            raise PeerLostError(f"{op} {tag!r} on group {group}: {error}") from error
        waited = writer.end(op_index, group_index, arrival, size, writer.tag(tag))
        self._recorder.waited(waited)


class GradientBuckets:
    """Averages gradients over the data-parallel group in flat buckets, last layer first."""

    def __init__(self, parameters: list[torch.nn.Parameter], bucket_bytes: int) -> None:
        self._buckets: list[list[torch.nn.Parameter]] = [[]]
        filled = 0
        for parameter in reversed(parameters):
            size = parameter.numel() * parameter.element_size()
            if filled and filled + size > bucket_bytes:
                self._buckets.append([])
                filled = 0
            self._buckets[-1].append(parameter)
            filled += size

    def __len__(self) -> int:
        return len(self._buckets)

    def all_reduce(self, comm: Comm) -> None:
        """Replace every gradient by its mean over the group `dp`."""
        for index, bucket in enumerate(self._buckets):
            gradients = [p.grad for p in bucket if p.grad is not None]
            flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
            comm.all_reduce_mean(flat, op="dp-all-reduce", group="dp", tag=f"grads.{index}")
            offset = 0
            for gradient in gradients:
                count = gradient.numel()
                gradient.copy_(flat[offset : offset + count].view_as(gradient))
                offset += count
