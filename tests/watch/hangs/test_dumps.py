"""Dumps from the collectors of a run: what is whole is kept, and why the rest is not."""

import json
import time
import zlib
from base64 import b64encode

import pytest

from lockstep.collector.formats.flight_recorder.dump import MAX_BYTES
from lockstep.watch.hangs.dumps import fetch
from tests.watch.node_collectors import OLDER, Answering, answer, collectors, rank_part

DUMP = b'{"version": "2.9"}'


@pytest.fixture
def given(tmp_path):
    """`given(*answers)`: what is collected from them, all in `tmp_path`."""

    def ask(*answers: Answering, seconds: float = 5.0, most: int = 1 << 20, **more: int):
        with collectors(*answers) as served:
            return fetch([one.page for one in served], "gpt-1", tmp_path, seconds, most, **more)

    return ask


def test_dumps_of_all_nodes_lie_in_one_folder_with_what_is_known(given, tmp_path):
    fact = {"rank": 1, "kind": "process-state", "value": "T"}
    newer = {"rank": 1, "kind": "of-a-newer-version", "value": "x"}

    found = given(
        Answering(answer([rank_part(0, DUMP)])),
        Answering(answer([rank_part(1, None, why="frozen")], facts=[fact, newer])),
    )

    assert (1, {0: "", 1: "frozen"}) == (
        found.dumps, {rank: one.why for rank, one in found.ranks.items()},
    )  # fmt: skip
    assert ((0, 1, 2, 3), 100.0) == (found.world, found.silence)
    assert DUMP == (tmp_path / "dump_0").read_bytes()
    told = json.loads((tmp_path / "evidence.json").read_text())
    assert ({"0"}, [fact]) == (told["written"].keys(), told["facts"])


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (OLDER, 404, "it has no /dumps, as collectors of older versions"),
        (b"no rank of this run is on this node\n", 404, "it has no rank of this run any more"),
        (b"a user and a password are needed", 401, "it answers 401"),
        (b"\x00\xff<html>", 200, "its answer is not as agreed"),
        (b"[]", 200, "its answer is not as agreed"),
        (answer([rank_part(0, DUMP)], run="gpt-2"), 200, "its answer is not as agreed"),
        (answer([rank_part(-1, DUMP)]), 200, "its answer is not as agreed"),
        (answer([rank_part(0, DUMP, dump=7)]), 200, "its answer is not as agreed"),
        (answer([rank_part(0, DUMP, world=1 << 23)]), 200, "its answer is not as agreed"),
        (answer([rank_part(0, DUMP, written="x")]), 200, "its answer is not as agreed"),
        (answer([rank_part(0, DUMP)]) + b" " * (2 << 20), 200,
         "all answers together are too large"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_told_and_costs_nobody_else_his(given, tmp_path, body, status, why):
    bad = Answering(body, status)

    found = given(Answering(answer([rank_part(1, DUMP)])), bad)

    assert {bad.page: why} == found.silent
    assert [1] == list(found.ranks)
    assert not (tmp_path / "dump_0").exists()


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        ("no base64", "its dump is not packed as agreed"),
        ("\u00e4", "its dump is not packed as agreed"),
        (b64encode(b"no zlib").decode(), "its dump is not packed as agreed"),
        (b64encode(zlib.compress(DUMP)[:-3]).decode(), "its dump is torn"),
        (b64encode(zlib.compress(b"0" * (MAX_BYTES + 1))).decode(), "its dump is over 16 MiB"),
    ],
)
def test_a_dump_that_cannot_be_unpacked_costs_its_rank_alone(given, tmp_path, packed, why):
    found = given(Answering(answer([rank_part(0, DUMP, dump=packed), rank_part(1, DUMP)])))

    assert {0: why, 1: ""} == {rank: one.why for rank, one in found.ranks.items()}
    assert not (tmp_path / "dump_0").exists()
    assert 1 == found.dumps


def test_small_answers_that_unpack_to_much_end_at_one_budget(given, tmp_path):
    large = b"0" * 100_000
    parts = [rank_part(rank, large) for rank in range(4)]
    found = given(Answering(answer(parts[:2])), Answering(answer(parts[2:])), unpacked=250_000)

    why = "the dumps of all ranks together are too large"
    assert (2, 2) == (found.dumps, [one.why for one in found.ranks.values()].count(why))
    assert 2 == len(list(tmp_path.glob("dump_*")))


def test_who_is_slow_is_not_waited_for(given):
    slow, begin = Answering(answer([rank_part(0, DUMP)]), seconds=4.0), time.monotonic()

    found = given(slow, Answering(answer([rank_part(1, DUMP)])), seconds=1.0)

    assert time.monotonic() - begin < 4.0
    assert ([1], [slow.page]) == (list(found.ranks), list(found.silent))


def test_dumps_of_an_older_attempt_are_left_out(given, tmp_path):
    found = given(
        Answering(answer([rank_part(0, DUMP, attempt=1)])),
        Answering(answer([rank_part(1, DUMP), rank_part(2, DUMP, attempt=1)])),
    )

    assert [0, 2] == list(found.ranks)
    assert {"dump_0", "dump_2", "evidence.json"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("newest_first", [True, False])
def test_facts_of_an_older_attempt_are_left_out(given, tmp_path, newest_first):
    def fact(rank: int, value: str) -> dict[str, object]:
        return {"rank": rank, "kind": "ras", "value": value}

    old = Answering(answer([rank_part(1, DUMP)], facts=[fact(9, "missing"), fact(1, "dead")]))
    mixed = [rank_part(0, DUMP, attempt=1), rank_part(8, None)]
    facts = [fact(0, "dead"), fact(2, "missing"), fact(8, "missing")]
    new = Answering(answer(mixed, facts=facts))

    given(*((new, old) if newest_first else (old, new)))

    told = json.loads((tmp_path / "evidence.json").read_text())["facts"]
    assert {(0, "dead"), (2, "missing")} == {(one["rank"], one["value"]) for one in told}


def test_of_one_rank_told_twice_the_newest_dump_counts(given, tmp_path):
    found = given(
        Answering(answer([rank_part(0, b"old", written=5.0)])),
        Answering(answer([rank_part(0, b"new", written=6.0), rank_part(0, None)])),
    )

    assert (6.0, b"new") == (found.ranks[0].written, (tmp_path / "dump_0").read_bytes())
