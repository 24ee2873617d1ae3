"""Where DCGM's own Python bindings lie: they come with DCGM and not from an index."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from lockstep.collector.reading import SourceError

INSTALLED = (
    Path("/usr/share/datacenter-gpu-manager-4/bindings/python3"),  # DCGM 4
    Path("/usr/local/dcgm/bindings/python3"),  # DCGM 3
)
MODULES = ("pydcgm", "dcgm_structs", "dcgm_agent")


class Bindings(NamedTuple):
    """DCGM's modules."""

    pydcgm: Any
    structs: Any
    agent: Any


def installed(folders: Sequence[Path]) -> bool:
    """Whether the bindings are in one of the folders, or loaded already."""
    return "pydcgm" in sys.modules or any((one / "pydcgm.py").exists() for one in folders)


def load(folders: Sequence[Path]) -> Bindings:
    """Import DCGM's modules from where they are installed.

    Raises:
        SourceError: They are not there, or do not load (libdcgm is missing, say).
    """
    folder = next((one for one in folders if (one / "pydcgm.py").exists()), None)
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        modules: list[ModuleType] = [importlib.import_module(name) for name in MODULES]
    except (ImportError, OSError) as error:
        raise SourceError("bindings", f"DCGM's Python bindings do not load: {error}") from error
    return Bindings(*modules)
