"""Cells that take too long, or are stopped, on each cluster: nothing stays, the next call goes on.

Clusters are doubles here; launchers with real processes are in test_stop_resume_real.py.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lockstep.bench import results, state
from lockstep.bench.plan import Cell, cells
from lockstep.bench.runner import Runner
from lockstep.bench.spec import parse
from tests.bench.living_cluster import (
    AWAY,
    FULL,
    KILLED,
    MISSING,
    NAME,
    NO_ROOM,
    QUEUED_SECONDS,
)

DOUBLE = (sys.executable, "-m", "tests.bench.living_cluster")
ON = {
    "kubernetes": {"launcher": "kubernetes"},
    "indexed job": {"launcher": "kubernetes", "options": {"kind": "job"}},
    "argo": {"launcher": "argo"},
    "kueue": {"launcher": "kubernetes", "options": {"queue": "gpus"}},
    "argo, kueue": {"launcher": "argo", "options": {"queue": "gpus"}},
}
everywhere = pytest.mark.parametrize("on", list(ON))
by_day = pytest.mark.sweep(sample=3)
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))


def bench(
    tmp_path: Path, on: str, *, nodes: list[int], timeout: float = 600.0, image: str = "r/i:1",
    **options: str,
) -> Runner:  # fmt: skip
    head: dict[str, Any] = {"name": "n", "report": [], "timeout": timeout, **ON[on]}
    head["options"] = {**head.get("options", {}), **options}
    told = parse({
        "bench": head, "workloads": {"gpt": {}}, "matrix": {"nodes": nodes, "images": [image]},
    })  # fmt: skip
    out = tmp_path / "out"
    return Runner(told, out, out / "results.parquet", tmp_path, DOUBLE)


def logs(one: Runner, cell: Cell) -> Path:
    return one.out / cell.folder / "logs"


def answer(one: Runner, cell: Cell) -> dict[str, Any]:
    """What `lockstep run` said, with what it left on its cluster."""
    told: dict[str, Any] = json.loads((logs(one, cell) / "launch.out").read_text())
    return told


def stop(one: Runner, cell: Cell, seen: str) -> None:
    """Ctrl-C once its launcher has said so."""

    def pressed(name: str, step: str) -> None:
        until = time.monotonic() + PATIENCE
        while step == "wait" and seen not in (logs(one, cell) / "launch.err").read_text():
            assert time.monotonic() < until
            time.sleep(0.02)
        if step == "wait":
            raise KeyboardInterrupt

    one.show = pressed
    with pytest.raises(KeyboardInterrupt):
        one.run(cell)


@by_day
@everywhere
def test_a_cell_that_takes_too_long_is_ended_told_so_and_run_again(tmp_path: Path, on: str) -> None:
    one = bench(tmp_path, on, nodes=[2], timeout=1.0)
    [cell] = cells(one.bench)
    first = one.run(cell)
    [row] = results.read(one.table)

    assert ("timeout", "timeout") == (first.status, row["status"]), first.reason
    assert "timeout 1" in first.reason or "DeadlineExceeded" in first.reason
    assert ([], "timeout") == (answer(one, cell)["there"], answer(one, cell)["ending"])

    again = one.run(cell)
    [row] = results.read(one.table)
    assert ("finished", False, "finished") == (again.status, again.again, row["status"])
    assert [] == answer(one, cell)["there"]


@by_day
@everywhere
def test_a_cell_that_is_stopped_is_told_so_and_the_next_call_goes_on(
    tmp_path: Path, on: str
) -> None:
    one = bench(tmp_path, on, nodes=[1, 2])
    finished, stopped = cells(one.bench)
    assert "finished" == one.run(finished).status
    stop(one, stopped, "queued" if "kueue" in on else "running")

    rows = {row["cell"]: row for row in results.read(one.table)}
    assert {finished.name: "finished", stopped.name: "stopped"} == {
        name: row["status"] for name, row in rows.items()
    }
    assert "somebody stopped it" == rows[stopped.name]["reason"]
    assert ([], "interrupted") == (answer(one, stopped)["there"], answer(one, stopped)["ending"])
    assert ("kueue" in on) == (rows[stopped.name]["queued_seconds"] is not None)
    assert None is state.closed(one.out, stopped)
    assert "" == one.left

    one.show = lambda stage, text: None
    assert [True, False] == [one.run(each).again for each in (finished, stopped)]
    assert ["finished"] * 2 == [row["status"] for row in results.read(one.table)]


@pytest.mark.parametrize("on", ["kueue", "argo, kueue"])
def test_time_in_the_queue_is_told_apart_and_is_none_of_the_limit(tmp_path: Path, on: str) -> None:
    one = bench(tmp_path, on, nodes=[1], timeout=1.0)
    [cell] = cells(one.bench)
    told = one.run(cell)
    [row] = results.read(one.table)

    assert "finished" == told.status, told.reason
    assert QUEUED_SECONDS[1] > one.bench.timeout
    assert 0.6 * QUEUED_SECONDS[1] < row["queued_seconds"] < told.seconds
    assert told.queued == row["queued_seconds"]


DELETES = f"kubectl -n lockstep-runs delete mpijobs.kubeflow.org {NAME}"


@pytest.mark.parametrize(
    ("image", "claim", "said"),
    [
        (MISSING, "lockstep-runs", "cannot start: r/missing:1: ImagePullBackOff: not found"),
        ("r/i:1", FULL, NO_ROOM),
        ("r/i:1", AWAY, f"does not answer: refused); this does it: {DELETES}"),
        ("r/i:1", KILLED, f"launch exited -9: MPIJob {NAME} in lockstep-runs"),
    ],
    ids=["image", "full claim", "API away", "launcher killed"],
)
def test_what_goes_wrong_on_a_cluster_fails_the_cell_with_a_reason_and_cleans_up_or_says_how(
    tmp_path: Path, image: str, claim: str, said: str
) -> None:
    one = bench(tmp_path, "kubernetes", nodes=[1], image=image, claim=claim)
    [cell] = cells(one.bench)
    told = one.run(cell)
    [row] = results.read(one.table)

    assert ("failed", told.reason) == (row["status"], row["reason"])
    assert said in told.reason
    cleaned = claim in ("lockstep-runs", FULL)
    assert cleaned != (DELETES in told.reason)
    assert not cleaned or [] == answer(one, cell)["there"]


def test_a_stop_after_a_launch_that_failed_says_nothing_of_why_it_failed(tmp_path: Path) -> None:
    one = bench(tmp_path, "kubernetes", nodes=[1], image=MISSING)
    [cell] = cells(one.bench)

    def pressed(name: str, step: str) -> None:
        if step == "clean-up":
            raise KeyboardInterrupt

    one.show = pressed
    with pytest.raises(KeyboardInterrupt):
        one.run(cell)
    [row] = results.read(one.table)

    assert "cannot start" in answer(one, cell)["reason"]
    assert ("", "stopped", "somebody stopped it") == (one.left, row["status"], row["reason"])


def test_a_stop_that_could_not_delete_says_which_command_does(tmp_path: Path) -> None:
    one = bench(tmp_path, "kubernetes", nodes=[2], claim=AWAY)
    [cell] = cells(one.bench)
    stop(one, cell, "running")
    [row] = results.read(one.table)

    assert one.left == (
        "not all of it could be deleted (the API server x does not answer: refused); this does it:"
        f" {DELETES}"
    )
    assert ("stopped", f"somebody stopped it; {one.left}") == (row["status"], row["reason"])
