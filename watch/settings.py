"""How `lockstep watch` was asked to work, and the baselines that it was given."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lockstep.analyzer.findings.finding_lifecycle import Pace
from lockstep.analyzer.hardware.sequential_test.false_alarms import Budget
from lockstep.analyzer.read.prometheus.access import Access
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail

WINDOW_CHECKS = 40
LEAST_WINDOW_SECONDS = 120.0
CLOSE_CHECKS = 20
LEAST_CLOSE_SECONDS = 120.0
"""Also where cycles are short: a few that took long, or found nothing, say little."""
RECOVER_CHECKS = 8
LEAST_RECOVER_SECONDS = 60.0
"""Of own time that is as before in every look, each over a minute."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one `watch`.

    Attributes:
        access: To the Prometheus.
        out: Folder of the archives; None = none are written.
        state: Folder of what is remembered; None = nothing is.
        interval: Seconds between two cycles.
        false_alarms: Per node and month, as fleet.budget.
        baselines: (workload, ranks) -> steps per second.
    """

    access: Access
    out: Path | None
    state: Path | None
    interval: float = 15.0
    false_alarms: float = 0.01
    baselines: Mapping[tuple[str, int], float] = field(default_factory=dict)

    @property
    def window(self) -> float:
        """Seconds that a diagnosis looks back: ten minutes at 15 s."""
        return max(LEAST_WINDOW_SECONDS, WINDOW_CHECKS * self.interval)

    @property
    def pace(self) -> Pace:
        """What is not sure must be seen for a whole window.

        A finding that was not seen for five minutes at 15 s is over; one of a rank whose own time
        is as before, after two.
        """
        close = max(LEAST_CLOSE_SECONDS, CLOSE_CHECKS * self.interval)
        recover = max(LEAST_RECOVER_SECONDS, RECOVER_CHECKS * self.interval)
        return Pace(confirm=self.window, close=close, recover=recover)

    def budget(self, streams: int) -> Budget:
        """Of the sequential test, for nodes with so many streams."""
        return Budget(self.false_alarms, self.interval, max(1, streams))


def of_path(path: Path) -> dict[tuple[str, int], float]:
    """(workload, ranks) -> steps per second, of an archive, or of a file of `lockstep bench lock`.

    Raises:
        CommandError: 65, it is neither, or a file with two of a kind: a live run tells no settings.
    """
    if not path.is_file():
        return dict([steps_per_second(path)])
    from statistics import median

    from lockstep.bench.baseline import read_baseline
    from lockstep.bench.judging import grouped, words_of
    from lockstep.bench.spec import BenchError

    found: dict[tuple[str, int], float] = {}
    try:
        groups = grouped(read_baseline(path).rows)
    except BenchError as error:
        fail(ExitCode.BAD_INPUT, f"--baseline {error}")
    for rows in groups.values():
        kind = (str(rows[0].get("workload")), int(rows[0].get("ranks") or 0))
        if kind in found:
            fail(
                ExitCode.BAD_INPUT,
                f"--baseline {path} has {words_of(rows[0])} and another of {kind[0]} on {kind[1]}"
                " ranks, which a live run does not distinguish; lock them into files of their own",
            )
        found[kind] = 1.0 / median(row["step_seconds"] for row in rows)
    return found


def steps_per_second(archive: Path) -> tuple[tuple[str, int], float]:
    """((workload, ranks), steps per second): the median step, those that are slow by design out.

    Raises:
        CommandError: 65, it is no archive, or has no steps.
    """
    from lockstep.analyzer.read.archive.load import load_archive
    from lockstep.analyzer.shapes.run import LoadError

    try:
        run = load_archive(archive)
    except LoadError as error:
        fail(ExitCode.BAD_INPUT, f"--baseline {error}")
    windows = run.windows[run.windows["tags"] == ""] if len(run.windows) else run.windows
    each = (windows["wall_seconds"] / windows["steps"]).to_numpy(dtype=float)
    each = each[np.isfinite(each) & (each > 0)]
    workload = run.meta.get("workload")
    if not each.size or not isinstance(workload, str):
        fail(ExitCode.BAD_INPUT, f"--baseline {archive} has no workload or no steps")
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
