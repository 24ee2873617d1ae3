"""What holds for a run judged by its windows and its operations together."""

import dataclasses
import re

import numpy as np
import pytest

from lockstep.analyzer.shapes.run import Run, Verdict
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.evaluation.synth import traces as synth
from tests.analyzer.operations.test_examine import SCENE, SLOW, run

SMALL = dataclasses.replace(SCENE, slow=(dataclasses.replace(SLOW, factor=1.03),))
"""Only the operations show it."""
SCENES = {"large": SCENE, "small": SMALL, "nobody": dataclasses.replace(SCENE, slow=())}


def told(verdict: Verdict) -> list[tuple[object, ...]]:
    return [
        (one.dp, one.pp, one.from_step, one.to_step, one.cause, one.tier)
        for one in verdict.culprits
    ]


def scaled(whole: Run, factor: float) -> Run:
    """All times, as if the clock ran faster."""
    assert whole.ops is not None
    seconds = [name for name in whole.windows if name.endswith("_seconds")]
    windows = whole.windows.copy()
    windows[[*seconds, "start", "end"]] *= factor
    ops = whole.ops.copy()
    ops[["start_ts", "duration"]] *= factor
    first = ops["start_ns"].min()
    for name in ("start_ns", "end_ns"):
        ops[name] = (first + (ops[name] - first) * factor).astype(np.int64)
    return dataclasses.replace(whole, windows=windows, ops=ops)


def shifted(whole: Run, seconds: int) -> Run:
    """The same run at another time."""
    assert whole.ops is not None
    windows = whole.windows.copy()
    windows[["start", "end"]] += seconds
    ops = whole.ops.copy()
    ops[["start_ns", "end_ns"]] += seconds * 10**9
    return dataclasses.replace(whole, windows=windows, ops=ops)


def renamed(whole: Run, dp: int) -> Run:
    """Each replica under the next one's number."""
    assert whole.ops is not None
    number = {
        info.rank: next(
            other.rank
            for other in whole.ranks
            if (other.dp, other.pp) == ((info.dp + 1) % dp, info.pp)
        )
        for info in whole.ranks
    }
    ops = whole.ops.assign(
        rank=whole.ops["rank"].map(number), dp_rank=(whole.ops["dp_rank"] + 1) % dp
    )
    windows = whole.windows.assign(rank=whole.windows["rank"].map(number))
    return dataclasses.replace(whole, ops=ops, windows=windows)


@pytest.mark.parametrize("scene", SCENES)
def test_scaling_and_shifting_time_change_no_verdict(scene: str) -> None:
    whole = run(SCENES[scene])
    verdicts = [diagnose(each).verdict for each in (whole, scaled(whole, 8.0), shifted(whole, 777))]

    assert told(verdicts[0]) == told(verdicts[1]) == told(verdicts[2])
    assert 1 == len({(each.status, each.what_if["method"]) for each in verdicts})


@pytest.mark.parametrize("scene", SCENES)
def test_renaming_the_replicas_renames_the_culprit(scene: str) -> None:
    whole = run(SCENES[scene])
    before, after = diagnose(whole).verdict, diagnose(renamed(whole, SCENE.dp)).verdict

    assert [((one.dp or 0) + 1) % SCENE.dp for one in before.culprits] == [
        one.dp for one in after.culprits
    ]
    assert before.status == after.status


def test_identical_workers_are_silence() -> None:
    verdict = diagnose(run(synth.Scene(dp=4, pp=2, micro_batches=4, steps=60, noise=0.0))).verdict

    assert ("healthy", ()) == (verdict.status, verdict.culprits)


@pytest.mark.parametrize("factor", [1.03, 1.06, 1.2, 1.6, 3.0])
def test_slowing_a_worker_more_never_clears_it(factor: float) -> None:
    slow = dataclasses.replace(SLOW, factor=factor)

    assert [(1, 1)] == [
        one[:2] for one in told(diagnose(run(dataclasses.replace(SCENE, slow=(slow,)))).verdict)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_gaps_never_give_nan_in_a_sentence(seed: int) -> None:
    dice = np.random.default_rng(seed)
    whole = run(dataclasses.replace(SCENE, seed=seed))
    assert whole.ops is not None
    windows = whole.windows.copy()
    for name in ("own_seconds", "wall_seconds", "forward_seconds", "collective_seconds"):
        windows.loc[dice.random(len(windows)) < 0.1, name] = np.nan
    ops = whole.ops.copy()
    ops.loc[dice.random(len(ops)) < 0.002, "duration"] = np.nan
    verdict = diagnose(dataclasses.replace(whole, windows=windows, ops=ops)).verdict
    words = [verdict.sentence, *(one.why for one in verdict.rejected)]
    words += [fact.text for one in verdict.culprits for fact in one.evidence]

    assert not [each for each in words if re.search(r"\bnan\b", each, re.IGNORECASE)]
