"""Pipeline parallel by torch.distributed.pipelining, with its transfers and segments recorded."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

from lockstep.workloads.models.configs import ConfigError, GptConfig
from lockstep.workloads.models.gpt import Gpt, Part
from lockstep.workloads.parallel.comm import Collective, Comm, Pending, Segment
from lockstep.workloads.parallel.tensor import TensorParallel


def parts(layers: int, stages: int) -> list[Part]:
    """Layers divided over the stages as evenly as they go, the first stages with the fewer.

    Raises:
        ConfigError: There are more stages than layers.
    """
    if stages > layers:
        raise ConfigError(f"{stages} pipeline stages are more than the model's {layers} layers")
    ends = [layers * stage // stages for stage in range(stages + 1)]
    return [Part(first, last, layers) for first, last in pairwise(ends)]


class Pipeline:
    """The stages of one rank and their schedule: 1F1B, interleaved if the rank has several.

    Args:
        chunks: This rank's stages, in their order: stage = chunk * pp + pipeline rank.
        micro_batch: Sequences in a micro-batch.
        segment: Around each computation; nothing by default.
    """

    def __init__(
        self,
        chunks: Sequence[Gpt],
        parallel: TensorParallel,
        comm: Comm,
        group: dist.ProcessGroup,
        *,
        micro_batches: int,
        micro_batch: int,
        segment: Segment = lambda _name, _tag: nullcontext(),
    ) -> None:
        self._first = group.rank() == 0
        self._last = group.rank() == group.size() - 1
        self._micro_batches = micro_batches
        self._stages = stages = [
            _Stage(
                chunk, index * group.size() + group.rank(), group.size() * len(chunks),
                group, comm, _metadata(chunk, parallel, micro_batch), segment,
            )
            for index, chunk in enumerate(chunks)
        ]  # fmt: skip
        # Scaled in the loss, not afterwards: gradients may be on their way when backward ends.
        self._schedule: Any = (
            Schedule1F1B(stages[0], micro_batches, loss_fn=self._loss, scale_grads=False)
            if len(stages) == 1
            else ScheduleInterleaved1F1B(
                [*stages], micro_batches, loss_fn=self._loss, scale_grads=False
            )
        )

    def step(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
        """Forward and backward of all micro-batches; gradients are the mean over them.

        Args:
            ids: (micro-batches · micro-batch, sequence), equal on all stages of a replica.
            targets: The same shape.

        Returns:
            The mean loss on the last stage, None on the others.
        """
        losses: list[torch.Tensor] = []
        arguments = (ids,) if self._first else ()
        if self._last:
            self._stages[-1].targets = targets.chunk(self._micro_batches)
            self._schedule.step(*arguments, target=targets, losses=losses, return_outputs=False)
            return torch.stack(losses).sum().detach()
        self._schedule.step(*arguments, return_outputs=False)
        return None

    def evaluate(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
        """The mean loss, forward only; shapes and answer as `step`."""
        losses: list[torch.Tensor] = []
        arguments = (ids,) if self._first else ()
        if self._last:
            self._stages[-1].targets = targets.chunk(self._micro_batches)
            self._schedule.eval(*arguments, target=targets, losses=losses, return_outputs=False)
            return torch.stack(losses).sum().detach()
        self._schedule.eval(*arguments, return_outputs=False)
        return None

    def _loss(self, _logits: torch.Tensor, _targets: torch.Tensor) -> torch.Tensor:
        """What the schedule asks for right after each forward pass of the last stage."""
        loss = self._stages[-1].loss
        assert loss is not None
        return loss / self._micro_batches


class _Stage(PipelineStage):
    """A stage whose segments and transfers are recorded.

    Attributes:
        targets: Of each micro-batch, on the last stage.
        loss: Of the latest micro-batch, there; a part of its forward segment.
    """

    def __init__(
        self, chunk: Gpt, index: int, stages: int, group: dist.ProcessGroup, comm: Comm,
        metadata: tuple[torch.Tensor, torch.Tensor], segment: Segment,
    ) -> None:  # fmt: skip
        super().__init__(
            chunk, index, stages, next(chunk.parameters()).device,
            input_args=metadata[0], output_args=metadata[1], group=group,
        )  # fmt: skip
        self.targets: Sequence[torch.Tensor] = ()
        self.loss: torch.Tensor | None = None
        self._model = chunk
        self._chunk = index // group.size()
        self._comm = comm
        self._segment = segment
        self._places: dict[tuple[str, int], Collective] = {}
        self._receiving: dict[tuple[str, int], Pending] = {}

    def forward_one_chunk(self, fwd_chunk_id: int, *arguments: Any, **named: Any) -> Any:
        self._received("forward-recv", fwd_chunk_id)
        with self._segment("forward", self._tag(fwd_chunk_id)):
            output = super().forward_one_chunk(fwd_chunk_id, *arguments, **named)
            if self.is_last:
                self.loss = self._model.mean_loss(output, self.targets[fwd_chunk_id])
            return output

    def backward_one_chunk(self, bwd_chunk_id: int, *arguments: Any, **named: Any) -> Any:
        self._received("backward-recv", bwd_chunk_id)
        with self._segment("backward", self._tag(bwd_chunk_id)):
            return super().backward_one_chunk(bwd_chunk_id, *arguments, **named)

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        return self._recorded("forward-recv", fwd_chunk_id, super().get_fwd_recv_ops(fwd_chunk_id))

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        return self._recorded("backward-recv", bwd_chunk_id, super().get_bwd_recv_ops(bwd_chunk_id))

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        return self._recorded("forward-send", fwd_chunk_id, super().get_fwd_send_ops(fwd_chunk_id))

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        return self._recorded("backward-send", bwd_chunk_id, super().get_bwd_send_ops(bwd_chunk_id))

    def _received(self, op: str, micro_batch: int) -> None:
        pending = self._receiving.pop((op, micro_batch), None)
        if pending is not None:
            pending.wait()

    def _tag(self, micro_batch: int) -> str:
        return f"c{self._chunk}.m{micro_batch}"

    def _recorded(self, op: str, micro_batch: int, ops: list[dist.P2POp]) -> list[dist.P2POp]:
        """The transfers with our own begin in place of torch's, which the schedule then calls.

        On a GPU torch sends several at once and keeps their work for itself. There a receive is
        recorded from here to the computation that needs it, and a send, whose end no stream waits
        for, is not.
        """
        collective = self._places.get((op, micro_batch))
        if collective is None:
            collective = self._comm.collective(op, "pp", self._tag(micro_batch))
            self._places[op, micro_batch] = collective
        if self.device.type != "cpu":
            if op.endswith("-recv") and ops:
                self._receiving[op, micro_batch] = collective.start(lambda: None, ops[0].tensor)
            return ops
        for operation in ops:
            operation.op = partial(_begun, collective, operation.op is dist.isend)
        return ops


def _begun(
    place: Collective, sends: bool, tensor: torch.Tensor, *, group: dist.ProcessGroup, tag: int,
    group_dst: int | None = None, group_src: int | None = None,
) -> Pending:  # fmt: skip
    """What the schedule calls in place of isend and irecv; it takes any callable for a receive."""
    peer = group_src if group_dst is None else group_dst
    begin = (
        partial(dist.isend, tensor, group=group, tag=tag, group_dst=peer)
        if sends
        else partial(dist.irecv, tensor, group=group, tag=tag, group_src=peer)
    )
    return place.start(begin, tensor, peer=peer)


def _metadata(
    chunk: Gpt, parallel: TensorParallel, micro_batch: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the stage takes and gives, so that torch need not ask its neighbours."""
    config = chunk.config
    sequence = config.sequence // parallel.size if parallel.sequence else config.sequence
    hidden = torch.empty(sequence, micro_batch, config.hidden, device="meta", requires_grad=True)
    ids = torch.empty(micro_batch, config.sequence, dtype=torch.int64, device="meta")
    vocabulary = parallel.part(config.vocabulary)
    logits = torch.empty(
        config.sequence, micro_batch, vocabulary, device="meta", requires_grad=True
    )
    return (
        ids if chunk.part.has_embedding else hidden,
        logits if chunk.part.has_output else hidden,
    )


def build(
    config: GptConfig, parallel: TensorParallel, stages: int, rank: int, chunks: int = 1,
    *, recompute: bool = False,
) -> list[Gpt]:  # fmt: skip
    """This pipeline rank's stages of the model.

    Raises:
        ConfigError: There are more stages than layers.
    """
    divided = parts(config.layers, stages * chunks)
    return [
        Gpt(config, parallel, divided[chunk * stages + rank], recompute=recompute)
        for chunk in range(chunks)
    ]
