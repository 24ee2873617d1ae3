"""Times how a program's ranks come together and what is compiled, from outside the program.

Joining is torch.distributed's init_process_group. Compilations, and the CUDA graphs that Inductor
records, are told by torch._dynamo.callback, which nothing of ours imports: a program that compiles
does.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic_ns
from typing import Any

import torch
from torch import distributed as dist

from lockstep.collector.contract.words import StartPart
from lockstep.workloads.launch.joining.rendezvous import identify
from lockstep.workloads.measure.starting import FOLDER_VARIABLE, FOLLOWER, Starting
from lockstep.workloads.sdk.guard import Call, Guard

_CALLBACKS = "torch._dynamo.callback"
_UTILITIES = "torch._dynamo.utils"


def follow(environment: Mapping[str, str] = os.environ, rank: int | None = None) -> None:
    """Tell of this process's start from now on, if somebody wants to know it; once a process.

    Args:
        rank: Of this process; None = as the environment says.

    Raises:
        ValueError: The environment does not say which rank this is.
    """
    folder = environment.get(FOLDER_VARIABLE, "")
    if not folder or hasattr(torch, FOLLOWER):
        return
    rank = identify(environment).rank if rank is None else rank
    start = TorchStart(Starting(Path(folder), rank))
    start.install()
    setattr(torch, FOLLOWER, start)


class TorchStart:
    """The marks of one process; its forked children tell nothing."""

    def __init__(self, starting: Starting) -> None:
        self._starting = starting
        self._pid = os.getpid()
        self._guard = Guard()
        self._compiling, self._depth = 0, 0
        self._missed = False
        self._begins, self._ended = self._guard.alone(self._begin), self._guard.alone(self._end)

    def install(self) -> None:
        """Take the places, once."""
        if dist.is_available():
            self._follow_joining()
        self._compiled_later()

    def stepped(self) -> None:
        """The first step has ended: that nothing was compiled is known if nothing was missed."""
        if os.getpid() == self._pid:
            self._guard(self._settle)

    def _settle(self) -> None:
        self._register()
        if not self._missed:
            self._starting.measures(StartPart.COMPILE)
        self._take()
        self._starting.write()

    def _follow_joining(self) -> None:
        original = dist.init_process_group
        around = self._guard.around(original, self._joins, self._joined, self._parted)
        for name in ("torch.distributed", "torch.distributed.distributed_c10d",
                     "torch.distributed.device_mesh"):  # fmt: skip
            module = sys.modules.get(name)
            if getattr(module, "init_process_group", None) is original:
                _put(module, "init_process_group", around)

    def _take(self) -> None:
        """This process is the rank: children, which inherit its RANK, are not to tell as it."""
        os.environ.pop(FOLDER_VARIABLE, None)

    def _joins(self, *_: Any, **named: Any) -> bool | None:
        if os.getpid() != self._pid or dist.is_initialized():
            return None
        self._take()
        self._starting.joins()
        return True

    def _joined(self, *_: object) -> None:
        self._starting.joined()
        self._register()

    def _parted(self, _: object) -> None:
        self._starting.parted()

    def _compiled_later(self) -> None:
        """`torch.compile` imports what tells of compilations."""
        _put(torch, "compile", self._guard.around(torch.compile, _always, self._compiles))
        self._guard(self._register)

    def _compiles(self, *_: object) -> None:
        self._register()

    def _register(self) -> None:
        """Again where torch._dynamo.reset() took the callbacks away."""
        handler: Any = getattr(sys.modules.get(_CALLBACKS), "callback_handler", None)
        if handler is not None and self._begins in handler.start_callbacks:
            return
        self._missed = self._missed or _have_compiled()
        if handler is not None:
            self._compiling, self._depth = 0, 0
            handler.register_start_callback(self._begins)
            handler.register_end_callback(self._ended)

    def _begin(self, *_: object) -> None:
        """Before torch 2.8 called with nothing, since then with what is compiled."""
        self._depth += 1
        if self._depth == 1:
            self._compiling = monotonic_ns()

    def _end(self, *_: object) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth or os.getpid() != self._pid or self._starting.full:
            return
        begun, self._compiling = self._compiling, 0
        if not begun:
            self._missed = True
            return
        self._starting.add(StartPart.COMPILE, begun, monotonic_ns())
        self._take()
        self._starting.write()


def _have_compiled() -> bool:
    """Whether torch.compile has compiled anything in this process; reset() does not forget it."""
    counters: Any = getattr(sys.modules.get(_UTILITIES), "counters", {})
    return bool(counters.get("frames", {}).get("total", 0))


def _always(*_: object, **named: object) -> bool:
    return True


def _put(owner: Any, name: str, function: Call) -> None:
    setattr(owner, name, function)
