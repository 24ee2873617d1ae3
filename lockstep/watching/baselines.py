"""How fast a run of an archive was, as what runs of the same kind are compared with."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from collector.contract.words import ExitCode
from lockstep.output import fail


def steps_per_second(archive: Path) -> tuple[tuple[str, int], float]:
    """((workload, ranks), steps per second): the median step, those that are slow by design out.

    Raises:
        CommandError: 65, it is no archive, or has no steps.
    """
    from analyzer.readers.archive import load
    from analyzer.run import LoadError

    try:
        run = load(archive)
    except LoadError as error:
        fail(ExitCode.BAD_INPUT, f"--baseline {error}")
    windows = run.windows[run.windows["tags"] == ""] if len(run.windows) else run.windows
    each = (windows["wall_seconds"] / windows["steps"]).to_numpy(dtype=float)
    each = each[np.isfinite(each) & (each > 0)]
    workload = run.meta.get("workload")
    if not each.size or not isinstance(workload, str):
        fail(ExitCode.BAD_INPUT, f"--baseline {archive} tells no workload or no steps")
    return (workload, len(run.ranks)), 1.0 / float(np.median(each))


def kind_of(
    run: str, ranks: int, baselines: Mapping[tuple[str, int], float]
) -> tuple[str, int] | None:
    """(workload, ranks) of the baseline of a run; None = it has none.

    Its id begins with the workload as a word of its own, as `<workload>-<moment>-<token>` does
    (planning.run_id); of two that fit the longer.
    """
    fitting = [
        workload
        for workload, world in baselines
        if world == ranks and re.match(rf"{re.escape(workload)}(?![^\W_])", run)
    ]
    return (max(fitting, key=len), ranks) if fitting else None
