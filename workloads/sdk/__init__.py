"""Records the steps of anybody's training program, whatever its framework, in three lines.

    import lockstep
    recorder = lockstep.recorder()
    for batch in recorder.steps(loader):
        with recorder.phase("forward"): ...

Standard library only. Without LOCKSTEP_DIR in the environment nothing is recorded and nothing is
spent. Whatever goes wrong with the recording is one line on stderr; training goes on.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module

from workloads.sdk.holder import Means
from workloads.sdk.interface import Recorder
from workloads.sdk.recording import RingRecorder
from workloads.sdk.start import DIRECTORY_VARIABLE, UnwritableError, started
from workloads.sdk.warning import warn
from workloads.starting import FOLDER_VARIABLE

__all__ = ["Recorder", "recorder"]


def recorder(
    *,
    rank: int | None = None,
    world: int | None = None,
    dp: int | None = None,
    tp: int = 0,
    pp: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Recorder:
    """The recorder of this process, which is one rank of a run; call it once.

    It records when LOCKSTEP_DIR names the folder of this node's rings (locally
    /dev/shm/lockstep). LOCKSTEP_RUN names the run, LOCKSTEP_NODE the node. The rank comes from the
    launcher's environment: torchrun's RANK, else Open MPI's, MPICH's or Slurm's.

    Args:
        rank: Where the launcher does not say it, as `jax.process_index()`.
        world: Number of ranks, likewise.
        dp: This rank's place among the replicas; by default its rank.
        tp: Its place in its tensor-parallel group.
        pp: Its pipeline stage.
        environment: Instead of the process's own.
    """
    variables = os.environ if environment is None else environment
    if not variables.get(DIRECTORY_VARIABLE):
        return Recorder()
    try:
        writer = started(variables, Means.SDK, rank=rank, world=world, dp=dp, tp=tp, pp=pp)
    except (UnwritableError, ValueError) as error:
        warn(f"this rank is not recorded: {error}")
        return Recorder()
    _tell_of_start(variables, writer.identity.rank)
    return RingRecorder(writer)


def _tell_of_start(environment: Mapping[str, str], rank: int) -> None:
    """How the ranks meet and what is compiled, where that is yet to come and torch does it."""
    if FOLDER_VARIABLE in environment and "torch" in sys.modules:
        with suppress(Exception):  # who does not tell of its start trains all the same
            import_module("workloads.sdk.torch_start").follow(environment, rank)
