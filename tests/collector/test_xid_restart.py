"""XIDs through sampler and state folder: what a restart, a new boot and the settings change."""

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.exporter.series_cap import capped
from lockstep.collector.readings.source import SourceError
from lockstep.collector.registry import feeds
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.sampler.state import StateFile

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
