"""XID events through NVML: told once, of the right GPU, and no reading waits for them."""

import time
from collections.abc import Callable, Iterator

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.sources.gpu.nvml.source import MAX_EVENTS, Limits, Nvml, XidInbox
from tests.machine import slowness

pytest.importorskip("pynvml")


PATIENT = Limits(answer=60.0, start=60.0, stall=120.0, kill=240.0, attach=240.0)


@pytest.fixture
def source(nvml, machine) -> Iterator[Nvml]:
    one = Nvml(machine.proc, machine.sys, SystemClock(), limits=PATIENT)
    one.read()
    yield one
    nvml.close()
    one.close()


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds
        time.sleep(0.02)


def heard(source: Nvml, count: int) -> list:
    """So many events; reads until they are there."""
    events: list = []

    def enough() -> bool:
        source.read()
        events.extend(source.xid_events())
        return len(events) >= count

    until(enough)
    return events


def test_no_event_is_none(nvml, source):
    source.read()

    assert source.xid_events() == ()


def test_every_event_is_told_once_repeats_included(nvml, source):
    until(lambda: nvml.gpu(0).registrations > 0 and nvml.gpu(1).registrations > 0)
    before = time.monotonic()
    nvml.happens(1, 79)
    nvml.happens(0, 31)
    nvml.happens(0, 31, (7, 0))
    events = heard(source, 3)
    source.read()

    assert [(one.pci_bus_id, one.uuid, one.xid) for one in events] == [
        ("0000:19:00.0", "GPU-1", 79), ("0000:18:00.0", "GPU-0", 31), ("0000:18:00.0", "GPU-0", 31),
    ]  # fmt: skip
    assert [(one.gpu_instance, one.compute_instance) for one in events] == [
        (None, None), (None, None), (7, 0),
    ]  # fmt: skip
    assert {one.origin for one in events} == {"nvml"}
    assert all(before <= one.monotonic <= time.monotonic() for one in events)
    assert source.xid_events() == ()


def test_an_event_is_heard_between_two_readings_and_no_answer_is_lost_to_it(nvml, source):
    until(lambda: nvml.gpu(0).registrations > 0 and nvml.gpu(1).registrations > 0)
    nvml.happens(1, 79)
    events: list = []

    def told() -> bool:
        events.extend(source.xid_events())
        return bool(events)

    until(told)
    reading = source.read()

    assert [79] == [one.xid for one in events]
    assert [True, True] == [gpu.up for gpu in reading.gpus]


def test_an_answer_that_comes_while_events_are_asked_for_is_kept_for_the_reading(nvml, source):
    def answer(index: int, **errors: int) -> dict:
        return {"gpu": index, "at": time.monotonic(), "errors": errors, "lost": "gpu_is_lost"}

    class Late:
        """A process whose answer came after the reading that asked for it."""

        runs, dying = True, False

        def __init__(self) -> None:
            self.messages = [answer(0, timeout=3), message(79)]

        def hear(self, seconds: float) -> list:
            messages, self.messages = self.messages, []
            return [answer(0), answer(1)] if seconds else messages

        def tick(self) -> None:
            pass

        def well(self, now: float) -> None:
            pass

    child, source._child = source._child, Late()  # type: ignore[assignment]
    events = source.xid_events()
    reading = source.read()
    source._child = child

    assert [79] == [one.xid for one in events]
    assert "timeout" in {one.reason for one in reading.rejected}


def test_a_process_that_ended_is_heard_of_once_though_nobody_reads(nvml, source):
    source._child._process.kill()

    until(lambda: source.xid_events() == () and not source._child.runs)
    assert source._child.hear(0) == []


def test_a_gpu_that_was_lost_and_returns_is_registered_again_unless_it_has_no_events(nvml, source):
    until(lambda: nvml.gpu(0).registrations > 0 and nvml.gpu(1).registrations > 0)
    before = [nvml.gpu(index).registrations for index in (0, 1)]
    nvml.gpu(0).event_kinds = 0
    nvml.gpu(0).every_rc = nvml.gpu(1).every_rc = 15
    source.read()
    nvml.gpu(0).every_rc = nvml.gpu(1).every_rc = 0
    source.read()
    until(lambda: nvml.gpu(1).registrations > before[1])
    events: list = []

    def told() -> bool:
        """Between two sets of events nobody waits: what happens then is lost."""
        nvml.happens(1, 48)
        time.sleep(0.1)
        source.read()
        events.extend(source.xid_events())
        return bool(events)

    until(told)

    assert (events[0].uuid, events[0].xid) == ("GPU-1", 48)
    assert nvml.gpu(0).registrations == before[0]
    assert source.read().rejected == ()


@pytest.mark.timed
def test_a_wait_that_hangs_delays_no_reading(nvml, source):
    nvml.state.event_hang = 1
    time.sleep(0.05)
    with slowness() as machine:
        began = time.monotonic()
        reading = source.read()
        took = time.monotonic() - began

    assert took < 2 * machine.factor
    assert [gpu.up for gpu in reading.gpus] == [True, True]
    assert not reading.stalled


def test_a_gpu_that_was_plugged_in_is_watched(nvml, source):
    nvml.plug(3)
    source.read()
    until(lambda: bool(source.read().gpus) and nvml.gpu(2).registrations > 0)
    nvml.happens(2, 13)
    (event,) = heard(source, 1)

    assert (event.uuid, event.pci_bus_id) == ("GPU-2", "0000:1a:00.0")


def test_a_wait_that_fails_is_counted_once_and_tried_again(nvml, source):
    nvml.state.event_rc = 999
    reasons: list[str] = []

    def told() -> bool:
        reasons.extend(one.reason for one in source.read().rejected)
        return "unknown" in reasons

    until(told)
    nvml.state.event_rc = 0
    events: list = []

    def heard_at_last() -> bool:
        nvml.happens(0, 79)  # again: what happens between two event sets is lost
        source.read()
        events.extend(source.xid_events())
        return bool(events)

    until(heard_at_last)

    assert {one.xid for one in events} == {79}
    assert reasons == ["unknown"]


def test_a_gpu_that_cannot_be_registered_keeps_no_other_from_it(nvml, source, nvml_mock):
    nvml.fails(0, "nvmlDeviceRegisterEvents", nvml_mock.NO_PERMISSION)
    nvml.plug(3)  # starts the process anew
    source.read()
    until(lambda: bool(source.read().gpus) and nvml.gpu(2).registrations > 0)
    nvml.happens(0, 31)
    nvml.happens(1, 32)

    assert [one.xid for one in heard(source, 1)] == [32]


def message(xid: int, bus: str = "00000000:65:00.0") -> dict:
    return {"xid": xid, "at": 1.0, "bus": bus, "uuid": "GPU-0"}


def test_events_that_nobody_takes_are_bounded_and_what_is_dropped_is_counted():
    inbox = XidInbox()
    rejected = [one for xid in range(MAX_EVENTS + 2) for one in inbox.put(message(xid))]

    assert [one.reason for one in rejected] == ["events_dropped", "events_dropped"]
    assert [one.xid for one in inbox.taken()] == list(range(MAX_EVENTS))
    assert inbox.taken() == ()
    assert list(inbox.put(message(1))) == []


def test_an_event_of_a_gpu_whose_place_is_unknown_is_counted():
    inbox = XidInbox()

    assert [one.reason for one in inbox.put(message(79, bus=""))] == ["events_dropped"]
    assert inbox.taken() == ()
