"""XIDs through sampler and state folder: what a restart, a new boot and the settings change."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.exporter.series_cap import capped
from lockstep.collector.readings.kernel import XidEvent, pci_bus_id
from lockstep.collector.readings.source import SourceError
from lockstep.collector.registry import feeds
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.sampler.state import StateFile
from lockstep.collector.sources.gpu.xid.ledger import (
    KEPT_SECONDS,
    MAX_NUMBERS,
    MAX_PLACES,
    Ledger,
    Twins,
)

# Counting what NVML and the kernel log both tell: pairs in any order, and a bounded ledger.

GPU_0 = "0000:65:00.0"


def event(monotonic: float, origin: str = "kmsg", xid: int = 79, bus: str = GPU_0) -> XidEvent:
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

    assert MAX_NUMBERS + 1 == len([key for key in ledger.xids if key.pci_bus_id == GPU_0])
    assert 5 == sum(count for key, count in ledger.xids.items() if key.xid == "other")
    assert 5 + 1 == ledger.dropped


# One spelling of a GPU's place, whoever tells it.


@pytest.mark.parametrize(
    ("told", "place"),
    [
        ("00000000:65:00.0", "0000:65:00.0"),
        ("0000:65:00.0", "0000:65:00.0"),
        ("PCI:0000:65:00", "0000:65:00.0"),
        ("0008:01:00", "0008:01:00.0"),
        ("65:00.0", "0000:65:00.0"),
        ("00000000:AF:1F.0", "0000:af:1f.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
    ],
)
def test_every_spelling_becomes_that_of_sysfs(told, place):
    assert pci_bus_id(told) == place


@pytest.mark.parametrize("told", ["", "GPU-0", "0000:65", "zz:00.0", "0000:65:00.0.0", "1:2:3:4"])
def test_what_names_no_place_is_none(told):
    assert pci_bus_id(told) is None


@settings(max_examples=200)
@given(st.text(max_size=40))
def test_any_text_is_a_place_spelt_stably_or_none(text):
    place = pci_bus_id(text)

    assert place is None or pci_bus_id(place) == place


BUS = "0000:65:00.0"


def sampler(machine, clock) -> Sampler:
    config = machine.config(sources=("xid", "kmsg"), fast_period=60.0, ttl=120.0)
    return Sampler(feeds(config, clock), clock, config.ttl)


def told(one: Sampler) -> dict[tuple[str, ...], float]:
    one.start()
    one.wait_ready()
    one.stop()
    return {
        (sample.metric.name, *sample.labels): sample.value
        for samples in one.snapshot()
        for sample in samples
    }


LINE = "3,{},900000000000000,-;NVRM: Xid (PCI:0000:65:00): {}, pid=1, name=a, …\n"
COUNTED = (m.GPU_XID_ERRORS.name, "", "", BUS, "31", "kmsg", "warning")


@pytest.fixture
def kmsg(machine):
    machine.host()
    path = machine.proc.parent / "kmsg"
    path.write_text(LINE.format(5, 31) + LINE.format(6, 31))
    return path


def test_a_collector_with_state_counts_what_happened_while_it_was_away(machine, clock, kmsg):
    state = StateFile(machine.proc.parent / "state", machine.proc)
    first = sampler(machine, clock)
    before = told(first)[COUNTED]
    state.save(first.kept(), first.memories(), last_word=True)
    kmsg.write_text(LINE.format(6, 31) + LINE.format(9, 31))
    second = sampler(machine, clock)
    second.recall(state.memories())
    after = told(second)

    assert (2, 3) == (before, after[COUNTED])
    assert 2 == after[m.EVENTS_DROPPED.name, "kmsg"]


def test_without_state_the_log_of_this_boot_is_counted_from_its_beginning(machine, clock, kmsg):
    assert 2 == told(sampler(machine, clock))[COUNTED]
    assert 2 == told(sampler(machine, clock))[COUNTED]


def test_a_new_boot_begins_anew(machine, clock, kmsg):
    folder = machine.proc.parent / "state"
    first = sampler(machine, clock)
    told(first)
    StateFile(folder, machine.proc).save(first.kept(), first.memories(), last_word=True)
    machine.file(machine.proc / "sys/kernel/random/boot_id", "another-boot\n")
    kmsg.write_text(LINE.format(1, 31))
    second = sampler(machine, clock)
    second.recall(StateFile(folder, machine.proc).memories())

    assert 1 == told(second)[COUNTED]


def test_a_memory_that_is_broken_is_counted_and_the_log_read_from_its_beginning(
    machine, clock, kmsg
):
    one = sampler(machine, clock)
    one.recall({"xid": {"sequence": "many"}})
    values = told(one)

    assert 2 == values[COUNTED]
    assert 1 == values[m.SOURCE_ERRORS.name, "xid", "memory"]


def test_a_log_that_was_not_asked_for_is_not_read(machine, clock, kmsg):
    config = machine.config(sources=("xid",), fast_period=60.0, ttl=120.0)
    one = Sampler(feeds(config, clock), clock, config.ttl)

    assert COUNTED not in told(one)


def test_the_errors_of_this_machine_are_not_those_of_a_capture_s_gpus(machine, clock, kmsg):
    config = machine.config(sources=("xid", "kmsg"), fast_period=60.0, ttl=120.0, replay=kmsg)

    assert COUNTED not in told(Sampler(feeds(config, clock), clock, config.ttl))


def test_an_xid_is_told_within_a_second_of_its_happening(machine, clock, kmsg):
    config = machine.config(sources=("xid", "kmsg"))
    (period,) = [feed.period for feed in feeds(config, clock) if feed.source.name == "xid"]

    assert period <= 0.5


def test_a_state_file_without_memories_has_none_and_a_torn_one_says_so(machine):
    machine.host()
    state = StateFile(machine.proc.parent / "state", machine.proc)
    nothing = state.memories()
    state.save({})
    empty = state.memories()
    state.path.write_text("torn")

    assert {} == nothing == empty
    with pytest.raises(SourceError, match="is not a state file"):
        state.memories()


def test_xids_stay_when_the_cap_bites():
    power, xid = (
        m.GPU_POWER(1, "0", "GPU-1"),
        m.GPU_XID_ERRORS(1, "0", "GPU-1", BUS, "79", "kmsg", "fatal"),
    )

    assert [xid] == capped([xid, power], 1)[0]
