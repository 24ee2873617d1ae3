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
from torch.compiler import is_compiling
from torch.distributed import ProcessGroup, distributed_c10d

from collector.contract.ring import NO_TAG
from workloads import recording, ring
from workloads.recording import StepRecorder
from workloads.ring import GROUP_INDEX, OP_INDEX
from workloads.sdk import torch_buckets, torch_counts, torch_models
from workloads.sdk.guard import Guard
from workloads.sdk.silence import Silence
from workloads.sdk.torch_buckets import Buckets
from workloads.sdk.torch_counts import Counts, device_in_use, number, registered
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
        self._guard = Guard()
        self._counts = Counts()
        self._buckets = Buckets(self._counts, self._guard)
        self._silence = Silence()
        self._groups = 0
        self._one_group = True
        self._inside = False
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
        models = Models(self._buckets, self._recording, self._guard, lambda work: work.wait())
        models.install()
        self._keep_out_of_traces()
        os.register_at_fork(after_in_child=lambda: self.use(None))

    def _keep_out_of_traces(self) -> None:
        untraced(recording, ring, torch_buckets, torch_counts, torch_models)
        untraced(recording.StepRecorder, ring.RingWriter, Counts, Buckets, Guard, TorchWaits)
        untraced(Models, torch_models._Hook)

    def use(self, recorder: StepRecorder | None) -> None:
        """Where waiting goes from now on; None = nowhere, and so it is if this fails."""
        self._recorder = None
        self._buckets.use(None)
        if recorder is not None:
            self._counts.restart()
            self._guard.taken()
            self._thread = threading.get_ident()
            self._buckets.use(recorder)
            self._recorder = recorder

    def leave(self, recorder: StepRecorder) -> None:
        """Waiting goes nowhere, unless it goes to another one by now."""
        if self._recorder is recorder:
            self.use(None)

    def settle(self) -> None:
        """Close what has ended; to be called before a step ends."""
        self._guard(self._buckets.settle)

    def in_use(self) -> bool:
        """Whether the ranks meet in process groups of torch."""
        return dist.is_initialized()

    def untimed(self) -> str:
        """Why this rank's waiting since the last call is not known; empty if it is."""
        why = self._guard.taken()
        missing = self._counts.missing()
        marked = self._recorder is not None and self._recorder.marked > 0
        silent = self._silence.lasts(broken=marked or self._counts.started > 0)
        if threading.get_ident() != self._thread:
            self._thread = threading.get_ident()
            return "another thread trains now"
        if device_in_use():
            return "collectives on a device are not timed"
        if silent and dist.get_world_size() > 1:
            return why or missing or "no collective of torch.distributed was seen"
        return why or missing

    def _recording(self) -> bool:
        return self._recorder is not None

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: dist.Work, *arguments: Any, **named: Any) -> Any:
            recorder = self._recorder
            if is_compiling() or recorder is None or self._inside:
                return original(work, *arguments, **named)
            if threading.get_ident() != self._thread:
                self._guard.lose("another thread waits for collectives")
                return original(work, *arguments, **named)
            name = self._guard(self._name, work)
            return self._wait(recorder, name, original, work, *arguments, **named)

        return wait

    def _polled(self, original: Callable[..., bool]) -> Callable[..., bool]:
        def is_completed(work: dist.Work) -> bool:
            answer = original(work)
            if not (answer or is_compiling() or self._recorder is None):
                self._guard.lose("the program asks again and again whether a collective has ended")
            return answer

        return is_completed

    def _handed_on(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_future(work: dist.Work) -> Any:
            if not (is_compiling() or self._recorder is None or self._buckets.reducing):
                self._guard.lose("the program waits for futures of collectives")
            return original(work)

        return get_future

    def _started(self, original: Callable[..., Any]) -> Callable[..., Any]:
        counts = self._counts

        def start(group: ProcessGroup, *arguments: Any, **named: Any) -> Any:
            if is_compiling() or self._recorder is None:
                return original(group, *arguments, **named)
            before = self._guard(number, group)
            try:
                return original(group, *arguments, **named)
            finally:
                if before is not None:
                    self._guard(counts.account_group, group, before)

        return start

    def _blocking(self, original: Callable[..., Any], op: str | None) -> Callable[..., Any]:
        """A call that returns when the collectives it started have ended."""

        def call(*arguments: Any, **named: Any) -> Any:
            recorder = self._recorder
            if is_compiling() or recorder is None or self._inside:
                return original(*arguments, **named)
            if threading.get_ident() != self._thread:
                return original(*arguments, **named)
            before = self._guard(self._counts.unaccounted)
            name = self._guard(self._alone, op)
            answer = self._wait(recorder, name, original, *arguments, **named)
            if before is not None:
                self._guard(self._counts.account_since, before)
            return answer

        return call

    def _time_functional(self) -> None:
        """Functional collectives wait in one kernel, whoever calls it (Functional.cpp).

        It is registered for all backends (CompositeExplicitAutograd), so dispatch still finds it by
        the key of one that is not ours. Calling the kernel itself (`torch.library.get_kernel`)
        would hold the GIL for as long as it waits: no other thread of the program would run, and
        one that a collective needs to end would never.
        """
        op = torch.ops._c10d_functional.wait_tensor.default
        elsewhere = torch._C.DispatchKeySet(torch._C.DispatchKey.QuantizedCPU)

        def kernel(tensor: torch.Tensor) -> Any:
            return op.redispatch(elsewhere, tensor)

        def wait_tensor(_: Any, tensor: torch.Tensor) -> Any:
            recorder = self._recorder
            mine = threading.get_ident() == self._thread
            if recorder is None or self._inside or not mine:
                return kernel(tensor)
            before = self._guard(registered)
            if not before:
                return kernel(tensor)
            answer = self._wait(recorder, None, kernel, tensor)
            self._guard(lambda: self._counts.account(before - registered()))
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
        since = self._guard(_arrive, recorder, name)
        self._inside = True
        try:
            answer = original(*arguments, **named)
        finally:
            self._inside = False
        if since is not None:
            self._guard(_leave, recorder, name, since)
        return answer

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


def _arrive(recorder: StepRecorder, name: str | None) -> int:
    """The time; shown as open, if it has a name, until `_leave`, which a wait that raises never is.

    So the ring says where the rank was lost.
    """
    return monotonic_ns() if name is None else recorder.writer.begin(OP_INDEX[name], _WORLD)


def _leave(recorder: StepRecorder, name: str | None, since: int) -> None:
    if name is None:
        recorder.waited(monotonic_ns() - since)
    else:
        recorder.waited(recorder.writer.end(OP_INDEX[name], _WORLD, since, 0, NO_TAG))


def _op_type(work: Any) -> int:
    """c10d::OpType as a number; torch's own types do not know the method."""
    kind: int = work._get_op_type()
    return kind


def _put(owner: Any, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)
