"""Times what torch.distributed makes the training thread wait for, from outside the program.

On gloo a collective that returned has completed, so waiting is time inside `Work.wait` (which
torch's own blocking calls go through, FSDP2's as well), inside the kernel that functional
collectives wait in (DTensor), inside what broadcasts in C++, and, for DistributedDataParallel, the
time from the end of the backward pass to the end of the last bucket's all-reduce. What waits
elsewhere is found by counting (torch_counts.py), and then the own time of the step is unknown.

NCCL's `Work.wait` does not wait on the host, so there nothing is timed and nothing is known.

While torch.compile traces a program, what stands here stays out of the trace.
"""

import os
import threading
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Reducer
from torch.distributed import ProcessGroup, distributed_c10d

from collector.contract.ring import NO_TAG
from workloads import recording, ring
from workloads.recording import StepRecorder
from workloads.ring import GROUP_INDEX, OP_INDEX
from workloads.sdk import torch_buckets, torch_counts, torch_data, torch_models
from workloads.sdk.torch_buckets import Buckets
from workloads.sdk.torch_counts import Counts, device_in_use, number, registered
from workloads.sdk.torch_data import TorchData
from workloads.sdk.torch_models import Models
from workloads.sdk.torch_tracing import untraced

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

STARTS = (
    "_allgather_base", "_end_coalescing", "_reduce_scatter_base", "all_gather_single",
    "all_gather_single_coalesced", "all_to_all_single", "allgather", "allgather_coalesced",
    "allgather_into_tensor_coalesced", "allreduce", "allreduce_coalesced", "alltoall",
    "alltoall_base", "barrier", "broadcast", "gather", "recv", "recv_anysource", "reduce",
    "reduce_scatter", "reduce_scatter_single", "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced", "scatter", "send",
)  # fmt: skip
"""Methods of ProcessGroup by which Python starts collectives; each gives the Work to wait for."""

SILENT_STEPS = 100
"""After so many steps without a collective, ranks that train together do so by other means."""

_WORLD = GROUP_INDEX["world"]
_PLACE = "_lockstep_waits"
_VERSION = 1


def of_process() -> "TorchWaits":
    """The one of this process, installed now if it was not.

    `lockstep run --exec` has our modules apart from those that the program imports; both share it.
    """
    there: TorchWaits | None = getattr(distributed_c10d, _PLACE, None)
    if there is not None and getattr(there, "version", None) == _VERSION:
        return there
    waits = TorchWaits()
    waits.install()
    setattr(distributed_c10d, _PLACE, waits)
    return waits


class TorchWaits:
    """The waiting of the training thread in torch.distributed, as its StepRecorder's waiting."""

    version = _VERSION
    """Of what `use`, `leave`, `settle`, `in_use` and `untimed` do."""

    def __init__(self) -> None:
        self._recorder: StepRecorder | None = None
        self._thread = threading.get_ident()
        self._counts = Counts()
        self._buckets = Buckets(self._counts)
        self._data = TorchData()
        self._groups = 0
        self._one_group = True
        self._inside = False
        self._why = ""
        self._silent = SILENT_STEPS
        self._kernels: Any = None

    def install(self) -> None:
        """Take the places, once."""
        work = distributed_c10d.Work
        _put(work, "wait", self._timed(work.wait))
        _put(work, "synchronize", self._timed(work.synchronize))
        _put(work, "is_completed", self._polled(work.is_completed))
        _put(work, "get_future", self._handed_on(work.get_future))
        for name in STARTS:
            if hasattr(ProcessGroup, name):
                _put(ProcessGroup, name, self._started(getattr(ProcessGroup, name)))
        for owner, name, op in (
            (ProcessGroup, "monitored_barrier", "world-barrier"),
            (dist, "_broadcast_coalesced", "world-broadcast"),
            (dist, "_verify_params_across_processes", None),
            (Reducer, "_rebuild_buckets", None),
        ):
            _put(owner, name, self._blocking(getattr(owner, name), op))
        self._time_functional()
        models = Models(self._buckets, self._recording, self._lose, lambda work: work.wait())
        models.install()
        self._keep_out_of_traces()
        self._data.install()
        os.register_at_fork(after_in_child=lambda: self.use(None))

    def _keep_out_of_traces(self) -> None:
        untraced(recording, ring, torch_buckets, torch_counts, torch_data, torch_models)
        untraced(recording.StepRecorder, ring.RingWriter, Counts, Buckets, TorchData, TorchWaits)
        untraced(Models, torch_models._Hook)

    def use(self, recorder: StepRecorder | None) -> None:
        """Where waiting goes from now on; None = nowhere."""
        self._recorder = recorder
        self._buckets.use(recorder)
        self._data.use(recorder)
        if recorder is not None:
            self._thread = threading.get_ident()
            self._counts.restart()
            self._why = ""

    def leave(self, recorder: StepRecorder) -> None:
        """Waiting goes nowhere, unless it goes to another one by now."""
        if self._recorder is recorder:
            self.use(None)

    def settle(self) -> None:
        """Close what has ended; to be called before a step ends."""
        self._buckets.settle()

    def in_use(self) -> bool:
        """Whether the ranks meet in process groups of torch."""
        return dist.is_initialized()

    def untimed(self) -> str:
        """Why this rank's waiting since the last call is not known; empty if it is."""
        why, self._why = self._why, ""
        missing = self._counts.missing()
        self._silent = 0 if self._counts.started else self._silent + 1
        if threading.get_ident() != self._thread:
            self._thread = threading.get_ident()
            return "another thread trains now"
        if device_in_use():
            return "collectives on a device are not timed"
        if self._silent > SILENT_STEPS and dist.get_world_size() > 1:
            return "no collective of torch.distributed was seen"
        return why or missing

    def _recording(self) -> bool:
        return self._recorder is not None

    def _lose(self, why: str) -> None:
        self._why = self._why or why

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: dist.Work, *arguments: Any, **named: Any) -> Any:
            recorder = self._recorder
            if recorder is None or self._inside or torch.compiler.is_compiling():
                return original(work, *arguments, **named)
            if threading.get_ident() != self._thread:
                self._lose("another thread waits for collectives")
                return original(work, *arguments, **named)
            return self._wait(recorder, self._name(work), original, work, *arguments, **named)

        return wait

    def _polled(self, original: Callable[..., bool]) -> Callable[..., bool]:
        def is_completed(work: dist.Work) -> bool:
            answer = original(work)
            if not (answer or self._recorder is None or torch.compiler.is_compiling()):
                self._lose("the program asks again and again whether a collective has ended")
            return answer

        return is_completed

    def _handed_on(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_future(work: dist.Work) -> Any:
            if not (
                self._recorder is None or self._buckets.reducing or torch.compiler.is_compiling()
            ):
                self._lose("the program waits for futures of collectives")
            return original(work)

        return get_future

    def _started(self, original: Callable[..., Any]) -> Callable[..., Any]:
        counts = self._counts

        def start(group: ProcessGroup, *arguments: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(group, *arguments, **named)
            before = number(group)
            try:
                return original(group, *arguments, **named)
            finally:
                counts.account(number(group) - before)

        return start

    def _blocking(self, original: Callable[..., Any], op: str | None) -> Callable[..., Any]:
        """A call that returns when the collectives it started have ended."""

        def call(*arguments: Any, **named: Any) -> Any:
            recorder = self._recorder
            if torch.compiler.is_compiling() or recorder is None or self._inside:
                return original(*arguments, **named)
            if threading.get_ident() != self._thread:
                return original(*arguments, **named)
            before = self._counts.total() - self._counts.accounted()
            answer = self._wait(recorder, self._alone(op), original, *arguments, **named)
            self._counts.account(self._counts.total() - self._counts.accounted() - before)
            return answer

        return call

    def _time_functional(self) -> None:
        """Functional collectives wait in one kernel, whoever calls it (Functional.cpp)."""
        kernel = torch.library.get_kernel("_c10d_functional::wait_tensor", "CPU")

        def wait_tensor(keys: Any, tensor: torch.Tensor) -> Any:
            recorder, before = self._recorder, registered()
            mine = threading.get_ident() == self._thread
            if recorder is None or self._inside or not mine or not before:
                return kernel.call_boxed(keys, tensor)
            answer = self._wait(recorder, None, kernel.call_boxed, keys, tensor)
            self._counts.account(before - registered())
            return answer

        library: Any = torch.library.Library
        self._kernels = library("_c10d_functional", "IMPL")  # ends with the last reference to it
        self._kernels.impl("wait_tensor", wait_tensor, "CPU", with_keyset=True)

    def _wait(
        self, recorder: StepRecorder, name: str | None, original: Callable[..., Any],
        *arguments: Any, **named: Any,
    ) -> Any:  # fmt: skip
        if recorder.marking:  # the program times it itself
            return original(*arguments, **named)
        self._inside = True
        try:
            if name is None:
                since = monotonic_ns()
                answer = original(*arguments, **named)
                recorder.waited(monotonic_ns() - since)
                return answer
            writer, op = recorder.writer, OP_INDEX[name]
            since = writer.begin(op, _WORLD)
            answer = original(*arguments, **named)
            recorder.waited(writer.end(op, _WORLD, since, 0, NO_TAG))
            return answer
        finally:
            self._inside = False

    def _name(self, work: dist.Work) -> str | None:
        """Of words.OPS, or None where only the waiting is to be counted."""
        try:
            return self._alone(OP_TYPES.get(_op_type(work)))
        except AttributeError:  # private names of torch, which another version may not have
            return None

    def _alone(self, name: str | None) -> str | None:
        """The name, if every process group there is holds all ranks.

        Only then do all ranks count the same operations.
        """
        groups = distributed_c10d._world.pg_map
        if name is not None and len(groups) != self._groups:
            self._groups = len(groups)
            world = dist.get_world_size()
            self._one_group = all(group.size() == world for group in groups)
        return name if self._one_group else None


def _op_type(work: Any) -> int:
    """c10d::OpType as a number; torch's own types do not know the method."""
    kind: int = work._get_op_type()
    return kind


def _put(owner: Any, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)
