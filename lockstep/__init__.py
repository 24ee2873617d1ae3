"""The one name under which everything is imported, and what programs import of it.

`lockstep.recorder` records a program's steps; `lockstep.Client` and `lockstep.AsyncClient` ask
`lockstep api`, and raise `lockstep.ApiError`. The parts (`lockstep.collector`, `lockstep.analyzer`,
`lockstep.workloads`, `lockstep.dashboard`, `lockstep.grafana`) stand beside this folder in the
tree, and are links in it; in a wheel they are folders of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockstep.workloads.sdk.client.client import ApiError, AsyncClient, Client, WaitError
    from lockstep.workloads.sdk.recorder import recorder

__all__ = ["ApiError", "AsyncClient", "Client", "WaitError", "recorder"]
_CLIENT = "lockstep.workloads.sdk.client.client"
_MODULES = {
    "recorder": "lockstep.workloads.sdk.recorder", "Client": _CLIENT, "AsyncClient": _CLIENT,
    "ApiError": _CLIENT, "WaitError": _CLIENT,
}  # fmt: skip


def __getattr__(name: str) -> Any:
    # Not imported here: `lockstep --help` is measured, and imports this file.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(_MODULES[name]), name)
    return globals()[name]
