"""One fault plan on every rank."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.agreement import MOST_BYTES, agree, decode, encode
from lockstep.workloads.faults.kinds import BUILT
from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.faults.settings import FaultError

FAULTS = (
    Fault(FaultKind.THERMAL, 2, None, 1.5, 100, 300, "periodic", "a", period=20, duty=0.25),
    Fault(FaultKind.XID, None, 1, 2.0, 20, 30, pool=("xid", "gc"), xid=121),
    Fault(FaultKind.LINK_DELAY, None, 1, None, 20, 30, peer=0, link=LinkSetting(delay=0.005)),
)


class World:
    """Plays the broadcasts of rank 0 to another rank."""

    def __init__(self) -> None:
        self.sent: list[torch.Tensor] = []
        self.is_source = True

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        assert source == 0
        if self.is_source:
            self.sent.append(tensor.clone())
        else:
            tensor.copy_(self.sent.pop(0))


def test_every_rank_gets_the_plan_of_rank_0_whatever_its_own() -> None:
    world = World()
    first = agree(world, 0, FAULTS)
    world.is_source = False

    assert FAULTS == first == agree(world, 3, ())
    assert [] == world.sent


def test_no_faults_are_agreed_upon_too() -> None:
    assert () == decode(encode(()))


@given(st.sampled_from(BUILT), st.integers(0, 7), st.one_of(st.none(), st.floats(1.01, 10)))
def test_a_plan_survives_its_journey(kind: FaultKind, rank: int, factor: float | None) -> None:
    plan = (Fault(kind, rank, None, factor, 10, 20),)

    assert plan == decode(encode(plan))


@pytest.mark.parametrize("raw", [b"", b"{}x", b"[1]", b'[{"kind": "gc"}]', b"\xff", b"3", b"null"])
def test_what_is_no_plan_is_refused(raw: bytes) -> None:
    with pytest.raises(FaultError, match="fault plan"):
        decode(raw)


def test_a_plan_without_bounds_is_refused() -> None:
    world = World()
    world.sent = [torch.tensor([MOST_BYTES + 1])]
    world.is_source = False

    with pytest.raises(FaultError, match="at most"):
        agree(world, 1, ())
