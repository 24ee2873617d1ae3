"""Whose code a call is, and how it is told."""

import re
from collections.abc import Sequence
from enum import IntEnum

from lockstep.collector.contract.stacks import Frame, Stacks, Thread


class Owner(IntEnum):
    """Whose code a frame is; of a stack the smallest of these names the line to look at."""

    PROGRAM = 0
    INSTALLED = 1
    STANDARD = 2
    NATIVE = 3


_INSTALLED = re.compile(r"(?:.*/)?(?:site|dist)-packages/(?P<rest>.+)", re.DOTALL)
_AROUND = re.compile(r"(?:.*/)?(?P<rest>(?:torch|workloads/sdk)/.+)", re.DOTALL)
"""torch and our recorder, which stands around calls, also from folders of their own: NVIDIA's
containers build torch in one, and who develops has the recorder in one."""
_STANDARD = re.compile(r"(?:.*/)?lib(?:64)?/python\d(?:\.\d+)?(?:t)?/(?P<rest>.+)", re.DOTALL)
_MULTIPROCESSING = "multiprocessing/process.py"


def owner(one: Frame) -> Owner:
    """By where its file lies."""
    if one.native:
        return Owner.NATIVE
    if _INSTALLED.fullmatch(one.file) or _AROUND.fullmatch(one.file):
        return Owner.INSTALLED
    if one.file.startswith("<frozen ") or _STANDARD.fullmatch(one.file):
        return Owner.STANDARD
    return Owner.PROGRAM


def shown_file(one: Frame) -> str:
    """As the package has it; of the program's own files the name and its folder."""
    for pattern in (_INSTALLED, _AROUND, _STANDARD):
        if not one.native and (match := pattern.fullmatch(one.file)) is not None:
            return match["rest"]
    return "/".join(one.file.split("/")[-1 if one.native else -2 :])


def shown(one: Frame) -> str:
    """`load_sample (project/data.py:41)`."""
    return f"{one.function} ({shown_file(one)}{f':{one.line}' if one.line else ''})"


def key(one: Frame) -> tuple[str, str, int]:
    """Calls of the same line are one, whether the class is told (py-spy) or not (faulthandler)."""
    return one.function.rpartition(".")[2], shown_file(one), one.line


def lines(thread: Thread) -> str:
    """The stack as a fact of kind `stack`: a call a line, the innermost first."""
    return "\n".join(shown(one) for one in reversed(thread.frames))


def blamed(thread: Thread) -> Frame | None:
    """The deepest call of the program's own; where there is none, of what is installed, and so on.

    What it calls there waits, computes or sleeps for it, and is in the tree.
    """
    frames = own_calls(thread)
    return min(reversed(frames), key=owner, default=None)


def own_calls(thread: Thread) -> Sequence[Frame]:
    """Without those of the process that it was forked from: they stand above multiprocessing's."""
    starts = [
        index
        for index, one in enumerate(thread.frames)
        if owner(one) is Owner.STANDARD and shown_file(one) == _MULTIPROCESSING
    ]
    return thread.frames[starts[-1] + 1 :] if starts else thread.frames


def busy_child(stacks: Stacks) -> tuple[Thread, Frame] | None:
    """A process that the rank started and that stands in the program's own code."""
    for thread in stacks.threads:
        if thread.main and thread.pid != stacks.pid and own_calls(thread) is not thread.frames:
            line = blamed(thread)
            if line is not None and owner(line) is Owner.PROGRAM:
                return thread, line
    return None
