"""`lockstep doctor`: one line each, whatever the sources say, and everything in its JSON."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lockstep.collector.registry import NAMES
from lockstep.collector.sampler.check import SourceCheck
from lockstep.doctor import machine
from lockstep.doctor.machine import Check, State
from lockstep.runs import leftovers

LONG = "no such thing under " + "/a/long/path" * 20


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> list[SourceCheck]:
    """Thirty sources, some of which have much to say."""
    states = ("ok", "partly", "failing", "stalled", "absent")
    sources = [
        SourceCheck(f"source_{number}", states[number % 5], LONG if number % 3 else "3 series")
        for number in range(30)
    ]
    checks = [Check("python", State.OK, "3.11.7"), Check("driver", State.ABSENT, "none", "buy one")]
    monkeypatch.setattr(machine, "examine", lambda: (checks, sources))
    monkeypatch.setattr(leftovers, "find", list)
    return sources


def test_thirty_sources_are_a_line_each_in_columns(
    lockstep: Callable[..., Any], many: list[SourceCheck]
) -> None:
    answer = lockstep("doctor")

    lines = answer.out.splitlines()
    rows = [line for line in lines if " source_" in line]
    assert (0, 30) == (answer.code, len(rows))
    assert 1 == len({line.index("source_") for line in rows})
    assert 1 == len({line.index(one.found) for line, one in zip(rows, many, strict=True)})
    assert "absent  driver  none; buy one" in lines


def test_on_a_terminal_no_line_is_wider_than_it(
    lockstep: Callable[..., Any], many: list[SourceCheck], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    answer = lockstep("doctor")

    rows = [line for line in answer.out.splitlines() if " source_" in line]
    assert 60 == max(map(len, rows))
    assert {"…"} == {line[-1] for line in rows if len(line) == 60}


def test_json_has_every_source_in_full(
    lockstep: Callable[..., Any], many: list[SourceCheck]
) -> None:
    tree = json.loads(lockstep("doctor", "-o", "json").out)

    assert [{"name": one.name, "state": one.state, "found": one.found} for one in many] == (
        tree["sources"]
    )
    assert ["python", "driver"] == [check["name"] for check in tree["checks"]]


def test_every_source_of_the_collector_is_looked_at(lockstep: Callable[..., Any]) -> None:
    answer = lockstep("doctor", "-o", "json")

    sources = json.loads(answer.out)["sources"]
    assert list(NAMES) == [source["name"] for source in sources]
    assert {"ok", "partly", "failing", "stalled", "absent"} >= {one["state"] for one in sources}
    assert all(one["found"].isprintable() and one["found"] for one in sources)


def test_wrong_settings_are_a_missing_thing_and_the_rest_is_told(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "LOCKSTEP_COLLECTOR_SOURCES", "procfss")
    answer = lockstep("doctor")

    assert 1 == answer.code
    assert "did you mean procfs?" in answer.out
    assert "python" in answer.out
