"""GPUs of all nodes that become hotter: what heat holds back there is the room's, and no node's."""

import dataclasses

import pytest

from lockstep.analyzer.shapes.run import SHARED_COOLING
from lockstep.analyzer.verdict.pipeline import diagnose

HOT, SINCE = 92.0, 120
FACTORS = {1: 1.12, 4: 1.15, 6: 1.13}


@pytest.fixture
def heated(synthetic, fault):
    """Eight GPUs on as many nodes, of which some are held back by heat from one step on."""

    def made(factors, *, room):
        faults = [fault("thermal", rank, factor, SINCE) for rank, factor in factors.items()]
        run = synthetic(world=8, steps=300, faults=faults).run()
        if not room:
            return run
        samples, windows = run.samples.copy(), run.windows
        since = windows.loc[windows["from_step"] == SINCE, "start"].min()
        hot = (samples["metric"] == "lockstep_gpu_temperature_celsius") & (samples["time"] > since)
        samples.loc[hot, "value"] = HOT
        return dataclasses.replace(run, samples=samples)

    return made


def test_gpus_that_a_hot_room_holds_back_are_nobodys_fault(heated):
    verdict = diagnose(heated(FACTORS, room=True)).verdict
    (structure,) = verdict.structure

    assert () == verdict.culprits
    assert SHARED_COOLING == structure["kind"]
    assert "degraded" == verdict.status
    assert "the GPUs of all nodes became hotter by 28 °C" in verdict.sentence
    assert set(FACTORS) == {one.rank for one in verdict.rejected}


def test_gpus_that_are_hot_alone_are_named(heated):
    verdict = diagnose(heated(FACTORS, room=False)).verdict

    assert set(FACTORS) == {one.rank for one in verdict.culprits}
    assert {"thermal"} == {one.cause for one in verdict.culprits}


def test_who_is_far_slower_than_a_hot_room_makes_the_others_is_named(heated):
    verdict = diagnose(heated({**FACTORS, 4: 2.6}, room=True)).verdict

    assert [4] == [one.rank for one in verdict.culprits]
