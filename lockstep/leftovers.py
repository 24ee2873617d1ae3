"""What dead runs left behind on this machine: ring folders and cgroups."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from workloads.faults import cgroup

OWNER_FILE = "owner.json"
SHARED_MEMORY = Path("/dev/shm/lockstep")  # noqa: S108 - the place of DESIGN 3.6


@dataclass(frozen=True, slots=True)
class Leftover:
    """The traces of one run whose launcher is gone."""

    run: str
    rings: Path | None
    group: Path | None


def find(
    shared: Path = SHARED_MEMORY, cgroups: Path = cgroup.ROOT, proc: Path = Path("/proc")
) -> list[Leftover]:
    """Every run that has ring files or cgroups and no living owner.

    The owner is the launcher of `owner.json`: its pid with its start time, because pids are
    reused. A folder without that file was not made by a launcher and is left alone.
    """
    found = cgroup.cpu_root(cgroups)
    rings = _folders(shared)
    groups = _folders(found[0] / cgroup.PARENT) if found else {}
    left = []
    for run in sorted(rings.keys() | groups.keys()):
        folder = rings.get(run)
        if folder is None:
            # No owner file to ask; nobody misses a cgroup without processes.
            dead = not _inhabited(groups[run])
        else:
            owner = _owner(folder)
            dead = owner is not None and not _lives(*owner, proc)
        if dead:
            left.append(Leftover(run, folder, groups.get(run)))
    return left


def clean(leftover: Leftover, cgroups: Path = cgroup.ROOT) -> None:
    """Removes what a dead run left.

    Raises:
        OSError: Something may not be removed.
    """
    if leftover.group is not None:
        cgroup.remove(leftover.run, cgroups)
    if leftover.rings is not None:
        shutil.rmtree(leftover.rings)


def _folders(parent: Path) -> dict[str, Path]:
    if not parent.is_dir():
        return {}
    return {each.name: each for each in parent.iterdir() if each.is_dir() and not each.is_symlink()}


def _inhabited(group: Path) -> bool:
    return any(
        (folder / "cgroup.procs").exists() and (folder / "cgroup.procs").read_text().strip()
        for folder in (group, *_folders(group).values())
    )


def _owner(folder: Path) -> tuple[int, int] | None:
    try:
        owner = json.loads((folder / OWNER_FILE).read_bytes())
        return int(owner["pid"]), int(owner["start_ticks"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # no launcher's folder, or one that is being made


def _lives(pid: int, start_ticks: int, proc: Path) -> bool:
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except OSError:
        return False
    # proc(5): field 22 is the start time; field 2, the name, may hold spaces and brackets.
    return int(stat.rpartition(")")[2].split()[19]) == start_ticks
