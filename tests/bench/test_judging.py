"""A regression, one slow GPU, both, or neither: each is told from the others, and what changed."""

import math
import random
from typing import Any

import pytest

from lockstep.bench.judging import compared, exit_code, judge
from lockstep.bench.spec import BenchError
from tests.bench.rows import row

RANKS = 4


def result(
    seed: int, factor: float = 1.0, slow: dict[int, float] | None = None, **given: Any
) -> dict[str, Any]:
    """A run of 4 ranks: 0.3 % from run to run, 0.2 % from rank to rank."""
    dice = random.Random(seed)
    common = factor * math.exp(dice.gauss(0, 0.003))
    own = [
        0.1 * common * math.exp(dice.gauss(0, 0.002)) * (slow or {}).get(rank, 1.0)
        for rank in range(RANKS)
    ]
    return row(
        cell=f"c{seed}", workload="gpt", settings="{}", nodes=2, ranks=RANKS, dp=4, tp=1, pp=1,
        step_seconds=max(own) + 0.02 * common, rank_own_seconds=own, hardware="H100",
        rank_nodes=["node-0", "node-0", "node-1", "node-1"], driver="550.1", **given,
    )  # fmt: skip


BEFORE = [result(seed) for seed in range(5)]


def test_ten_percent_on_all_nodes_after_an_update_is_a_regression_that_names_it() -> None:
    told = judge(BEFORE, [{**result(9, 1.10), "driver": "560.2"}])

    assert "regression" == told.status
    assert told.interval[0] < 1.10 < told.interval[1]
    assert ("driver 550.1 -> 560.2",) == told.changed
    assert not told.culprits
    assert "regression, all ranks take" in told.sentence
    assert "driver 550.1 -> 560.2" in told.sentence
    assert 2 == exit_code([told])


def test_one_gpu_that_costs_five_percent_is_that_gpu() -> None:
    told = judge(BEFORE, [result(9, slow={2: 1.06})])

    assert "culprit" == told.status
    assert [(2, "node-1")] == [(each["rank"], each["node"]) for each in told.culprits]
    assert told.culprits[0]["slowdown"] == pytest.approx(1.06, abs=0.01)
    assert told.whole == pytest.approx(1.05, abs=0.01)
    assert told.slowdown == pytest.approx(1.0, abs=0.01)
    assert "slow by its own doing: rank 2 on node-1" in told.sentence


def test_both_at_once_are_told_apart() -> None:
    told = judge(BEFORE, [result(9, 1.10, slow={2: 1.08}, kernel="6.9")])

    assert "both" == told.status
    assert [2] == [each["rank"] for each in told.culprits]
    assert told.slowdown == pytest.approx(1.10, abs=0.015)


def test_small_differences_are_noise_and_the_smallest_that_would_be_noticed_is_told() -> None:
    told = judge(BEFORE, [result(9, 1.005)])

    assert "as-before" == told.status
    assert 1.01 < told.smallest < 1.05
    assert "would be noticed" in told.facts[0]
    assert 0 == exit_code([told])


def test_runs_that_differ_too_much_among_themselves_are_unknown_and_never_as_before() -> None:
    wild = [result(seed, factor) for seed, factor in enumerate((1.0, 1.5, 0.7))]
    told = judge(wild, [result(9)])

    assert "unknown" == told.status
    assert 3 == exit_code([told])


def test_a_slowdown_whose_place_nobody_timed_names_nobody() -> None:
    told = judge(BEFORE, [{**result(9, 1.10), "rank_own_seconds": None}])

    assert "slower" == told.status
    assert "is unknown: no source timed" in told.sentence
    assert 1 == exit_code([told])


def test_a_faster_run_is_told_and_is_no_failure() -> None:
    told = judge(BEFORE, [{**result(9, 0.9), "nccl": "2.27"}])

    assert ("faster", 0) == (told.status, exit_code([told]))


def test_a_version_that_was_not_known_before_is_no_change() -> None:
    assert () == judge(BEFORE, [{**result(9), "nccl": "2.27"}]).changed


def test_ranks_that_alone_have_another_driver_are_told_so() -> None:
    versions = '{"driver": {"0": "550.1", "1": "550.1", "2": "560.2", "3": "560.2"}}'
    told = judge(BEFORE, [result(9, slow={2: 1.1, 3: 1.1}, rank_versions=versions)])

    assert {2, 3} == {each["rank"] for each in told.culprits}
    assert "just these ranks have driver 560.2" in told.facts


def test_one_result_on_each_side_is_judged_with_less() -> None:
    told = judge(BEFORE[:1], [result(9, 1.2)])

    assert "regression" == told.status
    assert told.smallest > judge(BEFORE, [result(9)]).smallest


def test_a_baseline_of_other_hardware_is_refused() -> None:
    with pytest.raises(BenchError, match="of other hardware: H100, not H200; lock one of this"):
        compared(BEFORE, [{**result(9), "hardware": "H200"}])


def test_other_workloads_are_not_compared() -> None:
    with pytest.raises(BenchError, match=r"no workload in common.*A has gpt on 2 nodes"):
        compared(BEFORE, [{**result(9), "nodes": 4}])
    with pytest.raises(BenchError, match="none that finished"):
        compared(BEFORE, [{**result(9), "nodes": 4, "status": "failed"}])


def test_where_every_workload_failed_it_is_unknown_and_says_why() -> None:
    [told] = compared(BEFORE, [{**result(9), "status": "failed", "reason": "no memory"}])

    assert ("unknown", ("no memory",)) == (told.status, told.facts)
    assert told.sentence.endswith("unknown, none of its runs (1) finished.")
    assert 3 == exit_code([told])


def test_that_some_repeats_failed_is_told_beside_what_the_others_say() -> None:
    failed = {**result(8), "status": "failed", "reason": "a rank crashed"}
    [told] = compared(BEFORE, [result(9), failed, failed])

    assert "as-before" == told.status
    assert "2 of its 3 runs did not finish and are not in it: a rank crashed" == told.facts[-1]


@pytest.mark.parametrize("torn", ["{", "[1]", '{"driver": 5}'])
def test_versions_by_rank_that_do_not_read_are_told(torn: str) -> None:
    with pytest.raises(BenchError, match="rank_versions is no JSON of versions by rank"):
        judge(BEFORE, [result(9, slow={2: 1.1}, rank_versions=torn)])


def test_a_regression_beside_a_slow_rank_is_not_hidden_by_it() -> None:
    after = [result(seed, 1.06, slow={2: 1.08}) for seed in (7, 8, 9)]
    told = judge(BEFORE, after)

    assert "both" == told.status
    assert told.slowdown == pytest.approx(1.06, abs=0.01)


def test_a_workload_none_of_whose_runs_finished_is_unknown() -> None:
    other = [{**each, "workload": "resnet", "emulated_devices": True} for each in BEFORE]
    failed = {"workload": "resnet", "status": "failed", "step_seconds": None, "reason": "no memory",
              "emulated_devices": None}  # fmt: skip
    told = compared([*BEFORE, *other], [result(9), *({**result(7), **failed},) * 2])

    assert ["as-before", "unknown"] == [each.status for each in told]
    assert "resnet on 2 nodes" in told[1].sentence
    assert told[1].sentence.endswith("none of its runs (2) finished.")
    assert ("no memory",) == told[1].facts
    assert 3 == exit_code(told)
    assert told[1].to_json()["slowdown"] is None


@pytest.mark.parametrize("slow", range(RANKS))
def test_whichever_rank_it_is_it_is_that_one(slow: int) -> None:
    told = judge(BEFORE, [result(20 + slow, slow={slow: 1.05})])

    assert [slow] == [each["rank"] for each in told.culprits]


def test_of_two_ranks_the_one_that_became_slower_is_named() -> None:
    def two(seed: int, slow: float = 1.0) -> dict[str, Any]:
        one = result(seed)
        own = [one["rank_own_seconds"][0], one["rank_own_seconds"][1] * slow]
        return {**one, "ranks": 2, "rank_own_seconds": own, "rank_nodes": ["a", "b"],
                "step_seconds": max(own) + 0.02}  # fmt: skip

    told = judge([two(seed) for seed in range(5)], [two(9, 1.06)])
    assert ("culprit", [1]) == (told.status, [each["rank"] for each in told.culprits])


def test_json_has_null_for_what_is_not_known_and_no_nan() -> None:
    import json

    assert json.dumps(judge(BEFORE, [result(9)]).to_json(), allow_nan=False)
