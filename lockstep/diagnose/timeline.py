"""`--timeline`: the file for ui.perfetto.dev, and which steps go into it."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.collector.contract.whole_file import write_whole
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output
from lockstep.terminal.output import fail

if TYPE_CHECKING:
    from lockstep.analyzer.report.perfetto.timeline import Timeline
    from lockstep.analyzer.shapes.operations import Ints, Trace
    from lockstep.analyzer.shapes.run import Culprit, Run

STEPS = re.compile(r"(\d{1,15}):(\d{1,15})", re.ASCII)


def parse(steps: str | None) -> range | None:
    """`A:B` as the steps from A up to, without, B.

    Raises:
        CommandError: 64, it is something else.
    """
    if steps is None:
        return None
    match = STEPS.fullmatch(steps.strip())
    chosen = range(int(match[1]), int(match[2])) if match else range(0)
    if not chosen:
        fail(
            ExitCode.USAGE,
            f"--steps {steps!r} is no span of steps; it must be FIRST:END, as 90:110",
        )
    return chosen


def write(
    path: Path, source: "Run | Trace", steps: range | None, culprits: Iterable["Culprit"] = ()
) -> None:
    """Writes the operations of a run or of an op trace, actual and ideal.

    Args:
        path: The file.
        source: What to show.
        steps: Which steps; None = around the first culprit's onset, or the last ones.
        culprits: Of the verdict.

    Raises:
        CommandError: 64, the steps have no operations or too many, or the file cannot be
            written; 65, there are no operations at all.
    """
    import numpy as np

    from lockstep.analyzer.report.perfetto.timeline import TimelineError, of_run, of_trace
    from lockstep.analyzer.shapes.operations import Trace

    try:
        if isinstance(source, Trace):
            chosen = steps or _steps(source.steps, culprits)
            timeline = of_trace(source, chosen)
        else:
            if source.ops is None:
                fail(ExitCode.BAD_INPUT, f"{source.name} has no operations; a timeline needs them")
            chosen = steps or _steps(source.ops["step"].to_numpy(dtype=np.int64), culprits)
            timeline = of_run(source, chosen)
    except TimelineError as error:
        fail(ExitCode.USAGE, str(error))
    _save(path, timeline)
    missing = f"; without the ideal: {timeline.without_ideal}" if timeline.without_ideal else ""
    output.note(
        f"timeline of steps {chosen.start}:{chosen.stop} in {path}, for ui.perfetto.dev{missing}"
    )


def _steps(numbers: "Ints", culprits: Iterable["Culprit"]) -> range:
    from lockstep.analyzer.report.perfetto.timeline import steps_around

    onsets = [culprit.from_step for culprit in culprits if culprit.from_step is not None]
    return steps_around(numbers, onsets[0] if onsets else None)


def _save(path: Path, timeline: "Timeline") -> None:
    try:
        # A link, as /dev/stdout, is written through; whatever it leads to is not replaced.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            with path.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(timeline.parts())
        else:
            write_whole(path, timeline.parts())
    except OSError as error:
        fail(ExitCode.USAGE, f"--timeline {path} cannot be written: {error.strerror}")
