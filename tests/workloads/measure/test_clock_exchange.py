"""Clock offsets between real processes, and in a node whose monotonic clock was shifted."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import GROUPS
from lockstep.workloads.measure import clocks as clock_exchange
from lockstep.workloads.measure.clocks import MAX_DRIFT, Clocks, Measurement, best_of, offset_now
from lockstep.workloads.measure.process import (
    UNKNOWN_CLOCK,
    monotonic_clock,
    wall_minus_monotonic_ns,
)
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import Identity, RingWriter
from lockstep.workloads.spec import Layout

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
CLONE_NEWTIME = 0x80
SHIFT_SECONDS = 5000


def clocks(layout: Layout, rank: int, folder: Path) -> tuple[Clocks, RingWriter]:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=layout.world
    )
    who = Identity(
        "run", layout.node(rank), "", rank, layout.world, layout.local_rank(rank), 0, rank, 0, 0,
        -1, start_wall_ns=0, wall_minus_monotonic_ns=wall_minus_monotonic_ns()[0],
    )  # fmt: skip
    writer = RingWriter(folder / ring.file_name(rank), who)
    world = dist.group.WORLD
    assert world is not None
    return Clocks(Comm(StepRecorder(writer), {"world": world}), layout, rank, writer), writer


def told(writer: RingWriter) -> tuple[int, int]:
    """(offset, error) as a reader of the ring finds them."""
    fields = ring.IDENTITY.unpack_from(writer.path.read_bytes())
    return fields[20], fields[21]


def refusal(seconds: int) -> str:
    """Give this process a monotonic clock that is ahead (time_namespaces(7)); why not, or ""."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWTIME) != 0:
        return f"unshare: {os.strerror(ctypes.get_errno())}"
    try:
        Path("/proc/self/timens_offsets").write_text(f"monotonic {seconds} 0")
        descriptor = os.open("/proc/self/ns/time_for_children", os.O_RDONLY)
    except OSError as error:
        return str(error)
    entered = libc.setns(descriptor, CLONE_NEWTIME)
    os.close(descriptor)
    return "" if entered == 0 else f"setns: {os.strerror(ctypes.get_errno())}"


@pytest.mark.distributed
def test_nodes_that_share_a_clock_are_within_the_bound_of_zero(
    forked: Forked, tmp_path: Path
) -> None:
    layout = Layout(3, 2, 6)

    def work(rank: int) -> tuple[int, int, float]:
        mine, writer = clocks(layout, rank, tmp_path)
        mine.before_step(0)
        return *told(writer), mine._drift

    answers = forked(6, work)
    reading_ns = 20_000  # two readings of the wall clock, on a loaded machine

    assert [0, 0, 0.0] == answers[0]
    for offset, error, drift in answers:
        assert 0.0 == drift
        assert abs(offset) <= error + reading_ns


@pytest.mark.root
@pytest.mark.distributed
def test_a_shifted_monotonic_clock_is_found_and_the_run_s_clock_is_right(
    forked: Forked, tmp_path: Path
) -> None:
    namespace = tmp_path / "namespace"

    def work(rank: int) -> Any:
        if rank == 1:
            (tmp_path / "new").write_text(refusal(SHIFT_SECONDS))
            (tmp_path / "new").rename(namespace)
        while not namespace.exists():
            threading.Event().wait(0.01)
        if namespace.read_text():
            return None
        mine, writer = clocks(Layout(2, 1, 2), rank, tmp_path)
        mine.before_step(0)
        return mine._seen[-1].offset_ns, mine._seen[-1].error_ns, *told(writer), mine._drift

    _, answer = forked(2, work)
    if answer is None:
        pytest.skip(f"no time namespace here: {namespace.read_text()}")
    monotonic, error, offset, offset_error, drift = answer

    assert MAX_DRIFT == drift  # another namespace is another clock
    assert abs(monotonic + SHIFT_SECONDS * 10**9) <= max(50_000, error)
    assert abs(offset) <= offset_error + 50_000


@pytest.mark.distributed
def test_load_on_a_rank_widens_the_bound_but_does_not_break_it(
    forked: Forked, tmp_path: Path
) -> None:
    def work(rank: int) -> list[tuple[int, int]]:
        mine, _ = clocks(Layout(2, 1, 2), rank, tmp_path)
        done = threading.Event()

        def burn() -> None:
            while not done.is_set():
                sum(range(1000))

        thread = threading.Thread(target=burn)
        if rank == 1:
            thread.start()
        mine.before_step(0)
        done.set()
        if rank == 1:
            thread.join()
        return [(one.offset_ns, one.error_ns) for one in mine._seen]

    _, seen = forked(2, work)

    assert all(abs(offset) <= error for offset, error in seen)


@pytest.mark.distributed
def test_all_ranks_measure_again_at_the_same_steps(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> list[int]:
        clock_exchange.PERIOD_SECONDS, clock_exchange.LEAST_RATIO = 1e-6, 0.0
        mine, writer = clocks(Layout(2, 1, 2), rank, tmp_path)
        world = ring.GROUP_COUNTERS_OFFSET + GROUPS.index("world") * ring.GROUP_COUNTERS.size
        found = []
        for step in range(3, 40):
            before = ring.GROUP_COUNTERS.unpack_from(writer.path.read_bytes(), world)[1]
            mine.before_step(step)
            if ring.GROUP_COUNTERS.unpack_from(writer.path.read_bytes(), world)[1] > before:
                found.append(step)
        return found

    first, second = forked(2, work)

    assert first == second
    assert [3, 3 + clock_exchange.SECOND_STEP] == first[:2]
    assert len(first) > 2


def test_the_exchange_with_the_shortest_round_trip_decides() -> None:
    """There is 1000 ahead; the way there takes as long as the way back in the best one only."""
    trips: Iterator[tuple[int, int, int, int]] = iter(
        [(0, 1500, 1501, 600), (1000, 2010, 2020, 1030), (2000, 3001, 3002, 2400)]
    )
    found = best_of(lambda: next(trips), 3)

    assert (1030, -1000, 11) == (found.at_ns, found.offset_ns, found.error_ns)


def test_a_clock_is_known_by_its_boot_and_its_namespace(tmp_path: Path) -> None:
    def proc(name: str, boot: str, namespace: str | None) -> Path:
        folder = tmp_path / name
        (folder / "sys/kernel/random").mkdir(parents=True)
        (folder / "self/ns").mkdir(parents=True)
        (folder / "sys/kernel/random/boot_id").write_text(f"{boot}\n")
        if namespace is not None:
            (tmp_path / namespace).touch()
            (folder / "self/ns/time").symlink_to(tmp_path / namespace)
        return folder

    one = monotonic_clock(proc("one", "b", "n"))

    assert one == monotonic_clock(proc("same", "b", "n"))
    assert one != monotonic_clock(proc("other-boot", "c", "n"))
    assert one != monotonic_clock(proc("other-namespace", "b", "m"))
    assert UNKNOWN_CLOCK not in (one, monotonic_clock(proc("old-kernel", "b", None)))
    assert UNKNOWN_CLOCK == monotonic_clock(tmp_path / "nothing")


# The line through measured offsets, and that the truth is never outside its bound.

SECOND = 10**9


@st.composite
def drifting(draw: st.DrawFn) -> tuple[list[Measurement], float, int]:
    """Measurements of clocks that drift evenly, each wrong within its error; the drift; the end."""
    drift = draw(st.floats(-MAX_DRIFT, MAX_DRIFT))
    base = draw(st.integers(-(10**18), 10**18))
    at, found = draw(st.integers(0, 10**15)), []
    began = at
    for _ in range(draw(st.integers(1, 16))):
        error = draw(st.integers(1000, 10**6))
        wrong = draw(st.floats(-0.999, 0.999))
        true = base + round(drift * (at - began))
        found.append(Measurement(at, true + round(wrong * error), error))
        at += draw(st.integers(SECOND, 60 * SECOND))
    now = found[-1].at_ns + draw(st.integers(0, 60 * SECOND))
    return found, base + round(drift * (now - began)), now


@given(drifting())
@settings(max_examples=200)
def test_the_true_offset_is_never_outside_the_bound(
    case: tuple[list[Measurement], float, int],
) -> None:
    measurements, true, now = case
    found = offset_now(measurements, now)

    assert abs(found.offset_ns - true) <= found.error_ns + 2  # the rounding of the case itself


@given(drifting(), st.integers(-(10**15), 10**15))
@settings(max_examples=50)
def test_when_a_clock_was_started_does_not_matter(
    case: tuple[list[Measurement], float, int], shift: int
) -> None:
    measurements, _, now = case
    moved = [Measurement(one.at_ns + shift, one.offset_ns, one.error_ns) for one in measurements]

    assert offset_now(measurements, now) == offset_now(moved, now + shift)


def test_one_measurement_holds_and_its_error_grows_with_the_drift_that_may_be() -> None:
    found = offset_now([Measurement(0, 700, 50)], SECOND)

    assert 700 == found.offset_ns
    assert 50 + MAX_DRIFT * SECOND + 1 == found.error_ns


def test_a_drift_is_carried_on() -> None:
    """50 microseconds a second, measured for five minutes."""
    measurements = [Measurement(t * SECOND, t * 50_000, 40_000) for t in range(0, 301, 60)]
    found = offset_now(measurements, 330 * SECOND)

    assert abs(found.offset_ns - 330 * 50_000) <= 1
    assert found.error_ns < 80_000


def test_a_measurement_with_a_long_round_trip_hardly_counts() -> None:
    good = [Measurement(t * SECOND, 0, 40_000) for t in (0, 10, 20, 40)]
    found = offset_now(
        [*good[:2], Measurement(15 * SECOND, 9 * 10**6, 10**7), *good[2:]], 40 * SECOND
    )

    assert abs(found.offset_ns) < 1000


def test_measurements_of_one_moment_have_no_line() -> None:
    found = offset_now([Measurement(5, 10, 4), Measurement(5, 20, 4)], 5)

    assert (20, 5) == (found.offset_ns, found.error_ns)


def test_one_clock_does_not_drift_from_itself() -> None:
    found = offset_now([Measurement(0, 700, 50)], 60 * SECOND, drift=0.0)

    assert (700, 51) == (found.offset_ns, found.error_ns)
