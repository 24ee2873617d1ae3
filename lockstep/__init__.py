"""The roof: the command line and the wiring of the parts; what programs import of us.

`lockstep.recorder` records a program's steps; `lockstep.Client` and `lockstep.AsyncClient` ask
`lockstep api`, and raise `lockstep.ApiError`.
"""

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockstep.workloads.sdk import recorder
    from lockstep.workloads.sdk.client import ApiError, AsyncClient, Client, WaitError

__all__ = ["ApiError", "AsyncClient", "Client", "WaitError", "recorder"]
_ROOT = Path(__file__).parents[1]
CLIENT = ("ApiError", "AsyncClient", "Client", "WaitError")
PACKAGES = ("workloads", "collector")


def _imported(module: str, names: Iterable[str], needs: Iterable[str]) -> None:
    """Take names of a module of ours, also where one of the program's is called as our packages.

    Once: another import would give other classes of the same names.
    """
    if all(map(_is_beside, needs)):
        found = import_module(module)
    else:
        theirs = {each: sys.modules.pop(each) for each in _ours()}
        sys.path.insert(0, str(_ROOT))
        try:
            found = import_module(module)
        finally:
            sys.path.remove(str(_ROOT))
            for each in _ours():
                del sys.modules[each]
            sys.modules.update(theirs)
    globals().update({name: getattr(found, name) for name in names})


def _is_beside(package: str) -> bool:
    """Whether an import of it would give what lies beside this package; it is not executed."""
    from importlib.util import find_spec  # `lockstep --help` does not need it

    try:
        spec = find_spec(package)
    except (ImportError, ValueError):  # ValueError: a module without a specification
        return False
    origin = None if spec is None else spec.origin
    return origin is not None and Path(origin).resolve().parent == (_ROOT / package).resolve()


def _ours() -> list[str]:
    return [each for each in sys.modules if each.partition(".")[0] in PACKAGES]


def __getattr__(name: str) -> Any:
    # Not imported here: `lockstep --help` is measured, and imports this file.
    if name == "recorder":
        _imported("lockstep.workloads.sdk", [name], ["workloads"])
    elif name in CLIENT:
        _imported("lockstep.workloads.sdk.client", CLIENT, PACKAGES)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]
