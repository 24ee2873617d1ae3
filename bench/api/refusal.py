"""What cannot be answered: a status, a word for programs and one sentence for people."""

from http import HTTPStatus
from typing import Any


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not an error of ours
    """Ends a request.

    Attributes:
        status: 4xx.
        error: A word that does not change, for programs.
        reason: What is wrong, with which thing, and what would be right.
        field: Which parameter or key of the body; empty = none.
    """

    def __init__(self, status: HTTPStatus, error: str, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.field = field

    def tree(self) -> dict[str, Any]:
        """Its JSON."""
        return {"error": self.error, "reason": self.reason, "field": self.field or None}


def bad_value(field: str, reason: str) -> Refusal:
    """Something that was sent is not what it must be."""
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "bad_value", reason, field)


def absent(error: str, reason: str) -> Refusal:
    """There is no such thing."""
    return Refusal(HTTPStatus.NOT_FOUND, error, reason)


def conflict(error: str, reason: str) -> Refusal:
    """Not now, or not with what there is."""
    return Refusal(HTTPStatus.CONFLICT, error, reason)
