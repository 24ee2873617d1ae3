"""A run with operations: what they add to its windows, and what they leave to them."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.operations import examine
from lockstep.analyzer.read.optrace.load import run_of_trace
from lockstep.analyzer.shapes.operations import Trace
from lockstep.analyzer.shapes.run import Run, Verdict
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract import archive
from lockstep.evaluation.synth import traces as synth

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
        run_of_trace(trace), meta={"layout": layout}, ops=rows(trace) if ops else None
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


def unexplained(small: float, noise: float) -> Verdict:
    """A worker that is slow by its operations, in steps of which these are a part alone."""
    whole = run(dataclasses.replace(SCENE, slow=(dataclasses.replace(SLOW, factor=small),)))
    dice = np.random.default_rng(3)
    longer = np.exp(noise * dice.standard_normal(len(whole.windows)))
    windows = whole.windows.assign(
        wall_seconds=whole.windows["wall_seconds"] * 1.2,
        own_seconds=whole.windows["own_seconds"] * longer,
    )
    return diagnose(dataclasses.replace(whole, windows=windows)).verdict


def test_operations_that_explain_part_of_the_step_find_who_is_plainly_longer_step_by_step() -> None:
    told = unexplained(1.03, 0.0)

    assert [(1, 1)] == named(told)
    assert "differ by" in told.what_if["why"]


def test_operations_that_explain_part_of_the_step_name_nobody_whose_steps_are_as_its_peers() -> (
    None
):
    told = unexplained(1.06, 0.1)

    assert [] == named(told)


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
    monkeypatch.setattr(examine, "MOST_OPERATIONS", len(whole.ops) // 2)
    told = diagnose(whole).verdict

    assert [(1, 1)] == named(told)
    assert "operations are used of the last 30 of 57 steps" in told.missing


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


def ddp(factor: float, steps: int = 60) -> Run:
    """Plain data-parallel, rank 1 always slow; only the gradients keep the replicas together."""
    dice = np.random.default_rng(0)
    compute = 0.1 * np.exp(0.01 * dice.standard_normal((steps, 4, 2)))
    compute[:, 1] *= factor
    told, windows, begin = [], [], np.zeros(4)
    for step in range(steps):
        forward, arrived = begin + compute[step, :, 0], begin + compute[step].sum(axis=1)
        reduced = np.full(4, arrived.max() + 0.004)
        done = reduced + 0.005
        for rank in range(4):
            spans = {
                "forward-compute": (begin, forward), "backward-compute": (forward, arrived),
                "dp-all-reduce": (arrived, reduced), "optimizer": (reduced, done),
            }  # fmt: skip
            told += [
                (rank, step, name, first[rank] - begin.min(), last[rank] - first[rank],
                 first[rank], last[rank])
                for name, (first, last) in spans.items()
            ]  # fmt: skip
            wall, own = done[rank] - begin[rank], compute[step, rank].sum() + 0.005
            windows.append((rank, step, begin[rank], done[rank], wall, own, *compute[step, rank]))
        begin = done
    names = ["rank", "step", "optype", "start_ts", "duration", "start_ns", "end_ns"]
    ops = pd.DataFrame(told, columns=names).assign(
        dp_rank=lambda rows: rows["rank"],
        stage=0, seq_id=0, mc=-1, gmc=-1, tp_rank=0, group="", sequence=0, bytes=0, flags="",
        tag="", mb_id=lambda rows: np.where(rows["optype"].str.endswith("compute"), 0, -1),
        start_ns=lambda rows: ((EPOCH + rows["start_ns"]) * 1e9).astype(np.int64),
        end_ns=lambda rows: ((EPOCH + rows["end_ns"]) * 1e9).astype(np.int64),
    )  # fmt: skip
    columns = ["rank", "from_step", "start", "end", "wall_seconds", "own_seconds",
               "forward_seconds", "backward_seconds"]  # fmt: skip
    frame = pd.DataFrame(windows, columns=columns)
    plain = run(synth.Scene(dp=4, pp=1, steps=steps))
    usual = plain.windows.sort_values(["from_step", "rank"], ignore_index=True)
    return dataclasses.replace(plain, ops=ops, windows=usual.assign(**frame[columns]))


def test_who_was_slow_in_all_operations_is_no_change_of_the_step_before_them() -> None:
    assert [(1, 0)] == named(diagnose(ddp(1.10)).verdict)
    assert [] == named(diagnose(ddp(1.0)).verdict)


ALWAYS = synth.Scene(dp=4, pp=2, micro_batches=4, steps=60, slow=(synth.Slow(1, 0, 1.10),))


def test_steps_without_operations_are_told_and_hide_nobody() -> None:
    whole = run(ALWAYS)
    assert whole.ops is not None
    torn = whole.ops[(whole.ops["step"] > 8) | (whole.ops["optype"] != "optimizer")
                     | (whole.ops["dp_rank"] > 0)]  # fmt: skip
    told = diagnose(dataclasses.replace(whole, ops=torn)).verdict

    assert [(1, 0)] == named(told)
    assert any(words.startswith("operations: ") for words in told.missing)


def test_the_cost_of_a_pipeline_is_simulated_and_a_light_stage_costs_little() -> None:
    scene = synth.Scene(
        dp=4, pp=2, micro_batches=4, steps=60, last_stage=1.5,
        slow=(synth.Slow(1, 0, 1.3, from_step=20),),
    )  # fmt: skip
    simulated, bounded = verdict(scene), verdict(scene, ops=False)

    assert simulated.slowdown is not None
    assert bounded.slowdown is not None
    # Steps in which nobody was slow tell the bound what the stages hide.
    assert simulated.slowdown > 1.02
    assert bounded.slowdown == pytest.approx(simulated.slowdown, abs=0.01)
    assert simulated.lost_gpu_hours == pytest.approx(
        simulated.what_if["fixes"][0]["gain"] * run(scene).windows["wall_seconds"].sum() / 3600,
        rel=0.1,
    )


def test_a_rank_that_told_no_own_time_is_not_said_to_have_told_one() -> None:
    whole = run(SCENE)
    silent = whole.windows[whole.windows["rank"] != 5]
    told = diagnose(dataclasses.replace(whole, windows=silent)).verdict
    why = [one.why for one in told.rejected if one.rank == 5]

    assert ("unknown", []) == (told.status, named(told))
    assert 1 == len(why)
    assert "its own time is unknown" in why[0]


def test_of_two_replicas_operations_alone_name_nobody() -> None:
    slow = synth.Slow(dp=1, stage=2, factor=1.4)
    told = verdict(synth.Scene(dp=2, pp=4, micro_batches=4, steps=60, slow=(slow,)))

    assert ("unknown", []) == (told.status, named(told))
    assert "which is normal is unknown" in told.sentence
    assert any("its only peer's" in one.why for one in told.rejected)


def test_what_operations_alone_see_of_two_replicas_is_let_go_with_the_reason() -> None:
    slow = synth.Slow(dp=1, stage=0, factor=1.04, from_step=20)
    told = verdict(synth.Scene(dp=2, pp=2, micro_batches=4, steps=60, noise=0.003, slow=(slow,)))

    assert [] == named(told)
    assert any("so few replicas" in one.why for one in told.rejected)


def test_of_two_replicas_who_became_slow_wakes_somebody() -> None:
    slow = synth.Slow(dp=1, stage=2, factor=1.4, from_step=15)
    told = verdict(synth.Scene(dp=2, pp=4, micro_batches=4, steps=60, slow=(slow,)))

    assert [(1, 2)] == named(told)
    assert ["page"] == [culprit.tier for culprit in told.culprits]


def test_of_two_ranks_that_always_differed_nobody_knows_which_is_normal() -> None:
    slow = synth.Slow(dp=1, stage=0, factor=1.3)
    told = verdict(synth.Scene(dp=2, pp=1, micro_batches=4, steps=60, slow=(slow,)), ops=False)

    assert ("unknown", []) == (told.status, named(told))
    assert "1.30x the own time of its only peer" in told.sentence


def test_a_healthy_pipeline_of_one_replica_is_unknown_with_operations_and_without() -> None:
    scene = synth.Scene(dp=1, pp=4, micro_batches=4, steps=60)
    for ops in (True, False):
        told = verdict(scene, ops=ops)

        assert ("unknown", []) == (told.status, named(told))
        assert "the only one of its stage" in told.sentence


def test_evidence_names_where_it_comes_from() -> None:
    small = dataclasses.replace(SCENE, slow=(dataclasses.replace(SLOW, factor=1.03),))
    first = verdict(small).culprits[0].evidence[0]

    assert "duration of forward-compute" in first.query


def folded(tp_stalls: bool) -> Run:
    """tp 2: rank 11 is 1.04x; its tensor-parallel peer has two stalls of two seconds."""
    slow = dataclasses.replace(SCENE, slow=(synth.Slow(1, 1, 1.04, from_step=20),))
    whole = run(slow)
    assert whole.ops is not None
    both = [frame_of(whole.windows, "rank", tp) for tp in (0, 1)]
    windows = pd.concat(both, ignore_index=True)
    usual = run(dataclasses.replace(slow, slow=())).windows.set_index(["rank", "from_step"])
    for column in ("own_seconds", "forward_seconds", "backward_seconds"):
        healthy = usual[column].reindex(
            zip(windows["rank"] // 2, windows["from_step"], strict=True)
        )
        other = windows["rank"] == 10
        windows.loc[other, column] = healthy.to_numpy()[other]
    if tp_stalls:
        stalls = (windows["rank"] == 10) & windows["from_step"].isin([25, 45])
        windows.loc[stalls, "own_seconds"] += 2.0
    ops = pd.concat([frame_of(whole.ops, "rank", tp).assign(tp_rank=tp) for tp in (0, 1)])
    ranks = tuple(
        dataclasses.replace(info, rank=2 * info.rank + tp, tp=tp, node=f"{info.node}-{tp}")
        for info in whole.ranks
        for tp in (0, 1)
    )
    meta = {"layout": {"dp": 4, "pp": 2, "tp": 2}}
    return dataclasses.replace(whole, ops=ops, windows=windows, ranks=ranks, meta=meta)


def frame_of(frame: pd.DataFrame, column: str, tp: int) -> pd.DataFrame:
    return frame.assign(**{column: 2 * frame[column] + tp})


@pytest.mark.parametrize("stalls", [False, True])
def test_of_tensor_parallel_ranks_the_one_with_the_excess_is_named(stalls: bool) -> None:
    told = diagnose(folded(stalls)).verdict

    assert [11] == [culprit.rank for culprit in told.culprits]
