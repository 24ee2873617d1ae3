"""Verdicts made by hand, commands run in process, and real runs that were quiet enough to judge."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from lockstep.analyzer.shapes.run import Culprit, Fact, Verdict
from lockstep.app import DEBUG_VARIABLE, main

ATTEMPTS = 3
"""Runs that are recorded, at most, until one can be judged."""
BUSY = 2.0
"""Processes a processor; a run of ours waits more than it computes and makes about one."""


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def lockstep(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    """`lockstep("analyze", path)` runs a command as the shell would."""
    # Set, then removed: so that what a command leaves there is undone after the test.
    monkeypatch.setenv(DEBUG_VARIABLE, "")
    monkeypatch.delenv(DEBUG_VARIABLE)

    def call(*arguments: object) -> Answer:
        code = main([str(each) for each in arguments])
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return call


@pytest.fixture
def culprit() -> Callable[..., Culprit]:
    """`culprit(tier=..., cause=..., rank=...)`."""

    def make(tier: str = "page", cause: str = "thermal", rank: int = 2) -> Culprit:
        return Culprit(
            "gpu", rank, f"node-{rank}", 0, f"GPU-{rank}", rank, 0, 0, None, 40, None, None, 1.5,
            (1.4, 1.6), cause, 0.9, tier, (Fact(True, "it was hot", "temperature"),),
        )  # fmt: skip

    return make


@pytest.fixture
def verdict() -> Callable[..., Verdict]:
    """`verdict(status, culprits...)`."""

    def make(status: str = "healthy", *culprits: Culprit, hang: bool = False) -> Verdict:
        stuck = {"group": "dp", "sequence": 3, "op": "dp-all-reduce", "missing_ranks": [1]}
        return Verdict(
            "run", status, "A sentence.", 1.0, None, 0.0, 0.9, culprits,
            hang=stuck if hang else None, missing=("nothing",),
        )  # fmt: skip

    return make


@pytest.fixture(scope="session")
def decided() -> Callable[[Callable[[int], Sequence[str]]], Sequence[Mapping[str, Any]]]:
    """`decided(judged)`: the verdicts that `judged(attempt)` prints as JSON, once all are decided.

    Where other work disturbs a short run, "unknown" is the right verdict, and a user records a
    longer one. Only that is tried again: a wrong name or a wrong "healthy" stands.
    """

    def again(judged: Callable[[int], Sequence[str]]) -> Sequence[Mapping[str, Any]]:
        for attempt in range(ATTEMPTS):
            verdicts = [json.loads(text) for text in judged(attempt)]
            if all(verdict["status"] != "unknown" for verdict in verdicts):
                break
        else:
            if os.getloadavg()[0] > BUSY * len(os.sched_getaffinity(0)):
                pytest.skip("no run could be judged: this machine has too much else to do")
        return verdicts

    return again
