"""Small fleets, verdicts and sightings for the watch."""

from collections.abc import Callable

import pytest

from lockstep.analyzer.findings.finding import Detection, Kind, Tier, Who
from lockstep.watch.look.members import Members, members


@pytest.fixture
def ranks() -> Callable[..., Members]:
    """`ranks(nodes, width, run)`: members of one run of a data-parallel group."""

    def make(nodes=4, width=2, run="gpt-1", attempt=0, stages=1):
        infos = [
            (
                {
                    "run": run, "rank": str(rank), "attempt": str(attempt),
                    "world_size": str(nodes * width), "dp": str(rank), "tp": "0",
                    "pp": str(rank * stages // (nodes * width)), "gpu": str(rank % width),
                    "uuid": f"GPU-{rank}", "node": f"node-{rank // width}", "job": "lockstep",
                    "instance": f"10.0.0.{rank // width}:9410",
                },
                1.0,
            )
            for rank in range(nodes * width)
        ]  # fmt: skip
        return members(infos)

    return make


@pytest.fixture
def sighting() -> Callable[..., Detection]:
    """`sighting(rank, sure=…, tier=…)`: something seen of a rank of run gpt-1."""

    def make(rank=2, *, sure=True, tier=Tier.PAGE, run="gpt-1", onset=900.0, cause="slow-gpu"):
        return Detection(
            who=Who(run, f"node-{rank}", rank, 0, None), kind=Kind.SLOW, scope="rank",
            cause=cause, tier=tier, confidence=0.9, sentence=f"Rank {rank} is slow.",
            onset=onset, sure=sure, slowdown=1.5,
        )  # fmt: skip

    return make
