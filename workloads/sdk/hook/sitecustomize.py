"""Python imports this when it starts, because `lockstep run --exec` put its folder on PYTHONPATH.

Does nothing but wait for torch to be imported, and only in a run of Lockstep. The program's own
sitecustomize is imported as always, and no module of ours stays where the program could import it:
it may bring a `lockstep` of its own, of another version. Must parse on any Python 3.
"""

import importlib
import os
import sys
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(FOLDER, *[os.pardir] * 4))
OURS = ("lockstep",)
OLDEST = (3, 11)


class AfterTorch:
    """A finder that finds nothing itself; it lets the loader of torch call us at its end."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """As importlib.abc.MetaPathFinder."""
        if name != "torch":
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._follow(spec.loader)
                return spec
        return None

    def _follow(self, loader: Any) -> None:
        original = getattr(loader, "exec_module", None)
        if original is None:
            return

        def exec_module(module: Any) -> None:
            original(module)
            del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _start()

        try:
            loader.exec_module = exec_module
        except AttributeError:
            return  # a loader that cannot be followed: the log has to do


def imported_apart(name: str) -> Any:
    """One of our modules, imported with all that it needs, and none of it left in sys.modules."""
    held = {module: sys.modules.pop(module) for module in _ours()}
    sys.path.insert(0, ROOT)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(ROOT)
        for module in _ours():
            del sys.modules[module]
        sys.modules.update(held)


def _ours() -> Any:
    return [name for name in sys.modules if name.partition(".")[0] in OURS]


def _start() -> None:
    try:
        imported_apart("lockstep.workloads.sdk.automatic").start()
    except Exception as error:  # noqa: BLE001 - the program must not end because of us
        sys.stderr.write(f"lockstep: the steps of torch's optimizers are not seen: {error}\n")


def _chain() -> None:
    """Import the sitecustomize that ours stands in front of, if there is one."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != FOLDER]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


def _in_a_run() -> bool:
    return bool(os.environ.get("LOCKSTEP_RUN") and os.environ.get("LOCKSTEP_DIR"))


if __name__ == "sitecustomize":
    if _in_a_run() and sys.version_info >= OLDEST:
        sys.meta_path.insert(0, AfterTorch())
    _chain()
