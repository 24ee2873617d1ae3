"""Counting what NVML and the kernel log both tell: pairs in any order, and a bounded ledger."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.readings.kernel import XidEvent
from lockstep.collector.sources.gpu.xid.ledger import (
    KEPT_SECONDS,
    MAX_NUMBERS,
    MAX_PLACES,
    Ledger,
    Twins,
)

BUS = "0000:65:00.0"


def event(monotonic: float, origin: str = "kmsg", xid: int = 79, bus: str = BUS) -> XidEvent:
    return XidEvent(monotonic, bus, xid, origin)  # type: ignore[arg-type]


TIMES = st.lists(st.floats(0, 20), min_size=1, max_size=12).map(sorted)


@settings(max_examples=200, deadline=None)
@given(
    TIMES, st.lists(st.floats(0, 1.99), min_size=12, max_size=12), st.randoms(use_true_random=False)
)
def test_twin_streams_in_any_interleaving_give_each_event_once(times, delays, random):
    kernel = [event(at, "kmsg", 31) for at in times]
    # NVML's come in their order too, each at most two seconds from its twin.
    nvml = sorted(
        (event(at + delay, "nvml", 31) for at, delay in zip(times, delays, strict=False)),
        key=lambda one: one.monotonic,
    )
    nvml = [replace(late, monotonic=max(late.monotonic, own.monotonic))
            for late, own in zip(nvml, kernel, strict=True)]  # fmt: skip
    assert all(late.monotonic - own.monotonic <= 2 for late, own in zip(nvml, kernel, strict=True))
    twins, counted = Twins(), 0
    queues = [kernel, nvml]
    while any(queues):
        queue = random.choice([one for one in queues if one])
        counted += not twins.absorbs(queue.pop(0))

    assert len(times) == counted


@settings(max_examples=100, deadline=None)
@given(TIMES, TIMES)
def test_never_fewer_than_the_longer_stream_nor_more_than_both(first, second):
    twins = Twins()
    stream = [event(at, "kmsg") for at in first] + [event(at, "nvml") for at in second]
    counted = sum(not twins.absorbs(one) for one in sorted(stream, key=lambda one: one.monotonic))

    assert max(len(first), len(second)) <= counted <= len(first) + len(second)


def test_twins_are_forgotten_when_none_can_come_any_more():
    twins = Twins()
    twins.absorbs(event(100.0))
    twins.forget(100.0 + KEPT_SECONDS)
    kept = len(list(twins.alone()))
    twins.forget(100.1 + KEPT_SECONDS)

    assert (1, 0) == (kept, len(list(twins.alone())))


def test_different_xids_and_places_are_bounded_and_none_is_lost_unsaid():
    ledger = Ledger()
    for xid in range(MAX_NUMBERS + 5):
        ledger.note(event(1.0, xid=xid), 0.0)
    for place in range(MAX_PLACES + 5):
        ledger.note(event(1.0, bus=f"0000:{place:02x}:00.0"), 0.0)

    assert MAX_NUMBERS + 1 == len([key for key in ledger.xids if key.pci_bus_id == BUS])
    assert 5 == sum(count for key, count in ledger.xids.items() if key.xid == "other")
    assert 5 + 1 == ledger.dropped
