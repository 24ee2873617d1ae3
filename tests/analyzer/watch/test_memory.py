"""What is remembered comes back as it was, and what is torn is refused in words."""

import json

import pytest

from analyzer.run import Fact
from analyzer.watch.closable import Closable
from analyzer.watch.finding import Tier, Who
from analyzer.watch.finding_lifecycle import Course, Pace, advance
from analyzer.watch.hardware import Event
from analyzer.watch.inventory import Inventory, seen
from analyzer.watch.memory import Memory, MemoryFileError, from_json, to_json
from analyzer.watch.progress import Progress


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


def test_a_field_of_another_type_is_refused(memory):
    tree = json.loads(to_json(memory))
    tree["open"][0]["who"] = {"run": "x"}

    with pytest.raises(MemoryFileError, match="torn, or of another kind"):
        from_json(json.dumps(tree))
