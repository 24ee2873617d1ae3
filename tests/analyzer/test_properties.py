"""What must hold for every run: renaming, shifting, scaling, slowing further, losing data."""

import dataclasses
import json
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.analyzer.verdict.pipeline import diagnose

FEW = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _culprits(run):
    return [(c.rank, c.from_step, c.cause) for c in diagnose(run).verdict.culprits]


@FEW
@given(order=st.permutations(range(4)), kind=st.sampled_from(["thermal", "data", "freeze"]))
def test_renaming_the_ranks_renames_the_culprit(synthetic, fault, order, kind):
    run = synthetic(faults=[fault(kind, 2)]).run()
    names = dict(enumerate(order))
    renamed = dataclasses.replace(
        run,
        ranks=tuple(sorted(
            (dataclasses.replace(info, rank=names[info.rank]) for info in run.ranks),
            key=lambda info: info.rank,
        )),
        windows=run.windows.assign(rank=run.windows["rank"].map(names)),
        samples=run.samples.assign(rank=run.samples["rank"].map(names).astype("Int32")),
    )  # fmt: skip
    expected = [(names[rank], step, cause) for rank, step, cause in _culprits(run)]

    assert expected == _culprits(renamed)


@FEW
@given(shift=st.floats(-1e6, 1e6), scale=st.sampled_from([0.1, 1.0, 7.0]))
def test_shifting_and_scaling_time_changes_no_culprit(synthetic, fault, shift, scale):
    run = synthetic(faults=[fault("compute", 1)], telemetry=False).run()
    seconds = [name for name in run.windows if name.endswith("_seconds")]
    moved = run.windows.copy()
    moved[seconds] *= scale
    moved[["start", "end"]] = moved[["start", "end"]] * scale + shift

    assert _culprits(run) == _culprits(dataclasses.replace(run, windows=moved))


@pytest.mark.parametrize("seed", range(3))
def test_slowing_a_flagged_rank_further_never_clears_it(synthetic, fault, seed):
    named = [
        [c.rank for c in diagnose(
            synthetic(seed=seed, noise=0.05, faults=[fault("compute", 1, factor)]).run()
        ).verdict.culprits]
        for factor in (1.3, 1.6, 2.5, 6.0, 40.0)
    ]  # fmt: skip

    assert [[1]] * 5 == named


@FEW
@given(
    lost=st.floats(0.0, 1.0),
    seed=st.integers(0, 1000),
    kind=st.sampled_from(["thermal", "freeze", "crash", "cpu-quota"]),
)
def test_gaps_never_give_nan_in_the_sentence_or_the_json(synthetic, fault, lost, seed, kind):
    run = synthetic(steps=60, faults=[fault(kind, 1, first=30)]).run()
    dice = np.random.default_rng(seed)
    windows = run.windows[dice.random(len(run.windows)) >= lost].copy()
    seconds = [name for name in windows if name.endswith("_seconds")]
    windows[seconds] = windows[seconds].mask(dice.random((len(windows), len(seconds))) < lost)
    samples = run.samples[dice.random(len(run.samples)) >= lost]
    samples = samples.assign(value=samples["value"].mask(dice.random(len(samples)) < lost))
    verdict = diagnose(dataclasses.replace(run, windows=windows, samples=samples)).verdict
    text = json.dumps(verdict_json(verdict), allow_nan=False)

    assert not re.search(r"\bnan\b", text, re.IGNORECASE)


def test_nothing_but_nan_is_unknown(synthetic):
    run = synthetic(steps=60).run()
    seconds = [name for name in run.windows if name.endswith("_seconds")]
    run.windows[seconds] = np.nan
    run.samples["value"] = np.nan
    verdict = diagnose(run).verdict

    assert ("unknown", 0.0) == (verdict.status, verdict.coverage)
