"""Which series of hardware are watched, and how far healthy parts are from each other: as data.

A spread is what one healthy part may differ from another of its kind, so that three spreads and
more (symptoms.series.MILD) are a deviation. Not here, because no collector reports them: fans,
which boards with liquid or rack cooling do not have, and the frequency of CPUs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from lockstep.analyzer.causes.symptoms.series import MILD
from lockstep.analyzer.hardware.anomalies.distances import SHORTEST
from lockstep.analyzer.shapes.wording import megahertz
from lockstep.collector.contract import metrics
from lockstep.collector.contract.kernel_log import KINDS, TOLD
from lockstep.collector.contract.xid import PAGED, REPEATED
from lockstep.collector.contract.xid_catalogue.shape import Repeats, Severity


class Subject(StrEnum):
    """The part of a GPU or a node that a deviation is about, in the order of what it does to a run.

    The first three end it; the next three lengthen its computation, most of a step; then what
    lengthens its transfers; last what it may not notice.
    """

    GONE = "gone"
    DRIVER = "driver"
    MEMORY = "memory"
    CLOCK = "clock"
    HEAT = "heat"
    POWER = "power"
    NVLINK = "nvlink"
    PCIE = "pcie"
    NETWORK = "network"
    HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A gauge that the peers should share, or a counter that stands still or runs alike on all.

    Attributes:
        metric: Name in the contract.
        label: Which of its series, as lockstep.collector.contract.metrics.label_text has it.
        without: Series that hold this are not counted.
        of_node: Whether it is the node's, not a GPU's.
        counts: Whether it is a counter, so that its rate is what is compared, with nothing where
            there are no peers.
        most: Whether the largest of its series counts, in place of the sum of all.
        down: Whether its series that are 0 are counted, in place of the sum of all.
        sign: 1 = higher than the peers is bad, -1 = lower is, 0 = both are.
        spread: What healthy parts differ by, in the unit, or as a share of the peers' median.
        relative: Whether it is a share.
        works: Whether only GPUs that work are compared.
        by_load: Whether the work decides it too, so that only GPUs of the same stage are alike.
        held: The state in which its seconds are spent, in which a GPU has a lower clock.
        usual: Whether healthy parts are in it too, so that only a lower clock than theirs tells.
        what: What it is, in the middle of a sentence; empty where the amount says it.
        amount: How much, for people.
    """

    subject: Subject
    metric: str
    label: str = ""
    without: str = ""
    of_node: bool = False
    counts: bool = False
    most: bool = False
    down: bool = False
    sign: int = 1
    spread: float
    relative: bool = False
    works: bool = False
    by_load: bool = False
    held: str = ""
    usual: bool = False
    what: str = ""
    amount: Callable[[float], str]

    def __post_init__(self) -> None:
        for text in (self.label, self.without):
            metrics.METRICS[self.metric].check_labels(text)


CELSIUS_SPREAD = 4.0
"""Places in a chassis differ by up to 10 °C (the front cools the back), and 12 °C are more:
chosen."""
CLOCK_SPREAD = 0.03
"""Identical parts differ by 8 % on average under a power cap (SC22, arXiv 2208.11035): 9 % of the
median is beyond that."""
POWER_SPREAD = 0.10
"""Energy efficiency of identical parts spreads like their speed (the same); chosen, as 30 % are
another load."""
SETTING_SPREAD = 0.01
"""Of what has few steps or is set, all of a kind have the same: chosen, as 3 % are more than its
rounding, and less than a step, a lane or a link."""
ERRORS = 1.0 / MILD
"""A healthy link has a bit error rate of 1e-12 and less (PCIe base specification; the same for
Ethernet after correction), and a healthy memory corrects a few errors a day: one a second is far
from either."""
DROPS = 10.0 / MILD
"""Healthy hosts drop some broadcast frames a second that they have no protocol for; chosen."""
THROTTLED = 0.1 / MILD
"""Chosen: healthy parts touch their cap now and then, for less than a tenth of the time."""


def _setting(
    subject: Subject, metric: str, label: str, what: str, amount: str, *, works: bool = True
) -> Watched:
    """A gauge of few steps, below that of the peers; of a GPU at work, where none saves power."""
    return Watched(subject=subject, metric=metric, label=label, sign=-1, spread=SETTING_SPREAD,
                   relative=True, works=works, what=what, amount=amount.format)  # fmt: skip


def _errors(
    subject: Subject, metric: str, what: str, label: str = "", *, without: str = "",
    of_node: bool = False, spread: float = ERRORS,
) -> Watched:  # fmt: skip
    """A counter that stands still on healthy hardware."""
    amount = f"{{:.1f}} {what} a second".format
    return Watched(subject=subject, metric=metric, label=label, without=without, of_node=of_node,
                   counts=True, spread=spread, amount=amount)  # fmt: skip


def _held(subject: Subject, reason: str, state: str, *, usual: bool = False) -> Watched:
    """Seconds in which a GPU is held back."""
    return Watched(subject=subject, metric=metrics.GPU_CLOCK_EVENT_SECONDS.name,
                   label=f'reason="{reason}"', counts=True, spread=THROTTLED, held=state,
                   usual=usual, amount=_of_the_time(state))  # fmt: skip


def _of_the_time(state: str) -> Callable[[float], str]:
    return lambda share: f"{state} {min(share, 1.0):.0%} of the time"


_CLOCK = metrics.GPU_CLOCK.name
SM_CLOCK = Watched(
    subject=Subject.CLOCK, metric=_CLOCK, label='domain="sm"', sign=-1, spread=CLOCK_SPREAD,
    relative=True, works=True, by_load=True, what="SM clock", amount=megahertz,
)  # fmt: skip
WATCHED: tuple[Watched, ...] = (
    *(
        Watched(subject=Subject.HEAT, metric=metrics.GPU_TEMPERATURE.name, label=label,
                spread=CELSIUS_SPREAD, what=what, amount="{:.1f} °C".format)
        for label, what in (('sensor="gpu"', "temperature"),
                            ('sensor="memory"', "memory temperature"))
    ),
    SM_CLOCK,
    Watched(subject=Subject.CLOCK, metric=_CLOCK, label='domain="memory"', sign=-1,
            spread=SETTING_SPREAD, relative=True, works=True, what="memory clock",
            amount=megahertz),
    Watched(subject=Subject.POWER, metric=metrics.GPU_POWER.name, sign=0, spread=POWER_SPREAD,
            relative=True, works=True, by_load=True, what="power", amount="{:.0f} W".format),
    _setting(Subject.POWER, metrics.GPU_POWER_LIMIT.name, 'kind="enforced"',
             "power limit in force", "{:.0f} W", works=False),
    _setting(Subject.PCIE, metrics.GPU_PCIE_WIDTH.name, "", "PCIe link", "x{:.0f}"),
    _setting(Subject.PCIE, metrics.GPU_PCIE_GENERATION.name, "", "PCIe generation", "{:.0f}"),
    Watched(subject=Subject.NVLINK, metric=metrics.GPU_NVLINK_UP.name, down=True,
            spread=SETTING_SPREAD, what="number of NVLinks that are down", amount="{:.0f}".format),
    _held(Subject.HEAT, "hw_thermal", "in thermal slowdown"),
    _held(Subject.HEAT, "sw_thermal", "in the driver's thermal slowdown"),
    _held(Subject.POWER, "sw_power_cap", "held at its power cap", usual=True),
    _held(Subject.POWER, "hw_power_brake", "braked by the power supply"),
    _held(Subject.CLOCK, "hw_slowdown", "slowed down by its board"),
    _errors(Subject.MEMORY, metrics.GPU_ECC_ERRORS.name, "corrected memory errors",
            'type="corrected"', without='counter="aggregate"'),
    _errors(Subject.PCIE, metrics.GPU_PCIE_REPLAY.name, "PCIe packets sent again"),
    _errors(Subject.PCIE, metrics.GPU_PCIE_RECOVERY.name, "recoveries of its PCIe link"),
    _errors(Subject.PCIE, metrics.GPU_PCIE_ERRORS.name, "PCIe errors"),
    _errors(Subject.NVLINK, metrics.GPU_NVLINK_ERRORS.name, "NVLink errors"),
    _errors(Subject.NETWORK, metrics.NET_ERRORS.name, "errors of its network devices",
            without='device="lo"', of_node=True),
    _errors(Subject.NETWORK, metrics.NET_DROPS.name, "packets dropped by its network devices",
            without='device="lo"', of_node=True, spread=DROPS),
    _errors(Subject.NETWORK, metrics.NET_PHY_ERRORS.name, "errors of its optics and NICs",
            of_node=True),
    _errors(Subject.NETWORK, metrics.IB_ERRORS.name, "InfiniBand port errors", of_node=True),
    Watched(subject=Subject.NETWORK, metric=metrics.NET_PAUSE_SECONDS.name,
            label='direction="receive"', of_node=True, counts=True, most=True, spread=THROTTLED,
            amount=_of_the_time("with a network port told to pause")),
    Watched(subject=Subject.NETWORK, metric=metrics.IB_RATE.name, of_node=True, sign=-1,
            spread=SETTING_SPREAD, relative=True, what="rate of all RDMA ports",
            amount=lambda rate: f"{8e-9 * rate:.0f} Gbit/s"),
    Watched(subject=Subject.HOST, metric=metrics.CPU_THERMAL_THROTTLED.name,
            label='level="package"', of_node=True, counts=True, spread=THROTTLED,
            amount=_of_the_time("with its CPU held back by heat")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """What deviates by being there: a count that rose, or a state.

    Attributes:
        least: Rise of the count, or the state's value, from which it is reported.
        stands: Scrapes at the end of what was recorded in which the value itself says it; 0 = it
            is a count.
        down: Whether it is so where the value is 0.
        of_node: Whether it is the node's.
        fresh: Whether a series is first reported when it has counted something.
        single, many: What happened, behind the number; of a state, behind the part's name.
    """

    subject: Subject
    metric: str
    label: str
    single: str
    many: str = ""
    least: float = 1.0
    stands: int = 0
    down: bool = False
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
          ": a memory row could not be replaced", stands=1),
    Event(Subject.MEMORY, metrics.GPU_ROW_REMAP_PENDING.name, "",
          ": memory rows wait for a reset", stands=1),
    Event(Subject.MEMORY, metrics.GPU_RETIRED_PENDING.name, "",
          ": retired memory pages wait for a reset", stands=1),
    Event(Subject.MEMORY, metrics.GPU_SRAM_THRESHOLD.name, "",
          ": uncorrectable SRAM errors call for its replacement", stands=1),
    Event(Subject.DRIVER, metrics.GPU_RECOVERY_ACTION.name, "",
          ": the driver asks for a reset or a reboot", stands=1),
    Event(Subject.GONE, metrics.GPU_UP.name, "", " does not answer its driver", stands=SHORTEST,
          down=True),
    Event(Subject.GONE, metrics.GPU_STALLED.name, "", " holds a call to its driver",
          stands=SHORTEST),
    Event(Subject.GONE, metrics.GPU_FALLEN.name, "", "fall from the PCI bus",
          "falls from the PCI bus", fresh=True),
    # Down and up again.
    Event(Subject.NETWORK, metrics.NET_CARRIER_CHANGES.name, "", "", "times a link came or went",
          least=2.0, of_node=True),
    Event(Subject.NETWORK, metrics.IB_ERRORS.name, 'kind="link_downed"',
          "time the link of an RDMA port went down", "times the link of an RDMA port went down",
          of_node=True),
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
