"""Looks which functions of ours run in a program, and makes one of them raise at one of its calls.

By a trace function, which CPython calls as a frame begins: what that raises, the frame raises.
"""

import os
import struct
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[4] / "lockstep"
"""Under this name all of it is imported; the folders are links in a checkout."""
OURS = tuple(f"{ROOT / part}/" for part in ("workloads", "collector"))
PYTHON = f"{Path(os.__file__).parent}/"
GUARDS = (
    "workloads/sdk/guard.py", "workloads/sdk/items.py", "workloads/sdk/recorder.py",
    "workloads/sdk/interface.py",
)  # fmt: skip
"""Files whose frames may be called by the program, and hold what may not fail."""
FOR_THE_PROGRAM = {
    "Averaging.__call__": "averages gradients in the reducer's place",
    "_first": "likewise",
    "_noting.<locals>.note": "hands on what a hook of the program's computes",
    "_Hook.call": "calls the hook that averages",
    "_redispatched": "calls the kernel that waits",
    "Models._follow_hooks.<locals>.register_comm_hook": "in the place of torch's own",
    "Models._follow_hooks.<locals>.register_builtin": "likewise",
    "Heartbeat._run": "the helper thread itself, which catches what its beats raise",
}
"""What is the program's own work and done by us: it raises what torch's own would."""
ERRORS = (
    RuntimeError, MemoryError, OSError, ValueError, struct.error, RecursionError, StopIteration,
    AttributeError, AssertionError, KeyError, TimeoutError, UnicodeError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """A call of a function of ours: the file within the tree, its name, and which call of it."""

    file: str
    name: str
    call: int

    @property
    def guarded(self) -> bool:
        """Whether an exception there must not reach the program."""
        return self.file not in GUARDS and self.name not in FOR_THE_PROGRAM


class Look:
    """Counts the calls of our functions from now on; the point's raises the error.

    Attributes:
        calls: By (file, name).
        entered: Those that were called by a function that is not ours.
        raised: Whether the error was raised.
    """

    def __init__(self, point: Point | None = None, error: type[Exception] = RuntimeError) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.entered: set[tuple[str, str]] = set()
        self.raised = False
        self._point, self._error = point, error

    def begin(self) -> None:
        """In this thread, and in those that Python starts from now on."""
        threading.settrace(self._called)
        sys.settrace(self._called)

    def end(self) -> None:
        """In this thread."""
        threading.settrace(None)  # type: ignore[arg-type]
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(OURS):
            return
        what = code.co_filename.removeprefix(f"{ROOT}/"), code.co_qualname
        if code.co_name == "<module>":
            return
        self.calls[what] += 1
        if not _called_by_us(frame):
            self.entered.add(what)
        point = self._point
        if point is not None and not self.raised and point == Point(*what, self.calls[what]):
            self.raised = True
            raise self._error("injected")


def _called_by_us(frame: FrameType) -> bool:
    """Whether a function of ours called it, or called what of Python's own did."""
    caller = frame.f_back
    while caller is not None and _of_python(caller.f_code.co_filename):
        caller = caller.f_back
    return caller is not None and caller.f_code.co_filename.startswith(OURS)


def _of_python(file: str) -> bool:
    return file.startswith("<") or (file.startswith(PYTHON) and "site-packages" not in file)
