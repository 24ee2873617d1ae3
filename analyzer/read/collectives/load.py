"""A run of which only the durations of its collectives are known (docs/method/durations.md)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lockstep.analyzer.read.collectives import flight_recorder, inspector
from lockstep.analyzer.read.collectives.job import Job, job_of
from lockstep.analyzer.read.collectives.steps import Steps, steps_of
from lockstep.analyzer.read.collectives.windows import KNOWN_SHARE, WindowSums, frame, told_windows
from lockstep.analyzer.shapes.run import STEPS_CERTAINTY, LoadError, RankInfo, Run
from lockstep.analyzer.shapes.waits import Collectives, Waits, matrices, waits
from lockstep.analyzer.shapes.windows import COLUMNS
from lockstep.collector.contract import archive

SHOWN = 0.995
"""Share of waits known from which on nothing is said of the rest."""
TRANSFERS = (
    "communicator", "group", "source", "destination", "transfers", "bytes", "seconds",
    "source_wait_seconds", "destination_wait_seconds",
)  # fmt: skip
INTERVAL = "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"
LEAST_BYTES = "NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES"


def has_collectives(folder: Path) -> bool:
    """Whether a folder holds files of NCCL Inspector, or dumps of the flight recorder."""
    try:
        return bool(inspector.files(folder) or flight_recorder.files(folder))
    except OSError:
        return False


def load_collectives(folder: Path, unpickle: flight_recorder.Unpickle | None = None) -> Run:
    """The run whose NCCL Inspector files, else flight-recorder dumps, lie in a folder.

    Args:
        folder: Inspector's files may also lie one level below it.
        unpickle: Of `flight_recorder.read`.

    Raises:
        LoadError: There are none, or nothing in them has a duration.
    """
    missing: list[str] = []
    told, source = _read(folder, unpickle, missing)
    return run_of_collectives(told, folder.resolve().name, missing, source=source)


def transfers(folder: Path, unpickle: flight_recorder.Unpickle | None = None) -> pd.DataFrame:
    """Who sent to whom: one row a source and destination that both sides reported (docs/method).

    Columns: `communicator, group, source, destination` (global ranks), `transfers, bytes, seconds`
    (of the transfers themselves), `source_wait_seconds, destination_wait_seconds`.

    Args:
        folder: As `load_collectives`.
        unpickle: As `load_collectives`.

    Raises:
        LoadError: As `load_collectives`.
    """
    told, _ = _read(folder, unpickle, [])
    job = job_of(told)
    number: dict[tuple[int, int], int] = {}
    for process, place, rank in np.unique(
        np.column_stack(
            [job.collectives.process, job.collectives.communicator, job.collectives.rank]
        ),
        axis=0,
    ).tolist():
        number[place, rank] = job.ranks[int(job.column[process])].rank
    rows: list[tuple[object, ...]] = []
    for one in matrices(job.collectives, waits(job.collectives)):
        place = job.collectives.communicators.index(one.communicator)
        for source, target in np.argwhere(one.count).tolist():
            rows.append((
                one.communicator.identity, one.communicator.name,
                number[place, source], number[place, target],
                *(values[source, target] for values in (
                    one.count, one.bytes, one.seconds, one.source_waits, one.target_waits
                )),
            ))  # fmt: skip
    return pd.DataFrame(rows, columns=list(TRANSFERS))


def _read(
    folder: Path, unpickle: flight_recorder.Unpickle | None, missing: list[str]
) -> tuple[Collectives, str]:
    try:
        paths = inspector.files(folder)
        dumps = {} if paths else flight_recorder.files(folder)
    except OSError as error:
        raise LoadError(f"{folder} cannot be read: {error.strerror}; give a folder") from error
    if paths:
        source, rows = "NCCL Inspector", inspector.read(paths, missing)
    elif dumps:
        source, rows = "the flight recorder", flight_recorder.read(dumps, missing, unpickle)
    else:
        raise LoadError(
            f"{folder} holds no files of NCCL Inspector, whose lines begin"
            f" {inspector.BEGINNING.decode()!r}, and no dumps of the flight recorder, as"
            " nccl_trace_rank_0; give the folder in which they were written"
        )
    if not len(rows):
        why = f" ({'; '.join(missing)})" if missing else ""
        raise LoadError(f"nothing in {folder} says how long a collective took{why}")
    return rows.whole(), source


def run_of_collectives(
    collectives: Collectives, name: str, missing: list[str], *, source: str
) -> Run:
    """The run that these collectives are of.

    Args:
        collectives: At least one row.
        name: Of the run.
        missing: What is not there, in words; gets more.
        source: Who timed them.
    """
    job = job_of(collectives)
    waited = waits(job.collectives)
    steps = steps_of(job.collectives, waited)
    missing += [*job.missing, *_incomplete(job, waited)]
    ranks = np.array([one.rank for one in job.ranks], np.int64)
    windows = pd.DataFrame(columns=list(COLUMNS))
    if steps is None:
        missing.append(
            "no steps: no collective that all ranks are in comes again regularly at least ten times"
        )
    else:
        sums = told_windows(job, waited, steps)
        windows = frame(sums, ranks)
        missing += _steps_words(steps, sums, windows)
    return Run(
        name=name, meta=_meta(name, source, steps), ranks=job.ranks, windows=windows,
        samples=pd.DataFrame(columns=[column.name for column in archive.SAMPLES]), ops=None,
        missing=tuple(missing),
    )  # fmt: skip


def _meta(name: str, source: str, steps: Steps | None) -> Mapping[str, Any]:
    return {
        "run": name,
        "own_time": f"steps less waits, by {source}",
        "steps": None if steps is None else steps.words,
        STEPS_CERTAINTY: None if steps is None else steps.regular,
    }


def joined(archive: Run, timed: Run) -> Run:
    """A run of whose training an archive reports nothing, with the windows of its collectives.

    Who the ranks are is reported by the archive where it knows them; else a rank's GPU is taken to
    be its place on the node, where the node has as many GPUs as ranks.

    Args:
        archive: With the telemetry of the nodes.
        timed: Of `load`.
    """
    missing = [*archive.missing, *timed.missing]
    ranks = archive.ranks
    if {one.rank for one in ranks} != {one.rank for one in timed.ranks}:
        ranks = _on_gpus(timed.ranks, archive.samples)
        missing.append("a rank's GPU is taken to be its place on the node: it was not reported")
    return replace(
        archive, ranks=ranks, windows=timed.windows, meta={**timed.meta, **archive.meta},
        missing=tuple(missing),
    )  # fmt: skip


def _on_gpus(ranks: tuple[RankInfo, ...], samples: pd.DataFrame) -> tuple[RankInfo, ...]:
    there = samples[samples["gpu"].notna()]
    gpus = {
        str(node): sorted(int(one) for one in rows.unique())
        for node, rows in there.groupby("node", observed=True)["gpu"]
    }
    many = Counter(one.node for one in ranks)
    return tuple(
        replace(one, gpu=gpus[one.node][one.local_rank])
        if len(gpus.get(one.node, ())) == many[one.node]
        else one
        for one in ranks
    )


def _incomplete(job: Job, waited: Waits) -> list[str]:
    """Of how many collectives the wait is not known, in words."""
    share = float(np.isfinite(waited.seconds[~waited.twice]).mean())
    if share >= SHOWN:
        return []
    words = (
        f"the wait is unknown for {1 - share:.0%} of the lines: another rank of the same"
        " collective did not report it (its ring overflowed, its file is not here), or was timed by"
        " other means"
    )
    return [words]


def _steps_words(steps: Steps, sums: WindowSums, windows: pd.DataFrame) -> list[str]:
    words = [f"{steps.words}; {steps.regular:.0%} of them hold as many collectives as the others"]
    if windows.empty:
        return [
            *words, f"no step times: all lines were written at once; set {INTERVAL} above 0",
        ]  # fmt: skip
    known = sums.known[np.isfinite(sums.known)]
    if len(known) and (few := float((known < KNOWN_SHARE).mean())) > 0:
        words.append(
            f"own time is unknown in {few:.0%} of the windows: less than {KNOWN_SHARE:.0%} of"
            " their collectives were written by all ranks; small ones are left out unless"
            f" {LEAST_BYTES}=0"
        )
    return words
