"""The verdict by NCCL Inspector's lines or flight-recorder dumps alone, against our recorder's.

On the same runs: VERDICT_BY_SOURCE_RUNS (100) simulated fleets with a slow rank and as many healthy
ones, from VERDICT_BY_SOURCE_SEED on, each as our recorder tells it with its telemetry and by
Inspector's lines; and VERDICT_BY_SOURCE_REAL (6) real runs of each kind, 25 s each, by all three.
Faults that stop a rank, and those of the network that only counters place, are left out: durations
do not tell of them. Where sources differ is on stderr.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.read.collectives.load import load_collectives
from lockstep.analyzer.shapes.run import Verdict
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.evaluation.synth.draw import drawn
from lockstep.evaluation.synth.fleet import NETWORK, STOPS, Resolution, SyntheticFleet
from lockstep.evaluation.synth.inspector_lines import write_inspector
from lockstep.evaluation.synth.whole import labelled

GOALS = {
    "other_rank_share": 0.05, "named_in_healthy": 0.0, "real_inspector_other_rank_share": 0.05,
    "real_flight_recorder_other_rank_share": 0.10, "real_named_in_healthy": 0.0,
}  # fmt: skip
REAL = int(os.environ.get("VERDICT_BY_SOURCE_REAL", "6"))
RUNS = int(os.environ.get("VERDICT_BY_SOURCE_RUNS", "100"))
SEED = int(os.environ.get("VERDICT_BY_SOURCE_SEED", "22000"))
RANKS_AT_MOST = 64


def fleets(runs: int, seed: int, *, injected: bool) -> list[SyntheticFleet]:
    """So many fleets that durations can tell something of."""
    drawn_fleets = (drawn(one, injected=injected) for one in count(seed))
    fitting = (
        replace(one, resolution=Resolution.STEP)
        for one in drawn_fleets
        if one.world <= RANKS_AT_MOST
        and not any(fault.cause in (*NETWORK, *STOPS) for fault in one.faults)
    )
    return list(islice(fitting, runs))


def named(verdict: Verdict) -> list[str]:
    """Places of its culprits."""
    return sorted(one.who for one in verdict.culprits)


def compared(fleet: SyntheticFleet) -> dict[str, Any]:
    """Both verdicts about one fleet."""
    known = labelled(fleet)
    ours = diagnose(known.run).verdict
    with tempfile.TemporaryDirectory() as folder:
        write_inspector(fleet, Path(folder))
        theirs = diagnose(load_collectives(Path(folder))).verdict
    return {
        "seed": fleet.seed,
        "layout": [fleet.dp, fleet.pp, fleet.tp],
        "truth": [f"{one['scope']} {one['rank'] if one['rank'] is not None else one['node']}"
                  for one in known.truth],
        "factor": [one["factor_measured"] for one in known.truth],
        "recorder": named(ours), "inspector": named(theirs),
        "status": [ours.status, theirs.status],
        "missing": list(theirs.missing),
    }  # fmt: skip


def main() -> dict[str, float]:
    """Shares of runs: where both name the same, and where each names what was injected."""
    return (_simulated() if RUNS else {}) | (_real() if REAL else {})


def _simulated() -> dict[str, float]:
    injected = [told(compared(one)) for one in fleets(RUNS, SEED, injected=True)]
    healthy = [told(compared(one)) for one in fleets(RUNS, SEED, injected=False)]
    other = sum(one["recorder"] != one["inspector"] for one in injected)
    return {
        "other_rank_share": other / RUNS,
        "named_in_healthy": float(sum(bool(one["inspector"]) for one in healthy)),
        "recorder_named_in_healthy": float(sum(bool(one["recorder"]) for one in healthy)),
        **{
            f"{source}_as_injected": sum(one[source] == one["truth"] for one in injected) / RUNS
            for source in ("recorder", "inspector")
        },
    }


LAYOUTS = ("--nodes 4", "--nodes 8 --dp 2 --pp 2 --tp 2", "--nodes 6 --dp 3 --tp 2")
KINDS = ("thermal", "compute", "data", "power")
FACTORS = (1.3, 1.5, 1.8)
SOURCES = {"inspector": "nccl-inspector", "flight_recorder": "flight-recorder"}


def _real() -> dict[str, float]:
    injected = [told(_ran(number, slow=True)) for number in range(REAL)]
    healthy = [told(_ran(number, slow=False)) for number in range(REAL)]
    return {
        **{
            f"real_{source}_other_rank_share":
                sum(one["recorder"] != one[source] for one in injected) / REAL
            for source in SOURCES
        },
        "real_named_in_healthy": float(
            sum(bool(one[source]) for one in healthy for source in SOURCES)
        ),
        "real_recorder_named_in_healthy": float(sum(bool(one["recorder"]) for one in healthy)),
        **{
            f"real_{source}_as_injected":
                sum(one[source] == one["truth"] for one in injected) / REAL
            for source in ("recorder", *SOURCES)
        },
    }  # fmt: skip


def _ran(number: int, *, slow: bool) -> dict[str, Any]:
    """A real run, judged by each source alone."""
    layout = LAYOUTS[number % len(LAYOUTS)]
    rank = (5 * number + 2) % int(layout.split()[1])
    kind, factor = KINDS[number % len(KINDS)], FACTORS[number % len(FACTORS)]
    fault = f"--fault {kind}:rank={rank},factor={factor}" if slow else ""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "run"
        words = (
            f"run gpt {layout} --steps 200 --seed {SEED + number} {fault} --record inspector"
            f" --record flight-recorder --no-verdict --out {archive}"
        )
        subprocess.run(
            [sys.executable, "-m", "lockstep", *words.split()], check=True, capture_output=True
        )
        verdicts = {"recorder": diagnose(load_archive(archive)).verdict}
        for source, name in SOURCES.items():
            verdicts[source] = diagnose(load_collectives(archive / name)).verdict
    return {
        "layout": layout, "fault": fault, "truth": [f"rank {rank}"] if slow else [],
        "status": {source: one.status for source, one in verdicts.items()},
        **{source: named(one) for source, one in verdicts.items()},
    }  # fmt: skip


def told(found: dict[str, Any]) -> dict[str, Any]:
    """It, and on stderr where the sources differ."""
    if any(found[source] != found["recorder"] for source in SOURCES if source in found):
        sys.stderr.write(json.dumps(found) + "\n")
    return found
