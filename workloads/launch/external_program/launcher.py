"""Starts somebody else's training program once a rank, unchanged (`lockstep run --exec`)."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from lockstep.workloads.launch.external_program.patterns import compiled
from lockstep.workloads.launch.external_program.programs import Explain, Programs, RankProgram
from lockstep.workloads.launch.external_program.supervisor import Program, supervise
from lockstep.workloads.launch.joining.reachable import free_port
from lockstep.workloads.measure.starting import FOLDER_VARIABLE, STARTING
from lockstep.workloads.spec import Layout, RunSpec

__all__ = ["CommandError", "ExternalProgramLauncher", "Programs", "check"]


class CommandError(ValueError):
    """The command cannot be started; the message says why."""


def check(command: tuple[str, ...], step_pattern: str | None) -> None:
    """Refuse what cannot run, before anything is started.

    Raises:
        CommandError: There is no command, or it is no program.
        PatternError: The expression cannot find steps.
    """
    if not command:
        raise CommandError("--exec needs a command after --, as: -- python train.py")
    if shutil.which(command[0]) is None:
        raise CommandError(
            f"{command[0]} is no program that can be started; give one on PATH, or its path"
        )
    if step_pattern is not None:
        compiled(step_pattern)


def _unexplained() -> None:
    return None


class ExternalProgramLauncher:
    """Forks a supervisor a rank, which starts the command; see launchers.Launcher.

    The caller must not have started a thread yet.

    Args:
        command: The program and its arguments, the same for every rank.
        step_pattern: Finds steps in its log; None = the known forms.
        explain: Asked in a hang, while all ranks are still there: who is missing, in a sentence.
    """

    def __init__(
        self, command: tuple[str, ...], step_pattern: str | None = None,
        explain: Explain = _unexplained, base: Mapping[str, str] = os.environ,
    ) -> None:  # fmt: skip
        self._command = command
        self._step_pattern = step_pattern
        self._explain = explain
        self._base = base

    def launch(self, spec: RunSpec, workspace: Path, logs: Path) -> Programs:
        """Start every rank.

        Raises:
            OSError: A process could not be started; none of the run is left.
        """
        logs.mkdir(parents=True, exist_ok=True)
        port = free_port()
        ranks: list[RankProgram] = []
        for rank in range(spec.layout.world):
            variables = environment_of(
                self._base, run=spec.run, layout=spec.layout, rank=rank, workspace=workspace,
                port=port,
            ) | {FOLDER_VARIABLE: str(logs.parent.resolve() / STARTING)}  # fmt: skip
            node_dir = Path(variables["LOCKSTEP_DIR"])
            node_dir.mkdir(parents=True, exist_ok=True)
            log = logs / f"rank-{rank}.log"
            program = Program(self._command, variables, log, self._step_pattern)
            try:
                ranks.append(RankProgram(rank, _forked(program), node_dir, log))
            except BaseException:
                Programs(spec, ranks, self._explain).end()
                raise
        return Programs(spec, ranks, self._explain)


def _forked(program: Program) -> int:
    """The pid of a new supervisor of the program."""
    sys.stdout.flush()
    sys.stderr.flush()
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        supervise(program, launcher)
    return pid


HOOK = Path(__file__).parents[2] / "sdk" / "hook"
"""The folder whose sitecustomize.py Python imports by itself."""


def environment_of(
    base: Mapping[str, str], *, run: str, layout: Layout, rank: int, workspace: Path, port: int
) -> dict[str, str]:
    """The environment of one rank.

    The names are torchrun's (torch/distributed/run.py). PYTHONPATH gets our folder in front.
    What decides only speed or output is left as the user has it.

    Args:
        base: The user's own environment.
        port: Where rank 0 listens.
    """
    own = {
        "RANK": str(rank),
        "WORLD_SIZE": str(layout.world),
        "LOCAL_RANK": str(layout.local_rank(rank)),
        "LOCAL_WORLD_SIZE": str(layout.ranks_per_node),
        "GROUP_RANK": str(rank // layout.ranks_per_node),
        "GROUP_WORLD_SIZE": str(layout.nodes),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(layout.world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        # By this one Lightning knows that the ranks are started already.
        "TORCHELASTIC_RUN_ID": run,
        "LOCKSTEP_DIR": str(workspace / layout.node(rank)),
        "LOCKSTEP_RUN": run,
        "LOCKSTEP_NODE": layout.node(rank),
        "PYTHONPATH": ":".join(filter(None, (str(HOOK), base.get("PYTHONPATH", "")))),
    }
    defaults = {
        "OMP_NUM_THREADS": "1",
        # gloo listens on this interface only: nothing is reachable from outside.
        "GLOO_SOCKET_IFNAME": "lo",
        # Lines reach the log when they are written: their times are the steps'.
        "PYTHONUNBUFFERED": "1",
    }
    return {**defaults, **base, **own}
