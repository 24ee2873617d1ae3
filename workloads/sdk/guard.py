"""One guard around everything of ours that runs within somebody else's program.

What torch, the interpreter or the program calls of ours enters here: `guarded` methods, `Block`,
and functions that `Guard.around` and `Guard.alone` make. No exception of ours leaves it, the
program's own exceptions carry no frame of ours at their end, and torch.compile traces none of it.
What a signal handler of the program raises passes, and exceptions that are no `Exception`, as
KeyboardInterrupt and SystemExit: they are the program's.
"""

import functools
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar

from lockstep.workloads.sdk.warning import pass_on, warn_of

AnswerT = TypeVar("AnswerT")
ClassT = TypeVar("ClassT", bound=type)
P = ParamSpec("P")

Call = Callable[..., Any]

_OURS = f"{Path(__file__).parents[1]}{os.sep}"


class Guarded(Protocol):
    """A recorder as its guard sees it."""

    active: bool

    def give_up(self, error: Exception) -> None:
        """Record nothing from here on; called outside the guard, so it never raises."""


class Guard:
    """Catches whatever our own functions raise; what they were to time is then not known."""

    def __init__(self) -> None:
        self._why = ""

    def __call__(
        self, ours: Callable[P, AnswerT], /, *arguments: P.args, **named: P.kwargs
    ) -> AnswerT | None:
        """The function's answer; None if it failed, and the step's waiting is lost."""
        try:
            return ours(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            pass_on(error)
            self.lose(f"this torch cannot be followed ({type(error).__name__})")
            warn_of("a part of a step of this rank is not recorded", error)
            return None

    def lose(self, why: str) -> None:
        """Say why a wait of the step is not known; the first reason counts."""
        self._why = self._why or why

    def taken(self) -> str:
        """Why waiting since the last call is not known; empty if it is."""
        why, self._why = self._why, ""
        return why

    def alone(self, ours: Callable[P, object]) -> Callable[P, None]:
        """The function, to be handed to somebody who calls it for its effect."""

        @functools.wraps(ours)
        def call(*arguments: P.args, **named: P.kwargs) -> None:
            self(ours, *arguments, **named)

        return call

    def around(
        self, original: Call, before: Call, after: Call | None = None, failed: Call | None = None
    ) -> Call:
        """A function of somebody else's with our bookkeeping before and after it.

        It is called as it is while torch.compile traces.

        Args:
            before: Is given the arguments. The other two are called if it answers something.
            after: Is given that and the answer of the original. What it answers itself, if that is
                not None, is answered instead.
            failed: Is given that after the original has raised.
        """

        @functools.wraps(original)
        def call(*arguments: Any, **named: Any) -> Any:
            if compiling():
                return original(*arguments, **named)
            mark = self(before, *arguments, **named)
            try:
                answer = original(*arguments, **named)
            except BaseException as error:
                if mark is not None and failed is not None:
                    self(failed, mark)
                hide(error)
                raise
            if mark is None or after is None:
                return answer
            other = self(after, mark, answer)
            return answer if other is None else other

        return call


def guarded(cls: ClassT) -> ClassT:
    """Has the public methods of a recorder (see Guarded) answer as its base class would.

    They do so where they fail, which ends the recording, and where the recorder is not active.
    """
    for name, ours in list(vars(cls).items()):
        if isinstance(ours, FunctionType) and not name.startswith("_") and name != "give_up":
            setattr(cls, name, _method(ours, getattr(cls.__base__, name, _nothing)))
    return cls


def _method(ours: Call, instead: Call) -> Call:
    @functools.wraps(ours)
    def method(recorder: Guarded, *arguments: Any, **named: Any) -> Any:
        failure = None
        try:
            if recorder.active and not compiling():
                return ours(recorder, *arguments, **named)
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            pass_on(error)
            failure = error
        answer = instead(recorder, *arguments, **named)  # raises where the call itself is wrong
        if failure is not None:
            recorder.give_up(failure)
        return answer

    return method


def _nothing(*_: object, **named: object) -> None:
    pass


class Block:
    """A `with` block of a recorder, which a program may keep.

    A copy is itself; pickled, it is a block that does nothing.
    """

    __slots__ = ("_inner", "_recorder")

    def __init__(self, recorder: Guarded, inner: AbstractContextManager[object]) -> None:
        self._recorder, self._inner = recorder, inner

    def __enter__(self) -> Self:
        try:
            if self._recorder.active:
                self._inner.__enter__()
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            pass_on(error)
            self._recorder.give_up(error)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._recorder.active:
                self._inner.__exit__(kind, error, trace)
        except Exception as failure:  # noqa: BLE001 - the program must not end because of us
            pass_on(failure)
            self._recorder.give_up(failure)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[AbstractContextManager[object]], tuple[()]]:
        return nullcontext, ()


def compiling() -> bool:
    """Whether torch.compile traces the program just now; torch is not imported for that."""
    compiler: Any = sys.modules.get("torch.compiler")
    return compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling()


def hide(error: BaseException) -> None:
    """Take our frames from the head of the traceback, in the frame that caught the exception.

    A bare `raise` after it does not put that frame back (CPython adds a frame to a traceback where
    an exception is raised in it or comes out of a call, not where it is raised again).
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    error.__traceback__ = trace
