"""What is asked of a cluster's API, and how it refuses; `api.py` is the real one."""

from collections.abc import Mapping
from typing import Any, Protocol


class ClusterError(RuntimeError):
    """The API did not do what was asked; the message is a sentence."""


class UnreachableError(ClusterError):
    """It does not answer, or not now: what runs there goes on without us."""


class RefusedError(ClusterError):
    """It answered no.

    Attributes:
        status: Of HTTP: 401 we are not known, 403 not allowed, 404 not there, 409 there already,
            422 not valid.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Cluster(Protocol):
    """A Kubernetes API. All methods raise UnreachableError, or RefusedError with the status."""

    def read(self, path: str, **query: str) -> dict[str, Any]:
        """An object, or a list of them under `items`."""
        ...

    def text(self, path: str, **query: str) -> str:
        """What is no JSON: the log of a pod."""
        ...

    def create(self, path: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The object as it was created."""
        ...

    def delete(self, path: str, uid: str = "") -> None:
        """Delete it with all that it owns; one that is not there is none the less gone.

        Args:
            uid: Of the one that is meant: another that came under its name stays.
        """
        ...
