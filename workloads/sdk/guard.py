"""Runs our bookkeeping within somebody else's program, which it must never disturb."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

AnswerT = TypeVar("AnswerT")
P = ParamSpec("P")


class Guard:
    """Catches whatever our own functions raise; what they were to time is then not known."""

    def __init__(self) -> None:
        self._why = ""

    def __call__(
        self, ours: Callable[P, AnswerT], *arguments: P.args, **named: P.kwargs
    ) -> AnswerT | None:
        """The function's answer; None if it failed, and the step's waiting is lost."""
        try:
            return ours(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            self.lose(f"this torch cannot be followed ({error})")
            return None

    def lose(self, why: str) -> None:
        """Say why a wait of the step is not known; the first reason counts."""
        self._why = self._why or why

    def taken(self) -> str:
        """Why waiting since the last call is not known; empty if it is."""
        why, self._why = self._why, ""
        return why
