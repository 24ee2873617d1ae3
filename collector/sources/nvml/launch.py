"""Starts the process that speaks NVML, by its path and not as a module.

Importing `collector.sources` imports every source: 10 MB that this process does not need. So the
packages above it are here without what their files import.
"""

import sys
from pathlib import Path
from types import ModuleType


def main() -> int:
    """Serve until the input ends."""
    here = Path(__file__).resolve().parent
    names = ("collector", "collector.sources", "lockstep.collector.sources.nvml")
    for name, folder in zip(names, (here.parents[1], here.parent, here), strict=True):
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    from lockstep.collector.sources.nvml import child

    return child.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
