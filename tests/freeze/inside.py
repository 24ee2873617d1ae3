"""All that the freeze takes from inside the packages: a rename of imports touches this file alone.

The rest of it knows the command line, files, and makers of input that stand under tests/.
"""

import contextlib
import io
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from lockstep.app import main
from lockstep.collector.contract.archive import RANKS, SAMPLES, STEPS, Column
from lockstep.collector.contract.metrics import METRICS
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth import traces as synth
from lockstep.evaluation.synth.draw import drawn
from lockstep.evaluation.synth.inspector_lines import write_inspector
from lockstep.evaluation.synth.whole import streamed
from tests.watch.cluster_life import Days

CAUSES = frozenset(cause.value for cause in Cause)


def called(words: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `lockstep` with these words."""
    out, err = io.StringIO(), io.StringIO()
    own = {name: text for name, text in os.environ.items() if not name.startswith("LOCKSTEP_")}
    with (
        patch.dict(os.environ, own, clear=True),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(words)
    return int(code), out.getvalue(), err.getvalue()


OLDEST_STEPS = tuple(column for column in STEPS if not column.added)
"""The columns that every archive has: what is frozen was written before the others."""


def metrics() -> dict[str, Any]:
    """By name, what is said of every metric of a page."""
    return {
        name: {"kind": each.kind.value, "labels": list(each.labels), "help": each.help}
        for name, each in METRICS.items()
    }


def write_fleet(folder: Path, seed: int) -> None:
    """The archive of a fleet of `lockstep score synth`, with its fault."""
    run = streamed(drawn(seed, injected=True))
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(run.meta))
    ranks = pd.DataFrame([asdict(info) | {"pod": None} for info in run.ranks])
    _write(folder / "ranks.parquet", ranks, RANKS)
    for name, parts, columns in (
        ("steps.parquet", run.steps, OLDEST_STEPS), ("samples.parquet", run.samples, SAMPLES),
    ):  # fmt: skip
        (folder / name).mkdir()
        for number, part in enumerate(parts):
            _write(folder / name / f"part-{number}.parquet", part, columns)


def _write(path: Path, frame: pd.DataFrame, columns: tuple[Column, ...]) -> None:
    schema = pyarrow.schema([(column.name, column.dtype) for column in columns])
    table = pyarrow.Table.from_pandas(frame, schema, preserve_index=False)
    pyarrow.parquet.write_table(table, path)


def write_inspector_lines(folder: Path, seed: int) -> None:
    """What NCCL Inspector would have written of a fleet of `lockstep score synth`."""
    folder.mkdir(parents=True)
    write_inspector(drawn(seed, injected=True), folder)


def write_trace(path: Path, *slow: tuple[int, int, float], **scene: Any) -> None:
    """A trace of operations in the public schema; `slow` are (dp, stage, factor)."""
    workers = tuple(synth.Slow(*each) for each in slow)
    trace = synth.trace(synth.Scene(slow=workers, **scene))
    op, dp, step = (axis.reshape(-1) for axis in np.indices(trace.start.shape))
    pd.DataFrame(
        {
            "dp_rank": dp, "stage": trace.stage[op], "rank": trace.ranks[dp, trace.stage[op]],
            "step": trace.steps[step], "optype": trace.optype[op],
            "start_ts": trace.start.reshape(-1), "duration": trace.duration.reshape(-1),
            "seq_id": trace.seq[op], "mc": trace.chunk[op], "gmc": trace.global_chunk[op],
            "mb_id": trace.micro_batch[op],
        }
    ).to_parquet(path)  # fmt: skip


class Unharmed(Days):
    """Days on which watch is not killed: at which write it would be is no matter of verdicts."""

    def _burn(self) -> None:
        pass


def lived(folder: Path, seed: int, hours: float, *, diagnosed: bool) -> dict[str, Any]:
    """What happens in hours of a simulated cluster, and who is alerted of it.

    The archives of its findings are left in `folder`/out. Verdicts are those of diagnoses, or
    in far less time what is so, now and then nothing.
    """
    with _silence():
        days = Unharmed(folder, seed, rows=2, oracle=not diagnosed)
        days.live(hours)
    return {
        "history": [
            {"run": run.run, "ends": kind, "begun": run.begun, "dies": run.dies,
             "slow": [asdict(episode) for episode in run.episodes], "dark": run.dark}
            for kind, run in days.cluster.history
        ],
        "alerts": [
            {"when": alert.when, "firing": alert.firing, "starts": alert.starts,
             "labels": dict(alert.labels), "annotations": dict(alert.words)}
            for alert in days.alertmanager.told
        ],
    }  # fmt: skip


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
