"""`lockstep analyze` of runs of 512 and 2,048 ranks with all their samples: seconds, memory.

The archives are simulated, in parts (evaluation.synth.whole.streamed), by a process of its own;
LARGE_RUNS_RANKS (512,2048) says of how many ranks, LARGE_RUNS_FOLDER keeps the archives. With
LARGE_RUNS_BEFORE, a checkout of older code, that analyses them in turn with this one: the figures
are ratios of older to newer, and the verdicts must be the same, byte by byte.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import IO

import pandas as pd

from lockstep.collector.contract.archive import (
    RANKS,
    RANKS_FILE,
    RUN_FILE,
    SAMPLES,
    SAMPLES_FILE,
    STEPS,
    STEPS_FILE,
)
from lockstep.collector.contract.words import Cause
from lockstep.collector.recorder.parts import arrow_schema
from lockstep.evaluation.synth.fleet import Fault, Resolution, SyntheticFleet
from lockstep.evaluation.synth.whole import streamed

WORLDS = tuple(int(word) for word in os.environ.get("LARGE_RUNS_RANKS", "512,2048").split(","))
BEFORE = Path(os.environ["LARGE_RUNS_BEFORE"]) if "LARGE_RUNS_BEFORE" in os.environ else None
GOALS = {
    "analyze_512_seconds": 8.0, "analyze_512_gigabytes": 1.0,
    "analyze_2048_seconds": 30.0, "analyze_2048_gigabytes": 2.0,
    "verdict_512_differs": 0.0, "verdict_2048_differs": 0.0,
}  # fmt: skip


def main() -> dict[str, float]:
    """Figures; GOALS has what they may be at most."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="lockstep-large-") as scratch:
        folder = Path(os.environ.get("LARGE_RUNS_FOLDER", scratch)).resolve()
        for world in WORLDS:
            archive = folder / f"ranks-{world}"
            if not (archive / RUN_FILE).exists():
                make = [sys.executable, "-m", "tests.benchmarks.large_runs", str(world), archive]
                found |= _measured(f"make_{world}", [str(word) for word in make], (0,))
            words = [sys.executable, "-m", "lockstep", "analyze", str(archive), "-o", "json"]
            now, verdict = _analyzed(words, Path.cwd())
            found |= {f"analyze_{world}_{name}": value for name, value in now.items()}
            if BEFORE is not None:
                then, other = _analyzed(words, BEFORE)
                found |= {f"times_{world}_{name}": then[name] / now[name] for name in now}
                found[f"verdict_{world}_differs"] = float(verdict != other)
    return found


def _analyzed(words: list[str], checkout: Path) -> tuple[dict[str, float], bytes]:
    """Its figures, and the verdict."""
    with tempfile.TemporaryFile() as told:
        figures = _measured("", words, (0, 1, 2, 3), told, checkout)
        told.seek(0)
        return {name.removeprefix("_"): value for name, value in figures.items()}, told.read()


def _measured(
    name: str, words: list[str], fine: tuple[int, ...], told: IO[bytes] | int = subprocess.DEVNULL,
    checkout: Path | None = None,
) -> dict[str, float]:  # fmt: skip
    """Its seconds by the wall and of processors, and its peak memory.

    A command that fails ends the benchmark.
    """
    begun = monotonic()
    with subprocess.Popen(words, stdout=told, stderr=subprocess.PIPE, cwd=checkout) as process:
        said = b"" if process.stderr is None else process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in fine:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}: {said[-500:]!r}")
    return {
        f"{name}_seconds": monotonic() - begun,
        f"{name}_cpu_seconds": used.ru_utime + used.ru_stime,
        f"{name}_gigabytes": used.ru_maxrss * 1024 / 1e9,
    }


def fleet_of(world: int) -> SyntheticFleet:
    """A quarter of an hour; one GPU of the middle is too hot from a third on."""
    steps = 450
    hot = Fault(Cause.THERMAL, "hw", world // 2 + 3, 1.5, steps // 3)
    return SyntheticFleet(
        dp=world // 32, pp=4, tp=8, steps=steps, step_seconds=2.0, resolution=Resolution.STEP,
        faults=(hot,), seed=world,
    )  # fmt: skip


def write(world: int, archive: Path) -> None:
    """The archive of a simulated run, part by part."""
    import pyarrow
    import pyarrow.parquet

    run = streamed(fleet_of(world))
    for name, parts, columns in (
        (STEPS_FILE, run.steps, STEPS), (SAMPLES_FILE, run.samples, SAMPLES),
    ):  # fmt: skip
        (archive / name).mkdir(parents=True)
        for number, part in enumerate(parts):
            table = pyarrow.Table.from_pandas(part, arrow_schema(columns), preserve_index=False)
            pyarrow.parquet.write_table(table, archive / name / f"part-{number}.parquet")
    ranks = pd.DataFrame([asdict(info) | {"pod": None} for info in run.ranks])
    table = pyarrow.Table.from_pandas(ranks, arrow_schema(RANKS), preserve_index=False)
    pyarrow.parquet.write_table(table, archive / RANKS_FILE)
    (archive / RUN_FILE).write_text(json.dumps(run.meta))


if __name__ == "__main__":
    write(int(sys.argv[1]), Path(sys.argv[2]))
