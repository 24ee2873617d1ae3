"""`lockstep ledger`: archives as attempts, a trace of faults, and a real run killed and resumed."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lockstep.collector.contract import archive as contract
from lockstep.collector.contract.archive import RUN_FILE
from lockstep.collector.contract.words import PHASES, ExitCode

EPOCH = 1_760_000_000.0
RANKS = 2
STEP = 0.5
FAULTS = [
    {"node_id": node, "event_time": day, "event_type": f"fault_{what}",
     "fault_type": {"Class": kind}}
    for node, day, what, kind in (
        ("a", 1.0, "start", "GPU"), ("a", 3.0, "end", "GPU"),
        ("b", 9.0, "start", "NIC"), ("b", 10.0, "end", "NIC"),
    )
]  # fmt: skip


def written(
    folder: Path, first: int, last: int, begin: float, end: float, ending: str,
    resume: str | None = None,
) -> Path:  # fmt: skip
    """An archive: after 4 s of starting steps of half a second, a fifth in collectives."""
    folder.mkdir(parents=True)
    rows = [
        {
            **dict.fromkeys((column.name for column in contract.STEPS), 0.0),
            **{f"{phase}_seconds": 0.0 for phase in PHASES},
            "step": step, "rank": rank, "attempt": 0,
            "start": EPOCH + begin + 4.0 + (step - first) * STEP, "wall_seconds": STEP,
            "own_seconds": 0.8 * STEP, "wait_seconds": 0.2 * STEP, "forward_seconds": STEP,
            "tags": "",
        }
        for step in range(first, last) for rank in range(RANKS)
    ]  # fmt: skip
    pd.DataFrame(rows).to_parquet(folder / contract.STEPS_FILE)
    pd.DataFrame([
        {"rank": rank, "node": f"node-{rank}", "gpu": 0, "uuid": f"GPU-{rank}", "local_rank": 0,
         "dp": rank, "pp": 0, "tp": 0, "pod": None}
        for rank in range(RANKS)
    ]).to_parquet(folder / contract.RANKS_FILE)  # fmt: skip
    moments = [datetime.fromtimestamp(EPOCH + each, UTC).isoformat() for each in (begin, end)]
    (folder / RUN_FILE).write_text(json.dumps({
        "schema_version": 1, "run": f"gpt-{folder.name}", "started": moments[0],
        "ended": moments[1], "outcome": {"ending": ending, "ranks": [], "reason": ""},
        "recording": {"failed_requests": 0, "lost_steps": 0},
        "spec": {"launcher": "local", "training": {"resume": resume}},
        "layout": {"nodes": 2, "ranks_per_node": 1, "dp": 2, "tp": 1, "pp": 1},
    }))  # fmt: skip
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Steps 0 to 60, a crash that takes 6 s, 20 s of nothing, and from step 40 to 100."""
    folder = tmp_path / "runs"
    written(folder / "one", 0, 60, 0.0, 40.0, "crash")
    written(folder / "two", 40, 100, 60.0, 95.0, "finished", "runs/one/checkpoints/step-00000040")
    return folder


def test_a_table_for_people(
    runs: Path, lockstep: Callable[..., Any], golden: Callable[..., None]
) -> None:
    answer = lockstep("ledger", runs, "--gpu-hour-price", "3600")

    assert answer.code == ExitCode.OK, answer.err
    golden("ledger.txt", answer.out)


def test_json_closes_and_is_exact(runs: Path, lockstep: Callable[..., Any]) -> None:
    answer = lockstep("ledger", runs / "two", runs / "one", "-o", "json")
    tree = json.loads(answer.out)
    (run,) = tree["runs"]
    told = {one["bucket"]: one["seconds"] for one in run["buckets"]}

    assert [one["name"] for one in run["attempts"]] == ["one", "two"]
    assert run["rank_seconds"] == pytest.approx(95.0 * RANKS)
    assert sum(told.values()) == pytest.approx(run["rank_seconds"])
    truth = {
        "useful": 40.0, "communication": 10.0, "stall": 6.0, "starting": 8.0, "replayed": 10.0,
        "waiting-for-node": 20.0, "ending": 1.0,
    }  # fmt: skip
    assert told == pytest.approx(dict.fromkeys(told, 0.0) | {
        name: seconds * RANKS for name, seconds in truth.items()
    })  # fmt: skip
    assert run["goodput"] == pytest.approx(50.0 / 95.0)
    assert run["sentence"] == "53% useful; the largest loss is waiting for a node, 21%"
    # From the last step of the crash at 34 s to the first new step at 74 s.
    assert run["reliability"]["mttr_seconds"]["value"] == pytest.approx(40.0)


def test_of_several_runs_shares_of_fleet_and_nodes_are_told(
    runs: Path, lockstep: Callable[..., Any]
) -> None:
    written(runs / "other", 0, 60, 0.0, 34.0, "finished")
    answer = lockstep("ledger", runs)

    assert answer.code == ExitCode.OK, answer.err
    # 50 of 95 s of one run, and 24 of 34 of which a fifth is communication of the other.
    assert "fleet: goodput 62% (53% to 88%)" in answer.out
    assert "node: goodput 62% (62% to 62%)" in answer.out


def test_what_an_attempt_went_on_from_is_missed(runs: Path, lockstep: Callable[..., Any]) -> None:
    answer = lockstep("ledger", runs / "two", "-o", "json")

    assert (
        "went on from one, which was not given" in json.loads(answer.out)["runs"][0]["missing"][0]
    )


def test_a_trace_of_faults(tmp_path: Path, lockstep: Callable[..., Any]) -> None:
    path = tmp_path / "faults.json"
    path.write_text(json.dumps(FAULTS))
    answer = lockstep("ledger", "--faults", path, "--nodes", "4", "--days", "10")

    assert answer.code == ExitCode.OK, answer.err
    assert "2 faults of 2 of 4 nodes in 10 days." in answer.out
    assert "availability of a node 92.50%" in answer.out
    refused = lockstep("ledger", "--faults", path, "--nodes", "1")
    assert refused.code == ExitCode.BAD_INPUT
    assert "the faults are of 2 nodes, more than 1" in refused.err


@pytest.mark.sweep(sample=0)
@pytest.mark.distributed
def test_a_real_run_killed_and_resumed_at_known_steps(
    tmp_path: Path, lockstep: Callable[..., Any]
) -> None:
    """Rank 1 dies in step 37; the run goes on from step 30: steps 30 to 36 are done twice."""
    one, two = tmp_path / "one", tmp_path / "two"
    common = ("run", "gpt", "--nodes", 2, "--ranks-per-node", 1, "--checkpoint-every", 10)
    assert (
        lockstep(*common, "--steps", 60, "--fault", "crash:rank=1,from=37", "--out", one).code == 0
    )
    assert lockstep(*common, "--steps", 60, "--resume", one / "checkpoints", "--out", two).code == 0

    answer = lockstep("ledger", tmp_path, "-o", "json")

    assert answer.code == ExitCode.OK, answer.err
    (run,) = json.loads(answer.out)["runs"]
    told = {row["bucket"]: row["seconds"] for row in run["buckets"]}
    near = {"abs": 0.01 * run["rank_seconds"]}
    assert sum(told.values()) == pytest.approx(run["rank_seconds"], rel=1e-3)
    first, second = (_steps(folder) for folder in (one, two))
    (begin, end), (again, over) = (_times(folder) for folder in (one, two))
    twice = second[second["step"] < 37]
    assert sorted(twice["step"].unique()) == list(range(30, 37))
    assert told["replayed"] == pytest.approx(twice["wall_seconds"].sum(), **near)
    new = pd.concat([first, second[second["step"] >= 37]])
    assert told["checkpoint-saved"] == pytest.approx(new["checkpoint_seconds"].sum(), **near)
    assert told["waiting-for-node"] == pytest.approx((again - end) * RANKS, **near)
    last = (first["start"] + first["wall_seconds"]).groupby(first["rank"]).max()
    assert told["stall"] == pytest.approx((end - last).sum(), **near)
    last = (second["start"] + second["wall_seconds"]).groupby(second["rank"]).max()
    assert told["ending"] == pytest.approx((over - last).sum(), **near)
    starts = [frame.groupby("rank")["start"].min() for frame in (first, second)]
    loading = (starts[0] - begin).sum() + (starts[1] - again).sum()
    assert told["starting"] + told["checkpoint-restored"] >= loading - near["abs"]
    assert told["unknown"] <= 0.02 * run["rank_seconds"]
    assert run["reliability"]["failures"] == 1


def _steps(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / contract.STEPS_FILE)


def _times(folder: Path) -> list[float]:
    meta = json.loads((folder / RUN_FILE).read_text())
    return [datetime.fromisoformat(meta[name]).timestamp() for name in ("started", "ranks_ended")]
