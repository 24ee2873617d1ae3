"""Lines of the kernel log, beside XIDs, that end or slow down runs: a table, one row a form.

Forms and sources were read in Linux 6.x and in NVIDIA's open kernel modules 595.45.04. What is
rated fatal needs the part to be reset or exchanged; NVSentinel and gpud rate those of NICs alike.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from lockstep.collector.contract.xid_catalogue.shape import Severity

FATAL, WARNING, INFO = Severity.FATAL, Severity.WARNING, Severity.INFO


@dataclass(frozen=True, slots=True)
class KernelKind:
    """A kind of trouble that the kernel tells.

    Attributes:
        kind: The label `kind` of `lockstep_kernel_events_total`.
        text: What happened.
        advice: What to do.
    """

    kind: str
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One form of a line, from its begin on; runs of blanks are one blank.

    Attributes:
        kind: Of KINDS; empty: it belongs to another line, and says nothing alone.
        severity: How bad it is.
        pattern: Its group `device` is a place on the PCI bus, or the name of a device; its group
            `seconds` says how long it has lasted.
        source: The file that prints it.
    """

    kind: str
    severity: Severity
    pattern: re.Pattern[str]
    source: str

    @property
    def lasts(self) -> bool:
        """Whether it says how long it has lasted."""
        return "seconds" in self.pattern.groupindex

    def rated(self, line: re.Match[str]) -> Severity:
        """How bad a line of this form is: what has lasted for FATAL_SECONDS is fatal."""
        if self.lasts and float(line["seconds"]) >= FATAL_SECONDS:
            return FATAL
        return self.severity


FATAL_SECONDS = 120.0
"""A processor that is stuck for so long does not come back: the watchdog reports it after 20 s,
and no storm of interrupts lasts six times that. A choice of ours; one of 226,906 s was seen, whose
node had to be restarted (NVSentinel issue 1334)."""


class Together(NamedTuple):
    """Two kinds that say more together than each alone: the later one counts as `severity`.

    Attributes:
        seconds: They are so far apart at most.
    """

    kinds: frozenset[str]
    seconds: float
    severity: Severity


TOGETHER: tuple[Together, ...] = (
    # The queue stood still because the processor that serves it does, or the other way round: the
    # driver is wedged, and resets nothing any more. NVSentinel issue 1334: 28 s apart.
    Together(frozenset(("nic_transmit", "cpu_lockup")), 300.0, FATAL),
)
"""The seconds are choices of ours."""


def _rows(source: str, prefix: str, *rows: tuple[str, Severity, str]) -> tuple[KernelLine, ...]:
    return tuple(
        KernelLine(kind, severity, re.compile(prefix + form, re.ASCII), source)
        for kind, severity, form in rows
    )


_PLACE = r"(?P<device>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_FUNCTION = r"\w{1,64}:[0-9]{1,6}:\(pid [0-9]{1,10}\): "
# What somebody copied out of a log may lack the device.
_MLX5 = rf"(?:mlx5_core {_PLACE}(?: [\w.@-]{{1,16}})?: (?:{_FUNCTION})?|mlx5_{_FUNCTION})"
# As ibdev_err writes (drivers/infiniband/core/device.c): without a parent, the name alone.
_EFA = (
    rf"(?:efa {_PLACE}(?: [\w.-]{{1,32}})?|(?:infiniband )?(?P<name>(?:rdmap|efa_)[\w-]{{1,24}})): "
)
_OF_DEVICE = rf"[\w.-]{{1,32}} {_PLACE}: "
_BY_DEVICE = r"[\w.-]{1,32} [0-9a-fA-F:.]{7,16}: "
_OF_PORT = rf"[\w.-]{{1,32}} {_PLACE}(?::pcie[0-9a-f]{{2,4}})?: "
_NIC = rf"[\w.-]{{1,32}} {_PLACE} [\w.@-]{{1,16}}: "
_RECEIVED = r"error (?:message )?received(?::| from) "
_NO_DETAILS = rf"{_RECEIVED}{_PLACE} \(no details found"
_HARDWARE = r"(?:mce: )?(?:\{[0-9]{1,10}\})?\[Hardware Error\]: "
_CORE = "drivers/net/ethernet/mellanox/mlx5/core/"

LINES: tuple[KernelLine, ...] = (
    *_rows(
        "NVIDIA osinit.c", rf"NVRM: GPU {_PLACE}: ",
        ("gpu_init", FATAL, r"RmInitAdapter failed!"),
    ),
    *_rows(
        _CORE + "events.c", _MLX5,
        ("nic_slot_power", WARNING, r"Detected insufficient power on the PCIe slot"),
        ("nic_hot", WARNING, r"Port module event\[error\]: .{0,80}High Temperature"),
        ("nic_hot", WARNING, r"High temperature on sensors"),
        ("nic_module", WARNING, r"Port module event\[error\]: module [0-9]"),
        ("nic_module", INFO, r"Port module event: module [0-9]{1,3}, Cable (?:un)?plugged"),
    ),
    *_rows(
        _CORE + "health.c", _MLX5,
        ("nic_health", FATAL, r"device's health compromised"),
        ("nic_health", FATAL, r"Fatal error [0-9]{1,3} detected"),
        ("nic_health", FATAL, r"PCI slot is unavailable"),
        ("nic_health", FATAL,
         r"Health issue observed, .{1,80}, severity\S{1,8} (?:EMERGENCY|ALERT|CRITICAL|ERROR)\b"),
        ("nic_health", WARNING, r"Health issue observed, .{1,80}, severity\S{1,8} WARNING\b"),
        ("nic_health", INFO,
         r"Health issue observed, .{1,80}, severity\S{1,8} (?:NOTICE|INFO|DEBUG)\b"),
        ("", INFO,
         r"(?:assert_\w+|(?:raw )?fw_ver|time|hw_id|rfr|crr|severity|irisc_index|(?:ext_)?synd)\b"),
    ),
    *_rows(
        _CORE + "cmd.c", _MLX5,
        ("nic_command", FATAL, r".{0,96}timeout\. Will cause a leak of a command resource"),
        ("nic_access_register", INFO, r"ACCESS_REG\(0x[0-9a-f]{1,4}\) .{0,64}failed"),
        ("nic_command", INFO, r"\w{1,64}\(0x[0-9a-f]{1,4}\) .{0,64}failed"),
    ),
    *_rows(
        _CORE + "en_main.c", _MLX5,
        ("nic_transmit", WARNING, r"(?:TX timeout detected|NETDEV WATCHDOG: )"),
        # Of each queue of that time-out, and what its recovery did (en/reporter_tx.c).
        ("", INFO,
         r"(?:TX timeout on queue: |[Rr]ecover(?:ed)? \d{1,9} eqes? |EQ 0x[0-9a-f]{1,8}: Cons)"),
    ),
    *_rows(
        "net/sched/sch_generic.c", "",
        ("nic_transmit", WARNING,
         r"NETDEV WATCHDOG: (?P<device>[\w.@-]{1,16}) \([\w-]{1,32}\): transmit queue"),
        # Since Linux 6.5.
        ("nic_transmit", WARNING, rf"{_NIC}NETDEV WATCHDOG: CPU: [0-9]{{1,5}}: transmit queue"),
    ),
    *_rows(
        "drivers/infiniband/hw/efa/efa_com.c", _EFA,
        ("efa", FATAL, r"Wait for completion \(polling\) timeout"),
        ("efa", FATAL, r"The device (?:didn't send any|sent a) completion"),
        ("efa", FATAL, r"Admin queue is closed"),
        ("efa", FATAL, r"Reset indication didn't turn o(?:n|ff)"),
        ("efa", FATAL, r"Device isn't ready, (?:abort com init|can't reset device)"),
        ("efa", WARNING, r"Reading register (?:timed out|failed)"),
        ("efa", WARNING, r"Failed to (?:process|submit) command"),
    ),
    *_rows(
        "NVIDIA nvidia-peermem.c", r"nvidia-peermem \w{1,64}:[0-9]{1,6} ",
        ("peermem", WARNING, r"ERROR "),
    ),
    *_rows(
        "drivers/pci/pcie/aer.c", _OF_DEVICE + r"(?:AER: )?PCIe Bus Error: severity=",
        ("pcie_aer", FATAL, r"Uncorrect(?:ed|able) \(Fatal\)"),
        ("pcie_aer", WARNING, r"Uncorrect(?:ed|able) \(Non-Fatal\)"),
        ("pcie_aer", INFO, r"Correct(?:ed|able)\b"),
    ),
    # The lines after it tell of each bit of the status: they say nothing alone, so that an error
    # of several bits is one event, of the kind and severity that this line says.
    # The port reports that a message came, then the line above names the device: that one counts.
    # Where no device has it: "(no details found", and before Linux 6.16 "can't find device".
    *_rows(
        "drivers/pci/pcie/aer.c", _BY_DEVICE + r"AER: (?:Multiple )?",
        ("pcie_aer", FATAL, rf"Uncorrect(?:ed|able) \(Fatal\) {_NO_DETAILS}"),
        ("pcie_aer", WARNING, rf"Uncorrect(?:ed|able) \(Non-Fatal\) {_NO_DETAILS}"),
        ("pcie_aer", INFO, rf"Correct(?:ed|able) {_NO_DETAILS}"),
        ("", INFO, rf"(?:Uncorrect|Correct)(?:ed|able)(?: \((?:Non-)?Fatal\))? {_RECEIVED}"),
    ),
    *_rows(
        "drivers/pci/pcie/aer.c", _OF_PORT + r"(?:AER: )?",
        ("pcie_aer", WARNING, r"can't find device of ID[0-9a-f]{4}\b"),
    ),
    *_rows(
        "drivers/pci/pcie/dpc.c", _OF_PORT,
        ("pcie_link", FATAL, r"DPC:? containment event\b"),
    ),
    # Also of a card that is taken out on purpose.
    *_rows(
        "drivers/pci/hotplug/pciehp_ctrl.c", _OF_PORT + r"(?:pciehp: )?",
        ("pcie_link", WARNING, r"Slot\([^()]{1,32}\): (?:Link Down|Card not present)$"),
    ),
    *_rows(
        "drivers/pci/pcie/err.c", _OF_DEVICE,
        ("pcie_aer", FATAL, r"(?:AER: )?[Dd]evice recovery failed"),
    ),
    *_rows(
        "arch/x86/kernel/cpu/mce/core.c", _HARDWARE,
        ("machine_check", FATAL, r"CPU [0-9]{1,5}: Machine Check Exception: "),
        ("machine_check", INFO, r"CPU [0-9]{1,5}: Machine Check: "),
        ("machine_check", INFO, r"Machine check events logged"),
    ),
    *_rows(
        "drivers/edac/mce_amd.c", _HARDWARE,
        ("machine_check", FATAL, r"System Fatal error"),
        ("machine_check", WARNING, r"Uncorrected(?:,| error)"),
        ("machine_check", INFO, r"(?:Corrected|Deferred) error"),
    ),
    *_rows(
        "mm/memory-failure.c", r"Memory failure: ",
        ("machine_check", WARNING, r"0x[0-9a-f]{1,16}: Sending SIGBUS to "),
    ),
    *_rows(
        "drivers/firmware/efi/cper.c", _HARDWARE,
        ("machine_check", FATAL, r"event severity: fatal\b"),
        ("machine_check", WARNING, r"event severity: recoverable\b"),
        ("machine_check", INFO, r"event severity: (?:corrected|info)\b"),
    ),
    *_rows(
        "drivers/edac/edac_mc.c", r"EDAC (?P<device>MC[0-9]{1,3}): [0-9]{1,9} ",
        ("machine_check", WARNING, r"UE "),
        ("machine_check", INFO, r"CE "),
    ),
    *_rows(
        "kernel/hung_task.c", "",
        ("hung_task", WARNING,
         r"(?:INFO: )?task .{1,64}:[0-9]{1,10} blocked (?:in I/O wait )?for more than [0-9]"),
    ),
    *_rows(
        "kernel/watchdog.c", r"(?:(?:NMI )?watchdog: (?:CPU[0-9]{1,5}: )?)?",
        ("cpu_lockup", WARNING,
         r"BUG: soft lockup - CPU#[0-9]{1,5} stuck for (?P<seconds>[0-9]{1,9})s!"),
        ("cpu_lockup", FATAL, r"Watchdog detected hard LOCKUP on cpu [0-9]"),
    ),
    *_rows(
        "kernel/rcu/tree_stall.h", r"rcu: ",
        ("cpu_lockup", WARNING, r"INFO: rcu_\w{1,16} (?:self-)?detected (?:expedited )?stall"),
    ),
    *_rows(
        "mm/oom_kill.c", "",
        ("oom", WARNING,
         r"(?:Memory cgroup o|O)ut of memory(?: \([\w ]{1,32}\))?: Kill(?:ed)? process [0-9]"),
    ),
)  # fmt: skip
"""The first one that fits counts."""

KINDS: Mapping[str, KernelKind] = MappingProxyType({
    row.kind: row
    for row in (
        KernelKind(
            "gpu_init", "the driver could not start a GPU",
            "Drain the node and restart it; if it comes again, have the GPU inspected.",
        ),
        KernelKind(
            "nic_slot_power", "a NIC found too little power at its slot",
            "Compare the NIC's speed with its peers'. Some boards report it at every boot and are"
            " well; else check the slot's power cable, riser and BIOS setting.",
        ),
        KernelKind(
            "nic_hot", "a NIC or its module is too hot",
            "Check fans, airflow and the module; a hot module is slowed down or switched off.",
        ),
        KernelKind(
            "nic_module", "a module or cable of a NIC is bad, or came or went",
            "Reseat the cable or the module; exchange it if that does not help.",
        ),
        KernelKind(
            "nic_health", "the firmware of a NIC has failed",
            "Drain the node and restart it; again: update the firmware, then exchange the NIC.",
        ),
        KernelKind(
            "nic_command", "a command to the firmware of a NIC failed or timed out",
            "After a time-out drain the node and restart it; again: exchange the NIC.",
        ),
        KernelKind(
            "nic_access_register", "reading a register of a NIC was refused",
            "Mostly a monitor that reads counters which the firmware keeps to itself: exclude the"
            " device there. Nothing is broken.",
        ),
        KernelKind(
            "nic_transmit", "a NIC did not send for seconds",
            "Look at its link, its peer and pauses; the driver resets the queue by itself. Fatal,"
            " together with a lockup: the driver is wedged; drain the node and restart it.",
        ),
        KernelKind(
            "efa", "an Elastic Fabric Adapter does not answer, or refuses commands",
            "When fatal, replace the instance; else look at what the program asked for.",
        ),
        KernelKind(
            "peermem", "GPUDirect RDMA lost memory that it had registered",
            "Once at the end of a process it is harmless; again and again: restart the job, then"
            " the Fabric Manager.",
        ),
        KernelKind(
            "pcie_aer", "an error on the PCIe bus",
            "Fatal: drain the node, check the device's seating. Corrected ones by the thousand:"
            " the link is bad.",
        ),
        KernelKind(
            "pcie_link", "a PCIe port lost the device behind it, or cut it off after an error",
            "Unless the card was taken out: drain the node, check seating and riser, restart it;"
            " again: exchange the device.",
        ),
        KernelKind(
            "machine_check", "an error of processor, memory or platform",
            "Uncorrected: drain the node and have processor and memory inspected.",
        ),
        KernelKind(
            "hung_task", "a process waited for minutes and could not be interrupted",
            "Look what it waited for: storage, NFS or a driver; its stack stands below the line.",
        ),
        KernelKind(
            "cpu_lockup", "a processor was busy in the kernel for too long",
            "Look whose stack stands below the line; a hard lockup, one of minutes, and one beside"
            " a NIC that does not send need a restart.",
        ),
        KernelKind(
            "oom", "a process was ended for lack of memory",
            "See which one, and the limit of its container; a data loader or pinned memory grew.",
        ),
    )
})  # fmt: skip
"""What each kind means."""
TOLD: tuple[tuple[str, Severity], ...] = tuple(dict.fromkeys((
    *((line.kind, line.severity) for line in LINES if line.kind),
    *((line.kind, FATAL) for line in LINES if line.lasts),
    *((kind, pair.severity) for pair in TOGETHER for kind in sorted(pair.kinds)),
)))  # fmt: skip
"""Kinds and severities that there are."""
MARKS = (
    "NVRM: ", "mlx5_", "NETDEV WATCHDOG", "efa ", "efa_", "rdmap", "infiniband ", "nvidia-peermem",
    "PCIe Bus Error", "AER: ", "t find device of ID", "containment event", "Slot(",
    "evice recovery failed", "[Hardware Error]", "Memory failure: ",
    "EDAC MC", "task ", "soft lockup", "hard LOCKUP", "rcu: INFO", "ut of memory",
)  # fmt: skip
"""A line without one of these is none of LINES."""
DRIVERS: Mapping[str, re.Pattern[str]] = MappingProxyType({
    "mlx5": re.compile(r"mlx5_core |mlx5_\w{1,60}:[0-9]"),
    "efa": re.compile(r"efa |(?:infiniband )?(?:rdmap|efa_)[\w-]{1,24}:", re.ASCII),
    "peermem": re.compile(r"nvidia-peermem "),
})  # fmt: skip
"""Drivers whose warnings are counted when no row reads them."""
