"""Slow workers found in op traces, and structure told from them: counts on seeds unused in tuning.

Figures are missed or false ones out of a number that stands in the figure's name, so that fewer is
better. The real trace is used where it lies beside the repository, else its figures are absent.
OP_DETECTION_RUNS and OP_DETECTION_SEED in the environment change how many synthetic runs of each
kind there are, and from which seed.
"""

import os
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np

from lockstep.analyzer.operations.outliers import judge, trace_cells
from lockstep.analyzer.operations.structure import Facts, structures
from lockstep.analyzer.operations.whatif.graph import COMPUTE
from lockstep.analyzer.read.optrace.load import load_trace, read_meta
from lockstep.analyzer.shapes.operations import Trace
from lockstep.evaluation.synth import traces as synth
from tests.analyzer.edited import healed, slowed

RUNS = int(os.environ.get("OP_DETECTION_RUNS", "200"))
SEED = int(os.environ.get("OP_DETECTION_SEED", "660000"))
VARIANTS = 100
INJECTED = 64
SLOW = 1.1
REDRAWN = 0.003
GOALS = {
    "real_slow_worker_missed": 0,
    "real_others_named": 0,
    f"real_healthy_named_of_{VARIANTS}": 0,
    f"real_2_percent_missed_of_{INJECTED}": 0.05 * INJECTED,
    f"real_2_percent_others_named_of_{INJECTED}": 0,
    f"synthetic_healthy_named_of_{RUNS}": 0,
    f"synthetic_structure_missed_of_{RUNS}": 0.05 * RUNS,
    f"synthetic_slow_missed_of_{RUNS}": 0.05 * RUNS,
}


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    trace = _published()
    if trace is not None:
        figures |= _real(trace)
    return figures | _synthetic()


def _real(trace: Trace) -> dict[str, float]:
    named = _named(trace)
    false = sum(bool(_named(_variant(trace, number))) for number in range(VARIANTS))
    found = [_injected(trace, number) for number in range(INJECTED)]
    missed, others = (sum(each) for each in zip(*found, strict=True))
    return {
        "real_slow_worker_missed": float((0, 0) not in named),
        "real_others_named": float(len(named - {(0, 0)})),
        f"real_healthy_named_of_{VARIANTS}": float(false),
        f"real_2_percent_missed_of_{INJECTED}": float(missed),
        f"real_2_percent_others_named_of_{INJECTED}": float(others),
    }


def _variant(trace: Trace, number: int) -> Trace:
    seed, donor = SEED + number, 1 + number % 3
    return _redrawn(healed(trace, donor=donor, noise=REDRAWN, seed=seed), seed)


def _injected(trace: Trace, number: int) -> tuple[bool, bool]:
    """Whether a worker 2 % slow is missed, and whether another is named.

    Every worker equally often: some of them are faster than their peers by nature.
    """
    dp, stage = divmod(number % trace.layout.workers, trace.layout.pp)
    found = _named(slowed(_variant(trace, VARIANTS + number), dp, stage, 1.02))
    return (dp, stage) not in found, bool(found - {(dp, stage)})


def _redrawn(trace: Trace, seed: int) -> Trace:
    """Every computation with fresh noise; the waits stay, own time alone is judged."""
    rows = np.flatnonzero(trace.of(*COMPUTE))
    duration = trace.duration.copy()
    dice = np.random.default_rng([seed, 1])
    duration[rows] *= 1 + REDRAWN * dice.standard_normal(duration[rows].shape)
    return replace(trace, duration=duration)


def _synthetic() -> dict[str, float]:
    cpu = process_time()
    healthy = [_healthy(SEED + number) for number in range(RUNS)]
    slow = [_slow(SEED + RUNS + number) for number in range(RUNS)]
    return {
        f"synthetic_healthy_named_of_{RUNS}": float(sum(named for named, _ in healthy)),
        f"synthetic_structure_missed_of_{RUNS}": float(sum(missed for _, missed in healthy)),
        f"synthetic_slow_missed_of_{RUNS}": float(sum(slow)),
        "synthetic_cpu_seconds_a_run": (process_time() - cpu) / (2 * RUNS),
    }


def _healthy(seed: int) -> tuple[bool, bool]:
    """Whether somebody is named in a run with structure alone, and whether that is missed."""
    scene = _scene(seed, slow=False)
    trace = synth.trace(scene)
    found = trace_cells(trace)
    assert found is not None
    judgement = judge(found)
    seen = structures(Facts(trace, None, trace.duration, found, judgement.flags()))
    expected = "stage-imbalance" if scene.last_stage > 1 else "sequence-length-imbalance"
    return bool(judgement.suspects), expected not in {one.kind for one in seen}


def _slow(seed: int) -> bool:
    """Whether not exactly the slow worker is named, beside structure."""
    scene = _scene(seed, slow=True)
    return _named(synth.trace(scene)) != {(one.dp, one.stage) for one in scene.slow}


def _scene(seed: int, *, slow: bool) -> synth.Scene:
    """Heavy last stage, or micro-batches of up to 2x unequal length; not too small to be seen."""
    dice = np.random.default_rng(seed)
    dp = int(dice.choice([4, 8, 16, 32, 64] if slow else [2, 4, 8, 16, 32, 64]))
    heavy = bool(dice.random() < 0.5)
    pp = int(dice.choice([2, 4, 8] if heavy else [1, 2, 4, 8]))
    vpp = int(dice.choice([1, 2])) if pp > 1 else 1
    place = int(dice.integers(dp)), int(dice.integers(pp))
    return synth.Scene(
        dp=dp,
        pp=pp,
        vpp=vpp,
        micro_batches=int(dice.choice([8, 16])),
        steps=20,
        last_stage=float(dice.uniform(1.1, 1.6)) if heavy else 1.0,
        lengths=1.0 if heavy else float(dice.uniform(1.25, 2.0)),
        noise=float(dice.uniform(0.003, 0.02)),
        slow=(synth.Slow(*place, SLOW),) if slow else (),
        seed=seed,
    )


def _named(trace: Trace) -> set[tuple[int, int]]:
    found = trace_cells(trace)
    return {(one.dp, one.stage) for one in judge(found).suspects} if found else set()


def _published() -> Trace | None:
    for above in Path(__file__).resolve().parents:
        if (folder := above / "shared/data/bytedance").is_dir():
            layout = read_meta(folder / "meta-AR.yaml")
            return load_trace(folder / "trace-AR.parquet", layout)
    return None
