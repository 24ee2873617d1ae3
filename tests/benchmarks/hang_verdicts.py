"""How often a hang's rank and kind are named from dumps alone, and nobody in runs that are well.

Constructed dumps (tests/hang_programs.py; HANGS of each fault, 40 unless told), published ones
where $LOCKSTEP_SHARED has them, and the time from 1,024 files to the verdict.
"""

import os
import pickle
import random
import tempfile
import time
from pathlib import Path

from lockstep.analyzer.hangs.verdict import Status, judge
from lockstep.runs.hang_dumps import read_folder
from tests.hang_programs import (
    BEGIN,
    FAULTS,
    Case,
    Layout,
    World,
    Wrong,
    dump,
    hang,
    healthy,
    judged,
    kind_is_right,
    program,
)
from tests.wild import SHARED

HANGS = int(os.environ.get("HANGS", "40"))
HEALTHY = 500
RANKS = 1024
PUBLISHED = {
    "gpu_error_1st": ({12, 14}, "device-stopped"),
    "lock_gil_1st": ({9, 14}, "host-stopped"),
}
"""What is known of them (NVIDIA/nvidia-resiliency-ext, tests/attribution/unit/fr_traces)."""
GOALS = {
    "rank_missed_share": 0.02,
    "kind_missed_share": 0.05,
    "healthy_with_somebody_named": 0,
    "published_missed": 0,
    "active_seconds_1024_ranks": 5,
    "rings_seconds_1024_ranks": 5,
}


def main() -> dict[str, float]:
    """Counts, shares and seconds."""
    figures: dict[str, float] = {}
    missed = wrong = kinds = 0
    for fault in FAULTS:
        cases = [hang(1000 * number + len(fault), fault) for number in range(HANGS)]
        verdicts = [judged(case) for case in cases]
        named = [{one.rank for one in verdict.origins if one.certain} for verdict in verdicts]
        right = [ranks == {case.rank} for ranks, case in zip(named, cases, strict=True)]
        kind = [
            good and kind_is_right(case, verdict)
            for good, case, verdict in zip(right, cases, verdicts, strict=True)
        ]
        figures[f"{fault}_rank_missed"] = HANGS - sum(right)
        figures[f"{fault}_kind_missed"] = HANGS - sum(kind)
        missed, kinds = missed + HANGS - sum(right), kinds + HANGS - sum(kind)
        wrong += sum(bool(ranks - {case.rank}) for ranks, case in zip(named, cases, strict=True))
    every = HANGS * len(FAULTS)
    figures |= {
        "hangs": every,
        "rank_missed_share": missed / every,
        "kind_missed_share": kinds / every,
        "innocent_named": wrong,
        "healthy": HEALTHY,
        "healthy_with_somebody_named": sum(
            judged(healthy(seed)).status is Status.HANG for seed in range(HEALTHY)
        ),
    }
    published = [name for name in PUBLISHED if (_published() / name).is_dir()]
    if published:
        figures["published_missed"] = sum(not _is_right(name) for name in published)
    figures["active_seconds_1024_ranks"] = _seconds(active_only=True)
    figures["rings_seconds_1024_ranks"] = _seconds(active_only=False)
    return figures


def _published() -> Path:
    return SHARED / "data" / "wild" / "flight_recorder"


def _is_right(name: str) -> bool:
    """Those ranks, that kind, nobody else."""
    ranks, kind = PUBLISHED[name]
    origins = judge(read_folder(_published() / name)[0][1]).origins
    return {one.rank for one in origins} == ranks and {one.kind.value for one in origins} == {kind}


def _seconds(*, active_only: bool) -> float:
    """From the files of RANKS ranks to the right verdict."""
    dice = random.Random(0)
    case = Case(Layout(dp=RANKS // 64, tp=8, pp=8), {}, {}, [], RANKS // 3, None, "host-stopped")
    world = World(program(case.layout, 2, dice), Wrong(case.fault, RANKS // 3, 0.3))
    world.run(float("inf"), dice)
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(RANKS):
            path = Path(folder) / f"dump_{rank}"
            tree = dump(world, rank, world.end + 100, active_only=active_only)
            if not active_only:  # a ring of torch's usual size, 2,000, though of two steps
                old = [each for each in tree["entries"] if each["state"] == "completed"]
                copies = (2000 - len(tree["entries"])) // max(len(old), 1)
                tree["entries"] = [{**each} for _ in range(copies) for each in old] + tree[
                    "entries"
                ]
            path.write_bytes(pickle.dumps(tree, protocol=2))
            os.utime(path, (BEGIN + world.end + 100,) * 2)
        begin = time.perf_counter()
        verdict = judge(read_folder(Path(folder))[0][1])
        took = time.perf_counter() - begin
    assert {one.rank for one in verdict.origins} == {case.rank}
    return took
