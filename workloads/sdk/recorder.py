"""Records the steps of anybody's training program, whatever its framework, in three lines.

    import lockstep
    recorder = lockstep.recorder()
    for batch in recorder.steps(loader):
        with recorder.phase("forward"): ...

Standard library only. Without LOCKSTEP_DIR in the environment nothing is recorded and nothing is
spent. Whatever goes wrong with the recording is one line on stderr; training goes on.
"""

import os
from collections.abc import Mapping
from typing import Any

from lockstep.workloads.sdk.guard import Guard
from lockstep.workloads.sdk.interface import DIRECTORY_VARIABLE, Recorder
from lockstep.workloads.sdk.warning import pass_on, warn_of

__all__ = ["Recorder", "recorder"]


def recorder(
    *,
    rank: int | None = None,
    world: int | None = None,
    dp: int | None = None,
    tp: int = 0,
    pp: int = 0,
    first_step: int = 0,
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
        first_step: Number of the step that is taken first: of a run that goes on from a
            checkpoint, how many steps that holds.
        environment: Instead of the process's own.
    """
    made: Recorder | None = Guard()(
        _opened, environment, rank=rank, world=world, dp=dp, tp=tp, pp=pp, first_step=first_step
    )
    return Recorder() if made is None else made


def _opened(environment: Mapping[str, str] | None, **places: Any) -> Recorder | None:
    variables = os.environ if environment is None else environment
    if not variables.get(DIRECTORY_VARIABLE):
        return None
    try:
        from lockstep.workloads.sdk.start import opened  # a program without Lockstep pays nothing
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module of the program's may exit
        pass_on(error)
        warn_of("this rank is not recorded", error)
        return None
    return opened(variables, **places)
