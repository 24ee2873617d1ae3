"""What this machine has and lacks for Lockstep, and the fix for each lack."""

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.workloads.faults import capabilities, cpu_quota
from lockstep.workloads.faults.kinds import BUILT

if TYPE_CHECKING:
    from lockstep.collector.sampler.check import SourceCheck

DISTRIBUTION = "lockstep-monitor"
LEAST_SHARED_BYTES = 64 * 2**20
"""Eight rings of 0.6 MB and gloo's files, with room to spare."""


class State(StrEnum):
    """`missing` keeps Lockstep from working, `absent` only costs a feature."""

    OK = "ok"
    MISSING = "missing"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Check:
    """One line: what was looked at, what was found, what would mend it."""

    name: str
    state: State
    found: str
    fix: str = ""


def examine() -> tuple[list[Check], list["SourceCheck"]]:
    """Looks at everything; the collector's sources are read once, nothing is changed."""
    from lockstep.collector.config import ConfigError

    checks = [check for look in LOOKS for check in look()]
    try:
        return checks, _sources()
    except ConfigError as error:
        wrong = Check("collector settings", State.MISSING, "wrong", str(error))
        return [*checks, wrong], []


def _python() -> list[Check]:
    found = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    state = State.OK if good else State.MISSING
    return [Check("python", state, found, "" if good else "install Python 3.11 or later")]


def _libraries() -> list[Check]:
    """One line an extra of the distribution; its libraries come from the metadata."""
    wanted: dict[str, list[str]] = {}
    for requirement in requires(DISTRIBUTION) or []:
        name, _, marker = requirement.partition(";")
        if "extra ==" in marker:
            extra = marker.partition("extra ==")[2].strip(" '\"")
            wanted.setdefault(extra, []).append(_library(name))
    return [_extra(extra, libraries) for extra, libraries in sorted(wanted.items())]


def _library(requirement: str) -> str:
    end = next((i for i, each in enumerate(requirement) if each in " <>=!~[("), len(requirement))
    return requirement[:end]


def _extra(extra: str, libraries: list[str]) -> Check:
    found, lacking = [], []
    for library in libraries:
        try:
            found.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            lacking.append(library)
    state = State.ABSENT if lacking else State.OK
    words = ", ".join(found) + (f"; without {', '.join(lacking)}" if lacking else "")
    fix = f"make setup, or pip install '.[{extra}]' in the checkout" if lacking else ""
    return Check(f"extra {extra}", state, words.removeprefix("; "), fix)


def _shared_memory(folder: Path = Path("/dev/shm")) -> list[Check]:  # noqa: S108
    name = f"shared memory {folder}"
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return [Check(name, State.MISSING, "not writable", f"mount a writable tmpfs on {folder}")]
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**20:.0f} MB free"
    if free < LEAST_SHARED_BYTES:
        fix = f"remount with at least {LEAST_SHARED_BYTES // 2**20} MB (docker: --shm-size)"
        return [Check(name, State.MISSING, found, fix)]
    return [Check(name, State.OK, found)]


def _cgroups() -> list[Check]:
    reason = cpu_quota.why_not()
    found = cpu_quota.cpu_root()
    where = f"v{found[1]} at {found[0]}" if found else "no CPU controller"
    state = State.ABSENT if reason else State.OK
    return [Check("cgroup for cpu-quota", state, where, reason)]


def _faults() -> list[Check]:
    """Which kinds `lockstep run --fault` can inject here, with emulated devices."""
    reasons = capabilities.refused(pace=True)
    found = f"{len(BUILT) - len(reasons)} of {len(BUILT)} kinds can be injected"
    state = State.ABSENT if reasons else State.OK
    return [Check("faults", state, found, "; ".join(reasons.values()))]


def _programs() -> list[Check]:
    checks = []
    for program, package, use in (
        ("promtool", "prometheus", "lints the exporter's page in tests"),
        ("prometheus", "prometheus", "real scrapes in tests"),
        ("prometheus-node-exporter", "prometheus-node-exporter", "the peer in tests"),
        ("chromium", "chromium", "pictures of reports"),
    ):
        path = shutil.which(program)
        if path:
            checks.append(Check(program, State.OK, path))
        else:
            fix = f"apt-get install {package} ({use})"
            checks.append(Check(program, State.ABSENT, "not installed", fix))
    return checks


def _gpu(device: Path = Path("/dev/nvidiactl")) -> list[Check]:
    if device.exists():
        return [Check("NVIDIA driver", State.OK, str(device))]
    fix = "none needed: devices are emulated and GPU telemetry is simulated"
    return [Check("NVIDIA driver", State.ABSENT, f"no {device}", fix)]


def _sources() -> list["SourceCheck"]:
    """What a collector of this user would see with the settings of this environment."""
    from lockstep.collector.clock import SystemClock
    from lockstep.collector.config import load
    from lockstep.collector.registry import feeds
    from lockstep.collector.sampler.check import examined
    from lockstep.collector.sampler.sampler import Sampler

    clock = SystemClock()
    config = load(None, os.environ, {})
    sampler = Sampler(feeds(config, clock), clock, config.ttl)
    with _quiet("lockstep.collector.sampler.sampler.reader"):
        return examined(sampler)


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keeps warnings of a logger back: their reasons are in the table already."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


LOOKS: tuple[Callable[[], list[Check]], ...] = (
    _python,
    _libraries,
    _shared_memory,
    _cgroups,
    _faults,
    _programs,
    _gpu,
)
