"""The lines in which the NVIDIA drivers tell of errors: every form, and nothing but those."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.formats.kernel_log import parse, spelled_out
from lockstep.collector.readings.kernel import Fall, SwitchError, XidEvent

XIDS = {
    "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.":
        ("0000:65:00.0", 79, None, ""),
    "NVRM: Xid (PCI:0000:19:00): 31, pid=12345, name=python, Ch 0000000b, intr 10000000. MMU Fault:"
    " …": ("0000:19:00.0", 31, 12345, "python"),
    "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset"
    " Required)": ("0008:01:00.0", 154, None, ""),
    "NVRM: Xid (PCI:0000:3f:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 10 (0x04082907 0x00000008"
    " 0x00000000 …)": ("0000:3f:00.0", 145, None, ""),
    "NVRM: Xid (PCI:0000:65:00.0): 48, pid='4711', name=python3, DBE (double bit error)":
        ("0000:65:00.0", 48, 4711, "python3"),
    "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No,"
    " D-RST: No": ("0000:01:00.0", 94, 7194, ""),
    "NVRM: Xid (0000:03:00): 14, Channel 00000001": ("0000:03:00.0", 14, None, ""),
    "NVRM:  Xid  (PCI:0009:01:00):  149,  NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6": (
        "0009:01:00.0", 149, None, ""),
    "NVRM: Xid (8:00): 13, 0003 00000000": ("0000:08:00.0", 13, None, ""),
    "NVRM: Xid (PCI:0000:01:00): 38, pid=1659,": ("0000:01:00.0", 38, 1659, ""),
    "NVRM: Xid (PCI:000C:65:1F): 13, pid=1, name=a, Graphics SM Warp Exception on (GPC 0, TPC 1,"
    " SM 0)": ("000c:65:1f.0", 13, 1, "a"),
}  # fmt: skip
"""Lines of docs/method/collecting.md and of NVIDIA's documents, and what they tell."""

FALLS = (
    "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
    "NVRM: GPU at 0000:18:00.0 has fallen off the bus.",
    "NVRM: GPU at PCI:0000:18:00: GPU has fallen off the bus.",
    (
        "NVRM: The NVIDIA GPU 0000:18:00.0 NVRM: (PCI ID: 10de:2330) NVRM: installed in this system"
        " has NVRM: fallen off the bus and is not responding to commands."
    ),
)

OTHERS = (
    "NVRM: GPU at PCI:0000:03:00: GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7",
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.195.03",
    "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Severity 0 Engine instance 44 Sub-engine 00",
    "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Data {0x0000002b, 0x0000002b, 0x00000000}",
    "usb 1-1: Product: NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.",
    "collector: NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.",
    "GPU has fallen off the bus",
)

BROKEN = (
    "NVRM: Xid (PCI:0000:65:00): 123456, a number that is none",
    "NVRM: Xid (PCI:zz): 79, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:65:00): , pid=1",
    "NVRM: Xid (PCI:0000:65:00): 14",
    "NVRM: Xid ",
    "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): garbled, Fatal",
    "nvidia-nvswitch3: SXid (PCI:..): 20034, Fatal, Link 30",
)


@pytest.mark.parametrize("line", XIDS, ids=range(len(XIDS)))
def test_every_form_of_an_xid_is_read(line):
    event = parse(line, 5.0)

    assert isinstance(event, XidEvent)
    assert XIDS[line] == (event.pci_bus_id, event.xid, event.pid, event.process)
    told = " ".join(line.split())
    assert (5.0, "kmsg", told) == (event.monotonic, event.origin, event.text)


@pytest.mark.parametrize("line", FALLS, ids=range(len(FALLS)))
def test_a_gpu_that_fell_off_the_bus_without_an_xid_is_read(line):
    assert Fall(5.0, "0000:18:00.0") == parse(line, 5.0)


def test_an_sxid_is_told_by_the_line_with_its_severity():
    line = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {}, Link 30 LTSSM Fault Up"

    assert SwitchError(1.0, "0000:c1:00.0", 20034, "fatal") == parse(line.format("20034, Fatal"), 1)
    assert SwitchError(1.0, "0000:c1:00.0", 22013, "nonfatal") == parse(
        line.format("22013, Non-fatal"), 1
    )


@pytest.mark.parametrize("line", OTHERS, ids=range(len(OTHERS)))
def test_other_lines_are_no_events_whatever_they_quote(line):
    assert parse(line, 1.0) is None


@pytest.mark.parametrize("line", BROKEN, ids=range(len(BROKEN)))
def test_a_line_that_names_no_number_or_place_is_said_to_be_broken(line):
    with pytest.raises(ValueError, match=r"is not an|names no place"):
        parse(line, 1.0)


PIECES = st.sampled_from([
    "NVRM: Xid (", "PCI:", "0000:65:00", ".0", "): ", "79", "99999", ", ", "pid=", "'<unknown>'",
    "name=", "nvidia-nvswitch1: SXid (", "Fatal,", "NVRM: GPU ", "fallen off the bus", " ", "\x00",
    "٧٩", "\\x0a",
])  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=14).map("".join))
def test_a_line_tells_what_stands_in_it_or_nothing(line):
    try:
        event = parse(line, 1.0)
    except ValueError:
        return

    match event:
        case XidEvent(xid=number):
            assert line.startswith("NVRM: Xid (")
            assert f"): {number}" in line or f"): 0{number}" in line.replace("): 00", "): 0")
            assert 0 <= number <= 9999
        case SwitchError(sxid=number):
            assert str(number) in line
        case Fall():
            assert "fallen off the bus" in line


def test_the_kernel_s_escapes_are_resolved_and_line_ends_become_spaces():
    assert "NVRM: a é\\ b" == spelled_out(rb"NVRM: a \xc3\xa9\x5c\x0ab").replace("Ã©", "é")
    assert "a b" == spelled_out(b"a\x1bb")
