"""Kernel logs of real machines, and constructed lines of the same forms; whole and broken."""

import random
from collections import Counter

import pytest

from collector.contract.kernel_log import KINDS, TOLD
from collector.contract.xid import Action, Fault, Severity, describe, detail, judged
from collector.kernel_event import Fall, SwitchError, Trouble
from collector.sources.kmsg import Kmsg
from collector.sources.kmsg.lines import MARKS, parse, unread
from collector.sources.kmsg.text import messages
from collector.xid_event import XidEvent
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


@pytest.mark.parametrize("front", [
    "", "kernel: ", "[  201.654822] ", "<1>[  201.654822] ", "[Sun Feb 23 16:24:18 2025] ",
    "Nov 03 10:00:00 node-1 kernel: ", "2026-11-03T10:00:00+00:00 node-1 kernel: [  1.5] ",
    "kern  :err   : [    1.500000] ", "4,100,171167620236,-;",
])  # fmt: skip
def test_what_dmesg_journalctl_and_the_device_put_in_front_is_taken_off(front):
    line = "NVRM: Xid (PCI:0009:01:00): 79, GPU has fallen off the bus."

    assert [line] == list(messages(f"{front}{line}\n"))
    assert ["[Hardware Error]: x 1"] == list(messages("[Hardware Error]: x 1\n"))


def test_nobody_talks_in_the_kernel_s_name():
    lines = "usb 1-1: Product: kernel: NVRM: Xid (PCI:0009:01:00): 79, GPU\n" * 2

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
