"""Times how a program's ranks come together and what is compiled, from outside the program.

Joining is torch.distributed's init_process_group. Compilations, and recordings of CUDA graphs, are
told by torch._dynamo.callback, which nothing of ours imports: a program that compiles does.
"""

import functools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic_ns
from typing import Any

import torch
from torch import distributed as dist

from collector.contract.words import StartPart
from workloads.joining.rendezvous import identify
from workloads.sdk.guard import Guard
from workloads.starting import FOLDER_VARIABLE, Starting

_PLACE = "_lockstep_start"
_CALLBACKS = "torch._dynamo.callback"


def follow(environment: Mapping[str, str] = os.environ) -> None:
    """Tell of this process's start from now on, if somebody wants to know it; once a process.

    Raises:
        ValueError: The environment does not say which rank this is.
    """
    folder = environment.get(FOLDER_VARIABLE, "")
    if not folder or hasattr(torch, _PLACE):
        return
    start = TorchStart(Starting(Path(folder), identify(environment).rank))
    start.install()
    setattr(torch, _PLACE, start)


class TorchStart:
    """The marks of one process; its forked children tell nothing."""

    def __init__(self, starting: Starting) -> None:
        self._starting = starting
        self._pid = os.getpid()
        self._guard = Guard()
        self._compiling = 0
        self._registered = False

    def install(self) -> None:
        """Take the places, once."""
        if dist.is_available():
            self._follow_joining()
        self._compiled_later()
        self._starting.measures(StartPart.COMPILE)

    def _follow_joining(self) -> None:
        original = dist.init_process_group

        @functools.wraps(original)
        def init_process_group(*arguments: Any, **named: Any) -> Any:
            if os.getpid() != self._pid or dist.is_initialized():
                return original(*arguments, **named)
            self._guard(self._starting.joins)
            answer = original(*arguments, **named)
            self._guard(self._joined)
            return answer

        for name in ("torch.distributed", "torch.distributed.distributed_c10d",
                     "torch.distributed.device_mesh"):  # fmt: skip
            place = sys.modules.get(name)
            if getattr(place, "init_process_group", None) is original:
                _put(place, "init_process_group", init_process_group)

    def _joined(self) -> None:
        self._starting.joined()
        self._register()

    def _compiled_later(self) -> None:
        """`torch.compile` imports what tells of compilations."""
        original = torch.compile

        @functools.wraps(original)
        def compile(*arguments: Any, **named: Any) -> Any:  # noqa: A001 - as torch names it
            answer = original(*arguments, **named)
            self._guard(self._register)
            return answer

        _put(torch, "compile", compile)
        self._guard(self._register)

    def _register(self) -> None:
        callbacks = sys.modules.get(_CALLBACKS)
        if self._registered or not hasattr(callbacks, "callback_handler"):
            return
        self._registered = True
        handler: Any = callbacks.callback_handler  # type: ignore[union-attr] # as hasattr says
        handler.register_start_callback(self._begins)
        handler.register_end_callback(self._ended)

    def _begins(self, _: object) -> None:
        self._compiling = monotonic_ns()

    def _ended(self, _: object) -> None:
        begun, self._compiling = self._compiling, 0
        if not begun or os.getpid() != self._pid or self._starting.full:
            return
        self._starting.add(StartPart.COMPILE, begun, monotonic_ns())
        self._guard(self._starting.write)


def _put(owner: Any, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)
