"""The local launcher: ranks forked from a process that has imported torch, and their cleanup."""

import gc
import importlib
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic, monotonic_ns, sleep
from types import ModuleType

from lockstep.collector.contract.archive import RESULTS_FILE
from lockstep.workloads.faults import cpu_quota
from lockstep.workloads.launch.launcher import Outcome, Progress
from lockstep.workloads.launch.processes import forked
from lockstep.workloads.launch.rank_process import RankProcess
from lockstep.workloads.launch.watching import POLL_SECONDS, watch
from lockstep.workloads.measure import peak
from lockstep.workloads.measure.process import wall_minus_monotonic_ns
from lockstep.workloads.network import namespaces
from lockstep.workloads.network.emulated import EmulatedNetwork, in_namespace
from lockstep.workloads.network.names import token
from lockstep.workloads.spec import RunSpec
from lockstep.workloads.tasks.registry import find

GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL."""


class Ranks:
    """All ranks of a run; see launchers.Handle.

    Attributes:
        peak_flops: FLOP/s of one core in matrix products, measured before the ranks started.
    """

    def __init__(
        self, spec: RunSpec, ranks: list[RankProcess], peak_flops: float | None = None
    ) -> None:
        self.peak_flops = peak_flops
        self._spec = spec
        self._ranks = ranks

    @property
    def pids(self) -> dict[int, int]:
        """Process id by rank."""
        return {process.rank: process.pid for process in self._ranks}

    def wait(self, on_progress: Callable[[Progress], None]) -> Outcome:
        """Watch until all ranks have ended; end them after a crash or a hang."""
        return watch(self._spec, self._ranks, self.end, on_progress)

    def end(self) -> None:
        """End every rank that still runs; stopped ones too."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._ranks:
                if not process.reap():
                    os.kill(process.pid, number)
                    os.kill(process.pid, signal.SIGCONT)
            deadline = monotonic() + GRACE_SECONDS
            while not all(process.reap() for process in self._ranks):
                if monotonic() > deadline:
                    break
                sleep(POLL_SECONDS / 5)
            else:
                return


LOOPBACK = "lo"


class LocalLauncher:
    """Forks one process a rank.

    Fork after importing torch: 8 ranks start in a tenth of a second instead of ten. The caller
    must not have started a thread yet, for a forked child has only the thread that forked it.

    Args:
        network: Its nodes' namespaces, which the ranks enter; None = they meet on the loopback.
    """

    def __init__(self, network: EmulatedNetwork | None = None) -> None:
        self._network = network

    def launch(self, spec: RunSpec, workspace: Path, logs: Path) -> Ranks:
        """Start every rank; they die with this process.

        Raises:
            OSError: A process could not be started; none of the run is left.
        """
        training = _imported("lockstep.workloads.loop.train")
        offset, _ = wall_minus_monotonic_ns()
        start = monotonic_ns() + offset
        logs.mkdir(parents=True, exist_ok=True)
        dataset = find(spec.workload).prepare(spec, workspace)
        peak_flops = peak.measured() if spec.device == "cpu" else None
        ranks = []
        for rank in range(spec.layout.world):
            node_dir = workspace / spec.layout.node(rank)
            node_dir.mkdir(parents=True, exist_ok=True)
            log = logs / f"rank-{rank}.log"
            job = training.RankJob(
                spec=spec,
                rank=rank,
                node_dir=node_dir,
                rendezvous=f"file://{workspace}/rendezvous",
                dataset=dataset,
                checkpoints=logs.parent / "checkpoints",
                cores=len(os.sched_getaffinity(0)),
                start_wall_ns=start,
                events=logs.parent / "tensorboard",
                peak_flops=peak_flops,
                results=logs.parent / RESULTS_FILE,
                interface=LOOPBACK if self._network is None else self._network.interface,
            )
            run = partial(training.run_rank, job)
            if self._network is not None:
                namespace = self._network.namespace(rank // spec.layout.ranks_per_node)
                run = partial(in_namespace, namespace, run)
            try:
                ranks.append(RankProcess(rank, forked(run, log), node_dir, log))
            except BaseException:
                Ranks(spec, ranks).end()
                raise
        return Ranks(spec, ranks, peak_flops)


def _imported(name: str) -> ModuleType:
    """A module, with what its import makes left out of every collection: none of it is garbage.

    Torch makes a million objects. To look through them took 0.4 s of CPU while it was imported,
    0.15 s in each rank, and 0.8 s when the launcher ended.
    """
    if name not in sys.modules:
        gc.disable()
        try:
            importlib.import_module(name)
        finally:
            gc.enable()
        gc.freeze()
    return sys.modules[name]


# The janitor: a process that waits for the end of the launcher and removes what it left.
#
# Ranks and collectors die with the launcher by themselves (processes.py); what a killed launcher
# leaves are files in shared memory, cgroups and network namespaces. The janitor is forked first,
# sleeps on a pipe, and wakes when the last copy of the launcher's end closes, however that came
# about (the ranks inherit a copy each, and end with the launcher).

PATIENCE_SECONDS = 10.0
_DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Janitor:
    """Holds the launcher's end of the pipe; `dismiss` does the cleaning and waits for it."""

    def __init__(self, run: str, workspace: Path) -> None:
        self._run, self._workspace = run, workspace
        reading, self._writing = os.pipe2(os.O_CLOEXEC)
        # A signal between the fork and the child's deafness to it would end the janitor.
        signal.pthread_sigmask(signal.SIG_BLOCK, _DEAF_TO)
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._writing)
                _wait_and_clean(reading, run, workspace)
            finally:
                os._exit(0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _DEAF_TO)
        os.close(reading)

    def dismiss(self) -> None:
        """The run is over: clean now. All ranks must have ended."""
        os.close(self._writing)
        os.waitpid(self._pid, 0)
        clean(self._run, self._workspace)  # nothing left to do, unless somebody killed the janitor


def clean(run: str, workspace: Path) -> None:
    """Remove the run's rings, cgroups and network; what is busy is tried again for a while."""
    deadline = monotonic() + PATIENCE_SECONDS
    while not _cleaned(run, workspace) and monotonic() < deadline:
        sleep(0.1)


def _cleaned(run: str, workspace: Path) -> bool:
    try:
        # Before the rings: as long as they are there, they say whose namespaces these are.
        namespaces.remove(token(run))
        cpu_quota.remove(run)
    except OSError:  # a process of it still ends
        return False
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    return not workspace.exists()


def _wait_and_clean(reading: int, run: str, workspace: Path) -> None:
    os.setsid()  # neither the terminal's Ctrl-C nor its hang-up reaches us
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    os.read(reading, 1)  # returns at the end of the file: nobody writes
    clean(run, workspace)
