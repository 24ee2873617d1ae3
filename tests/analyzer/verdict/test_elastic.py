"""A run that was started again with fewer ranks is judged by the ranks that it has."""

import dataclasses

import pandas as pd
import pytest

from lockstep.analyzer.ledger.attempt import attempt_of
from lockstep.analyzer.verdict.pipeline import diagnose

INFO, UP = "lockstep_rank_info", "lockstep_rank_up"


@pytest.fixture
def shrunk(synthetic):
    """`shrunk(...)`: 60 steps of four ranks, then 140 of three; rank 3 keeps the sign that it went.

    Args: `again`: whether the others were started again without it; `faults`: of the fleet.
    """

    def run_of(again=True, faults=()):
        run = synthetic(steps=200, faults=list(faults)).run()
        late = run.windows["from_step"] >= 60
        windows = run.windows[~(late & (run.windows["rank"] == 3))].copy()
        windows["attempt"] = (windows["from_step"] >= 60).astype(int) * int(again)
        moment = float(run.windows.loc[late, "start"].min())
        samples = run.samples
        samples = samples[~((samples["rank"] == 3) & (samples["time"] > moment))]
        samples = samples[samples["metric"] != INFO]
        nodes = {info.rank: info.node for info in run.ranks}
        told = [
            {"time": when, "node": nodes[rank], "gpu": None, "rank": rank, "metric": INFO,
             "value": 1.0, "labels": f'attempt="{attempt}",world_size="{world}"'}
            for attempt, world, when in ((0, 4, moment - 2.0), (1, 3, moment + 1.0))
            for rank in range(world)
            if again or attempt == 0
        ]  # fmt: skip
        gone = [
            {"time": when, "node": nodes[3], "gpu": None, "rank": 3, "metric": UP, "value": 0.0,
             "labels": ""}
            for when in (moment + 1.0, float(samples["time"].max()))
        ]  # fmt: skip
        samples = pd.concat([samples, pd.DataFrame([*told, *gone])], ignore_index=True)
        return dataclasses.replace(run, windows=windows.reset_index(drop=True), samples=samples)

    return run_of


def test_a_clean_attempt_of_fewer_ranks_is_healthy_and_says_who_is_not_in_it(shrunk):
    found = diagnose(shrunk())

    assert ("healthy", ()) == (found.verdict.status, found.verdict.culprits)
    assert any("went on without rank 3" in each for each in found.verdict.missing)
    assert [0, 1, 2] == [info.rank for info in found.grid.ranks]


def test_a_slow_rank_of_the_ranks_that_are_left_is_named(shrunk, fault):
    verdict = diagnose(shrunk(faults=[fault("thermal", 1, 1.5, first=120)])).verdict

    assert [1] == [one.rank for one in verdict.culprits]


def test_a_rank_that_went_and_was_not_replaced_is_missing(shrunk):
    found = diagnose(shrunk(again=False))

    assert [0, 1, 2, 3] == [info.rank for info in found.grid.ranks]
    assert "healthy" != found.verdict.status


def test_a_ledger_has_the_time_of_all_ranks(shrunk):
    attempt = attempt_of(diagnose(shrunk()))

    assert [0, 1, 2, 3] == [info.rank for info in attempt.run.ranks]
