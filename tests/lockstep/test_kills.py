"""Ranks that are killed in real runs: never healthy, and named (all of them: benchmark `kills`)."""

from pathlib import Path

import pytest

from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.diagnose.diagnosis import exit_code
from tests.benchmarks.kill_cases import drawn, played
from tests.benchmarks.kills import pages_of

pytestmark = [pytest.mark.distributed, pytest.mark.slow, pytest.mark.timeout(600)]

SEED = 2026
NUMBERS = (0, 4, 9, 10, 11, 21, 22, 30)
"""All launchers and kinds of layouts, and SIGKILL, SIGTERM and SIGSEGV."""


@pytest.mark.sweep(sample=3)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_rank_killed_at_any_moment_is_named_and_never_healthy(
    tmp_path: Path, number: int
) -> None:
    told = played(drawn(number, SEED), tmp_path)
    if not told.killed:
        pytest.skip("the run had ended before the rank could be killed")
    run = load_archive(tmp_path / "archive")
    verdict, recorded = diagnose(run).verdict, diagnose(pages_of(run)).verdict

    assert [told.case.rank] == [one.rank for one in verdict.culprits]
    assert 2 == exit_code(verdict)
    assert "healthy" != recorded.status
    assert all(
        one.rank == told.case.rank or (one.place_confidence or 1.0) < 0.7
        for one in recorded.culprits
    )
