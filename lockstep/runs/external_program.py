"""What the roof does around a program of somebody else's (`lockstep run --exec`)."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import RUN_FILE
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail
from lockstep.workloads.launch.external_program.launcher import (
    CommandError,
    ExternalProgramLauncher,
    check,
)
from lockstep.workloads.launch.external_program.patterns import PatternError
from lockstep.workloads.launch.external_program.programs import Missing

DUMP_SECONDS = 3.0
"""How long a hanging rank is given to write its flight-recorder dump; it looks twice a second."""

OPTIONS = frozenset(
    {
        "words", "program", "step_pattern", "nodes", "ranks_per_node", "out", "hang_timeout",
        "team", "name", "form", "verdict",
    }
)  # fmt: skip
"""Parameters of `lockstep run` that --exec takes."""


def refuse_others(given: Mapping[str, str]) -> None:
    """Refuse what only our own workloads take.

    Args:
        given: What somebody gave, as parameter -> option.

    Raises:
        CommandError: 64, with every option that must go.
    """
    others = [option for name, option in given.items() if name not in OPTIONS]
    if others:
        are, them = ("is", "it") if len(others) == 1 else ("are", "them")
        fail(
            ExitCode.USAGE,
            f"{' and '.join(others)} {are} for our own workloads, not for --exec; leave {them}"
            f" out, or put -- before the command to give {them} to it",
        )


def check_hang_timeout(hang_timeout: float) -> None:
    """Refuse a time-out that never comes, or at once.

    Raises:
        CommandError: 64, with what would be right.
    """
    if not (math.isfinite(hang_timeout) and hang_timeout >= 1.0):
        fail(ExitCode.USAGE, f"--hang-timeout {hang_timeout:g} must be at least 1 second")


def check_command(command: tuple[str, ...], step_pattern: str | None) -> None:
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
) -> ExternalProgramLauncher:
    """Starts the command once a rank; in a hang the flight recorder says who is missing."""
    return ExternalProgramLauncher(command, step_pattern, explain=missing_ranks(workspace, run))


def missing_ranks(workspace: Path, run: str) -> Callable[[], Missing | None]:
    """Asks the ranks of a run for their dumps; answers None where they tell nothing."""

    def ask() -> Missing | None:
        from lockstep.collector.clock import SystemClock
        from lockstep.collector.on_demand.dumps import ranks_below, request_dumps

        clock, proc = SystemClock(), Path("/proc")
        ranks = [rank for rank in ranks_below(workspace, proc, clock) if rank.key[0] == run]
        if not ranks:
            return None
        try:
            answers = request_dumps(ranks, proc, clock, DUMP_SECONDS)
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
            first.waited_seconds,
        )

    return ask


def steps_seen(out: Path) -> str:
    """What was seen of a program until it was ended; empty where that is nothing.

    Args:
        out: The archive.
    """
    from lockstep.collector.contract.archive import STEPS_FILE

    run = bounded_json.read(out / RUN_FILE)
    means = run.get("means")
    if not means:
        return ""
    try:
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        table = ds.dataset(out / STEPS_FILE, format="parquet").to_table(["step", "rank"])
    except (ImportError, OSError, ValueError):
        return ""
    if not table.num_rows:
        return ""
    first, last = pc.min_max(table["step"]).as_py().values()
    ranks = len(pc.unique(table["rank"]))
    known = "known" if run.get("own_time_known") else "unknown"
    return (
        f"{first} to {last} of {ranks} rank{'s' * (ranks > 1)} are recorded,"
        f" {' and '.join(sorted(set(means.values())))}; the own time of each rank is {known}"
    )


def unseen_steps(out: Path, world: int) -> str:
    """What is to be said of a program of which no step was seen; empty where one was.

    Args:
        out: The archive.
    """
    if bounded_json.read(out / RUN_FILE).get("means"):
        return ""
    return (
        f"no step was seen of the command on any of its {world} ranks, so hardware and hangs alone"
        " were watched: it neither uses lockstep.recorder nor a torch optimizer, and no number in"
        rf" its log moves as steps do; --step-pattern 'step (?P<step>\d+)' says how its lines in"
        f" {out / 'logs'} report them"
    )
