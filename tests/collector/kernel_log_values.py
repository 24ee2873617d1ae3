"""What a kernel log tells, as values by their key: for recorded logs and for mutated ones."""

from collections.abc import Hashable
from pathlib import Path

from lockstep.collector.contract.xid import BY_LINE, judged
from lockstep.collector.contract.xid_catalogue.detail import detail
from lockstep.collector.formats.kernel_log import messages, parse, unread
from lockstep.collector.readings.kernel import Fall, SwitchError, Trouble, XidEvent
from tests.wild import SHARED

CONSTRUCTED = """\
[    1.000000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  595.45.04
[    2.000000] NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x0)
[    2.100000] NVRM: Xid (PCI:0009:02:00): 145, pid=18, name=a b, RLW_REMAP Nonfatal XC0 i0 Link 12
[    2.200000] NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)
[    2.300000] NVRM: Xid (PCI:0009:03:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)
[    2.400000] NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149
[    2.500000] NVRM: Xid (PCI:0000:c1:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14
[    2.600000] NVRM: Xid (PCI:0000:c2:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No
[    3.000000] NVRM: The NVIDIA GPU 0000:18:00.0
[    3.000000] NVRM: (PCI ID: 10de:2901) installed in this system has
[    3.000000] NVRM: fallen off the bus and is not responding to commands.
[    3.100000] NVRM: GPU 0000:09:00.0: RmInitAdapter failed! (0x22:0x56:894)
[    4.000000] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up
[    4.100000] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Severity 1 Engine instance 48 Sub-engine 00
[    5.000000] mlx5_core 0000:05:00.0: mlx5_cmd_out_err:835:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, err(-22)
[    5.100000] mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 2): Detected insufficient power on the PCIe slot (27W).
[    5.200000] mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature
[    5.300000] mlx5_core 0000:5d:00.0: poll_health:816:(pid 0): device's health compromised - reached miss count
[    5.400000] mlx5_core 0000:5e:00.0: print_health_info:424:(pid 0): Health issue observed, High temperature, severity(4) WARNING:
[    5.500000] mlx5_core 0000:5f:00.0: wait_func:1155:(pid 9): TEARDOWN_HCA(0x103) timeout. Will cause a leak of a command resource
[    5.600000] mlx5_core 0000:60:00.0 eth0: NETDEV WATCHDOG: CPU: 5: transmit queue 0 timed out 5032 ms
[    6.000000] infiniband rdmap16s27: The device didn't send any completion for admin cmd CREATE_QP(6) status 0
[    6.100000] efa 0000:00:06.0: Device isn't ready, abort com init
[    7.000000] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing
[    8.000000] pcieport 0000:00:1d.0: AER: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)
[    8.100000] nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)
[    8.200000] pcieport 0000:b0:01.1: AER: Uncorrected (Fatal) error received: 0000:b2:00.0
[    8.300000] pcieport 0000:b0:01.1: AER: device recovery failed
[    8.400000] pcieport 0000:b0:02.0: DPC: containment event, status:0x1f05 source:0xb300
[    8.500000] pcieport 0000:ae:01.0: pciehp: Slot(1-1): Link Down
[    9.000000] mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: f200000000300405
[    9.100000] {1}[Hardware Error]: event severity: recoverable
[    9.200000] EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0
[    9.300000] Memory failure: 0x7fdf0: Sending SIGBUS to python3:77 due to hardware memory corruption
[    9.400000] [Hardware Error]: Uncorrected, software containable error.
[    9.500000] mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) op_mod(0x1) failed, err(-22)
[   10.000000] INFO: task kcompactd1:1177 blocked for more than 120 seconds.
[   10.100000] watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:2254956]
[   10.200000] watchdog: CPU5: Watchdog detected hard LOCKUP on cpu 5
[   11.000000] Memory cgroup out of memory: Killed process 1234 (python3) total-vm:1kB
"""  # noqa: E501 - as the kernel writes them
"""A line of every kind, in the forms of the kernel's and the drivers' sources."""


def recorded(path: Path) -> str:
    """A recorded log, whole: of a table its last column, the one with the line."""
    text = path.read_text("utf-8")
    lines = [line.rpartition("\t")[2] for line in text.splitlines()]
    return "\n".join(lines) + "\n" if path.suffix == ".tsv" else text.rstrip("\n") + "\n"


def samples() -> list[str]:
    """The constructed log, and the recorded ones where they are."""
    files = sorted((SHARED / "data/wild/kernel_log").glob("*"))
    return [CONSTRUCTED, *(recorded(path) for path in files if path.suffix != ".source")]


Values = dict[object, set[Hashable]]


def values(text: str) -> Values:
    """Every value by what it is about, several where several lines are about the same.

    The name of a process is left out: it is passed on as it was written.
    """
    found: Values = {}

    def told(*key: Hashable, **named: Hashable) -> None:
        for name, value in named.items():
            if value is not None:
                found.setdefault((*key, name), set()).add(value)

    for message in messages(text):
        try:
            event = parse(message, 0.0)
        except ValueError:
            continue
        match event:
            case XidEvent(pci_bus_id=place, xid=xid):
                said, more = judged(xid, event.text), detail(xid, event.text)
                told("xid", place, xid, pid=event.pid, caused_by=said.caused_by, link=more.link,
                     component=more.component or None, place=more.place)  # fmt: skip
                if said.by_line or xid not in BY_LINE:  # else it is the catalogue's
                    told("xid", place, xid, severity=said.severity, fault=said.fault,
                         action=said.action)  # fmt: skip
            case SwitchError():
                told("sxid", event.pci_bus_id, event.sxid, severity=event.severity)
            case Fall():
                told("fall", event.pci_bus_id, fell=True)
            case Trouble():
                told(event.kind, event.device, severity=event.severity)
            case None:
                unread(message)
    return found


def wrong(before: Values, text: str) -> Values:
    """Values of a text that are not among those before under the same key."""
    return {
        key: told - before.get(key, set())
        for key, told in values(text).items()
        if not told <= before.get(key, set())
    }
