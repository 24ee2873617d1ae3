"""Generators of simulated archives by others, and how a verdict on them is graded.

Many runs: `python -m tests.benchmarks foreign_runs` and `independent_runs`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import RANKS, SAMPLES, STEPS, Column
from lockstep.collector.contract.metrics import SAMPLES as METRICS
from tests.benchmarks.foreign.drawing import draw
from tests.benchmarks.foreign.gradients import reduce
from tests.benchmarks.foreign.kinds import BENIGN, INJECTED
from tests.benchmarks.foreign.network import Network
from tests.benchmarks.foreign.pipeline import order, through
from tests.benchmarks.foreign.runs import PAIR_EVERY, make, wanted
from tests.benchmarks.foreign.streams import stream
from tests.benchmarks.foreign.truth import read
from tests.benchmarks.foreign.walk import simulate
from tests.benchmarks.simulated.grading import Injected, RunGrade, Truth, grade
from tests.benchmarks.simulated_verdicts import figures

SLOW_RANK = Injected(
    kind="slowgpu", scope="rank", ranks=(3,), nodes=("n1",), link=None, causes=("slow-gpu",),
    effect=0.2, tellable=True, detail="step",
)  # fmt: skip
NODE_OF = {rank: f"n{rank // 2}" for rank in range(8)}


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("foreign"), "crash", 53)


def test_a_foreign_archive_is_the_same_for_its_kind_and_seed(crash: Path, tmp_path: Path) -> None:
    first, second = crash, make(tmp_path, "crash", 53)

    files = sorted(file.relative_to(first) for file in first.rglob("*") if file.is_file())
    assert files
    assert all((first / file).read_bytes() == (second / file).read_bytes() for file in files)


def test_a_foreign_archive_has_columns_and_metrics_of_the_contract_and_its_truth(
    crash: Path,
) -> None:
    for file, columns in (("ranks", RANKS), ("samples", SAMPLES), ("steps", STEPS)):
        assert _schema(columns) == _told(crash / f"{file}.parquet")
    metrics = pq.read_table(crash / "samples.parquet", columns=["metric"])["metric"]
    assert set(metrics.unique().to_pylist()) <= {"up", *METRICS}
    told = read(bounded_json.loads((crash / "truth.json").read_bytes()))
    assert [("crash", None, True)] == [
        (fault.kind, fault.effect, fault.tellable) for fault in told.faults
    ]


def _schema(columns: Sequence[Column]) -> list[tuple[str, str]]:
    types = {"float64": "double"}
    return [
        (column.name, types.get(column.dtype, column.dtype))
        for column in columns
        if not column.added
    ]


def _told(path: Path) -> list[tuple[str, str]]:
    schema = pq.read_table(path).schema
    return [(field.name, str(field.type)) for field in schema]


def test_each_phase_and_each_wait_of_a_walked_step_is_a_part_of_it() -> None:
    scenario = draw("evals", 147)
    timeline = simulate(scenario, [])

    phases = sum(timeline.phases.values())
    assert np.abs(timeline.wall - phases).max() < 1e-5
    assert all((waits > -1e-6).all() for waits in timeline.waits.values())
    assert (timeline.own <= timeline.wall + 1e-6).all()


def test_what_is_injected_changes_nothing_before_it_begins() -> None:
    scenario = draw("gc", 158)
    (fault,) = scenario.faults
    slow, quiet = simulate(scenario, scenario.faults), simulate(scenario, [])

    first = int(np.flatnonzero(slow.level(fault) > 0)[0])
    assert (slow.end[:first] == quiet.end[:first]).all()
    assert slow.own[first:, fault.rank].sum() > quiet.own[first:, fault.rank].sum()


def test_transfers_over_a_slow_port_get_what_it_carries_and_others_what_they_had() -> None:
    scenario = draw("portrate", 11)
    layout, network = scenario.layout, Network(scenario, stream("test"))
    usual = network.rates({})
    slow = network.rates({network.transmit(0, 0): 0.5})

    touched = np.array(network.touching([0]))
    across = np.isfinite(usual)
    assert (slow[across & ~touched] >= usual[across & ~touched] - 1e-9).all()
    assert slow[across & touched].min() == pytest.approx(usual[across].min() / 2)
    assert layout.dp > 1


def test_the_last_stage_is_done_first_and_a_pipeline_fills_and_drains() -> None:
    stages, microbatches, forward, backward = 4, 8, 1.0, 2.0
    each = np.ones((stages, 1))
    ends = through(
        order(stages, microbatches), np.zeros((stages, 1)), forward * each, backward * each, 0.0
    )

    whole = (microbatches + stages - 1) * (forward + backward)
    assert [whole - backward * stage for stage in range(stages)] == pytest.approx(ends[:, 0])


def test_buckets_that_overlap_with_backward_leave_the_last_one_to_wait_for() -> None:
    ends, backward = np.array([[[10.0, 11.0]]]), np.full((1, 1, 2), 4.0)
    waiting, inside = reduce(ends, backward, np.full((1, 1, 1), 2.0), buckets=4)

    assert [1.5, 0.5] == pytest.approx(waiting[0, 0])
    assert inside[0, 0, 0] == pytest.approx(inside[0, 0, 1] + 4)


def test_many_runs_have_all_kinds_in_turn_and_each_its_own_seed() -> None:
    runs = wanted(3, 60)

    assert wanted(3, 60) == runs
    assert 60 // PAIR_EVERY == sum("+" in kind for kind, _ in runs)
    assert set(BENIGN) == {kind for kind, _ in runs[60:]}
    assert {part for kind, _ in runs[:60] for part in kind.split("+")} <= set(INJECTED)
    assert 120 == len({seed for _, seed in runs})
    assert not {seed for _, seed in runs} & {seed for _, seed in wanted(4, 60)}


@pytest.mark.parametrize(
    ("culprit", "right"),
    [
        ({"scope": "rank", "rank": 3, "node": "n1"}, True),
        ({"scope": "node", "node": "n1"}, True),
        ({"scope": "link", "link": "n1 -- n2"}, True),
        ({"scope": "rank", "rank": 2, "node": "n1"}, False),
        ({"scope": "node", "node": "n2"}, False),
    ],
)
def test_a_slow_rank_is_found_by_itself_its_node_or_a_link_of_it(
    culprit: dict[str, Any], right: bool
) -> None:
    graded = _graded([SLOW_RANK], culprit)

    assert (1, int(right)) == (graded.named, graded.right)
    assert [(right, right)] == [(fault.found, fault.cause_right) for fault in graded.faults]


def test_who_is_named_in_a_quiet_run_counts_against_it_and_a_share_of_none_is_0() -> None:
    named = figures([_graded([], {"scope": "node", "node": "n2"})])

    assert (1.0, 1.0) == (named["quiet_named_share"], named["named_wrong_share"])
    assert (0.0, 0.0) == (named["large_missed_share"], named["cause_right_share"])


def _graded(faults: list[Injected], culprit: dict[str, Any]) -> RunGrade:
    nobody = {"rank": None, "node": None, "link": None, "cause": "slow-gpu"}
    verdict = {"status": "degraded", "culprits": [nobody | culprit]}
    return grade("run", Truth(tuple(faults), "plain"), verdict, NODE_OF)
