"""XID events: each counted once, whoever tells of it, across restarts of the collector."""

import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.kernel_log import TOLD
from lockstep.collector.contract.metric_rows.alerted import XID_ZEROS
from lockstep.collector.contract.xid import PAGED
from lockstep.collector.contract.xid_catalogue.shape import Severity
from lockstep.collector.formats.kernel_log import parse
from lockstep.collector.readings.gpu import Gpu
from lockstep.collector.readings.kernel import Fall, KernelEvents, SwitchError, Trouble, XidEvent
from lockstep.collector.samples.xid import collect
from lockstep.collector.sources.gpu.xid.ledger import MAX_NUMBERS, MAX_TROUBLES
from lockstep.collector.sources.gpu.xid.source import Xids
from lockstep.collector.sources.host.kmsg import Kmsg

BUS = "0000:65:00.0"
UUID = "GPU-65"
LINE_TEXT = "NVRM: Xid (PCI:0000:65:00): 31, pid=1, name=a, MMU Fault"


def event(
    monotonic: float, origin: str = "kmsg", xid: int = 79, bus: str = BUS, **more
) -> XidEvent:
    return XidEvent(monotonic, bus, xid, origin, **more)  # type: ignore[arg-type]


class FakeLog:
    """A kernel log that says what it is told to."""

    def __init__(self) -> None:
        self.events: list = []
        self.sequence: int | None = None
        self.resumed: list[int] = []
        self.here = True

    def available(self) -> bool:
        return self.here

    def why_not(self) -> str:
        return "no log"

    def take(self) -> KernelEvents:
        events, self.events = tuple(self.events), []
        return KernelEvents(events, self.sequence)

    def resume(self, sequence: int) -> None:
        self.resumed.append(sequence)


class Node:
    """A source of XIDs and all that it hears."""

    def __init__(self, clock, log: FakeLog | None = None) -> None:
        self.log = log or FakeLog()
        self.nvml: list[XidEvent] = []
        self.gpus: tuple[Gpu, ...] = (Gpu(3, UUID, info={"pci_bus_id": "00000000:65:00.0"}),)
        self.source = Xids(clock, self.log, self._drained, lambda: self.gpus)

    def _drained(self) -> list[XidEvent]:
        events, self.nvml = self.nvml, []
        return events

    def values(self) -> dict[tuple[str, ...], float]:
        return {
            (one.metric.name, *one.labels): one.value
            for one in collect(self.source.read())
            if one.metric not in (m.EVENTS_DROPPED, m.KERNEL_EVENTS)
        }

    def count(self) -> float:
        return sum(value for key, value in self.values().items() if key[0] == m.GPU_XID_ERRORS.name)


@pytest.fixture
def node(clock):
    return Node(clock)


def test_a_healthy_node_has_no_series_of_errors(node):
    assert {} == node.values()


def test_each_xid_that_an_alert_waits_for_is_0_once_the_log_was_heard(node):
    before = node.values()
    node.log.sequence = 7
    zeros = {
        (m.GPU_XID_ERRORS.name, "3", UUID, BUS, xid, "nvml", severity): 0
        for xid, severity in XID_ZEROS
    }

    assert ({}, zeros) == (before, node.values())


def test_a_first_xid_is_a_rise_of_the_gpu_s_sum_whoever_tells_of_it(node, clock):
    node.log.sequence = 7
    before = node.count()
    node.log.events = [event(clock.now)]
    node.nvml = [event(clock.now, "nvml", 48)]

    assert (0, 2) == (before, node.count())


def test_a_gpu_without_a_name_has_no_zeros(node):
    node.log.sequence = 7
    node.gpus = (Gpu(0, "", info={"pci_bus_id": BUS}),)

    assert {} == node.values()


def test_an_xid_that_an_alert_waits_for_keeps_its_number_in_a_flood(node, clock):
    flood = [event(clock.now, xid=200 + number) for number in range(MAX_NUMBERS + 5)]
    node.log.events = [*flood, *(event(clock.now, xid=number) for number in PAGED)]

    assert {str(number) for number in PAGED} < {key[4] for key in node.values() if key[4:]}


def test_an_xid_is_on_the_page_with_the_gpu_s_name_and_time(node, clock):
    node.log.events = [event(clock.now - 5, xid=48)]

    assert {
        (m.GPU_XID_ERRORS.name, "3", UUID, BUS, "48", "kmsg", "fatal"): 1,
        (m.GPU_XID_LAST.name, "3", UUID, BUS, "48", "fatal"): clock.unix - 5,
    } == node.values()


def test_the_twin_is_absorbed_and_who_was_first_stands(node, clock):
    node.nvml = [event(clock.now - 1, "nvml", 48)]
    first = node.values()
    node.log.events = [event(clock.now - 0.5, "kmsg", 48)]

    assert first == node.values()
    assert (m.GPU_XID_ERRORS.name, "3", UUID, BUS, "48", "nvml", "fatal") in first


def test_repeats_are_events_of_their_own(node, clock):
    node.log.events = [event(clock.now - 1 + i / 10, xid=31) for i in range(3)]
    node.nvml = [event(clock.now - 0.9 + i / 10, "nvml", 31) for i in range(3)]

    assert 3 == node.count()


def test_what_only_one_of_them_tells_counts_alone(node, clock):
    node.log.events = [event(clock.now - 10), event(clock.now - 9, xid=13)]
    node.nvml = [event(clock.now - 5, "nvml"), event(clock.now - 9, "nvml", 13, "0000:18:00.0")]

    assert 4 == node.count()


def test_events_further_apart_than_the_window_are_two_whoever_is_heard_first(node, clock):
    node.log.events = [event(clock.now - 2.5), event(clock.now - 20, xid=13)]
    first = node.count()
    node.nvml = [event(clock.now - 5, "nvml"), event(clock.now - 17, "nvml", 13)]

    assert (2, 4) == (first, node.count())


def test_a_fall_is_one_whether_told_with_an_xid_without_or_both(node, clock):
    name = (m.GPU_FALLEN.name, "3", UUID, BUS)
    node.log.events = [event(clock.now - 30), Fall(clock.now - 29.9, BUS)]
    node.nvml = [event(clock.now - 29, "nvml")]
    both = node.values()[name]
    node.log.events = [Fall(clock.now, BUS)]

    assert (1, 2) == (both, node.values()[name])


def test_a_gpu_that_is_lost_keeps_its_name(node, clock):
    node.values()
    node.gpus = ()
    node.log.events = [Fall(clock.now, BUS)]

    assert {(m.GPU_FALLEN.name, "3", UUID, BUS): 1} == node.values()


def test_a_gpu_that_nobody_has_named_shows_its_place_and_what_nvml_told(node, clock):
    node.gpus = (Gpu(0, "", info={"pci_bus_id": BUS}),)
    node.log.events = [event(clock.now, xid=13)]
    node.nvml = [event(clock.now, "nvml", 13, "0000:18:00.0", uuid="GPU-18")]

    assert {("", "", BUS), ("", "GPU-18", "0000:18:00.0")} == {key[1:4] for key in node.values()}


def test_sxids_are_counted_by_switch_and_severity(node):
    node.log.events = [
        SwitchError(1.0, "0000:c1:00.0", 20034, "fatal"),
        SwitchError(1.0, "0000:c1:00.0", 20034, "fatal"),
        SwitchError(1.0, "0000:c2:00.0", 22013, "nonfatal"),
    ]

    assert {
        (m.NVSWITCH_SXID_ERRORS.name, "0000:c1:00.0", "20034", "fatal"): 2,
        (m.NVSWITCH_SXID_ERRORS.name, "0000:c2:00.0", "22013", "nonfatal"): 1,
    } == node.values()


def test_the_first_of_a_kind_is_logged_with_advice_and_not_again(node, clock, caplog):
    node.values()
    node.log.events = [event(clock.now, text="NVRM: Xid (PCI:0000:65:00): 79, …")] * 2
    node.values()
    (one,) = [record.getMessage() for record in caplog.records if "XID" in record.getMessage()]

    assert one.startswith(
        f"GPU 3 at {BUS}: XID 79, GPU has fallen off the bus (fatal, hardware). Drain"
    )
    assert "Log: NVRM: Xid (PCI:0000:65:00): 79" in one


def test_with_no_log_and_no_gpu_it_says_what_is_missing(clock, node):
    node.log.here, node.gpus = False, ()
    alone = Xids(clock, None, list, tuple)

    assert not node.source.available()
    assert "no log; and NVML sees no GPU that answers" == node.source.why_not()
    assert not alone.available()
    assert "the kernel log is not wanted" in alone.why_not()


@pytest.mark.parametrize("here", [True, False])
def test_without_a_log_no_event_waits_for_its_twin_for_ever(node, clock, here):
    node.log.here = here  # a log that is there may still tell of what happened long ago
    node.nvml = [event(clock.now, "nvml", 48)]
    node.source.read()
    clock.sleep(61.0)
    node.source.read()

    assert here == bool(node.source.memory()["untwinned"])


def restarted(clock, node: Node) -> Node:
    """The collector after this one, with what it left behind as JSON."""
    after = Node(clock)
    after.gpus = ()
    after.source.recall(json.loads(json.dumps(node.source.memory())))
    return after


def test_a_restart_goes_on_with_counts_names_and_place_in_the_log(node, clock):
    node.log.sequence = 41
    node.log.events = [event(clock.now), SwitchError(1.0, "0000:c1:00.0", 20034, "fatal")]
    before = node.values()
    after = restarted(clock, node)

    assert [41] == after.log.resumed
    assert before == after.values()
    assert node.source.memory() == after.source.memory()


def test_the_twin_that_comes_after_a_restart_is_absorbed(node, clock):
    node.nvml = [event(clock.now, "nvml", 48)]
    node.log.sequence = 41
    before = node.values()
    after = restarted(clock, node)
    after.log.events = [event(clock.now + 0.1, "kmsg", 48)]

    assert before == after.values()


def test_counts_are_bounded_after_a_restart_too(node, clock):
    node.log.events = [event(clock.now, xid=xid) for xid in range(MAX_NUMBERS)]
    node.values()
    after = restarted(clock, node)
    after.log.events = [event(clock.now, xid=900)]

    assert "other" in {key[4] for key in after.values()}


HAPPENING = st.lists(
    st.sampled_from(["error", "heard by nvml", "read", "save", "restart", "wait"]), max_size=30
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(HAPPENING)
def test_across_restarts_and_crashes_every_event_is_counted_once(tmp_path, clock, happening):
    """A crash goes back to what was last saved; NVML told of what happened before it or never."""
    path = tmp_path / "across"
    path.write_text("")
    happened, unheard, saved = 0, [], None

    def started() -> Node:
        one = Node(clock, Kmsg(path, clock, clock.monotonic))  # type: ignore[arg-type]
        if saved is not None:
            one.source.recall(saved)
        return one

    node = started()
    for what in [*happening, "read"]:
        clock.sleep(0.25)
        match what:
            case "error":
                happened += 1
                with path.open("a") as log:
                    log.write(f"3,{happened},{round(clock.now * 1e6)},-;{LINE_TEXT}\n")
                unheard.append(event(clock.now, "nvml", 31))
            case "heard by nvml":
                node.nvml += unheard
                unheard.clear()
            case "read":
                node.source.read()
            case "save":
                saved = json.loads(json.dumps(node.source.memory()))
            case "restart":
                unheard.clear()
                node.log.close()  # type: ignore[attr-defined]
                node = started()
            case "wait":
                clock.sleep(10.0)
                unheard.clear()
    counted = node.count()
    node.log.close()  # type: ignore[attr-defined]

    assert happened == counted


MEMORY = {"sequence": 3, "names": [[BUS, "3", UUID]], "xids": [[BUS, "79", "kmsg", "fatal", 2]],
          "last": [[BUS, "79", "fatal", 5.5]], "falls": [[BUS, 1, 4.5]],
          "switches": [["0000:c1:00.0", "20034", "fatal", 1]],
          "troubles": [["nic_health", "fatal", "0000:05:00.0", 1, 7.5]],
          "untwinned": [["kmsg", BUS, 79, 4.5]],
          "dcgm": [[BUS, [[79, 2]], [], [79]]]}  # fmt: skip


@pytest.mark.parametrize("tree", [
    None, [], {}, {**MEMORY, "sequence": -1}, {**MEMORY, "xids": [[BUS, 79, "kmsg", "fatal", 2]]},
    {**MEMORY, "xids": [[BUS, "79", "kmsg", "fatal", True]]}, {**MEMORY, "xids": 7},
    {**MEMORY, "xids": [[BUS]]}, {**MEMORY, "xids": [[BUS, "79"]]}, {**MEMORY, "last": [[]]},
    {**MEMORY, "troubles": [["nic_health"]]}, {**MEMORY, "troubles": 7},
    {**MEMORY, "last": [[BUS, "79", float("nan")]]}, {**MEMORY, "falls": [[BUS, 1]]},
    {**MEMORY, "untwinned": [["dmesg", BUS, 79, 4.5]]}, {**MEMORY, "names": [[BUS, 3, UUID]]},
    {**MEMORY, "dcgm": 7}, {**MEMORY, "dcgm": [[BUS]]}, {**MEMORY, "dcgm": [[BUS, 1, 2, 3]]},
    {**MEMORY, "dcgm": [[BUS, [["x", 1]], [], []]]}, {**MEMORY, "dcgm": {}},
    {**MEMORY, "dcgm": [[BUS, [[79, float("inf")]], [], []]]},
])  # fmt: skip
def test_a_memory_that_is_none_is_refused_whole(node, tree):
    node.source.recall(MEMORY)
    with pytest.raises(ValueError, match=r"."):
        node.source.recall(tree)

    assert MEMORY == node.source.memory()


def test_a_memory_from_before_severities_were_counted_goes_on(node):
    old = {**MEMORY, "xids": [[BUS, "79", "kmsg", 2], [BUS, "other", "nvml", 1]],
           "last": [[BUS, "79", 5.5]]}  # fmt: skip
    del old["troubles"]
    node.source.recall(old)

    assert [[BUS, "79", "kmsg", "fatal", 2], [BUS, "other", "nvml", "warning", 1]] == (
        node.source.memory()["xids"]
    )
    assert [[BUS, "79", "fatal", 5.5]] == node.source.memory()["last"]


def nvlink(word: str) -> str:
    return f"NVRM: Xid (PCI:0000:65:00): 145, RLW_REMAP {word} XC0 i0 Link 02"


@pytest.mark.parametrize(("word", "severity"), [("Nonfatal", "warning"), ("Fatal", "fatal")])
def test_an_xid_that_only_its_line_rates_waits_for_the_line_whoever_is_first(
    node, clock, word, severity
):
    node.nvml = [event(clock.now, "nvml", 145)]
    first = node.count()
    clock.sleep(0.5)
    node.log.events = [event(clock.now - 0.4, xid=145, text=nvlink(word))]
    node.values()
    clock.sleep(5.0)

    assert (0, 1) == (first, node.count())
    assert (m.GPU_XID_ERRORS.name, "3", UUID, BUS, "145", "kmsg", severity) in node.values()


def test_an_xid_that_only_its_line_rates_counts_by_the_catalogue_when_no_line_comes(node, clock):
    node.nvml = [event(clock.now, "nvml", 149)]
    first = node.count()
    clock.sleep(2.5)

    assert (0, 1) == (first, node.count())
    assert (m.GPU_XID_ERRORS.name, "3", UUID, BUS, "149", "nvml", "fatal") in node.values()


def test_without_a_log_no_event_waits_for_a_line(node, clock):
    node.log.here = False
    node.nvml = [event(clock.now, "nvml", 149)]

    assert 1 == node.count()


def test_an_xid_is_counted_by_what_its_line_says(node, clock):
    consequence = "NVRM: Xid (PCI:0000:65:00): 45, pid=1, name=a, Ch 1 caused by previous Xid 149"
    node.log.events = [
        event(clock.now, xid=145, text=nvlink("Nonfatal")),
        event(clock.now, xid=145, text=nvlink("Fatal")),
        event(clock.now, xid=45, text=consequence),
    ]
    told = {key[4:] for key, value in node.values().items() if value == 1}

    assert {("145", "kmsg", "warning"), ("145", "kmsg", "fatal"), ("45", "kmsg", "info")} <= told


def test_other_trouble_of_the_kernel_is_counted_by_kind_and_dated_by_device(node, clock, caplog):
    node.log.events = [
        Trouble(clock.now - 3, "nic_health", Severity.FATAL, "0000:05:00.0", "mlx5_core …"),
        Trouble(clock.now - 2, "nic_health", Severity.FATAL, "0000:06:00.0", "mlx5_core …"),
        Trouble(clock.now - 1, "nic_health", Severity.FATAL, "0000:06:00.0", "mlx5_core …"),
    ]
    node.log.sequence = 5
    told = {
        (one.metric.name, *one.labels): one.value
        for one in collect(node.source.read())
        if one.metric in (m.KERNEL_EVENTS, m.KERNEL_EVENT_LAST)
    }

    assert 3 == told.pop((m.KERNEL_EVENTS.name, "nic_health", "fatal"))
    assert clock.unix - 3 == told.pop(
        (m.KERNEL_EVENT_LAST.name, "nic_health", "fatal", "0000:05:00.0")
    )
    assert clock.unix - 1 == told.pop(
        (m.KERNEL_EVENT_LAST.name, "nic_health", "fatal", "0000:06:00.0")
    )
    assert {
        (m.KERNEL_EVENTS.name, *each): 0
        for each in TOLD
        if each != ("nic_health", "fatal") and each[1] != "info"
    } == told
    assert 2 == sum("the firmware of a NIC has failed" in one for one in caplog.messages)


def test_troubles_of_too_many_devices_are_counted_without_their_names(node, clock):
    node.log.events = [
        Trouble(clock.now, "efa", Severity.FATAL, f"rdmap{number}") for number in range(1000)
    ]
    node.log.sequence = 5
    samples = list(collect(node.source.read()))

    assert [1000] == [
        one.value for one in samples
        if one.metric is m.KERNEL_EVENTS and one.labels == ("efa", "fatal")
    ]  # fmt: skip
    assert MAX_TROUBLES + 1 == sum(one.metric is m.KERNEL_EVENT_LAST for one in samples)


def test_nothing_is_said_of_the_kernel_log_before_and_unless_it_was_heard(node):
    before = [one for one in collect(node.source.read()) if one.metric is m.KERNEL_EVENTS]
    node.log.sequence, node.log.here = 5, False
    without = [one for one in collect(node.source.read()) if one.metric is m.KERNEL_EVENTS]

    assert ([], []) == (before, without)


def test_a_flood_of_xids_is_counted_whole_and_quickly(node, clock):
    node.log.events = [event(clock.now - 1 + i / 20_000, xid=13 + i % 2) for i in range(17_700)]
    began = time.process_time()

    assert 17_700 == node.count()
    assert time.process_time() - began < 3.0


LOCKUP = "BUG: soft lockup - CPU#64 stuck for 26s! [ksoftirqd/64:404]"
TIMED_OUT = "mlx5_core 0000:17:00.0 eth2: TX timeout detected"


def fatal_kinds(node) -> dict[str, float]:
    return {
        one.labels[0]: one.value
        for one in collect(node.source.read())
        if one.metric is m.KERNEL_EVENTS and one.labels[1] == "fatal" and one.value
    }


@pytest.mark.parametrize(("first", "second", "apart", "fatal"), [
    (TIMED_OUT, LOCKUP, 28, {"cpu_lockup": 1}), (LOCKUP, TIMED_OUT, 28, {"nic_transmit": 1}),
    (TIMED_OUT, LOCKUP, 299, {"cpu_lockup": 1}), (TIMED_OUT, LOCKUP, 3600, {}),
    (LOCKUP, LOCKUP, 28, {}), (TIMED_OUT, TIMED_OUT, 28, {}),
])  # fmt: skip
def test_a_nic_that_does_not_send_beside_a_lockup_is_fatal(
    node, clock, first, second, apart, fatal
):
    node.log.sequence = 7
    for line in (first, second):
        node.log.events = [parse(line, clock.now)]
        node.source.read()
        clock.sleep(apart)

    assert fatal == fatal_kinds(node)


def test_both_in_one_turn_of_the_log_are_fatal_too(node, clock):
    node.log.sequence = 7
    node.log.events = [parse(TIMED_OUT, clock.now - 30), parse(LOCKUP, clock.now - 2)]

    assert {"cpu_lockup": 1} == fatal_kinds(node)
