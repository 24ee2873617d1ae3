"""A CPU quota on the calling process, by cgroup v1 or v2; the world behind the cpu-quota fault."""

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
LEAST_QUOTA_MICROSECONDS = 1000
"""The kernel refuses less (kernel/sched/core.c, min_cfs_quota_period)."""
PERIOD_MICROSECONDS = 5_000
"""Short against a compute segment, so that the quota stretches it evenly."""
PARENT = "lockstep"


class CgroupError(OSError):
    """The CPU controller cannot be used; the message says why."""


def cpu_root(root: Path = ROOT) -> tuple[Path, int] | None:
    """Folder and version of the CPU controller, or None where there is none."""
    for name in ("cpu", "cpu,cpuacct"):
        if (root / name / "cpu.cfs_quota_us").exists() or (root / name / "cgroup.procs").exists():
            return root / name, 1
    controllers = root / "cgroup.controllers"
    if controllers.exists() and "cpu" in controllers.read_text().split():
        return root, 2
    return None


def why_not(root: Path = ROOT) -> str:
    """Empty if a quota can be set here, else the reason."""
    if os.geteuid() != 0:
        return "cpu-quota needs root: run as root, or choose another fault kind"
    found = cpu_root(root)
    if found is None:
        return "cpu-quota needs the cgroup CPU controller, and this machine mounts none"
    try:
        _probe(root)
    except OSError as error:
        return f"cpu-quota cannot use {found[0]}: {error.strerror}"
    return ""


def _probe(root: Path) -> None:
    """Make, limit and remove a group: permission bits alone do not tell in a container."""
    run = f"probe-{os.getpid()}"
    group = CpuGroup(run, 0, root)
    try:
        group.make(Quota.of(0.5))
    finally:
        remove(run, root)


@dataclass(frozen=True, slots=True)
class Quota:
    """CPU time per period, in microseconds."""

    quota: int
    period: int

    @staticmethod
    def of(share: float) -> "Quota":
        """The quota that grants `share` of one processor, with the shortest allowed period."""
        period = max(PERIOD_MICROSECONDS, round(LEAST_QUOTA_MICROSECONDS / share))
        return Quota(max(LEAST_QUOTA_MICROSECONDS, round(share * period)), period)


class CpuGroup:
    """One cgroup of our own, for one rank; made on `enter`, left on `leave`."""

    def __init__(self, run: str, rank: int, root: Path = ROOT) -> None:
        found = cpu_root(root)
        if found is None:
            raise CgroupError("no cgroup CPU controller is mounted")
        self._base, self._version = found
        self.path = self._base / PARENT / run / f"rank-{rank}"
        self._home: Path | None = None

    def enter(self, quota: Quota) -> None:
        """Move the calling process, all its threads, under the quota."""
        self.make(quota)
        self._home = self._own_group()
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def make(self, quota: Quota) -> None:
        """The group with its quota, and nobody in it yet."""
        self.path.mkdir(parents=True, exist_ok=True)
        if self._version == 2:
            for folder in (self._base, self._base / PARENT, self.path.parent):
                (folder / "cgroup.subtree_control").write_text("+cpu")
        self.limit(quota)

    def limit(self, quota: Quota) -> None:
        """Change the quota."""
        if self._version == 2:
            (self.path / "cpu.max").write_text(f"{quota.quota} {quota.period}")
            return
        # Widen first: the kernel checks each write against the other value.
        (self.path / "cpu.cfs_quota_us").write_text("-1")
        (self.path / "cpu.cfs_period_us").write_text(str(quota.period))
        (self.path / "cpu.cfs_quota_us").write_text(str(quota.quota))

    def statistics(self) -> dict[str, float]:
        """What the kernel counted so far: `periods`, `throttled_periods`, `throttled_seconds`.

        `throttled_time` of v1 is in nanoseconds, `throttled_usec` of v2 in microseconds (kernel:
        Documentation/scheduler/sched-bwc.rst).
        """
        told: dict[str, float] = {}
        for line in (self.path / "cpu.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            told[name] = float(value)
        seconds = told.get("throttled_time", 0.0) / 1e9 + told.get("throttled_usec", 0.0) / 1e6
        return {
            "periods": told.get("nr_periods", 0.0),
            "throttled_periods": told.get("nr_throttled", 0.0),
            "throttled_seconds": seconds,
        }

    def leave(self) -> None:
        """Move the calling process back to where it came from."""
        if self._home is not None:
            (self._home / "cgroup.procs").write_text(str(os.getpid()))
            self._home = None

    def _own_group(self) -> Path:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if (self._version == 2 and not controllers) or "cpu" in controllers.split(","):
                return self._base / path.lstrip("/")
        return self._base


def remove(run: str, root: Path = ROOT) -> None:
    """Remove the empty cgroups of a run, and our parent folder when no other run is in it."""
    found = cpu_root(root)
    if found is None:
        return
    top = found[0] / PARENT / run
    for folder in (*top.glob("rank-*"), top, top.parent):
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            if folder != top.parent:
                raise
