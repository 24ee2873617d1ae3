"""What the roof does around a program of somebody else's (`lockstep run --exec`)."""

from collections.abc import Callable, Mapping
from pathlib import Path

from collector.contract.words import ExitCode
from lockstep.output import fail
from workloads.exec.patterns import PatternError
from workloads.launchers.foreign import CommandError, ForeignLauncher, check
from workloads.launchers.foreign.programs import Missing

DUMP_SECONDS = 3.0
"""How long a hanging rank is given to write its flight-recorder dump; it looks twice a second."""


def checked(command: tuple[str, ...], step_pattern: str | None) -> None:
    """Refuse a command that cannot run, before anything is started.

    Raises:
        CommandError: 64, with what would be right.
    """
    try:
        check(command, step_pattern)
    except CommandError as error:
        fail(ExitCode.USAGE, str(error))
    except PatternError as error:
        fail(ExitCode.USAGE, f"--step-pattern: {error}")


def launcher(
    command: tuple[str, ...], step_pattern: str | None, run: str, workspace: Path
) -> ForeignLauncher:
    """Starts the command once a rank; in a hang the flight recorder says who is missing."""
    return ForeignLauncher(command, step_pattern, explain=missing_ranks(workspace, run))


def missing_ranks(workspace: Path, run: str) -> Callable[[], Missing | None]:
    """Asks the ranks of a run for their dumps; answers None where they tell nothing."""

    def ask() -> Missing | None:
        from collector.clock import SystemClock
        from lockstep.dumps import asked, ranks_below

        clock, proc = SystemClock(), Path("/proc")
        ranks = [rank for rank in ranks_below(workspace, proc, clock) if rank.key[0] == run]
        if not ranks:
            return None
        try:
            answers = asked(ranks, proc, clock, DUMP_SECONDS)
        except OSError:
            return None
        held_up = [one for one in answers.missing if one.held_up]
        if not held_up:
            return None
        first = max(held_up, key=lambda one: one.waited_seconds or 0.0)
        who = tuple(sorted((*first.ranks, *first.silent)))
        verb = "rank {} is" if len(who) == 1 else "ranks {} are"
        return Missing(
            who,
            f"{verb.format(', '.join(map(str, who)))} missing from {first.op} {first.sequence}"
            f" of group {first.group} (PyTorch's flight recorder)",
        )

    return ask


def require_steps(means: Mapping[int, str], world: int, logs: Path) -> None:
    """Refuse the result of a program of which no step was seen.

    Raises:
        CommandError: 65, with what would help.
    """
    if not means:
        fail(
            ExitCode.BAD_INPUT,
            f"no step was seen of the command on any of its {world} ranks: it neither uses"
            " lockstep.recorder nor a torch optimizer, and no line of its log fits a known form;"
            rf" give --step-pattern 'step (?P<step>\d+)' as its lines in {logs} have it",
        )
