"""The roof: the command line and the wiring of the parts; what programs import of us.

`lockstep.recorder` records a program's steps; `lockstep.Client` and `lockstep.AsyncClient` ask
`lockstep api`, and raise `lockstep.ApiError`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workloads.sdk import recorder
    from workloads.sdk.client import ApiError, AsyncClient, Client, WaitError

__all__ = ["ApiError", "AsyncClient", "Client", "WaitError", "recorder"]
CLIENT = ("ApiError", "AsyncClient", "Client", "WaitError")


def __getattr__(name: str) -> Any:
    # Not imported here: `lockstep --help` is measured, and imports this file.
    if name == "recorder":
        from workloads.sdk import recorder

        return recorder
    if name in CLIENT:
        from workloads.sdk import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
