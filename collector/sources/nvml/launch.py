"""Starts the process that speaks NVML, by its path and not as a module.

Importing `lockstep.collector.sources` imports every source: 10 MB that this process does not need.
So the packages above it are here without what their files import.
"""

import os
import sys
from pathlib import Path
from types import ModuleType


def main() -> int:
    """Serve until the input ends."""
    here = Path(os.path.abspath(__file__)).parent  # links are not followed: they are packages
    names = ("lockstep", "collector", "sources", "nvml")
    for depth, folder in enumerate((here.parents[2], here.parents[1], here.parent, here), 1):
        name = ".".join(names[:depth])
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    from lockstep.collector.sources.nvml import child

    return child.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
