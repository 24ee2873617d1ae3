"""Who asks for the living ranks, and how often the rings are read for it."""

from lockstep.collector.registry import Node
from lockstep.collector.sources.ranks.rings import FRESH_SECONDS, LivingRanks, Rings


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


def test_a_rank_has_stepped_once_it_recorded_a_step_and_not_by_the_count_it_resumed_with(
    machine, image, clock
):
    machine.ring(image(rank=0, pid=100, steps=5000))
    machine.ring(image(rank=1, pid=101, steps=1).training(1))
    for pid in (100, 101):
        machine.process(pid)

    assert {("gpt-1", 1)} == Node(machine.config(), clock).stepped_ranks()
