"""How a run is put onto a cluster: everything that RunSpec does not say."""

import math
from dataclasses import dataclass
from enum import StrEnum

from lockstep.collector.contract.kubernetes import RUNS_ACCOUNT, RUNS_NAMESPACE

DEFAULT_CLAIM = RUNS_ACCOUNT
"""The claim of the chart; its name is the account's."""


class Kind(StrEnum):
    """What starts the ranks there."""

    MPIJOB = "mpijob"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one run.

    Attributes:
        image: Of every pod, with the extras `workloads`, `collector` and `kubernetes`.
        analyzer_image: Of the steps after the run in a Workflow, with the extra `analyzer`.
        claim: PersistentVolumeClaim that keeps archive, logs and checkpoints, at `/runs`.
        chain: The run, its analysis and its report, as a Workflow.
        timeout: Seconds of the run itself, counted from when all its pods run: neither the time in
            a queue nor that of images is of them.
        start_timeout: Seconds within which every pod must run.
        host_rings: Whether rings lie on the node, where its DaemonSet reads them; else in the pod.
        submission: Tells what this launch creates from all else of that name; empty = its uid does.
        queue: LocalQueue of Kueue in which its job waits for quota; empty = none.
        measured: After an MPIJob, a Job analyzes its archive and tells how fast it was.
        queue_timeout: Seconds that it may wait there.
        submitted: When somebody asked for the run, RFC 3339; empty = nobody says.
        step: The run is a step of the chain that has the same `submission`, which owns it.
    """

    image: str
    analyzer_image: str = ""
    namespace: str = RUNS_NAMESPACE
    kind: Kind = Kind.MPIJOB
    claim: str = DEFAULT_CLAIM
    chain: bool = False
    timeout: float = 3600.0
    start_timeout: float = 300.0
    host_rings: bool = True
    submission: str = ""
    step: bool = False
    measured: bool = False
    submitted: str = ""
    queue_timeout: float = math.inf
    queue: str = ""
