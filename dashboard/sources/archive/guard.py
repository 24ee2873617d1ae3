"""Whatever a foreign file does to us: pages get a sentence and a next step, no traceback."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

import pyarrow as pa

from lockstep.analyzer.read.archive.files import ArchiveError, Problem
from lockstep.dashboard.trouble import Kind, TroubleError

KINDS = {
    Problem.ABSENT: Kind.NO_SOURCE, Problem.REFUSED: Kind.REFUSED,
    Problem.DAMAGED: Kind.UNREADABLE,
}  # fmt: skip
COMMAND = "lockstep "
"""Begins a remedy that is to be copied as it is."""
P = ParamSpec("P")
T = TypeVar("T")


class Named(Protocol):
    """What is guarded."""

    name: str


S = TypeVar("S", bound=Named)
Method = Callable[Concatenate[S, P], T]
BROKEN = (pa.ArrowException, OSError, ArithmeticError, LookupError, TypeError, ValueError)
"""What columns of another kind, files that go away and numbers out of range end in."""


def guarded(method: Method[S, P, T]) -> Method[S, P, T]:
    """The method; what is broken in an archive is trouble with the archive."""

    @wraps(method)
    def call(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except ArchiveError as error:
            remedy = error.remedy
            if not remedy.startswith(COMMAND):
                remedy = f"{remedy[:1].upper()}{remedy[1:]}."
            raise TroubleError(KINDS[error.problem], f"{error.sentence}.", remedy) from error
        except PermissionError as error:
            raise TroubleError(
                Kind.REFUSED, f"{error.filename or self.name} may not be read by this user.",
                "Let the user of the dashboard read it.",
            ) from None  # fmt: skip
        except BROKEN as error:
            first = (str(error).splitlines() or [type(error).__name__])[0][:160]
            raise TroubleError(
                Kind.UNREADABLE, f"{self.name} holds something that cannot be read: {first}.",
                "lockstep analyze says which file it is; remove that one to see the rest.",
            ) from error  # fmt: skip

    return cast("Method[S, P, T]", call)
