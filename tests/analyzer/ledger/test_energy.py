"""Energy by bucket: from the counter or from power, and what nobody told stays unknown."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.ledger.attempt import attempt_of
from lockstep.analyzer.ledger.buckets import INDEX, Bucket
from lockstep.analyzer.ledger.energy import MOST_GAP, courses
from lockstep.analyzer.ledger.ledger import ledger
from lockstep.analyzer.ledger.words import ledger_json
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract import metrics


def _powered(run, name, value, step=1.0, until=None):
    """The run with samples of every GPU: watts, or joules of a counter at so many watts."""
    begin, end = float(run.windows["start"].min()) - 5, float(run.windows["end"].max()) + 5
    times = np.arange(begin, end if until is None else begin + until, step)
    frames = [run.samples[run.samples["metric"] != name]]
    ranks = []
    for info in run.ranks:
        info = dataclasses.replace(info, gpu=0)
        ranks.append(info)
        told = value * (times - begin) if name == metrics.GPU_ENERGY.name else value
        frames.append(pd.DataFrame({
            "time": times, "node": info.node, "gpu": 0, "rank": None, "metric": name,
            "labels": "", "value": told,
        }))  # fmt: skip
    samples = pd.concat(frames, ignore_index=True)
    others = samples["metric"].isin([metrics.GPU_ENERGY.name, metrics.GPU_POWER.name])
    samples = samples[~others | (samples["metric"] == name)]
    return dataclasses.replace(run, samples=samples, ranks=tuple(ranks))


@pytest.mark.parametrize("name", [metrics.GPU_ENERGY.name, metrics.GPU_POWER.name])
def test_constant_power_gives_each_bucket_its_seconds_times_watts(synthetic, name):
    run = _powered(synthetic().run(), name, 300.0)
    book = ledger([attempt_of(diagnose(run))])

    assert book.powered_seconds == pytest.approx(book.rank_seconds, rel=1e-6)
    assert book.joules == pytest.approx(300.0 * book.seconds, rel=1e-6, abs=1e-3)
    told = ledger_json([book])
    assert told["runs"][0]["energy_told_share"] == pytest.approx(1.0)
    useful = told["all"]["buckets"][INDEX[Bucket.USEFUL]]
    assert useful["energy_joules"] == pytest.approx(300.0 * useful["seconds"], rel=1e-6)


def test_what_nobody_told_is_not_counted_and_that_is_said(synthetic):
    run = _powered(synthetic().run(), metrics.GPU_POWER.name, 300.0, until=12.0)
    book = ledger([attempt_of(diagnose(run))])

    assert 0 < book.powered_seconds < 0.9 * book.rank_seconds
    assert book.joules.sum() == pytest.approx(300.0 * book.powered_seconds, rel=1e-6)


def test_without_samples_energy_is_null(synthetic):
    run = dataclasses.replace(synthetic().run(), samples=synthetic().run().samples.iloc[:0])
    told = ledger_json([ledger([attempt_of(diagnose(run))])])

    assert {row["energy_joules"] for row in told["all"]["buckets"]} == {None}
    assert told["runs"][0]["energy_told_share"] == 0.0


def test_gaps_and_a_counter_that_began_anew_tell_nothing(synthetic):
    run = _powered(synthetic().run(), metrics.GPU_ENERGY.name, 300.0)
    times = [0.0, 10.0, 20.0, 20.0 + 2 * MOST_GAP, 30.0 + 2 * MOST_GAP]
    values = [0.0, 3000.0, 100.0, 9000.0, 12000.0]
    mine = run.samples.iloc[:0]
    first = run.ranks[0]
    frame = pd.DataFrame({"time": times, "node": first.node, "gpu": 0, "rank": None,
                          "metric": metrics.GPU_ENERGY.name, "value": values})  # fmt: skip
    told_of = dataclasses.replace(run, samples=pd.concat([mine, frame]))
    course = courses(told_of)[first.rank]
    joules, told = course.between(np.array([0.0]), np.array([1000.0]))

    assert joules[0] == 6000.0
    assert told[0] == 20.0


@given(edges=st.lists(st.floats(0, 1000), min_size=2, max_size=20))
def test_parts_of_a_span_sum_to_it(edges):
    from lockstep.analyzer.ledger.energy import Course

    times = np.arange(100.0, 900.0, 7.0)
    course = Course(times, np.cumsum(np.abs(np.sin(times))), times - 100.0)
    edges = np.sort(np.array(edges))
    joules, told = course.between(edges[:-1], edges[1:])
    whole, seconds = course.between(edges[:1], edges[-1:])

    assert joules.sum() == pytest.approx(float(whole[0]), abs=1e-6)
    assert told.sum() == pytest.approx(float(seconds[0]), abs=1e-6)
