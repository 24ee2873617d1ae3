"""Times what torch.distributed makes the training thread wait for, from outside the program.

On gloo a collective that returned has completed, so waiting is time inside `Work.wait` (which
torch's own blocking calls go through, FSDP2's as well), inside the kernel that functional
collectives wait in (DTensor), inside what broadcasts in C++, and, for DistributedDataParallel, the
time from the end of the backward pass to the end of the last bucket's all-reduce. What waits
elsewhere is found by counting (counts.py), and then the own time of the step is unknown.

NCCL's `Work.wait` does not wait on the host, so there nothing is timed and nothing is known.

While torch.compile traces a program, what stands here stays out of the trace.
"""

import os
import threading
from functools import partial
from time import monotonic_ns
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Reducer
from torch.distributed import ProcessGroup, distributed_c10d

from lockstep.collector.contract.ring import NO_TAG
from lockstep.workloads import recording, ring
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import GROUP_INDEX, OP_INDEX
from lockstep.workloads.sdk import amounts, guard, items, warning
from lockstep.workloads.sdk.coverage import Silence
from lockstep.workloads.sdk.guard import Block, Call, Guard
from lockstep.workloads.sdk.pytorch import buckets, counts, exchanges, models
from lockstep.workloads.sdk.pytorch.buckets import Buckets
from lockstep.workloads.sdk.pytorch.counts import Counts, device_in_use, number, registered
from lockstep.workloads.sdk.pytorch.exchanges import Exchanges
from lockstep.workloads.sdk.pytorch.models import Models
from lockstep.workloads.sdk.pytorch.tracing import untraced

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
        self._exchanges = Exchanges()
        self._apart = Guard()
        """Of what may fail without a step being lost: with whom data is exchanged."""
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
                _put(ProcessGroup, name, self._started(getattr(ProcessGroup, name), name))
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
        os.register_at_fork(after_in_child=partial(self._guard, self.use, None))

    def _keep_out_of_traces(self) -> None:
        untraced(recording, ring, guard, items, amounts, warning)
        untraced(buckets, counts, exchanges, models)
        untraced(recording.StepRecorder, ring.RingWriter, Guard, Block, items.Steps)
        untraced(Counts, Buckets, Exchanges, TorchWaits, Models)
        untraced(models._Hook, buckets.Averaging)

    def use(self, recorder: StepRecorder | None) -> None:
        """Where waiting goes from now on; None = nowhere, and so it is if this fails."""
        self._recorder = None
        self._buckets.use(None)
        if recorder is not None:
            self._counts.restart()
            self._exchanges.restart()
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
        self._inside = False  # if what should have said so failed, the step is lost and no other
        missing = self._counts.missing()
        marked = self._recorder is not None and self._recorder.marked > 0
        silent = self._silence.lasts(broken=marked or bool(self._counts.started))
        if self._recorder is not None:
            self._apart(self._exchanges.step_ended, self._recorder.writer, self._counts.started)
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

    def _timed(self, original: Call) -> Call:
        return self._guard.around(original, self._wait_begins, self._wait_ended, self._lost)

    def _wait_begins(self, work: dist.Work, *_: Any, **named: Any) -> "_Wait | None":
        recorder = self._recorder
        if recorder is None or self._inside:
            return None
        if threading.get_ident() != self._thread:
            self._guard.lose("another thread waits for collectives")
            return None
        return self._arrive(recorder, self._name(work))

    def _polled(self, original: Call) -> Call:
        def after(recorder: StepRecorder, ended: bool) -> None:
            if not ended:
                self._guard.lose("the program asks again and again whether a collective has ended")

        return self._guard.around(original, lambda work: self._recorder, after)

    def _handed_on(self, original: Call) -> Call:
        def before(work: dist.Work) -> None:
            if self._recorder is not None and not self._buckets.reducing:
                self._guard.lose("the program waits for futures of collectives")

        return self._guard.around(original, before)

    def _started(self, original: Call, name: str) -> Call:
        def before(group: ProcessGroup, *given: Any, **named: Any) -> "_Start | None":
            before = None if self._recorder is None else number(group)
            return None if before is None else _Start(group, before, (*given, *named.values()))

        def began(start: _Start, _: Any = None) -> None:
            count = self._counts.account_group(start.group, start.before)
            averaging = self._buckets.reducing
            self._apart(partial(
                self._exchanges.began, name, start.group, start.given, count, averaging=averaging
            ))  # fmt: skip

        return self._guard.around(original, before, began, began)

    def _blocking(self, original: Call, op: str | None) -> Call:
        """A call that returns when the collectives it started have ended."""

        def before(*_: Any, **named: Any) -> "_Wait | None":
            recorder = self._recorder
            if recorder is None or self._inside or threading.get_ident() != self._thread:
                return None
            return self._arrive(recorder, self._alone(op), self._counts.unaccounted())

        def after(wait: _Wait, answer: Any) -> None:
            self._wait_ended(wait, answer)
            self._counts.account_since(wait.before)

        return self._guard.around(original, before, after, self._lost)

    def _time_functional(self) -> None:
        """Functional collectives wait in one kernel, whoever calls it (Functional.cpp).

        It is registered for all backends (CompositeExplicitAutograd), so dispatch still finds it by
        the key of one that is not ours. Calling the kernel itself (`torch.library.get_kernel`)
        would hold the GIL for as long as it waits: no other thread of the program would run, and
        one that a collective needs to end would never.
        """
        op = torch.ops._c10d_functional.wait_tensor.default
        elsewhere = torch._C.DispatchKeySet(torch._C.DispatchKey.QuantizedCPU)

        def before(*_: Any) -> "_Wait | None":
            recorder = self._recorder
            if recorder is None or self._inside or threading.get_ident() != self._thread:
                return None
            before = registered()
            return self._arrive(recorder, None, before) if before else None

        def after(wait: _Wait, answer: Any) -> None:
            self._wait_ended(wait, answer)
            self._counts.account(wait.before - registered())

        library: Any = torch.library.Library
        self._kernels = library("_c10d_functional", "IMPL")  # ends with the last reference to it
        kernel = self._guard.around(
            partial(_redispatched, op, elsewhere), before, after, self._lost
        )
        self._kernels.impl("wait_tensor", kernel, "CPU", with_keyset=True)

    def _arrive(self, recorder: StepRecorder, name: str | None, before: int = 0) -> "_Wait":
        """Shown as open, if it has a name, until it has ended, which a wait that raises never is.

        So the ring says where the rank was lost.
        """
        if recorder.marking:  # the program times it itself
            return _Wait(None, None, 0, before)
        since = monotonic_ns() if name is None else recorder.writer.begin(OP_INDEX[name], _WORLD)
        wait = _Wait(recorder, name, since, before)
        self._inside = True
        return wait

    def _wait_ended(self, wait: "_Wait", _: Any) -> None:
        recorder, name, since = wait.recorder, wait.name, wait.since
        if recorder is None:
            return
        self._inside = False
        if name is None:
            recorder.waited(monotonic_ns() - since)
        else:
            recorder.waited(recorder.writer.end(OP_INDEX[name], _WORLD, since, 0, NO_TAG))

    def _lost(self, wait: "_Wait") -> None:
        if wait.recorder is not None:
            self._inside = False

    def _name(self, work: dist.Work) -> str | None:
        """Of words.OPS, or None where only the waiting is to be counted."""
        try:
            op = OP_TYPES.get(_op_type(work))
        except AttributeError:  # private names of torch, which another version may not have
            return None
        return self._alone(op)

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


class _Start(NamedTuple):
    """A collective that Python starts; `before` is the number of its group, `given` arguments."""

    group: ProcessGroup
    before: int
    given: tuple[Any, ...]


class _Wait(NamedTuple):
    """A wait under way; `before` counts collectives as it began.

    The program times those without a recorder itself.
    """

    recorder: StepRecorder | None
    name: str | None
    since: int
    before: int


def _redispatched(op: Any, elsewhere: Any, _: Any, tensor: torch.Tensor) -> Any:
    try:
        return op.redispatch(elsewhere, tensor)
    except BaseException as error:
        error.__traceback__ = None  # without us there would be no Python below the dispatcher
        raise


def _op_type(work: Any) -> int:
    """c10d::OpType as a number; torch's own types do not know the method."""
    kind: int = work._get_op_type()
    return kind


def _put(owner: Any, name: str, function: Call) -> None:
    setattr(owner, name, function)
