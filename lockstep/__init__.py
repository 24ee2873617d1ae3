"""The roof: the command line and the wiring of the parts; what programs import of us.

`lockstep.recorder` records a program's steps; `lockstep.Client` and `lockstep.AsyncClient` ask
`lockstep api`, and raise `lockstep.ApiError`.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workloads.sdk import recorder
    from workloads.sdk.client import ApiError, AsyncClient, Client, WaitError

__all__ = ["ApiError", "AsyncClient", "Client", "WaitError", "recorder"]
CLIENT = ("ApiError", "AsyncClient", "Client", "WaitError")


def _recorder() -> Any:
    """`recorder`, also where a module of the program's own is called as our package."""
    try:
        from workloads.sdk import recorder
    except ImportError:
        theirs = {each: sys.modules.pop(each) for each in _ours()}
        sys.path.insert(0, str(Path(__file__).parents[1]))
        try:
            return import_module("workloads.sdk").recorder
        finally:
            del sys.path[0]
            for each in _ours():
                del sys.modules[each]
            sys.modules.update(theirs)
    return recorder


def _ours() -> list[str]:
    return [each for each in sys.modules if each.partition(".")[0] in ("workloads", "collector")]


def __getattr__(name: str) -> Any:
    # Not imported here: `lockstep --help` is measured, and imports this file.
    if name == "recorder":
        return _recorder()
    if name in CLIENT:
        from workloads.sdk import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
