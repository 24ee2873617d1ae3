"""Times what torch.distributed makes the training thread wait for, from outside the program.

On gloo a collective that returned has completed, so waiting is time inside `Work.wait` (which
torch's own blocking calls go through, FSDP2's as well) and, for DistributedDataParallel, the time
from the last gradient bucket to the end of its all-reduce. DistributedDataParallel's reducer waits
inside C++; a communication hook, which averages exactly as the reducer does, tells its times
(torch/csrc/distributed/c10d/reducer.cpp).

NCCL's `Work.wait` does not wait on the host, so nothing is recorded there.
"""

import os
import threading
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel

from collector.contract.ring import NO_TAG
from workloads.recording import StepRecorder
from workloads.ring import GROUP_INDEX, OP_INDEX
from workloads.sdk.torch_buckets import Buckets
from workloads.sdk.warning import warn

OP_TYPES: dict[int, str] = {
    0: "world-broadcast",
    1: "world-all-reduce",
    4: "params-all-gather",
    5: "params-all-gather",
    9: "grads-reduce-scatter",
    15: "world-barrier",
    16: "grads-reduce-scatter",
}
"""c10d::OpType (torch/csrc/distributed/c10d/Types.hpp) -> words.OPS; of others only the waiting."""

_WORLD = GROUP_INDEX["world"]


class TorchWaits:
    """The waiting of one thread in torch.distributed, as its StepRecorder's waiting.

    Args:
        willing: Whether models may still be given our hook.
    """

    def __init__(self, willing: Callable[[], bool] = lambda: True) -> None:
        self._recorder: StepRecorder | None = None
        self._willing = willing
        self._thread = threading.get_ident()
        self._buckets = Buckets()
        self._groups = 0
        self._one_group = True
        self._inside = False

    def install(self) -> None:
        """Take the places, once."""
        work = distributed_c10d.Work
        work.wait = self._timed(work.wait)  # type: ignore[method-assign]
        self._adopt_models()
        os.register_at_fork(after_in_child=self._forget)

    def use(self, recorder: StepRecorder | None) -> None:
        """Where waiting goes from now on; None = nowhere."""
        self._recorder = recorder
        self._buckets.use(recorder)

    def settle(self) -> None:
        """Close what has ended; to be called before a step ends."""
        self._buckets.settle()

    def _forget(self) -> None:
        """In a forked child: its waiting is not the rank's."""
        self.use(None)

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: dist.Work, *arguments: Any, **named: Any) -> Any:
            recorder = self._recorder
            mine = threading.get_ident() == self._thread and not self._inside
            if recorder is None or not mine or not on_host():
                return original(work, *arguments, **named)
            return self._wait(recorder, work, original, *arguments, **named)

        return wait

    def _wait(
        self,
        recorder: StepRecorder,
        work: dist.Work,
        original: Callable[..., Any],
        *rest: Any,
        **named: Any,
    ) -> Any:
        name = self._name(work)
        self._inside = True
        try:
            if name is None:
                since = monotonic_ns()
                answer = original(work, *rest, **named)
                recorder.waited(monotonic_ns() - since)
                return answer
            writer, op = recorder.writer, OP_INDEX[name]
            since = writer.begin(op, _WORLD)
            answer = original(work, *rest, **named)
            recorder.waited(writer.end(op, _WORLD, since, 0, NO_TAG))
            return answer
        finally:
            self._inside = False

    def _name(self, work: dist.Work) -> str | None:
        """Of words.OPS, or None where only the waiting is to be counted.

        Only with one process group do all ranks count the same operations.
        """
        try:
            return OP_TYPES.get(_op_type(work)) if self._is_one_group() else None
        except AttributeError:  # private names of torch, which another version may not have
            return None

    def _is_one_group(self) -> bool:
        """Whether every process group there is holds all ranks."""
        groups = distributed_c10d._world.pg_map
        if len(groups) != self._groups:
            self._groups = len(groups)
            world = dist.get_world_size()
            self._one_group = all(group.size() == world for group in groups)
        return self._one_group

    def _adopt_models(self) -> None:
        """Every DistributedDataParallel made from now on, before its first forward pass.

        Not when it is made: the program may still register a hook of its own, and there is room
        for one.
        """
        original = DistributedDataParallel.__init__

        def initialize(model: DistributedDataParallel, *arguments: Any, **named: Any) -> None:
            original(model, *arguments, **named)

            def first(module: torch.nn.Module, inputs: Any) -> None:
                handle.remove()
                self._adopt(model)

            handle = model.register_forward_pre_hook(first)

        setattr(DistributedDataParallel, "__init__", initialize)  # noqa: B010 - for the type checker

    def _adopt(self, model: DistributedDataParallel) -> None:
        try:
            devices = {parameter.device.type for parameter in model.parameters()}
            if model._comm_hooks or devices != {"cpu"} or not (on_host() and self._willing()):
                return
            model.register_comm_hook(model.process_group, self._buckets.hook)
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            warn(f"DistributedDataParallel's waiting is not timed: {error}")


def _op_type(work: Any) -> int:
    """c10d::OpType as a number; torch's own types do not know the method."""
    kind: int = work._get_op_type()
    return kind


def on_host() -> bool:
    """Whether collectives end on the host: gloo and nothing else."""
    return dist.is_initialized() and dist.get_backend() == "gloo"
