"""A real Slurm on this machine: munged, slurmctld, and a slurmd a node. Needs root.

A node is `unshare` with host name, processes and mounts of its own: own /dev/shm, and names of the
other nodes in its /etc/hosts. When its first process is killed, all of it ends, as if its power was
cut. The network is the machine's, so that nothing of Slurm is reached from elsewhere but by a key.
Settings: https://slurm.schedmd.com/slurm.conf.html.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lockstep.terminal.processes import die_with_parent
from lockstep.workloads.launch.joining.reachable import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "sinfo", "unshare")
NODES = ("gpu-7", "gpu-8")
DOWN_SECONDS = 10
"""SlurmdTimeout: a node that does not answer for so long is down, and its jobs end."""
READY_SECONDS = 60.0
CONFIGURATION = """
ClusterName=lockstep
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdTimeout={down}
KillWait=2
UnkillableStepTimeout=30
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
FIRST = (
    "hostname {name}; mount -t tmpfs -o mode=1777 tmpfs /dev/shm;"
    " mount --bind {folder}/hosts /etc/hosts; exec slurmd -D"
)


def missing() -> str:
    """Why there is no Slurm here, as a reason for a skip; empty = there is one."""
    if os.geteuid() != 0:
        return "nodes of Slurm are made by root"
    absent = [
        name for name in PROGRAMS if shutil.which(name, path="/usr/sbin:/usr/bin:/bin") is None
    ]
    if absent:
        return f"no {', '.join(absent)}: apt install munge slurmctld slurmd slurm-client"
    return ""


class Slurm:
    """One that runs.

    Attributes:
        folder: Where its files and logs lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        ports = [free_port() for _ in range(len(NODES) + 1)]
        lines = [
            f"NodeName={name} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4000 State=UNKNOWN"
            for name, port in zip(NODES, ports[1:], strict=True)
        ]
        told = CONFIGURATION.format(
            host=socket.gethostname(), control=ports[0], folder=folder, down=DOWN_SECONDS
        )
        self.configuration = folder / "slurm.conf"
        self.configuration.write_text(told + "\n".join(lines) + "\n")
        (folder / "state").mkdir()
        names = "".join(f"127.0.0.1 {name}\n" for name in (*NODES, socket.gethostname()))
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(64))

    @property
    def environment(self) -> dict[str, str]:
        """Of whoever calls srun and sbatch."""
        kept = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("SLURM", "LOCKSTEP", "PYTEST", "COV"))
        }  # fmt: skip
        return {**kept, "SLURM_CONF": str(self.configuration), "OMP_NUM_THREADS": "1"}

    def start(self) -> None:
        """Everything, until all nodes are idle.

        Raises:
            TimeoutError: They are not, in time.
        """
        socket_, key = self.folder / "munge.sock", self.folder / "munge.key"
        self._start(
            "munged", "munged", "--foreground", "--force", f"--socket={socket_}",
            f"--key-file={key}", f"--pid-file={self.folder}/munged.pid",
            f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munge.seed",
            "--num-threads=2",
        )  # fmt: skip
        until(socket_.exists)
        self._start("slurmctld", "slurmctld", "-D")
        for name in NODES:
            self.node_up(name)
        until(lambda: all(self.state(name) == "idle" for name in NODES))

    def node_up(self, name: str) -> None:
        """Start a node."""
        first = FIRST.format(name=name, folder=self.folder)
        self._start(
            name, "unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child=KILL",
            "--mount-proc", "sh", "-c", first,
        )  # fmt: skip

    def node_down(self, name: str) -> None:
        """Cut its power: nothing of it says goodbye."""
        node = self._started.pop(name)
        node.kill()
        node.wait()

    def state(self, name: str) -> str:
        """What Slurm says of a node: idle, allocated, down, …"""
        said = self.call("sinfo", "-h", "-n", name, "-o", "%t").stdout.strip()
        return said.rstrip("*~#")

    def call(self, *command: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """One of Slurm's commands, to its end."""
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=seconds,
            cwd=self.folder, check=False,
        )  # fmt: skip

    def inside(self, name: str, *command: str) -> subprocess.Popen[str]:
        """A command on a node, which ends with the node; `ended` ends it sooner."""
        owner = os.getpid()
        return subprocess.Popen(
            ("nsenter", "-t", str(self._first(name)), "-u", "-m", "-p", *command),
            env=self.environment, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=lambda: die_with_parent(owner, signal.SIGKILL),
        )  # fmt: skip

    def shm(self, name: str) -> Path:
        """The node's /dev/shm, seen from outside."""
        return Path(f"/proc/{self._first(name)}/root/dev/shm")

    def end(self) -> None:
        """End everything: nodes first."""
        for name in [*NODES, "slurmctld", "munged"]:
            if (each := self._started.pop(name, None)) is not None:
                each.kill() if name in NODES else each.terminate()
                try:
                    each.wait(10)
                except subprocess.TimeoutExpired:
                    each.kill()
                    each.wait()

    def _first(self, name: str) -> int:
        parent = self._started[name].pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return int(children[0])

    def _start(self, name: str, *command: str) -> None:
        owner = os.getpid()
        with (self.folder / f"{name}.out").open("wb") as log:
            self._started[name] = subprocess.Popen(
                command, env={**self.environment, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(owner, signal.SIGKILL),
            )  # fmt: skip


def ended(started: "subprocess.Popen[str]") -> str:
    """What a command on a node had said; it is killed with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    return str(started.communicate()[0])


def until(true: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
    """Wait for it.

    Raises:
        TimeoutError: It did not become true in time.
    """
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not in {seconds:g} s")
        time.sleep(0.2)


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """One with all nodes idle; everything that was started ends with it."""
    made = Slurm(folder)
    try:
        made.start()
        yield made
    finally:
        made.end()
