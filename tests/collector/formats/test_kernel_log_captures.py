"""Kernel logs of real machines, and constructed lines of the same forms; whole and broken."""

import json
import random
from collections import Counter

import pytest

from lockstep.collector.contract.kernel_log import KINDS, TOLD
from lockstep.collector.contract.xid import describe, judged
from lockstep.collector.contract.xid_catalogue.detail import detail
from lockstep.collector.contract.xid_catalogue.shape import Action, Fault, Severity
from lockstep.collector.formats.kernel_log import MARKS, messages, parse, records, unread
from lockstep.collector.readings.kernel import Fall, SwitchError, Trouble, XidEvent
from lockstep.collector.sources.host.kmsg import Kmsg
from tests.collector.kernel_log_values import CONSTRUCTED, recorded, values, wrong
from tests.mutations import mutated_log
from tests.wild import wild

MUTATIONS = 300


def told(name: str) -> list:
    """The events of a recorded log; whatever is not understood fails."""
    found = []
    for message in messages(recorded(wild(f"kernel_log/{name}"))):
        event = parse(message, 0.0)
        assert event is not None or not unread(message)
        found += [] if event is None else [event]
    return found


def xids(name: str) -> list[tuple[str, int]]:
    return [(one.pci_bus_id, one.xid) for one in told(name) if isinstance(one, XidEvent)]


def test_gb200_nvlink_errors_are_fatal_and_page():
    events = told("gb200-nvlink5-fatal.dmesg")
    links = [detail(149, one.text) for one in events if one.xid == 149]

    assert {149: 5, 154: 4} == Counter(one.xid for one in events)
    assert {Severity.FATAL} == {judged(one.xid, one.text).severity for one in events}
    assert {Action.COMPONENT_RESET} == {judged(one.xid, one.text).action for one in events}
    assert ({True}, [0, 1, 1, 14, 15]) == (
        {one.fatal for one in links}, sorted(one.link for one in links if one.link is not None),
    )  # fmt: skip


def test_an_xid_45_after_nvlink_errors_is_their_consequence():
    events = told("nvlink5-xid45-caused-by-149-145.journal")
    said = [judged(one.xid, one.text) for one in events]

    assert [45] * 7 == [one.xid for one in events]
    assert {145: 5, 149: 2} == Counter(one.caused_by for one in said)
    assert {Fault.CONSEQUENCE} == {one.fault for one in said}
    assert {"NVLink"} == {describe(one.caused_by).part for one in said if one.caused_by}


def test_a_whole_gsp_time_out_is_five_xids_and_nothing_is_rejected():
    assert [("0000:9b:00.0", 119)] * 5 == xids("xid119-gsp-rpc-timeout.dmesg")


def test_switches_tell_their_errors_once():
    boot = told("hgx-h100-sxid-22013.dmesg")
    lost = told("sxid-20034-after-xid79.dmesg")

    assert [(22013, "nonfatal")] * 3 == [(one.sxid, one.severity) for one in boot]
    assert 1 == sum(isinstance(one, Fall) for one in lost)
    assert [79] == [one.xid for one in lost if isinstance(one, XidEvent)]
    switches = [one for one in lost if isinstance(one, SwitchError)]
    assert (4, 3, {(20034, "fatal")}) == (
        len(switches), len({one.pci_bus_id for one in switches}),
        {(one.sxid, one.severity) for one in switches},
    )  # fmt: skip


def test_one_record_of_three_lines_is_one_fall():
    assert [Fall(0.0, "0000:18:00.0")] == told("fallen-off-the-bus-three-lines-one-record.kmsg")


def test_a_crash_dump_tells_no_event():
    assert [] == told("erst-crash-dump-no-xid.dmesg")


def test_single_lines_of_ten_years_are_read():
    events = told("xid-lines-from-issues.tsv")
    kinds = {one.kind: one.device for one in events if isinstance(one, Trouble)}

    assert 22 == sum(isinstance(one, XidEvent) for one in events)
    assert {
        "gpu_init": "0000:09:00.0", "nic_access_register": "0000:05:00.0",
        "nic_slot_power": "0000:5c:00.0",
    } == kinds  # fmt: skip
    rows = wild("kernel_log/xid-lines-from-issues.tsv").read_text("utf-8").splitlines()
    said = [row.split("Xid (PCI:")[1] for row in rows if "Xid (PCI:" in row]
    assert [(f"{one[:10]}.0", int(one.split("): ")[1].split(",")[0])) for one in said] == xids(
        "xid-lines-from-issues.tsv"
    )


def test_lines_of_every_kind_are_read_and_each_has_its_words():
    events = [parse(message, 0.0) for message in messages(CONSTRUCTED)]
    kinds = {one.kind for one in events if isinstance(one, Trouble)}

    assert set(KINDS) - {"nic_module"} == kinds
    assert {kind for kind, _ in TOLD} == set(KINDS)
    assert [Fall(0.0, "0000:18:00.0")] == [one for one in events if isinstance(one, Fall)]


FRONTS: tuple[tuple[str, int | None], ...] = (
    ("", None), ("kernel: ", None),
    # dmesg: plain, -r, -T, -e, -d, -x, callers, --time-format, pstore
    ("[  201.654822] ", None), ("[201.654822] ", None), ("<1>[  201.654822] ", 1),
    ("<12>[  201.654822] ", 4), ("[Sun Feb 23 16:24:18 2025] ", None), ("[Feb23 16:24] ", None),
    ("[  +0.000012] ", None), ("[  201.654822 <    0.000012>] ", None),
    ("[Sun Feb 23 16:24:18 2025 <    0.000012>] ", None),
    ("[ 4801.221034] [  T1234] ", None), ("[ 4801.221034][    T1] ", None),
    ("[ 4801.221034][   C17] ", None),
    ("kern  :err   : [    1.500000] ", 3), ("kern  :emerg : ", 0), ("kern  :warn  : ", 4),
    ("kern  :alert : [Sun Feb 23 16:24:18 2025] ", 1), ("user  :notice: [  1.0] ", 5),
    ("kern  :crit  : [  +0.000012] ", 2), ("kern  :info  : [  1.0] [  T12] ", 6),
    ("2025-02-23T16:24:18,221034+00:00 ", None), ("2025-02-23T16:24:18,221034-08:00 ", None),
    ("2025-02-23T16:24:18.221034Z ", None), ("2025-02-23 16:24:18 ", None),
    ("kern  :err   : 2025-02-23T16:24:18,221034+00:00 ", 3),
    ("kern  :debug : 2025-02-23T16:24:18,221034+0100 ", 7),
    ("<3>2025-02-23T16:24:18,221034+00:00 ", 3),
    ("[ 4801.221034] 2025-02-23T16:24:18,221034+00:00 ", None),
    ("\x1b[32m[ 4801.221034] \x1b[0m\x1b[33m", None),
    # journalctl: short, -iso, -precise, -full, -unix, -monotonic, -delta, with-unit
    ("Nov 03 10:00:00 node-1 kernel: ", None), ("Nov  3 10:00:00.221034 node-1 kernel: ", None),
    ("2026-11-03T10:00:00+0000 node-1 kernel: ", None),
    ("2026-11-03T10:00:00.221034+0000 node-1.example kernel: ", None),
    ("Tue 2026-11-03 10:00:00 UTC node-1 kernel: ", None),
    ("1740327858.221034 node-1 kernel: ", None), ("[ 4801.221034] node-1 kernel: ", None),
    ("[ 4801.221034 <    0.000012 >] node-1 kernel: ", None),
    # syslog: RFC 3164 and 5424
    ("2026-11-03T10:00:00+00:00 node-1 kernel: [  1.5] ", None),
    ("2026-11-03T10:00:00.221034+00:00 node-1 kernel: [ 4801.221034] [  T99] ", None),
    ("Feb 23 16:24:18 node-1 kernel: [ 4801.221034] ", None),
    ("<3>Feb 23 16:24:18 node-1 kernel: [ 4801.221034] ", 3),
    ("<3>1 2025-02-23T16:24:18.221034+00:00 node-1 kernel - - - ", 3),
    ("Feb 23 16:24:18 node-1 kernel[1]: ", None),
    # talosctl
    ("10.5.0.2: kern:    err: [2025-02-23T16:24:18.221034Z]: ", 3),
    ("kern: warning: [2025-02-23T16:24:18.221034Z]: ", 4),
    # the device itself
    ("4,100,171167620236,-;", 4), ("3,100,171167620236,-,caller=T99;", 3),
)  # fmt: skip


@pytest.mark.parametrize(("front", "level"), FRONTS)
def test_what_dmesg_journalctl_and_the_device_put_in_front_is_taken_off(front, level):
    for line in (
        "NVRM: Xid (PCI:0009:01:00): 79, GPU has fallen off the bus.",
        "mlx5_core 0000:17:00.0 eth2: TX timeout detected",
        "watchdog: BUG: soft lockup - CPU#64 stuck for 26s! [ksoftirqd/64:404]",
    ):
        assert [(line, level)] == list(records(f"{front}{line}\n"))
        assert [(line, level)] == list(records(f"{front}{line}\r\n"))
    assert ["[Hardware Error]: x 1"] == list(messages("[Hardware Error]: x 1\n"))


def test_records_of_journalctl_and_dmesg_in_json_are_read_and_only_the_kernels():
    line = "NVRM: Xid (PCI:0009:01:00): 79, GPU has fallen off the bus."
    journal = "".join(
        json.dumps({"_TRANSPORT": by, "PRIORITY": "3", "MESSAGE": line}) + "\n"
        for by in ("kernel", "stdout", "syslog")
    )
    dmesg = json.dumps({"dmesg": [{"pri": 3, "time": 4801.2, "msg": line}]}, indent=3)

    assert [(line, 3)] == [one for one in records(journal) if one.text]
    assert [(line, 3)] == list(records(dmesg))


@pytest.mark.parametrize("text", [
    '{"dmesg": 7}', '{"dmesg": [7]}', '{"dmesg": [{"msg": 7, "pri": {}}]}', "{\n", "{}\n",
    '{"_TRANSPORT": "kernel", "MESSAGE": [78, 86]}\n', '{"_TRANSPORT": "kernel"}\n',
])  # fmt: skip
def test_json_of_another_shape_tells_nothing(text):
    assert [] == [one for one in records(text) if parse(one.text, 0.0)]


def test_nobody_talks_in_the_kernel_s_name():
    said = "NVRM: Xid (PCI:0009:01:00): 79, GPU"
    lines = "".join(
        f"{front}{said}\n"
        for front in (
            "usb 1-1: Product: kernel: ", "usb 1-1: Product: ", "Nov 03 10:00:00 node-1 python: ",
            "Nov 03 10:00:00 node-1 sshd[7]: kernel: ", "[ 1.5] usb 1-1: Product: ",
            "kern  :err   : [ 1.5] usb 1-1: Product: kern  :err   : ", "audit: kernel: ",
        )
    )  # fmt: skip

    assert all(parse(one, 0.0) is None for one in messages(lines))


def test_a_log_that_ends_inside_a_line_loses_that_line():
    text = "NVRM: Xid (PCI:0009:01:00): 79, a\nNVRM: Xid (PCI:0009:01:00): 74, … on link 1"

    assert ["NVRM: Xid (PCI:0009:01:00): 79, a"] == list(messages(text))


@pytest.mark.parametrize(("line", "level", "driver"), [
    ("mlx5_core 0000:05:00.0: something: new", 3, "mlx5"),
    ("mlx5_core 0000:05:00.0: something: new", None, "mlx5"),
    ("mlx5_core 0000:05:00.0: firmware version: 28.39.1002", 6, ""),
    ("infiniband rdmap0s6: something new", 4, "efa"),
    ("infiniband mlx5_0: something new", 3, ""),
    ("nvidia-peermem nv_x:1 WARNING", 4, "peermem"),
    ("mlx5_core 0000:5c:00.0: print_health_info:428:(pid 0): assert_var[0] 0x0", 3, ""),
    ("usb 1-1: new device", 3, ""),
])  # fmt: skip
def test_warnings_of_our_drivers_that_no_pattern_reads_are_told(line, level, driver):
    assert parse(line, 0.0) is None
    assert driver == unread(line, level)


@pytest.mark.parametrize(("line", "device"), [
    ("efa 0000:00:06.0 rdmap0s6: Wait for completion (polling) timeout", "0000:00:06.0"),
    ("efa 0000:00:06.0 efa_0: Admin queue is closed", "0000:00:06.0"),
    ("efa 0000:00:06.0: Admin queue is closed", "0000:00:06.0"),
    ("efa_0: Admin queue is closed", "efa_0"),
    ("infiniband rdmap0s6: Admin queue is closed", "rdmap0s6"),
])  # fmt: skip
def test_an_adapter_that_fails_is_fatal_in_every_form_of_its_name(line, device):
    assert Trouble(0.0, "efa", Severity.FATAL, device, line) == parse(line, 0.0)
    assert any(mark in line.encode() for mark in MARKS)


PORT = "pcieport 0000:00:1d.0: "


@pytest.mark.parametrize(("lines", "counted"), [
    ([f"{PORT}AER: Corrected error received: 0000:3b:00.0",
      "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer"],
     [("pcie_aer", "info", "0000:3b:00.0")]),
    ([f"{PORT}AER: Multiple Uncorrected (Fatal) error received: id=3b00",
      "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), id=3b00(Requester ID)"],
     [("pcie_aer", "fatal", "0000:3b:00.0")]),
    ([f"{PORT}AER: Uncorrectable (Fatal) error received from 0000:3b:00.0 (no details found"],
     [("pcie_aer", "fatal", "0000:3b:00.0")]),
    ([f"{PORT}AER: Uncorrected (Non-Fatal) error received: id=3b00",
      f"{PORT}AER: can't find device of ID3b00"], [("pcie_aer", "warning", "0000:00:1d.0")]),
    # Several bits of its status are set.
    ([f"{PORT}AER: Multiple Uncorrected (Non-Fatal) error received: 0000:3b:00.0",
      "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction",
      "nvidia 0000:3b:00.0:   device [10de:2330] error status/mask=00104000/00000000",
      "nvidia 0000:3b:00.0:    [14] CmpltTO                (First)",
      "nvidia 0000:3b:00.0:    [20] UnsupReq",
      "nvidia 0000:3b:00.0: AER:   TLP Header: 40000001 0000000f fe200000 00000000"],
     [("pcie_aer", "warning", "0000:3b:00.0")]),
])  # fmt: skip
def test_a_report_of_an_error_on_the_bus_counts_once(lines, counted):
    found = [one for one in (parse(line, 0.0) for line in lines) if one is not None]

    assert counted == [(one.kind, one.severity, one.device) for one in found]


@pytest.mark.parametrize(("line", "severity"), [
    (f"{PORT}DPC: containment event, status:0x1f01 source:0x0000", "fatal"),
    (f"{PORT}DPC: containment event, status:0x0005, ERR_FATAL received from 0000:3b:00.0", "fatal"),
    ("dpc 0000:00:1d.0:pcie008: DPC containment event, status:0x1009 source:0x0000", "fatal"),
    (f"{PORT}pciehp: Slot(1-1): Link Down", "warning"),
    (f"{PORT}pciehp: Slot(1-1): Card not present", "warning"),
    ("pciehp 0000:00:1d.0:pcie004: Slot(172): Link Down", "warning"),
    (f"{PORT}pciehp: Slot(1-1): Link Down/Up ignored", None),
    (f"{PORT}pciehp: Slot(1-1): Link Up", None),
    (f"{PORT}DPC: ERR_FATAL detected", None),
])  # fmt: skip
def test_a_port_that_lost_its_device_is_told(line, severity):
    event = parse(line, 0.0)

    expected = severity and ("pcie_link", severity, "0000:00:1d.0")
    assert expected == (event and (event.kind, event.severity, event.device))
    assert severity is None or any(mark in line.encode() for mark in MARKS)


def test_lines_that_are_not_understood_are_counted_and_told(tmp_path, clock):
    path = tmp_path / "kmsg"
    path.write_text(
        "3,1,5,-;mlx5_core 0000:05:00.0: something: new\n"
        "6,2,6,-;mlx5_core 0000:05:00.0: firmware version: 28.39.1002\n"
        "3,3,7,-;NVRM: Xid (PCI:0000:05:00): nothing\n"
        "3,4,8,-;mlx5_core 0000:05:00.0: Detected insufficient power on the PCIe slot (27W).\n"
    )
    log = Kmsg(path, clock, clock.monotonic)
    log.available()
    reading, events = log.read(), log.take().events
    log.close()

    assert {"nvidia": 1, "mlx5": 1, "efa": 0, "peermem": 0} == reading.unread
    assert ["unread", "content"] == [one.reason for one in reading.rejected]
    assert ["nic_slot_power"] == [one.kind for one in events]  # type: ignore[union-attr]


def test_broken_logs_tell_nothing_that_the_whole_one_does_not():
    dice, before = random.Random(20), values(CONSTRUCTED)
    kept = []
    for _ in range(MUTATIONS):
        text = mutated_log(CONSTRUCTED, dice)
        assert {} == wrong(before, text), text
        kept.append(len(values(text)) / len(before))

    assert sum(kept) / MUTATIONS > 0.4, "nearly nothing of a broken log is read"


def test_broken_logs_of_real_machines_tell_nothing_that_the_whole_ones_do_not():
    paths = [one for one in sorted(wild("kernel_log").iterdir()) if one.suffix != ".source"]
    dice = random.Random(21)
    for path in paths:
        text = recorded(path)
        before = values(text)
        for _ in range(MUTATIONS // len(paths)):
            assert {} == wrong(before, mutated_log(text, dice)), path.name


LOCKUP = "watchdog: BUG: soft lockup - CPU#64 stuck for {}s! [ksoftirqd/64:404]"
TIMED_OUT = "mlx5_core 0000:17:00.0 eth2: TX timeout detected"


@pytest.mark.parametrize(("seconds", "severity"), [
    (22, "warning"), (26, "warning"), (90, "warning"), (119, "warning"), (120, "fatal"),
    (3600, "fatal"), (226906, "fatal"), (999999999, "fatal"),
])  # fmt: skip
@pytest.mark.parametrize("front", ["watchdog: ", "NMI watchdog: ", "", "watchdog: CPU3: "])
def test_a_lockup_is_rated_by_how_long_it_has_lasted(front, seconds, severity):
    line = LOCKUP.format(seconds).replace("watchdog: ", front)

    event = parse(line, 0.0)

    assert isinstance(event, Trouble)
    assert ("cpu_lockup", severity, "") == (event.kind, event.severity, event.device)


@pytest.mark.parametrize("line", [
    "mlx5_core 0000:17:00.0 eth2: TX timeout on queue: 31, SQ: 0x1f, CQ: 0x5, usecs since last: 9",
    "mlx5_core 0000:17:00.0 eth2: EQ 0x1a: Cons = 0x3c4b, irqn = 0x6e",
    "mlx5_core 0000:17:00.0 eth2: Recovered 3 eqes on EQ 0x1a",
])  # fmt: skip
def test_the_lines_of_a_time_out_s_queues_are_read_and_count_nothing_more(line):
    assert (None, "") == (parse(line, 0.0), unread(line, 3))


@pytest.mark.parametrize(("line", "device"), [
    (TIMED_OUT, "0000:17:00.0"),
    ("NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 31 timed out", "eth2"),
    ("bnxt_en 0000:17:00.0 eth2: NETDEV WATCHDOG: CPU: 64: transmit queue 31 timed out 15904 ms",
     "0000:17:00.0"),
])  # fmt: skip
def test_a_nic_that_does_not_send_is_told_in_every_form(line, device):
    assert Trouble(0.0, "nic_transmit", Severity.WARNING, device, line) == parse(line, 0.0)
    assert any(mark in line.encode() for mark in MARKS)
