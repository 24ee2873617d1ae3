"""Which series of hardware are watched, and how far healthy parts are from each other: as data.

A spread is what one healthy part may differ from another of its kind, so that three spreads and
more (peers.DEVIATES) are a deviation. Not here, because no collector tells of them: fans, which
boards with liquid or rack cooling do not have, and the frequency of CPUs.
"""

from dataclasses import dataclass
from enum import StrEnum

from collector.contract import metrics
from collector.contract.kernel_log import KINDS, TOLD
from collector.contract.xid import PAGED, REPEATED, Repeats, Severity


class Subject(StrEnum):
    """The part of a GPU or a node that a deviation is about."""

    HEAT = "heat"
    POWER = "power"
    CLOCK = "clock"
    MEMORY = "memory"
    PCIE = "pcie"
    NVLINK = "nvlink"
    NETWORK = "network"
    DRIVER = "driver"
    HOST = "host"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Level:
    """A gauge of a GPU that its peers should share.

    Attributes:
        metric: Name in the contract.
        label: Which of its series, as collector.contract.metrics.label_text has it.
        sign: 1 = higher than the peers is bad, -1 = lower is, 0 = both are.
        spread: What healthy parts differ by, in the unit, or as a share of the peers' median.
        relative: Whether it is a share.
        works: Whether only GPUs that work are compared.
        by_load: Whether the work decides it too, so that only GPUs of the same stage are alike.
        what: What it is, in the middle of a sentence.
        unit: Behind the number; empty = a plain count.
        scale: Divides the value for people.
        down: Whether its series that are 0 are counted, in place of the sum of all.
    """

    subject: Subject
    metric: str
    label: str
    sign: int
    spread: float
    relative: bool
    works: bool
    by_load: bool
    what: str
    unit: str
    scale: float = 1.0
    down: bool = False

    def __post_init__(self) -> None:
        metrics.METRICS[self.metric].check_labels(self.label)


LEVELS: tuple[Level, ...] = (
    # Places in a chassis differ by up to 10 °C (the front cools the back): 12 °C are more.
    Level(Subject.HEAT, metrics.GPU_TEMPERATURE.name, 'sensor="gpu"', 1, 4.0, False, False, False,
          "temperature", " °C"),
    Level(Subject.HEAT, metrics.GPU_TEMPERATURE.name, 'sensor="memory"', 1, 4.0, False, False,
          False, "memory temperature", " °C"),
    # Identical parts differ by 8 % on average under a power cap (SC22, arXiv 2208.11035): 9 % of
    # the median is beyond that.
    Level(Subject.CLOCK, metrics.GPU_CLOCK.name, 'domain="sm"', -1, 0.03, True, True, True,
          "SM clock", " MHz", 1e6),
    # The memory clock has few steps, and a part at work is on the highest.
    Level(Subject.CLOCK, metrics.GPU_CLOCK.name, 'domain="memory"', -1, 0.03, True, True, False,
          "memory clock", " MHz", 1e6),
    # A setting: all of a kind have the same; 3 % are more than its rounding.
    Level(Subject.POWER, metrics.GPU_POWER_LIMIT.name, 'kind="enforced"', -1, 0.01, True, False,
          False, "power limit in force", " W"),
    # Energy efficiency of identical parts spreads like their speed; 30 % are another load.
    Level(Subject.POWER, metrics.GPU_POWER.name, "", 0, 0.10, True, True, True,
          "power", " W"),
    # A third of a link is less than one link, so that one that is down deviates.
    Level(Subject.NVLINK, metrics.GPU_NVLINK_UP.name, "", 1, 0.3, False, False, False,
          "number of NVLinks that are down", "", down=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter that stands still on healthy hardware, or runs alike on all.

    Attributes:
        least: Increase per second beyond the peers' that deviates; a third of it is the spread.
        of_node: Whether it is the node's, not a GPU's.
        without: Label sets that hold this are not counted.
        what: What is counted, behind a number; of seconds, the state that is meant.
        seconds: Whether it counts seconds, so that the rate is a share of the time.
        usual: Whether healthy parts have it too, so that only a lower clock than the peers' tells.
    """

    subject: Subject
    metric: str
    label: str
    least: float
    what: str
    of_node: bool = False
    without: str = ""
    seconds: bool = False
    usual: bool = False

    def __post_init__(self) -> None:
        for text in (self.label, self.without):
            metrics.METRICS[self.metric].check_labels(text)


_EVENTS = metrics.GPU_CLOCK_EVENT_SECONDS.name
THROTTLE_SHARE = 0.1
"""A tenth of the time: healthy parts touch their cap now and then."""
ERRORS_PER_SECOND = 1.0
"""A healthy link has a bit error rate of 1e-12 and less (PCIe base specification; the same for
Ethernet after correction), and a healthy memory corrects a few errors a day: one a second is far
from either."""
DROPS_PER_SECOND = 10.0
"""Healthy hosts drop some broadcast frames a second that they have no protocol for."""
COUNTERS: tuple[Counter, ...] = (
    Counter(Subject.HEAT, _EVENTS, 'reason="hw_thermal"', THROTTLE_SHARE, "in thermal slowdown",
            seconds=True),
    Counter(Subject.HEAT, _EVENTS, 'reason="sw_thermal"', THROTTLE_SHARE,
            "in the driver's thermal slowdown", seconds=True),
    Counter(Subject.POWER, _EVENTS, 'reason="sw_power_cap"', THROTTLE_SHARE,
            "held at its power cap", seconds=True, usual=True),
    Counter(Subject.POWER, _EVENTS, 'reason="hw_power_brake"', THROTTLE_SHARE,
            "braked by the power supply", seconds=True),
    Counter(Subject.CLOCK, _EVENTS, 'reason="hw_slowdown"', THROTTLE_SHARE,
            "slowed down by its board", seconds=True),
    Counter(Subject.MEMORY, metrics.GPU_ECC_ERRORS.name, 'type="corrected"', ERRORS_PER_SECOND,
            "corrected memory errors", without='counter="aggregate"'),
    Counter(Subject.PCIE, metrics.GPU_PCIE_REPLAY.name, "", ERRORS_PER_SECOND,
            "PCIe packets sent again"),
    Counter(Subject.PCIE, metrics.GPU_PCIE_RECOVERY.name, "", ERRORS_PER_SECOND,
            "recoveries of its PCIe link"),
    Counter(Subject.PCIE, metrics.GPU_PCIE_ERRORS.name, "", ERRORS_PER_SECOND, "PCIe errors"),
    Counter(Subject.NVLINK, metrics.GPU_NVLINK_ERRORS.name, "", ERRORS_PER_SECOND,
            "NVLink errors"),
    Counter(Subject.NETWORK, metrics.NET_ERRORS.name, "", ERRORS_PER_SECOND,
            "errors of its network devices", of_node=True, without='device="lo"'),
    Counter(Subject.NETWORK, metrics.NET_DROPS.name, "", DROPS_PER_SECOND,
            "packets dropped by its network devices", of_node=True, without='device="lo"'),
    Counter(Subject.NETWORK, metrics.NET_PHY_ERRORS.name, "", ERRORS_PER_SECOND,
            "errors of its optics and NICs", of_node=True),
    Counter(Subject.NETWORK, metrics.IB_ERRORS.name, "", ERRORS_PER_SECOND,
            "InfiniBand port errors", of_node=True),
    Counter(Subject.HOST, metrics.CPU_THERMAL_THROTTLED.name, 'level="package"', THROTTLE_SHARE,
            "with its CPU held back by heat", of_node=True, seconds=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """What deviates by being there: a count that rose, or a state.

    Attributes:
        least: Rise of the count, or the state's value, from which it is told.
        state: Whether the value itself says it, at the end of what was recorded.
        of_node: Whether it is the node's.
        fresh: Whether a series is first told when it has counted something.
        one, many: What happened, behind the number; a state has no number.
    """

    subject: Subject
    metric: str
    label: str
    one: str
    many: str = ""
    least: float = 1.0
    state: bool = False
    of_node: bool = False
    fresh: bool = False

    def __post_init__(self) -> None:
        metrics.METRICS[self.metric].check_labels(self.label)


KERNEL_SUBJECTS = {
    "gpu_init": Subject.GONE, "pcie_aer": Subject.PCIE, "pcie_link": Subject.PCIE,
    **dict.fromkeys(("nic_health", "nic_command", "efa"), Subject.NETWORK),
}  # fmt: skip
"""What fatal lines of the kernel log are about; the others are about the host."""
EVENTS: tuple[Event, ...] = (
    Event(Subject.MEMORY, metrics.GPU_ECC_ERRORS.name, 'counter="volatile",type="uncorrected"',
          "uncorrectable memory error", "uncorrectable memory errors"),
    Event(Subject.MEMORY, metrics.GPU_REMAPPED_ROWS.name, 'cause="uncorrectable"',
          "memory row replaced", "memory rows replaced"),
    Event(Subject.MEMORY, metrics.GPU_RETIRED_PAGES.name, "",
          "memory page retired", "memory pages retired"),
    Event(Subject.MEMORY, metrics.GPU_ROW_REMAP_FAILED.name, "",
          "a memory row could not be replaced", state=True),
    Event(Subject.MEMORY, metrics.GPU_ROW_REMAP_PENDING.name, "",
          "memory rows wait for a reset", state=True),
    Event(Subject.MEMORY, metrics.GPU_RETIRED_PENDING.name, "",
          "retired memory pages wait for a reset", state=True),
    Event(Subject.MEMORY, metrics.GPU_SRAM_THRESHOLD.name, "",
          "uncorrectable SRAM errors call for its replacement", state=True),
    Event(Subject.DRIVER, metrics.GPU_RECOVERY_ACTION.name, "",
          "the driver asks for a reset or a reboot", state=True),
    Event(Subject.GONE, metrics.GPU_FALLEN.name, "", "fall from the PCI bus",
          "falls from the PCI bus", fresh=True),
    # Down and up again.
    Event(Subject.NETWORK, metrics.NET_CARRIER_CHANGES.name, "", "", "times a link came or went",
          least=2.0, of_node=True),
    Event(Subject.DRIVER, metrics.NVSWITCH_SXID_ERRORS.name, 'severity="fatal"',
          "fatal error of its NVSwitches", "fatal errors of its NVSwitches",
          of_node=True, fresh=True),
    *(
        Event(KERNEL_SUBJECTS.get(kind, Subject.HOST), metrics.KERNEL_EVENTS.name,
              f'kind="{kind}",severity="{severity}"', KINDS[kind].text,
              f"times: {KINDS[kind].text}", of_node=True)
        for kind, severity in TOLD if severity is Severity.FATAL
    ),
)  # fmt: skip
HARD_XIDS = frozenset(PAGED).union(REPEATED[Repeats.CONTAINED])
"""Errors of the hardware, not of the application: those that page, and memory errors that were
contained."""
