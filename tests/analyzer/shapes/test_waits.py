"""Waits from durations, and own time: what is known, what is not, and that no sum is wrong."""

import json
import shutil
import subprocess
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.read.collectives.rows import Rows
from lockstep.analyzer.read.prometheus.questions import own_per_step
from lockstep.analyzer.shapes.waits import (
    ALONE,
    Collectives,
    Communicator,
    Process,
    all_known,
    matrices,
    waits,
)

DP = Communicator("0xa1", "dp", 3)


def row(
    rank: int, sequence: int, seconds: float, *, op: str = "all_reduce", peer: int = ALONE,
    communicator: Communicator = DP, means: str = "kernel_gpu", pid: int | None = None,
) -> dict[str, object]:  # fmt: skip
    return {
        "process": Process("node-0", rank if pid is None else pid), "communicator": communicator,
        "rank": rank, "op": op, "sequence": sequence, "payload": 1 << 20, "seconds": seconds,
        "time": float(sequence), "means": means, "peer": peer,
    }  # fmt: skip


def told(rows: Iterable[dict[str, object]]) -> Collectives:
    made = Rows()
    for one in rows:
        made.add(**one)  # type: ignore[arg-type]
    return made.whole()


def seconds(rows: Iterable[dict[str, object]]) -> list[float]:
    return [round(one, 9) for one in waits(told(rows)).seconds.tolist()]


def test_nothing_told_is_nothing_waited():
    assert seconds([]) == []


def test_the_late_rank_shows_the_shortest_duration_and_waits_least():
    assert seconds([row(0, 7, 0.5), row(1, 7, 0.1), row(2, 7, 0.3)]) == [0.4, 0.0, 0.2]


def test_where_a_rank_did_not_tell_nobodys_wait_is_known():
    found = seconds([row(0, 7, 0.5), row(1, 7, 0.1), *(row(rank, 8, 0.2) for rank in range(3))])

    assert np.isnan(found[:2]).all()
    assert found[2:] == [0.0, 0.0, 0.0]


def test_two_communicators_of_one_name_are_two():
    other = Communicator("0xb2", "dp", 3)
    rows = [row(rank, 7, 0.1 * (rank + 1)) for rank in range(3)]
    rows += [row(rank, 7, 1.0, communicator=other, pid=10 + rank) for rank in range(3)]

    assert seconds(rows) == [0.0, 0.1, 0.2, 0.0, 0.0, 0.0]


def test_a_line_that_is_there_twice_counts_once():
    rows = [row(rank, 7, 0.1 * (rank + 1)) for rank in range(3)]
    found = waits(told([*rows, *rows]))

    assert found.twice.tolist() == [False] * 3 + [True] * 3
    assert np.nansum(found.seconds) == np.float64(0.1 + 0.2)


def test_of_two_different_durations_of_one_rank_neither_is_believed():
    rows = [row(0, 7, 0.5), row(0, 7, 0.6), row(1, 7, 0.1), row(2, 7, 0.3)]

    assert np.isnan(seconds(rows)).all()


def test_durations_by_different_means_do_not_compare():
    rows = [row(0, 7, 0.5), row(1, 7, 0.1, means="kernel_cpu"), row(2, 7, 0.3)]

    assert np.isnan(seconds(rows)).all()


PIPE = Communicator("0xc3", "pp", 2)


def send(sequence: int, took: float) -> dict[str, object]:
    return row(0, sequence, took, op="send", peer=1, communicator=PIPE)


def receive(sequence: int, took: float) -> dict[str, object]:
    return row(1, sequence, took, op="recv", peer=0, communicator=PIPE)


def test_a_transfer_is_known_by_its_two_sides():
    rows = [send(1, 0.1), send(2, 0.5), receive(1, 0.4), receive(2, 0.2)]

    assert seconds(rows) == [0.0, 0.3, 0.3, 0.0]


def test_behind_a_missing_transfer_nobody_knows_which_is_which():
    rows = [send(1, 0.1), send(3, 0.5), receive(1, 0.4), receive(2, 0.2)]
    found = seconds(rows)

    assert (found[0], found[2]) == (0.0, 0.3)
    assert np.isnan([found[1], found[3]]).all()


def test_transfers_are_a_matrix_of_source_and_destination():
    of = told([send(1, 0.1), send(2, 0.5), receive(1, 0.4), receive(2, 0.2)])
    (found,) = matrices(of, waits(of))

    assert found.count.tolist() == [[0, 2], [0, 0]]
    assert found.bytes[0, 1] == 2 << 20
    assert found.seconds[0, 1] == np.float64(0.1 + 0.2)
    assert found.target_waits[0, 1].round(9) == 0.3
    assert found.source_waits[0, 1].round(9) == 0.3


@settings(max_examples=60, deadline=None)
@given(
    took=st.lists(st.lists(st.floats(1e-6, 10.0), min_size=3, max_size=3), min_size=1, max_size=8),
    lost=st.sets(st.tuples(st.integers(0, 7), st.integers(0, 2)), max_size=6),
    seed=st.integers(0, 1000),
)
def test_the_order_of_lines_says_nothing_and_what_lacks_a_rank_is_in_no_sum(
    took: list[list[float]], lost: set[tuple[int, int]], seed: int
):
    rows = [
        row(rank, number, seconds)
        for number, each in enumerate(took)
        for rank, seconds in enumerate(each)
        if (number, rank) not in lost
    ]
    np.random.default_rng(seed).shuffle(rows)  # type: ignore[arg-type]
    found = waits(told(rows)).seconds
    whole = [number for number in range(len(took)) if not any(n == number for n, _ in lost)]
    expected = sum(sum(took[number]) - 3 * min(took[number]) for number in whole)

    assert np.nansum(found) == np.float64(expected) or abs(np.nansum(found) - expected) < 1e-9
    assert int(np.isfinite(found).sum()) == 3 * len(whole)


STEPS, KNOWN, OWN = (
    f"lockstep_train_{name}_total" for name in ("steps", "known_steps", "own_seconds")
)


def test_a_span_is_known_only_if_each_of_its_steps_is_and_somebody_counts_them():
    known = all_known(np.array([10.0, 9.0, np.nan, 0.0]), np.array([10.0, 10.0, 10.0, 10.0]))

    assert known.tolist() == [True, False, False, False]


PAGES = {
    "timed": ({STEPS: "0+30x20", KNOWN: "0+30x20", OWN: "0+3x20"}, 0.1),
    "timed from now on": ({STEPS: "900+30x20", KNOWN: "0x10 30+30x9", OWN: "0x10 3+3x9"}, 0.1),
    "one in thirty not timed": ({STEPS: "0+30x20", KNOWN: "0+29x20", OWN: "0+2.9x20"}, None),
    "never timed": ({STEPS: "0+30x20", KNOWN: "0x20", OWN: "0x20"}, None),
    "nobody counts": ({STEPS: "0+30x20", OWN: "0+3x20"}, None),
    "stands": ({STEPS: "90x20", KNOWN: "90x20", OWN: "9x20"}, None),
    "resumed": ({STEPS: "0+30x17 7000+30x3", KNOWN: "0+30x20", OWN: "0+3x20"}, None),
}


@pytest.mark.prometheus
def test_prometheus_gives_own_time_where_it_is_known_and_nothing_elsewhere(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    labels = {page: f'{{run="r",rank="{rank}"}}' for rank, page in enumerate(PAGES)}
    series = [
        {"series": metric + labels[page], "values": values}
        for page, (metrics, _) in PAGES.items()
        for metric, values in metrics.items()
    ]
    told = [
        {"labels": labels[page], "value": own}
        for page, (_, own) in PAGES.items()
        if own is not None
    ]
    asked = {"expr": f"round({own_per_step('1m')}, 1e-6)", "eval_time": "5m", "exp_samples": told}
    test = {"interval": "15s", "input_series": series, "promql_expr_test": [asked]}
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"evaluation_interval": "15s", "tests": [test]}))

    answer = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)

    assert answer.returncode == 0, answer.stderr + answer.stdout
