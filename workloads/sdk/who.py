"""Which rank of which run a process is: what the program says, else its launcher; pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from workloads.joining.rendezvous import identify

RUN_CHARACTERS = 63


@dataclass(frozen=True, slots=True)
class Who:
    """One rank of a run."""

    run: str
    rank: int
    world: int
    local_rank: int
    attempt: int


def who_am_i(
    environment: Mapping[str, str], program: str, rank: int | None, world: int | None
) -> Who:
    """The rank that this process is.

    Args:
        program: What names the run where nobody else does.
        rank: What the program says; None = what the launcher says.
        world: Likewise; the program gives both or neither.

    Raises:
        ValueError: The environment contradicts itself, or the rank is not below the world's size.
    """
    if (rank is None) != (world is None):
        raise ValueError("rank and world belong together; give both or neither")
    local_rank: int | None
    if rank is None or world is None:
        member = identify(environment)
        rank, world, local_rank = member.rank, member.world, member.local_rank
    else:
        text = environment.get("LOCAL_RANK", "")
        local_rank = int(text) if text.isascii() and text.isdigit() else None
    if not 0 <= rank < world:
        raise ValueError(f"rank {rank} of {world} ranks does not exist; ranks count from 0")
    restarts = environment.get("TORCHELASTIC_RESTART_COUNT", "")
    return Who(
        run=run_name(environment, program),
        rank=rank,
        world=world,
        local_rank=rank if local_rank is None else local_rank,
        attempt=int(restarts) if restarts.isascii() and restarts.isdigit() else 0,
    )


def run_name(environment: Mapping[str, str], program: str) -> str:
    """The same name on every rank: given, or of the launcher's job, or of the program."""
    job = environment.get("TORCHELASTIC_RUN_ID", "")
    slurm = environment.get("SLURM_JOB_ID", "")
    name = (
        environment.get("LOCKSTEP_RUN")
        or ("" if job == "none" else job)
        or (f"slurm-{slurm}" if slurm else "")
        or program
        or "run"
    )
    return re.sub(r"[^\w.-]", "-", name, flags=re.ASCII)[:RUN_CHARACTERS]
