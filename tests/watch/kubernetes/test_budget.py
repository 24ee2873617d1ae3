"""Whatever happens, no more nodes are touched than the budget allows, and none that is not ours."""

import random
from collections import Counter
from dataclasses import replace

import hypothesis
from hypothesis import strategies as st

from lockstep.collector.contract.kubernetes import HEALTHY
from lockstep.watch.kubernetes.shapes import Mode, Release, Settings, Status, Taint
from tests.watch.kubernetes.world import START, World, fault, nodes

TAINT = Settings(mode=Mode.TAINT)
STEPS = 20
GAPS = (10.0, 60.0, 300.0, 700.0, 2000.0, 40_000.0)


def _world(count: int, seed: int = 0) -> World:
    chance = random.Random(seed)
    return World(chance, TAINT, {node.name: node for node in nodes(count)})


def test_random_schedules_by_the_thousand_keep_the_budget() -> None:
    reached: Counter[str] = Counter()

    @hypothesis.settings(max_examples=10 * hypothesis.settings.default.max_examples)
    @hypothesis.given(seed=st.integers(0, 2**32), count=st.integers(1, 24))
    def schedule(seed: int, count: int) -> None:
        world = _world(count, seed)
        for _ in range(STEPS):
            world.step()
            if world.state.breaker.open and world.chance.random() < 0.1:
                world.reset()
            decision = world.look(world.chance.choice(GAPS))
            reached.update(type(one).__name__ for one in decision.actions)
            reached["open"] += decision.state.breaker.open
        reached["schedules"] += 1
        _peace(world)
        _nothing_is_left(world)

    schedule()
    often = {what for what, times in reached.items() if times > reached["schedules"] / 50}

    assert {"Write", "Taint", "Release", "open"} <= often


def _nothing_is_left(world: World) -> None:
    for node in world.nodes.values():
        assert {} == node.faults
        assert Status.TRUE is node.conditions[HEALTHY].status
        if node.tainted:  # it is a human's, or was quarantined three times in a week
            times = len([*node.quarantine.before, node.quarantine.since])
            assert world.owners[node.name] != "us" or times >= TAINT.thrice


def _peace(world: World) -> None:
    """Everything is well again, and a human has closed the breaker."""
    world.faults.clear()
    world.silent.clear()
    world.answered, world.paused = True, ""
    world.nodes = {name: replace(node, away=False) for name, node in world.nodes.items()}
    world.reset()
    for _ in range(8):
        world.look(50_000.0)


def test_one_fatal_fault_is_enough_and_slowness_never_is() -> None:
    world = _world(10)
    world.faults = {"n1": {"a": fault("xid")}, "n2": {"b": fault("thermal")}}

    taints = [one for one in world.look(10).actions if isinstance(one, Taint)]

    assert ["n1"] == [one.node.name for one in taints]


def test_a_node_is_released_after_half_an_hour_without_a_fault() -> None:
    world = _world(10)
    world.faults = {"n1": {"a": fault("xid")}}
    world.look(10)
    world.faults.clear()
    seconds = 0.0
    while world.nodes["n1"].tainted:
        world.look(10)
        seconds += 10

    assert 1800 <= seconds <= 1820


def test_a_repeat_within_a_day_doubles_the_wait_and_the_third_of_a_week_stays() -> None:
    world = _world(10)
    waits = []
    for _ in range(3):
        world.faults = {"n1": {"a": fault("ecc")}}
        world.look(700)
        assert world.nodes["n1"].tainted
        world.faults.clear()
        begun = world.now
        while world.nodes["n1"].tainted and world.now - begun < 20_000:
            world.look(60)
        waits.append(world.now - begun)

    assert 1800 <= waits[0] < 1900
    assert 3600 <= waits[1] < 3700
    assert world.nodes["n1"].tainted


def test_what_a_human_released_is_left_alone_for_a_day() -> None:
    world = _world(10)
    world.faults = {"n1": {"a": fault("xid")}}
    world.look(10)
    world.nodes["n1"] = replace(world.nodes["n1"], tainted=False, ours=False)
    del world.owners["n1"]

    assert "a human released it from the same fault" == world.look(3600).skipped["n1"]
    world.look(86_400)
    assert world.nodes["n1"].tainted


def test_a_storm_opens_the_breaker_before_a_node_is_touched() -> None:
    world = _world(20)
    world.faults = {f"n{each}": {"a": fault("xid")} for each in range(15)}

    decision = world.look(10)

    assert () == decision.actions
    assert decision.state.breaker.open
    assert "GpuDegraded on 15 of 20 nodes" in decision.held


def test_many_new_quarantines_open_the_breaker() -> None:
    world = _world(20)
    causes = ("xid", "ecc")
    world.faults = {f"n{each}": {"a": fault(causes[each % 2])} for each in range(5)}

    assert "5 of 20 nodes to be quarantined" in world.look(10).held


def test_a_reset_skips_what_is_older_than_itself() -> None:
    world = _world(20)
    world.faults = {f"n{each}": {"a": fault("xid")} for each in range(15)}
    world.look(10)
    world.now += 1
    world.reset()

    decision = world.look(10)

    assert not decision.state.breaker.open
    assert [] == [one for one in decision.actions if isinstance(one, Taint)]
    assert {} == {name: node.faults for name, node in world.nodes.items() if node.faults}


def test_a_taint_of_somebody_else_is_neither_released_nor_repeated() -> None:
    world = _world(10)
    world.nodes["n1"] = replace(world.nodes["n1"], tainted=True)
    world.owners["n1"] = "a human"
    world.faults = {"n1": {"a": fault("xid")}}
    world.look(10)
    world.faults.clear()
    for _ in range(5):
        decision = world.look(3000)
        assert [] == [one for one in decision.actions if isinstance(one, Taint | Release)]

    assert START < world.now
