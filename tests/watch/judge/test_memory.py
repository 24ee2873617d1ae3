"""What is remembered comes back as it was, and what is torn is refused in words."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import reduce
from operator import getitem

import pytest

from lockstep.analyzer.findings.closable import Closable
from lockstep.analyzer.findings.finding import Tier, Who
from lockstep.analyzer.findings.finding_lifecycle import Course, Pace, advance
from lockstep.analyzer.shapes.run import Fact
from lockstep.watch.judge.hardware import Event, Inventory, seen
from lockstep.watch.judge.memory import Memory, MemoryFileError, from_json, to_json
from lockstep.watch.judge.runs import End, Heard, How, Life, Lost, Place, Progress


@pytest.fixture
def memory(sighting) -> Memory:
    course, _ = advance(
        Course({}, {}), [sighting(2), sighting(3, sure=False)],
        Closable(1000.0, frozenset({"gpt-1"}), {}), Pace(600.0, 300.0),
    )  # fmt: skip
    return Memory(
        course=course,
        runs={'<script>"\n🔥': Progress(5.0, 990.0, 0.5, best=2.0, seen=1000.0)},
        inventory=Inventory(nodes=seen({}, [(("node-1",), 1.0)], 1000.0)),
        unwritten={"gpt-1/x": 2},
        unclosed={"gpt-1/y": 990.0},
        nodes={("lockstep", "10.0.0.1:9410"): ("node-1", 990.0)},
        gpus={("lockstep", "10.0.0.1:9410"): frozenset({"GPU-1", "GPU-2"})},
        pages={"gpt-1": frozenset({("lockstep", "10.0.0.1:9410")})},
        events={("node-1", "GPU-2"): Event(79, 950.0, (Who("", "node-1", None, 0, None),), None)},
    )


def test_what_is_written_is_read_back(memory):
    assert memory == from_json(to_json(memory))


def test_facts_come_back_too(memory):
    key = Who("gpt-1", "node-2", 2, 0, None), Tier.PAGE
    facts = (Fact(True, "it is hot", "x"),)
    object.__setattr__(memory.course.open[key], "facts", facts)

    assert facts == from_json(to_json(memory)).course.open[key].facts


@pytest.mark.parametrize("text", ["", "{}", "[]", "nul", '{"format": "other"}', '{"format": 1}'])
def test_what_is_no_memory_is_refused(text):
    with pytest.raises(MemoryFileError):
        from_json(text)


def test_every_torn_part_is_refused_in_a_sentence(memory):
    text = to_json(memory)

    for end in range(0, len(text) - 1, 7):
        with pytest.raises(MemoryFileError):
            from_json(text[:end])


def test_an_entry_of_another_type_is_left_out_and_said(memory):
    tree = json.loads(to_json(memory))
    tree["open"][0]["who"] = {"run": "x"}
    refused = []

    left = from_json(json.dumps(tree), refused.append)

    assert ({}, memory.runs) == (dict(left.course.open), left.runs)
    assert ["open: WatchFinding.who has no node"] == refused


ODD = (
    1e308, -1e308, 1e11 + 1, -1, -5.5, 2**70, "x", "", None, True, [], [1], {}, {"a": 1},
    "../../x", "NaN", float("inf"), float("-inf"), float("nan"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "told", "taken"),
    [
        ("confidence", 1.0000000000000002, 1.0),
        ("confidence", sum([0.1] * 3) + 0.7 + 1e-12, 1.0),
        ("place_confidence", -1e-17, 0.0),
        ("slowdown", -2e-16, 0.0),
        ("slowdown", 0.9999999, 0.9999999),
        ("confidence", 1.001, None),
        ("confidence", -0.001, None),
        ("slowdown", -1e-6, None),
        ("slowdown", 1.1e9, None),
    ],
)
def test_what_rounding_put_beyond_an_end_is_that_end(memory, name, told, taken):
    tree = json.loads(to_json(memory))
    tree["open"][0][name] = told
    refused = []

    left = from_json(json.dumps(tree), refused.append).course.open.values()

    assert ([] if taken is None else [taken]) == [
        getattr(one, name) for one in left if one.who == next(iter(memory.course.open.values())).who
    ]
    assert (taken is None) == bool(refused)


def places(tree, path=()):
    """Of every value that is no object or list."""
    if isinstance(tree, dict):
        return [each for key, value in tree.items() for each in places(value, (*path, key))]
    if isinstance(tree, list):
        return [each for key, value in enumerate(tree) for each in places(value, (*path, key))]
    return [path]


def numbers(value):
    """All in a Memory, but for what a finding quotes."""
    if isinstance(value, Mapping):
        return [each for pair in value.items() for part in pair for each in numbers(part)]
    if isinstance(value, tuple | list | frozenset):
        return [each for part in value for each in numbers(part)]
    if is_dataclass(value):
        # Of `gone` infinity says that nobody saw it.
        names = [one.name for one in fields(value) if one.name != "gone"]
        return [each for name in names for each in numbers(getattr(value, name))]
    return [value] if isinstance(value, int | float) else []


def test_no_value_of_any_place_ends_the_start_or_is_no_number_that_can_be(memory):
    life = Life({0: Place("node-1", 3)}, frozenset({("a", "b")}), 1, 990.0, lost=Lost(1.0, 2.0))
    ended = replace(life, end=End(995.0, How.DIED, (0,), states={"failed": 1}, gone=996.0))
    memory = replace(
        memory, lives={"gpt-1": life, "gpt-2": ended}, told={"node-1": {"ranks": 990.0}},
        since=900.0, taken={"http://a": frozenset({"m"})}, renamed={"a": "b"},
        closed=tuple(memory.course.open.values()),
    )  # fmt: skip
    text = to_json(memory)
    assert memory == from_json(text)
    every = [path for path in places(json.loads(text)) if path != ("format",)]
    assert len(every) > 60

    for path in every:
        for odd in ODD:
            tree = json.loads(text)
            *before, last = path
            reduce(getitem, before, tree)[last] = odd
            try:
                left = from_json(json.dumps(tree))
            except MemoryFileError:
                continue
            assert all(-1 <= each <= 4.2e18 for each in numbers(left)), (path, odd)
            assert all(
                one.folder.count("/") == 1 and ".." not in one.folder
                for one in (*left.course.open.values(), *left.closed)
            )
            to_json(left)


def test_a_moment_that_no_clock_shows_is_forgotten(memory):
    tree = json.loads(to_json(memory))
    tree["inventory"]["nodes"].append([["node-9"], 1.0, 1e12])
    tree["inventory"]["links"].append([["node-9", "0", "GPU-1"], 1e308, 1000.0])
    refused = []

    left = from_json(json.dumps(tree), refused.append).inventory

    assert (memory.inventory.nodes, {}) == (left.nodes, left.links)
    assert 2 == len(refused)


def test_what_is_of_tomorrow_is_not_missed_for_ever():
    later = seen({("node-9",): (1.0, 4e9)}, [], 1000.0)

    assert {} == later


def test_a_run_that_an_older_version_took_for_vanished_is_read():
    end = End(900.0, How.VANISHED, heard=Heard.UNREACHED)
    life = Life({0: Place("node-0", -1)}, frozenset(), 0, 900.0, end=end)
    text = to_json(Memory(lives={"gpt": life}))

    assert life == from_json(text.replace('"unreached"', '"mixed"')).lives["gpt"]
