"""Who asks for the living ranks, and how often the rings are read for it."""

from collector.sources.rank_ring import Rings
from collector.sources.rank_ring.living import FRESH_SECONDS, LivingRanks


def test_those_who_ask_together_share_one_scan(machine, image, clock):
    machine.ring(image(rank=0, pid=100))
    machine.process(100)
    living = LivingRanks(Rings(machine.rings, machine.proc, clock))
    first = living()
    machine.ring(image(rank=1, pid=101))
    machine.process(101)

    assert living() is first
    assert [0] == [rank.header.identity.rank for rank in first]

    clock.sleep(FRESH_SECONDS)

    assert [0, 1] == sorted(rank.header.identity.rank for rank in living())
