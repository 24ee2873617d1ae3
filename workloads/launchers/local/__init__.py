"""Ranks as processes of this machine, forked from one that has imported torch."""

import gc
import importlib
import os
import sys
from functools import partial
from pathlib import Path
from time import monotonic_ns
from types import ModuleType

from lockstep.collector.contract.archive import RESULTS_FILE
from lockstep.workloads.clocksync import wall_minus_monotonic_ns
from lockstep.workloads.launchers.local.ranks import Ranks
from lockstep.workloads.network.emulated import EmulatedNetwork, in_namespace
from lockstep.workloads.outcome import peak
from lockstep.workloads.processes.forking import forked
from lockstep.workloads.processes.rank_process import RankProcess
from lockstep.workloads.spec import RunSpec
from lockstep.workloads.tasks import find

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
        training = _imported("lockstep.workloads.train")
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
                place = self._network.namespace(rank // spec.layout.ranks_per_node)
                run = partial(in_namespace, place, run)
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
