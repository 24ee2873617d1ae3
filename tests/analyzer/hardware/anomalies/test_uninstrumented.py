"""A job of which only allocation and hardware are known."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.hardware.anomalies.uninstrumented import NO_SERIES, uninstrumented
from lockstep.analyzer.stragglers.confidence import CERTAIN
from lockstep.analyzer.verdict.pipeline import diagnose
from tests.analyzer.hardware.anomalies.conftest import POWER, THROTTLED, UTIL

JOB = [(f"node-{column // 4}", column % 4) for column in range(8)]


def verdict(fleet, job=JOB):
    return uninstrumented("job", fleet.samples(), job)


@pytest.mark.parametrize("culprit", [0, 5])
def test_a_throttled_gpu_whose_peers_wait_since_is_the_culprit(hardware, culprit):
    told = verdict(hardware().hot(culprit, since=30).wait(culprit, since=30))

    assert [(*JOB[culprit], "thermal", "record")] == [
        (each.node, each.gpu, each.cause, each.tier) for each in told.culprits
    ]
    assert 0.95 <= told.culprits[0].confidence <= CERTAIN
    assert 0.95 <= told.culprits[0].place_confidence <= CERTAIN
    assert "Confidence in the place 0.99, in the cause 0.99" in told.sentence
    assert "degraded" == told.status
    assert 1 / 0.7 == pytest.approx(told.slowdown, rel=0.05)
    assert "No training series were there" in told.sentence
    assert NO_SERIES in told.missing


def test_its_hardware_costs_time_and_that_of_another_job_does_not(hardware):
    fleet = hardware(nodes=3).hot(5, since=30).hot(10, since=30)
    fleet.wait(5, since=30)
    fleet.gpus[UTIL][:, 8:] = 0.8

    told = verdict(fleet)

    assert [("node-1", 1)] == [(each.node, each.gpu) for each in told.culprits]
    assert {("node-1", 1, True), ("node-2", 2, False)} == {
        (each["node"], each["gpu"], each["costs_time"]) for each in told.anomalies
    }


def test_a_throttled_gpu_for_which_nobody_waits_is_an_anomaly_alone(hardware):
    told = verdict(hardware().hot(5, since=30))

    assert ("unknown", ()) == (told.status, told.culprits)
    assert [False] * 2 == [each["costs_time"] for each in told.anomalies]


def test_a_gpu_that_works_on_while_all_others_wait_is_named_though_nobody_knows_why(hardware):
    fleet = hardware().wait(6, since=30)
    fleet.gpus[UTIL][30:, 6] = 0.97

    told = verdict(fleet)

    assert [("node-1", 2, "unknown")] == [(e.node, e.gpu, e.cause) for e in told.culprits]
    assert CERTAIN == pytest.approx(told.culprits[0].place_confidence)
    assert ["slow-gpu"] == [one["cause"] for one in told.alternatives][:1]


def test_a_gpu_that_works_all_the_time_while_all_others_wait_is_named(hardware):
    fleet = hardware().wait(6, since=30)
    fleet.gpus[UTIL][:, 6] = 1.0

    assert [("node-1", 2)] == [(e.node, e.gpu) for e in verdict(fleet).culprits]


def test_a_job_whose_gpus_all_work_less_is_unknown_and_says_since_when(hardware):
    fleet = hardware()
    fleet.gpus[UTIL][30:] *= 0.6
    fleet.gpus[POWER][30:] *= 0.7

    told = verdict(fleet)

    assert ("unknown", ()) == (told.status, told.culprits)
    assert "0.60x their utilisation of before since 2025-10-09 09:0" in told.sentence


def all_less(fleet, *hot, since=30):
    """The whole job works less since some GPUs are too hot."""
    fleet.gpus[UTIL][since:] *= 0.7
    fleet.gpus[POWER][since:] *= 0.85
    for culprit in hot:
        fleet.hot(culprit, since)
    return fleet


@pytest.mark.parametrize("hot", [(6,), (3, 6), (1, 4, 6)])
def test_of_several_that_may_be_it_each_has_its_share(hardware, hot):
    told = verdict(all_less(hardware(), *hot)).culprits
    places = [each.place_confidence for each in told]

    assert {JOB[culprit] for culprit in hot} == {(each.node, each.gpu) for each in told}
    assert sum(places) <= 1.0
    assert places == pytest.approx([1 / len(hot)] * len(hot), abs=0.1)


def test_who_works_on_explains_why_the_job_works_less(hardware):
    fleet = hardware().hot(3, since=30).hot(6, since=30).wait(6, since=30)

    assert [("node-1", 2)] == [(each.node, each.gpu) for each in verdict(fleet).culprits]


def test_of_two_times_of_one_gpu_the_surer_is_told(hardware):
    fleet = all_less(hardware(), 3, 6, since=40)
    fleet.gpus[UTIL][8:24, [column for column in range(8) if column != 3]] *= 0.85

    told = {(each.node, each.gpu): each for each in verdict(fleet).culprits}

    assert CERTAIN == pytest.approx(told["node-0", 3].place_confidence)
    assert told["node-0", 3].since < told["node-1", 2].since


@pytest.mark.parametrize("seed", range(6))
def test_a_healthy_job_names_nobody(hardware, seed):
    told = verdict(hardware(seed=seed))

    assert ("unknown", (), ()) == (told.status, told.culprits, told.anomalies)


def test_contradicting_metrics_lower_the_confidence(hardware):
    fleet = hardware().hot(5, since=30).wait(5, since=30)
    sure = verdict(fleet).culprits[0].confidence
    fleet.gpus[THROTTLED][30:, 2] = 12.0 * np.arange(30)

    told = verdict(fleet)

    assert [("node-1", 1)] == [(each.node, each.gpu) for each in told.culprits]
    assert told.culprits[0].confidence < sure
    assert any("its clock is its peers'" in words for words in told.missing)


def test_half_of_the_job_missing_names_nobody(hardware):
    fleet = hardware().hot(1, since=30).wait(1, since=30)

    told = verdict(fleet, [*JOB, *((f"gone-{number}", 0) for number in range(9))])

    assert () == told.culprits
    assert told.coverage < 0.5


def test_a_job_that_spins_while_it_waits_is_seen_by_its_power(hardware):
    fleet = hardware().hot(5, since=30).wait(5, since=30)
    fleet.gpus[UTIL][:] = 1.0

    told = verdict(fleet)

    assert [("node-1", 1)] == [(each.node, each.gpu) for each in told.culprits]
    assert "power" in told.sentence
    assert told.slowdown is None


@pytest.mark.parametrize("job", [[], [("nowhere", 0)], [("node-0", 0)]])
def test_a_job_of_which_too_little_is_known_is_unknown(hardware, job):
    told = verdict(hardware().hot(0, since=30), job)

    assert ("unknown", ()) == (told.status, told.culprits)
    assert "nan" not in told.sentence.lower()


def test_a_run_that_told_no_step_times_is_judged_by_its_hardware(synthetic, fault):
    run = synthetic(faults=[fault("thermal", 2)]).run()
    used = run.samples["metric"] == "lockstep_gpu_utilization_ratio"
    begins = run.samples.loc[run.samples["value"].gt(90) & run.samples["metric"].eq(
        "lockstep_gpu_temperature_celsius"), "time"].min()  # fmt: skip
    waits = used & (run.samples["time"] >= begins) & (run.samples["node"] != "node-2")
    samples = run.samples.assign(value=run.samples["value"].where(~waits, 0.6))
    samples = samples[~samples["metric"].str.startswith("lockstep_train")]
    blind = dataclasses.replace(run, samples=samples, windows=run.windows.iloc[:0])

    told = diagnose(blind).verdict

    assert [(2, "gpu", "thermal")] == [(c.rank, c.scope, c.cause) for c in told.culprits]
    assert told.culprits[0].confidence >= 0.9
