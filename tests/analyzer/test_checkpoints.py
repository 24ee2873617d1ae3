"""A rank that writes checkpoints longer than who writes with it; and nobody who writes alone."""

import dataclasses

import numpy as np
import pytest

from analyzer.align import align
from analyzer.attribute import diagnose
from analyzer.detectors.checkpoints import Checkpoints
from analyzer.synth.fleet import SLOW_WRITE, Benign, Fault, Resolution, SyntheticFleet
from analyzer.synth.whole import labelled
from collector.contract.words import Cause


def run_of(*faults, **words):
    fleet = SyntheticFleet(
        dp=16, steps=600, resolution=Resolution.STEP, benign=(Benign.CHECKPOINT,), faults=faults,
        **words,
    )  # fmt: skip
    return labelled(fleet).run


SLOW = Fault(Cause.CHECKPOINT, SLOW_WRITE, 5, 6.0, 0)


def test_the_slow_writer_is_named_with_its_cause_although_these_steps_are_masked():
    diagnosis = diagnose(run_of(SLOW))
    (culprit,) = diagnosis.verdict.culprits

    assert (5, "checkpoint") == (culprit.rank, culprit.cause)
    assert any("s to write each of" in fact.text for fact in culprit.evidence)
    assert 1.0 < culprit.slowdown < 1.2, "of all steps, not of those in which it writes"
    assert diagnosis.grid.masked[diagnosis.findings[0].first]


def test_writers_alike_accuse_nobody():
    assert () == tuple(Checkpoints().detect(align(run_of())))


def only(grid, ranks):
    """Nobody else writes."""
    told = grid.time["checkpoint"].copy()
    told[:, [c for c in range(told.shape[1]) if c not in ranks]] = 0.0
    return dataclasses.replace(grid, time={**grid.time, "checkpoint": told})


def test_who_writes_for_all_has_no_peers():
    assert [] == list(Checkpoints().detect(only(align(run_of(SLOW)), {5})))


def test_writers_are_compared_with_writers():
    (finding,) = Checkpoints().detect(only(align(run_of(SLOW)), {0, 4, 5, 8, 12}))

    assert 5 == finding.rank


@pytest.mark.parametrize("kept", [0, 1])
def test_one_long_write_is_a_busy_file_system(kept):
    grid = align(run_of(SLOW))
    told = grid.time["checkpoint"].copy()
    writes = np.flatnonzero((np.nan_to_num(told) > 0).any(axis=1))
    told[[window for place, window in enumerate(writes) if place != kept]] = 0.0

    time = {**grid.time, "checkpoint": told}
    assert () == tuple(Checkpoints().detect(dataclasses.replace(grid, time=time)))


def test_the_first_replica_may_write_more_by_design():
    grid = align(run_of())
    told = grid.time["checkpoint"].copy()
    told[:, 0] *= 2.0

    time = {**grid.time, "checkpoint": told}
    assert [] == list(Checkpoints().detect(dataclasses.replace(grid, time=time)))
