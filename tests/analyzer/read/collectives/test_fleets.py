"""Simulated fleets as Inspector would have written them: the places are those of the recorder."""

from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.analyzer.read.collectives.load import joined, load_collectives, transfers
from lockstep.analyzer.shapes.run import STEPS_CERTAINTY
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import Fault, Resolution, SyntheticFleet
from lockstep.evaluation.synth.inspector_lines import write_inspector
from lockstep.evaluation.synth.whole import labelled

TRAINING = ("lockstep_train_", "lockstep_rank_")


@pytest.mark.parametrize(("dp", "pp", "tp"), [(8, 1, 1), (4, 2, 1), (4, 1, 2), (4, 2, 2)])
def test_the_slow_rank_of_a_layout_is_named(tmp_path: Path, dp: int, pp: int, tp: int):
    fault = Fault(Cause.SLOW_GPU, "plain", 5, 1.6, 120)
    fleet = SyntheticFleet(
        dp, pp, tp, steps=300, resolution=Resolution.STEP, faults=(fault,), seed=3
    )
    write_inspector(fleet, tmp_path)
    found = diagnose(load_collectives(tmp_path))

    assert [one.rank for one in found.verdict.culprits] == [5]
    assert {(one.dp, one.pp, one.tp) for one in found.run.ranks} == {
        (d, p, t) for d in range(dp) for p in range(pp) for t in range(tp)
    }


def test_a_healthy_fleet_has_no_culprit(tmp_path: Path):
    write_inspector(SyntheticFleet(4, 2, 2, steps=300, seed=4), tmp_path)

    assert not diagnose(load_collectives(tmp_path)).verdict.culprits


def test_beside_the_telemetry_of_nodes_the_cause_is_told(tmp_path: Path):
    fault = Fault(Cause.THERMAL, "hw", 5, 1.6, 120)
    fleet = SyntheticFleet(8, steps=300, resolution=Resolution.STEP, faults=(fault,), seed=3)
    write_inspector(fleet, tmp_path)
    known = labelled(fleet).run
    telemetry = known.samples[~known.samples["metric"].astype(str).str.startswith(TRAINING)]
    # Inspector's clock is that of the nodes; the fleets' begins elsewhere.
    told = load_collectives(tmp_path)
    late = known.windows["start"].max() - told.windows["start"].max()
    moved = told.windows.assign(start=told.windows["start"] + late, end=told.windows["end"] + late)
    bare = replace(known, samples=telemetry, windows=known.windows.iloc[:0], ranks=())
    run = joined(bare, replace(told, windows=moved))
    (culprit,) = diagnose(run).verdict.culprits

    assert (culprit.rank, culprit.gpu, culprit.cause) == (5, 5, "thermal")


def test_no_place_is_surer_than_the_steps(tmp_path: Path):
    fault = Fault(Cause.SLOW_GPU, "plain", 5, 1.6, 120)
    fleet = SyntheticFleet(8, steps=300, resolution=Resolution.STEP, faults=(fault,), seed=3)
    write_inspector(fleet, tmp_path)
    run = load_collectives(tmp_path)
    unsure = replace(run, meta={**run.meta, STEPS_CERTAINTY: 0.7})

    assert run.meta[STEPS_CERTAINTY] == 1.0
    assert diagnose(unsure).verdict.culprits[0].place_confidence == 0.7


def test_who_sent_to_whom_is_told_by_rank(tmp_path: Path):
    write_inspector(SyntheticFleet(4, 2, 1, steps=100, seed=4), tmp_path)
    found = transfers(tmp_path)

    assert set(zip(found["source"], found["destination"], strict=True)) == {
        pair for rank in range(4) for pair in ((rank, rank + 4), (rank + 4, rank))
    }
    assert set(found["transfers"]) == {100}
    assert (found["source_wait_seconds"] == 0).all()


def test_without_transfers_the_table_is_empty(tmp_path: Path):
    write_inspector(SyntheticFleet(8, steps=100, seed=4), tmp_path)

    assert transfers(tmp_path).empty
