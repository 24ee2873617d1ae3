"""XIDs where only DCGM tells of them: as counts of its exporter, or as the last one alone."""

import json

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metric_rows.alerted import XID_ZEROS
from lockstep.collector.readings.gpu import Gpu
from lockstep.collector.readings.kernel import KernelEvents, XidEvent
from lockstep.collector.samples.xid import collect
from lockstep.collector.sources.gpu.dcgm_exporter import LOST_SECONDS, DcgmExporter, parse
from lockstep.collector.sources.gpu.precedence import GpuInventory
from lockstep.collector.sources.gpu.xid.source import Xids

BUS = "0000:18:00.0"
WHO = 'gpu="0",UUID="GPU-a",pci_bus_id="00000000:18:00.0",modelName="NVIDIA H100",hostname="n1"'
TEMPERATURE = f"DCGM_FI_DEV_GPU_TEMP{{{WHO}}} 40\n"


def last(xid: int, name: str = "XID_ERRORS", who: str = WHO) -> str:
    words = f'err_code="{xid}",err_msg="some words, {{with}} signs"'
    return f"DCGM_FI_DEV_{name}{{{who},{words}}} {xid}\n"


def total(xid: int, count: int, who: str = WHO) -> str:
    return f'DCGM_EXP_XID_ERRORS_TOTAL{{{who},xid="{xid}"}} {count}\n'


def window(xid: int, count: int) -> str:
    return f'DCGM_EXP_XID_ERRORS_COUNT{{{WHO},window_size_in_ms="300000",xid="{xid}"}} {count}\n'


ZERO_TOTAL = f"DCGM_EXP_XID_ERRORS_TOTAL{{{WHO}}} 0\n"
ZERO_WINDOW = f'DCGM_EXP_XID_ERRORS_COUNT{{{WHO},window_size_in_ms="300000"}} 0\n'


class FakeExporter:
    """A dcgm-exporter whose page is set."""

    name = "dcgm_exporter"

    def __init__(self, clock) -> None:
        self.page = TEMPERATURE
        self._source = DcgmExporter("http://x", clock)

    def available(self) -> bool:
        return True

    def why_not(self) -> str:
        return ""

    def read(self):
        return self._source.with_lost(parse(self.page))


class FakeLog:
    """A kernel log that tells what it is given."""

    def __init__(self, here: bool) -> None:
        self.here = here
        self.events: tuple = ()

    def available(self) -> bool:
        return self.here

    def why_not(self) -> str:
        return "no log"

    def take(self) -> KernelEvents:
        events, self.events = self.events, ()
        return KernelEvents(events, 7 if self.here else None)

    def resume(self, sequence: int) -> None:
        pass


class Node:
    """A collector's source of XIDs beside a dcgm-exporter."""

    def __init__(self, clock, *, log: bool = False) -> None:
        self.clock, self.exporter, self.log = clock, FakeExporter(clock), FakeLog(log)
        inventory = GpuInventory()
        self.watched = inventory.watching(self.exporter)
        self.source = Xids(clock, self.log, list, inventory.gpus, inventory.source)

    def after(self, *lines: str, seconds: float = 30.0) -> None:
        """A page is read, and XIDs are looked for twice."""
        self.clock.sleep(seconds)
        self.show(TEMPERATURE, *lines)

    def show(self, *lines: str) -> None:
        """The page has these lines alone."""
        self.exporter.page = "".join(lines)
        self.watched.read()
        self.source.read()

    def counts(self) -> dict[str, float]:
        return {
            one.labels[3]: one.value
            for one in collect(self.source.read())
            if one.metric is m.GPU_XID_ERRORS and one.value
        }

    def times(self) -> dict[str, float]:
        return {
            one.labels[3]: one.value
            for one in collect(self.source.read()) if one.metric is m.GPU_XID_LAST
        }  # fmt: skip


@pytest.fixture
def node(clock):
    return Node(clock)


@pytest.mark.parametrize("tell", [
    last, lambda xid: last(xid, "XID_ERROR"), lambda xid: total(xid, 1),
    lambda xid: window(xid, 1), lambda xid: last(xid) + total(xid, 1),
    lambda xid: last(xid) + total(xid, 1) + window(xid, 1),
])  # fmt: skip
def test_a_new_xid_counts_once_and_now_however_it_is_told(node, clock, tell):
    node.after(last(0))
    assert {} == node.counts()
    for _ in range(3):
        node.after(tell(79), seconds=1)

    labels = next(
        one.labels for one in collect(node.source.read())
        if one.metric is m.GPU_XID_ERRORS and one.value
    )  # fmt: skip
    assert ("0", "GPU-a", BUS, "79", "dcgm", "fatal") == labels
    assert ({"79": 1}, {"79": clock.unix - 2}) == (node.counts(), node.times())


def test_the_count_tells_every_repeat_and_the_last_one_alone_none(node):
    node.after(last(0))
    node.after(last(31) + total(31, 2))
    node.after(last(31) + total(31, 5))
    assert {"31": 5} == node.counts()

    node.after(last(13))
    node.after(last(13))
    node.after(last(31))
    assert {"31": 6, "13": 1} == node.counts()


def test_a_count_that_comes_a_page_after_the_last_xid_is_the_same_event(node):
    node.after(last(0))
    node.after(last(79))
    node.after(last(79) + total(79, 1))
    assert {"79": 1} == node.counts()

    node.after(last(79) + total(79, 3))
    assert {"79": 3} == node.counts()


def test_a_window_that_forgets_tells_no_fall_and_a_new_rise_counts(node):
    node.after(last(0))
    for count in (2, 1, 1, 2):
        node.after(window(31, count))

    assert {"31": 3} == node.counts()


def test_what_stood_when_it_was_first_looked_at_is_of_the_boot(node, clock):
    node.after(last(48) + total(48, 3))

    assert {"48": 3} == node.counts()
    assert {"48": pytest.approx(clock.unix - clock.now)} == node.times()


def test_an_exporter_that_is_upgraded_tells_nothing_anew_and_then_counts_on(node):
    node.after(last(0))
    node.after(last(79) + total(79, 2))
    node.exporter.page = ""
    with pytest.raises(Exception, match="no line of the page"):
        node.watched.read()
    node.source.read()
    node.after(last(0, "XID_ERROR"))
    node.after(last(0, "XID_ERROR"))
    assert {"79": 2} == node.counts()

    node.after(last(79, "XID_ERROR") + total(79, 1))
    assert {"79": 3} == node.counts()


@pytest.mark.parametrize("lines", [
    [last(79)], [total(79, 1)], [window(79, 1)], [last(79), total(79, 1), window(79, 1)],
    [last(79).replace(',pci_bus_id="00000000:18:00.0"', "")],
])  # fmt: skip
def test_the_xid_of_a_gpu_of_which_nothing_else_is_left_counts(node, clock, lines):
    node.after(last(0), ZERO_TOTAL, ZERO_WINDOW)
    for _ in range(3):
        clock.sleep(1)
        node.show(*lines)

    assert ({"79": 1}, {"79": clock.unix - 2}) == (node.counts(), node.times())
    assert [("0", "GPU-a", BUS)] == [
        one.labels for one in collect(node.source.read()) if one.metric is m.GPU_FALLEN
    ]


def test_a_place_has_the_name_of_the_gpu_that_answers_there(node):
    node.after(last(0))
    other = WHO.replace("GPU-a", "GPU-b")
    node.show(last(79), TEMPERATURE.replace("GPU-a", "GPU-b"), last(0, who=other))

    assert {"GPU-b"} == {
        one.labels[1] for one in collect(node.source.read()) if one.metric is m.GPU_XID_ERRORS
    }


def test_a_gpu_that_left_the_page_and_returns_tells_nothing_anew(node, clock):
    node.after(total(79, 2))
    for _ in range(4):
        clock.sleep(1)
        node.show(TEMPERATURE.replace('gpu="0"', 'gpu="1"').replace("GPU-a", "GPU-b"))
    node.after(total(79, 2))

    assert {"79": 2} == node.counts()


def test_counts_that_come_long_after_the_last_xid_are_new_events(node):
    for xid in (0, 48, 13, 48):
        node.after(last(xid))
    assert {"48": 2, "13": 1} == node.counts()

    node.after(last(48), ZERO_TOTAL)
    node.after(last(48), total(48, 1))
    node.after(last(48), total(48, 2))
    assert {"48": 4, "13": 1} == node.counts()


def test_a_count_a_page_late_stands_for_a_single_event_of_many_before(node):
    for xid in (0, 48, 13, 48):
        node.after(last(xid))
    node.after(last(48), total(48, 1))
    node.after(last(48), total(48, 3))

    assert {"48": 4, "13": 1} == node.counts()


@pytest.mark.parametrize(("zero", "first"), [
    (ZERO_TOTAL, total(79, 1)), (ZERO_WINDOW, window(79, 1)),
    (ZERO_TOTAL + ZERO_WINDOW, total(79, 1) + window(79, 1)),
])  # fmt: skip
def test_a_page_of_counts_alone_is_a_listener_and_its_first_xid_is_of_now(node, clock, zero, first):
    node.after(zero)
    assert node.source.available()
    zeros = [one.labels for one in collect(node.source.read()) if one.metric is m.GPU_XID_ERRORS]
    assert ("0", "GPU-a", BUS, "79", "dcgm", "fatal") in zeros

    node.after(first)
    assert ({"79": 1}, {"79": clock.unix}) == (node.counts(), node.times())
    assert [79] == [told.event.xid for told in node.source.recent()]


def test_the_first_count_of_a_gpu_that_was_seen_is_of_now(node, clock):
    node.after()
    node.after(total(79, 1))

    assert ({"79": 1}, {"79": clock.unix}) == (node.counts(), node.times())


def test_a_last_xid_that_was_not_told_before_is_of_the_boot(node, clock):
    node.after(ZERO_TOTAL)
    node.after(last(48), ZERO_TOTAL)

    assert {"48": pytest.approx(clock.unix - clock.now)} == node.times()


def test_counts_of_a_gpu_that_another_source_told_before_are_of_the_boot(clock):
    gpus = [(Gpu(0, "GPU-a", info={"pci_bus_id": BUS}),), parse(total(79, 3)).gpus]
    names = ["nvml", "dcgm_exporter"]
    source = Xids(clock, None, list, lambda: gpus[0], lambda: names[0])
    source.read()
    del gpus[0], names[0]

    assert [0.0] == [
        unix - clock.wall() + clock.monotonic() for unix in source.read().last.values()
    ]


def test_a_restart_of_the_collector_remembers_a_gpu_without_xids(node, clock):
    node.after(last(0), ZERO_TOTAL)
    later = Node(clock)
    later.source.recall(json.loads(json.dumps(node.source.memory())))
    later.after(last(79), ZERO_TOTAL)

    assert {"79": clock.unix} == later.times()


def test_one_page_without_its_counts_tells_nothing_anew(node):
    node.after(last(0))
    node.after(total(79, 2))
    node.after()
    node.after(total(79, 2))

    assert {"79": 2} == node.counts()


def test_a_restart_of_the_collector_tells_nothing_anew(node, clock):
    node.after(last(0))
    node.after(last(79) + total(79, 2) + total(31, 1))
    later = Node(clock)
    later.source.recall(json.loads(json.dumps(node.source.memory())))
    later.after(last(79) + total(79, 2) + total(31, 1))
    assert node.counts() == later.counts() == {"79": 2, "31": 1}

    later.after(last(79) + total(79, 3) + total(31, 1))
    assert {"79": 3, "31": 1} == later.counts()


def test_mig_devices_tell_the_xid_of_their_gpu_once(node):
    parts = [f'{WHO},GPU_I_PROFILE="1g.10gb",GPU_I_ID="{number}"' for number in range(7, 14)]
    node.after(*(last(0, who=who) for who in parts))
    node.after(*(last(63, who=who) + total(63, 1, who) for who in parts))

    assert {"63": 1} == node.counts()
    assert {"GPU-a"} == {
        one.labels[1] for one in collect(node.source.read()) if one.metric is m.GPU_XID_ERRORS
    }


def test_a_page_without_places_on_the_bus_counts_by_uuid(node):
    who = 'gpu="0",UUID="GPU-a"'
    node.after(last(0, who=who))
    node.exporter.page = last(79, who=who)
    node.watched.read()

    (one,) = (
        one for one in collect(node.source.read()) if one.metric is m.GPU_XID_ERRORS and one.value
    )
    assert ("0", "GPU-a", "", "79", "dcgm", "fatal") == one.labels


def test_where_the_kernel_log_is_heard_dcgm_is_not(clock):
    node = Node(clock, log=True)
    node.after(last(0))
    node.log.events = (XidEvent(clock.now, BUS, 79, "kmsg"),)
    node.after(last(79) + total(79, 1))

    assert {"79": 1} == node.counts()


def test_a_log_that_is_heard_later_takes_over_what_dcgm_told(node, clock):
    node.after(last(0))
    node.after(total(79, 2))
    node.log.here = True
    node.log.events = (XidEvent(clock.now, BUS, 79, "kmsg"), XidEvent(clock.now, BUS, 79, "kmsg"))
    node.after(total(79, 2))

    assert {"79": 2} == node.counts()


def test_zeros_are_told_by_dcgm_where_its_page_has_the_field(node):
    node.after(last(0))
    zeros = [
        one.labels[3:] for one in collect(node.source.read()) if one.metric is m.GPU_XID_ERRORS
    ]

    assert [(xid, "dcgm", severity) for xid, severity in XID_ZEROS] == zeros
    assert node.source.available()


def test_a_page_that_tells_no_xids_is_no_listener_and_has_no_zeros(node):
    node.after()

    assert not node.source.available()
    assert "dcgm_exporter reports no XIDs: it lacks DCGM_FI_DEV_XID_ERRORS" in node.source.why_not()
    assert [] == [one for one in collect(node.source.read()) if one.metric is m.GPU_XID_ERRORS]


def test_a_gpu_of_which_only_counts_of_xids_are_left_is_lost(node, clock):
    source = DcgmExporter("http://x", clock)
    source.with_lost(parse(TEMPERATURE))
    clock.sleep(1)

    for _ in range(3):
        reading = source.with_lost(parse(last(79) + total(79, 1)))
        assert ([False], 0) == ([gpu.up for gpu in reading.gpus], reading.present)
        clock.sleep(LOST_SECONDS)


@pytest.mark.parametrize("line", [
    total(79, -1), total(79, 1 << 40), total(79, 1).replace('"79"', '"boom"'),
    total(79, 1).replace("} 1", "} NaN"),
])  # fmt: skip
def test_a_count_that_cannot_be_is_refused_and_counted(node, line):
    node.after(last(0))
    node.after(last(0), line)

    assert {} == node.counts()
    assert 1 == len(parse(TEMPERATURE + line).rejected)


def test_a_page_of_ever_new_gpus_and_xids_is_bounded(node):
    for turn in range(6):
        who = [f'gpu="{at}",UUID="GPU-{turn}-{at}"' for at in range(60)]
        node.after(*(total(xid, 1, one) for one in who for xid in range(1, 40)))

    assert len(json.dumps(node.source.memory())) < 1 << 20


def test_a_host_engine_tells_its_last_xid_too(clock):
    gpus = (Gpu(0, "GPU-a", info={"pci_bus_id": BUS}, values={m.GPU_LAST_XID.name: {"": 0.0}}),)
    told = [gpus]
    source = Xids(clock, None, list, lambda: told[0], lambda: "dcgm")
    source.read()
    told[0] = (Gpu(0, "GPU-a", info=gpus[0].info, values={m.GPU_LAST_XID.name: {"": 79.0}}),)

    assert 1 == sum(s.value for s in collect(source.read()) if s.metric is m.GPU_XID_ERRORS)
