"""What dead runs left behind on this machine: ring folders, cgroups and network namespaces."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lockstep.workloads.faults import cpu_quota
from lockstep.workloads.launch.processes import SHARED_MEMORY, is_dead, lives
from lockstep.workloads.network import namespaces
from lockstep.workloads.network.names import token
from lockstep.workloads.network.namespaces import Owner


@dataclass(frozen=True, slots=True)
class Leftover:
    """The traces of one run whose launcher is gone.

    Attributes:
        run: Run id; where only the network is left and nobody says whose it was, its token.
        network: Token of its network namespaces.
    """

    run: str
    rings: Path | None
    group: Path | None
    network: str | None = None


def find(
    shared: Path = SHARED_MEMORY,
    cgroups: Path = cpu_quota.ROOT,
    proc: Path = Path("/proc"),
    networks: Callable[[], dict[str, Owner | None]] = namespaces.listed,
) -> list[Leftover]:
    """Every run that has ring files, cgroups or namespaces and no living owner.

    A folder's owner is the launcher of its owner file, or any rank that has no launcher: see
    ownership.py. A folder without that file was not made by a run and is left alone.
    """
    found = cpu_quota.cpu_root(cgroups)
    rings = _folders(shared)
    groups = _folders(found[0] / cpu_quota.PARENT) if found else {}
    runs = {token(run): run for run in rings.keys() | groups.keys()}
    nets = {}
    for key, maker in networks().items():
        run = runs.get(key) or (maker.run if maker else key)
        nets[run] = _Network(key, maker)
    left = []
    for run in sorted(rings.keys() | groups.keys() | nets.keys()):
        folder, group, net = rings.get(run), groups.get(run), nets.get(run)
        if folder is not None:
            dead = is_dead(folder, proc)
        else:
            # No owner file to ask; nobody misses a cgroup or a namespace without processes.
            group_is_dead = group is None or not _inhabited(group)
            dead = group_is_dead and (net is None or net.is_dead(proc))
        if dead:
            left.append(Leftover(run, folder, group, net.token if net else None))
    return left


@dataclass(frozen=True, slots=True)
class _Network:
    """A network of ours, and who says that he made it."""

    token: str
    maker: Owner | None

    def is_dead(self, proc: Path) -> bool:
        if self.maker is None:
            return not namespaces.inhabited(self.token, proc)
        return not lives(self.maker.pid, self.maker.start_ticks, proc)


def clean(leftover: Leftover, cgroups: Path = cpu_quota.ROOT) -> None:
    """Removes what a dead run left.

    Raises:
        OSError: Something may not be removed.
    """
    if leftover.network is not None:
        namespaces.remove(leftover.network)
    if leftover.group is not None:
        cpu_quota.remove(leftover.run, cgroups)
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
