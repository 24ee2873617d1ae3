"""A run with operations: what they add to its windows, and what they leave to them."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from analyzer import from_operations, synth
from analyzer.attribute import diagnose
from analyzer.load.optrace import to_run
from analyzer.operations import Trace
from analyzer.run import Run, Verdict
from collector.contract import archive

EPOCH = 1_760_000_000
SLOW = synth.Slow(dp=1, stage=1, factor=1.3, from_step=20)


def rows(trace: Trace) -> pd.DataFrame:
    """The operations as an archive of ours has them, steps one after the other."""
    begin = np.concatenate([[0.0], np.cumsum(trace.end.max(axis=(0, 1)))[:-1]])
    op, dp, step = (axis.reshape(-1) for axis in np.indices(trace.duration.shape))
    start, end = trace.start.reshape(-1), trace.end.reshape(-1)
    frame = pd.DataFrame(
        {
            "dp_rank": dp,
            "stage": trace.stage[op],
            "rank": trace.ranks[dp, trace.stage[op]],
            "step": trace.steps[step],
            "optype": trace.optype[op],
            "start_ts": start,
            "duration": end - start,
            "seq_id": trace.seq[op],
            "mc": trace.chunk[op],
            "gmc": trace.global_chunk[op],
            "mb_id": trace.micro_batch[op],
            "tp_rank": 0,
            "group": "",
            "sequence": 0,
            "bytes": 0,
            "start_ns": ((EPOCH + begin[step] + start) * 1e9).astype(np.int64),
            "end_ns": ((EPOCH + begin[step] + end) * 1e9).astype(np.int64),
            "flags": "",
            "tag": "",
        }
    )
    assert {column.name for column in archive.OPS} <= set(frame.columns)
    return frame


def run(scene: synth.Scene, *, ops: bool = True) -> Run:
    trace = synth.trace(scene)
    layout = {"dp": scene.dp, "pp": scene.pp, "tp": 1}
    return dataclasses.replace(
        to_run(trace), meta={"layout": layout}, ops=rows(trace) if ops else None
    )


def verdict(scene: synth.Scene, *, ops: bool = True) -> Verdict:
    return diagnose(run(scene, ops=ops)).verdict


def named(told: Verdict) -> list[tuple[int | None, int | None]]:
    return [(culprit.dp, culprit.pp) for culprit in told.culprits]


SCENE = synth.Scene(dp=4, pp=2, micro_batches=4, steps=60, slow=(SLOW,))


def test_what_if_is_simulated_where_there_are_operations_and_bounded_without() -> None:
    simulated, bounded = verdict(SCENE), verdict(SCENE, ops=False)

    assert [(1, 1)] == named(simulated) == named(bounded)
    assert ("simulation", "bounds") == (simulated.what_if["method"], bounded.what_if["method"])
    assert simulated.what_if["M_W"] is not None
    assert ["simulation"] == [fix["by"] for fix in simulated.what_if["fixes"]]
    assert ["dp1-stage1"] == [fix["remove"] for fix in simulated.what_if["fixes"]]


def test_who_waits_for_a_culprit_stands_in_its_evidence() -> None:
    texts = [fact.text for fact in verdict(SCENE).culprits[0].evidence]

    assert any("the other replicas wait for replica 1" in text for text in texts)
    assert any("steps would be" in text for text in texts)


def test_operations_find_what_is_too_small_for_windows() -> None:
    small = dataclasses.replace(SCENE, slow=(dataclasses.replace(SLOW, factor=1.03),))

    assert [] == named(verdict(small, ops=False))
    assert [(1, 1)] == named(verdict(small))
    assert ["record"] == [culprit.tier for culprit in verdict(small).culprits]


def test_a_heavy_stage_is_named_and_no_rank_is() -> None:
    told = verdict(synth.Scene(dp=4, pp=2, micro_batches=4, steps=60, last_stage=1.5))

    assert ("healthy", ()) == (told.status, told.culprits)
    assert ["stage-imbalance"] == [one["kind"] for one in told.structure]
    assert "By design, no fault: " in told.sentence


def test_long_sequences_are_named_and_no_rank_is() -> None:
    told = verdict(synth.Scene(dp=4, pp=2, micro_batches=4, steps=60, lengths=2.0))

    assert () == told.culprits
    assert "sequence-length-imbalance" in [one["kind"] for one in told.structure]


def test_a_run_that_the_simulation_does_not_explain_keeps_its_bounds_and_says_why() -> None:
    whole = run(SCENE)
    slower = whole.windows.assign(wall_seconds=whole.windows["wall_seconds"] * 1.2)
    told = diagnose(dataclasses.replace(whole, windows=slower)).verdict

    assert [(1, 1)] == named(told)
    assert "bounds" == told.what_if["method"]
    assert "differ by" in told.what_if["why"]


def test_operations_that_cannot_be_used_are_said_to_be_missing() -> None:
    whole = run(SCENE)
    assert whole.ops is not None
    torn = whole.ops[(whole.ops["dp_rank"] != 0) | (whole.ops["optype"] != "optimizer")]
    told = diagnose(dataclasses.replace(whole, ops=torn)).verdict

    assert [(1, 1)] == named(told)
    assert any("operations are not used" in text for text in told.missing)


@pytest.mark.parametrize("ops", [True, False])
def test_two_culprits_are_both_named(ops: bool) -> None:
    both = (synth.Slow(dp=1, stage=1, factor=1.3), synth.Slow(dp=3, stage=0, factor=1.4))
    scene = dataclasses.replace(SCENE, slow=both)

    assert {(1, 1), (3, 0)} == set(named(verdict(scene, ops=ops)))


def test_of_a_long_run_the_last_operations_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(SCENE)
    assert whole.ops is not None
    monkeypatch.setattr(from_operations, "MOST_OPERATIONS", len(whole.ops) // 2)
    told = diagnose(whole).verdict

    assert [(1, 1)] == named(told)
    assert "operations are used of the last 30 of 60 steps" in told.missing


def test_operations_that_hold_a_wait_accuse_nobody() -> None:
    healthy = dataclasses.replace(SCENE, slow=())
    slow = dataclasses.replace(SCENE, slow=(dataclasses.replace(SLOW, factor=1.06),))
    mixed = dataclasses.replace(run(healthy), ops=rows(synth.trace(slow)))
    told = diagnose(mixed).verdict

    assert ("healthy", []) == (told.status, named(told))
    assert any("they hold a wait" in one.why for one in told.rejected)


def test_a_stall_of_a_few_steps_accuses_nobody() -> None:
    stall = synth.Slow(dp=1, stage=1, factor=3.0, from_step=20, to_step=26)

    assert [] == named(verdict(dataclasses.replace(SCENE, slow=(stall,))))
