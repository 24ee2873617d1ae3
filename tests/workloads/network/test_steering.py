"""A link fault reaches its factor on a link that nobody described to it."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep.collector.contract.ring import file_name
from lockstep.collector.contract.words import GROUPS, OPS, PHASES, FaultKind
from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.network.controller import Progress, RingSteps
from lockstep.workloads.network.steering import Steering, middle
from lockstep.workloads.recording import WARMUP_STEPS
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.ring_file import Identity

HEALTHY, BITS, STEPS, BEGIN = 0.060, 5e6, 200, 60
Extra = Callable[[LinkSetting], float]


def fault(kind: FaultKind, factor: float | None, **more: object) -> Fault:
    return Fault(kind, None, 2, factor, BEGIN, STEPS, **more)  # type: ignore[arg-type]


def slow(bits: float, hidden: float) -> Extra:
    """What a rate costs where some transfer runs beside computation."""
    return lambda setting: max(0.0, bits / setting.rate - hidden) if setting.rate else 0.0


def late(rounds: float, hidden: float) -> Extra:
    return lambda setting: max(0.0, rounds * setting.delay - hidden)


def steps_of(steering: Steering, extra: Extra, noise: float, seed: int) -> list[float]:
    """Wall time of every step of a run whose link is steered."""
    dice = random.Random(seed)
    taken = []
    for step in range(STEPS):
        if step == BEGIN:
            steering.begin(BITS, 30.0)
        setting = steering.setting(step)
        seconds = (HEALTHY + extra(setting)) * (1.0 + dice.gauss(0.0, noise))
        steering.observe(step, seconds)
        taken.append(seconds)
    return taken


@pytest.mark.sweep
@pytest.mark.parametrize("factor", [1.1, 1.3, 2.0])
@pytest.mark.parametrize("hidden", [0.0, 0.004, 0.030])
@pytest.mark.parametrize("known", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_bandwidth_fault_reaches_its_factor(
    factor: float, hidden: float, known: float, seed: int
) -> None:
    steering = Steering(fault(FaultKind.LINK_BANDWIDTH, factor))
    taken = steps_of(steering, slow(BITS * known, hidden), 0.03, seed)
    measured = middle(taken[BEGIN:]) / middle(taken[WARMUP_STEPS:BEGIN])

    assert factor * 0.9 < measured < factor * 1.1


@pytest.mark.sweep
@pytest.mark.parametrize("factor", [1.1, 1.3, 2.0])
@pytest.mark.parametrize("hidden", [0.0, 0.004])
@pytest.mark.parametrize("rounds", [6.0, 30.0, 150.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_delay_fault_reaches_its_factor(
    factor: float, hidden: float, rounds: float, seed: int
) -> None:
    steering = Steering(fault(FaultKind.LINK_DELAY, factor))
    taken = steps_of(steering, late(rounds, hidden), 0.03, seed)
    measured = middle(taken[BEGIN:]) / middle(taken[WARMUP_STEPS:BEGIN])

    assert factor * 0.9 < measured < factor * 1.1


def test_before_and_after_its_steps_the_link_is_left_alone() -> None:
    one = Fault(FaultKind.LINK_DELAY, None, 2, None, 10, 20, link=LinkSetting(delay=0.005))
    steering = Steering(one)

    assert [LinkSetting(), LinkSetting(delay=0.005), LinkSetting()] == [
        steering.setting(step) for step in (9, 15, 20)
    ]


def test_what_was_asked_for_in_numbers_is_not_corrected() -> None:
    setting = LinkSetting(rate=1e8)
    steering = Steering(fault(FaultKind.LINK_BANDWIDTH, None, link=setting))
    steps_of(steering, slow(BITS, 0.0), 0.03, 0)

    assert setting == steering.setting(STEPS - 1)


def test_a_ramp_lengthens_steps_in_proportion() -> None:
    steering = Steering(fault(FaultKind.LINK_BANDWIDTH, 2.0, shape="ramp"))
    taken = steps_of(steering, slow(BITS, 0.0), 0.01, 0)
    half = middle(taken[BEGIN + 65 : BEGIN + 75])

    assert 1.5 * HEALTHY * 0.9 < half < 1.5 * HEALTHY * 1.1
    assert 2.0 * HEALTHY * 0.9 < middle(taken[-5:]) < 2.0 * HEALTHY * 1.1


def test_a_link_that_costs_nothing_is_slowed_to_its_bounds_only() -> None:
    steering = Steering(fault(FaultKind.LINK_DELAY, 2.0))
    steps_of(steering, lambda setting: 0.0, 0.01, 0)

    assert 0.0 < steering.setting(STEPS - 1).delay <= 1.0


# Where a rank is, read from a real ring.

WHO = Identity("run", "node-0", "", 0, 2, 0, 0, 0, 0, 0, -1, 0, 0)


def end_step(writer: RingWriter, wall_ns: int) -> None:
    writer.end_step(
        start_ns=0, wall_ns=wall_ns, cpu_ns=0, own_ns=0, wait_ns=wall_ns,
        phase_ns=[0] * len(PHASES), tags=0,
        samples=1, tokens=1, flops=0.0, loss=0.0,
    )  # fmt: skip


def test_a_rank_without_a_ring_is_nowhere(tmp_path: Path) -> None:
    assert RingSteps(tmp_path / file_name(0)).read() is None


def test_steps_their_wall_time_and_collectives_add_up(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / file_name(0), WHO)
    steps = RingSteps(tmp_path / file_name(0))
    assert Progress(0, 0.0, 0) == steps.read()

    op, group = OPS.index("dp-all-reduce"), GROUPS.index("dp")
    for _ in range(3):
        arrival = writer.begin(op, group)
        writer.end(op, group, arrival, 8, 0)
    end_step(writer, 40_000_000)
    end_step(writer, 60_000_000)

    assert Progress(2, 0.1, 3) == steps.read()
    writer.close()


def test_a_file_that_is_no_ring_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / file_name(0)).write_bytes(b"\0" * 100_000)

    assert RingSteps(tmp_path / file_name(0)).read() is None
