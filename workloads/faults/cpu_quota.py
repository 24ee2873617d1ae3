"""A CPU quota on the calling process, by cgroup v1 or v2; the world behind the cpu-quota fault."""

import os
from collections.abc import Sequence
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
    directory = cpu_root(root)
    if directory is None:
        return "cpu-quota needs the cgroup CPU controller, and this machine mounts none"
    try:
        _probe(root)
    except OSError as error:
        return f"cpu-quota cannot use {directory[0]}: {error.strerror}"
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
        base = cpu_root(root)
        if base is None:
            raise CgroupError("no cgroup CPU controller is mounted")
        self._base, self._version = base
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
        statistics: dict[str, float] = {}
        for line in (self.path / "cpu.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            statistics[name] = float(value)
        seconds = (
            statistics.get("throttled_time", 0.0) / 1e9
            + statistics.get("throttled_usec", 0.0) / 1e6
        )
        return {
            "periods": statistics.get("nr_periods", 0.0),
            "throttled_periods": statistics.get("nr_throttled", 0.0),
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
    base = cpu_root(root)
    if base is None:
        return
    top = base[0] / PARENT / run
    for folder in (*top.glob("rank-*"), top, top.parent):
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            if folder != top.parent:
                raise


# The quota that slows a rank by a wanted factor, corrected after every window of steps.
#
# Model of a paced step: segment i takes max(d_i, c_i / q), d_i the emulated device's time and c_i
# the CPU time of its real arithmetic under a quota of q processors; the rest of the step is not
# touched. Quotas bite in whole periods and on every thread of the process, so the model is wrong by
# a gain, which is learnt from what the steps really take.

LEAST_SHARE = 0.01
MOST_SHARE = 1.0
SETTLING_STEPS = 1
WINDOWS = (3, 4, 6, 8)
"""Steps that are looked at before each correction; the last one repeats."""
DAMPING = (1.0, 0.8, 0.6, 0.4)
"""Share of the error that each correction mends: a window's mean is noisy itself."""


@dataclass(frozen=True, slots=True)
class StepModel:
    """Device and CPU seconds by segment, and the seconds of the rest of the step."""

    device: Sequence[float]
    cpu: Sequence[float]
    rest: float

    def seconds(self, share: float) -> float:
        """Own time of a step under a quota of `share` processors."""
        pairs = zip(self.device, self.cpu, strict=True)
        return self.rest + sum(max(device, cpu / share) for device, cpu in pairs)

    def share_for(self, seconds: float) -> float:
        """The quota under which a step takes `seconds`, by bisection on the logarithm."""
        low, high = LEAST_SHARE, MOST_SHARE
        for _ in range(60):
            middle = (low * high) ** 0.5
            if self.seconds(middle) > seconds:
                low = middle
            else:
                high = middle
        return high


def corrected(model: StepModel, share: float, wanted: float, measured: float) -> float:
    """The quota after a correction.

    Args:
        share: The quota in force while `measured` was taken.
        wanted: Own seconds a step should take.
        measured: Own seconds it took.
    """
    if measured <= model.seconds(MOST_SHARE) * 1.02:
        return max(LEAST_SHARE, share * 0.7)
    effective = model.share_for(measured)
    return min(MOST_SHARE, max(LEAST_SHARE, model.share_for(wanted) * share / effective))


class QuotaLoop:
    """Holds a step's own time at what is wanted, whose size may change from step to step."""

    def __init__(self, model: StepModel) -> None:
        self._model = model
        self._gain = 1.0
        self._settling = SETTLING_STEPS
        self._corrections = 0
        self._wanted: list[float] = []
        self._measured: list[float] = []

    def share(self, wanted: float) -> float:
        """The quota for a step that should take `wanted` own seconds."""
        share = self._model.share_for(wanted) * self._gain
        return min(MOST_SHARE, max(LEAST_SHARE, share))

    def pause(self) -> None:
        """The quota was lifted: the step after the next one settles again."""
        self._settling = SETTLING_STEPS

    def observe(self, wanted: float, measured: float) -> None:
        """Learn from a step that ended."""
        if self._settling:
            self._settling -= 1
            return
        self._wanted.append(wanted)
        self._measured.append(measured)
        window = min(self._corrections, len(WINDOWS) - 1)
        if len(self._measured) < WINDOWS[window]:
            return
        aim, seen = _mean(self._wanted), _mean(self._measured)
        share = self.share(aim)
        ratio = corrected(self._model, share, aim, seen) / share
        self._gain *= ratio ** DAMPING[window]
        self._corrections += 1
        self._wanted.clear()
        self._measured.clear()


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
