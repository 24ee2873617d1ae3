"""What a process says about its place in a job: from its environment and its cgroup."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.files import read_bytes, read_lines
from lockstep.collector.reading import Rejected, SourceError

ENVIRON_BYTES = 256 * 1024
"""Of an environment; the kernel allows megabytes, batch systems use some ten kilobytes."""
LIMIT = 64 * 1024
MAX_WORD = 253
"""Longest name of Kubernetes (RFC 1123 subdomain)."""

LAUNCHERS: tuple[tuple[str, str, str], ...] = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),  # torchrun, and what starts torch without it
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),  # MPICH's Hydra, Intel MPI
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)
"""Rank, local rank and world size, the innermost launcher first: srun may start torchrun."""
_KNOWN = frozenset(name for launcher in LAUNCHERS for name in launcher) | {
    "SLURM_JOB_ID", "HOSTNAME",
}  # fmt: skip
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
# Slurm: /slurm/uid_1000/job_1234/step_0 (v1), /system.slice/slurmstepd.scope/job_1234/... (v2).
_SLURM_JOB = re.compile(r"/[^/]*slurm[^/]*/(?:[^/]+/)*?job_([0-9]{1,10})(?:/|$)", re.ASCII)
# Kubernetes: .../pod<uid>/... (cgroupfs), ...-pod<uid with _>.slice/... (systemd).
_POD_UID = re.compile(
    r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?(?:/|$)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ProcessWords:
    """What one process says; what it does not say is empty."""

    rank: str = ""
    local_rank: str = ""
    world_size: str = ""
    slurm_job: str = ""
    pod_uid: str = ""
    hostname: str = ""


def started(proc: Path, pid: int) -> float | None:
    """When the process started, in seconds since boot; None if there is no such process.

    Field 22 of proc(5)'s stat. With the pid it names a process: pids are reused.

    Raises:
        SourceError: The process table cannot be read, or not understood.
    """
    path = proc / str(pid) / "stat"
    try:
        text = read_bytes(path, LIMIT)
    except SourceError as error:
        if error.reason == "missing":
            return None
        raise
    # The command name may hold anything; field 3 follows its last parenthesis.
    fields = text.rpartition(b")")[2].split()
    if len(fields) < 20 or not fields[19].isdigit():
        raise SourceError("malformed", f"{path} has no start time")
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def process_words(proc: Path, pid: int) -> tuple[ProcessWords, list[Rejected]]:
    """What the process says, and which of its two files could not be read.

    The environment of another user's process is for who may trace it, which no pod of ours may: it
    is not told, and that is no failure. Its cgroup, which names the pod, is for everybody.
    """
    rejected: list[Rejected] = []
    environment: Mapping[str, str] = {}
    cgroups: list[str] = []
    try:
        environment = environment_of(read_bytes(proc / str(pid) / "environ", ENVIRON_BYTES))
    except SourceError as error:
        if error.reason != "permission":
            rejected.append(Rejected.of(error))
    try:
        cgroups = read_lines(proc / str(pid) / "cgroup", LIMIT)
    except SourceError as error:
        rejected.append(Rejected.of(error))
    # A process that has just ended is no failure.
    return words_of(environment, cgroups), [one for one in rejected if one.reason != "missing"]


def environment_of(raw: bytes) -> dict[str, str]:
    """The variables that words_of knows; a value that is not printable text is left out."""
    found: dict[str, str] = {}
    for entry in raw.split(b"\0"):
        name, _, value = entry.decode("utf-8", "replace").partition("=")
        if name in _KNOWN and value.isprintable() and "\ufffd" not in value:
            found[name] = value[:MAX_WORD]
    return found


def words_of(environment: Mapping[str, str], cgroups: list[str]) -> ProcessWords:
    """The words of one process.

    The cgroup's Slurm job wins: the environment of a process can be anything.
    """
    numbers = {
        name: str(int(value)) for name, value in environment.items() if _NUMBER.fullmatch(value)
    }
    launcher = next((names for names in LAUNCHERS if names[0] in numbers), LAUNCHERS[0])
    rank, local_rank, world_size = (numbers.get(name, "") for name in launcher)
    jobs = [match[1] for line in cgroups if (match := _SLURM_JOB.search(line))]
    pods = [match[1].replace("_", "-") for line in cgroups if (match := _POD_UID.search(line))]
    return ProcessWords(
        rank=rank,
        local_rank=local_rank if rank else "",
        world_size=world_size if rank else "",
        slurm_job=jobs[0] if jobs else numbers.get("SLURM_JOB_ID", ""),
        pod_uid=pods[0] if pods else "",
        hostname=environment.get("HOSTNAME", ""),
    )
