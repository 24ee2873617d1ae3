"""Damaged archives: no wrong culprit, nobody in a healthy one, and never a bug."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lockstep.collector.contract.words import ExitCode
from tests.attack import archives
from tests.attack.bounds import times

ROUNDS = 5
"""Each of as many archives of either kind; LOCKSTEP_ATTACK=6 makes the 300 of the first attack."""
EACH = 5
ALLOWED = {ExitCode.OK, ExitCode.WARNING, ExitCode.CULPRIT, ExitCode.UNKNOWN, ExitCode.BAD_INPUT}


@pytest.fixture(scope="module", params=[True, False], ids=["sick", "healthy"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archives.made(
        tmp_path_factory.mktemp("whole") / ("sick" if request.param else "healthy"),
        sick=request.param,
    )


def test_undamaged_it_is_judged_right(whole: Path, lockstep: Callable[..., Any]) -> None:
    told = json.loads(lockstep("analyze", whole, "--no-write", "-o", "json").out)

    if whole.name == "sick":
        assert [archives.SLOW] == [each["rank"] for each in told["culprits"]]
    else:
        assert "healthy" == told["status"]


@pytest.mark.sweep(sample=4)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(times(ROUNDS)))
def test_a_damaged_archive_names_no_innocent(
    whole: Path, tmp_path: Path, lockstep: Callable[..., Any], seed: int
) -> None:
    dice = Random(f"{whole.name} {seed}")
    for number in range(EACH):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        done = archives.damage(folder, dice)
        answer = lockstep("analyze", folder, "-o", "json")

        assert answer.code in ALLOWED, (done, answer)
        assert "Traceback" not in answer.err, done
        if answer.code == ExitCode.BAD_INPUT:
            assert 1 == len(answer.err.splitlines()), (done, answer.err)
            continue
        told = json.loads(answer.out)
        blamed = [(each["rank"], each["node"]) for each in told["culprits"]]
        if whole.name == "healthy":
            assert [] == blamed, (done, told["sentence"])
        else:
            assert all(
                rank == archives.SLOW or (rank is None and node == f"node-{archives.SLOW}")
                for rank, node in blamed
            ), (done, told["sentence"])
