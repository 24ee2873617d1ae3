"""What a cycle of watch sees of a rank."""

from collections.abc import Callable

import pytest

from lockstep.analyzer.findings.finding import Detection, Kind, Tier, Who


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
