"""Ranks as processes of this machine, forked from one that has imported torch."""

import importlib
import os
import signal
import sys
import traceback
from pathlib import Path
from time import monotonic_ns
from types import ModuleType

from workloads import peak
from workloads.clocksync import wall_minus_monotonic_ns
from workloads.data.prepare import prepared
from workloads.launchers.local.death import die_with_parent
from workloads.launchers.local.ranks import RankProcess, Ranks
from workloads.spec import RunSpec


class LocalLauncher:
    """Forks one process a rank.

    Fork after importing torch: 8 ranks start in a tenth of a second instead of ten. The caller
    must not have started a thread yet, for a forked child has only the thread that forked it.
    """

    def launch(self, spec: RunSpec, workspace: Path, logs: Path) -> Ranks:
        """Start every rank; they die with this process.

        Raises:
            OSError: A process could not be started; none of the run is left.
        """
        training = importlib.import_module("workloads.train")
        offset, _ = wall_minus_monotonic_ns()
        start = monotonic_ns() + offset
        logs.mkdir(parents=True, exist_ok=True)
        dataset = prepared(spec, workspace)
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
                rendezvous=workspace / "rendezvous",
                dataset=dataset,
                checkpoints=logs.parent / "checkpoints",
                cores=len(os.sched_getaffinity(0)),
                start_wall_ns=start,
                events=logs.parent / "tensorboard",
                peak_flops=peak_flops,
            )
            try:
                ranks.append(RankProcess(rank, _fork(training, job, log), node_dir, log))
            except BaseException:
                Ranks(spec, ranks).end()
                raise
        return Ranks(spec, ranks, peak_flops)


def _fork(training: ModuleType, job: object, log: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        die_with_parent(parent, signal.SIGKILL)
        # Ctrl-C reaches the whole terminal group; the launcher alone decides what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        code = training.run_rank(job)
    except BaseException:  # noqa: BLE001 - the rank's log is the only place that can say it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
