"""Counts of each error by place on the PCI bus, bounded, each event once."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from lockstep.collector.contract.kernel_log import TOGETHER
from lockstep.collector.contract.xid import PAGED, REPEATED, judged
from lockstep.collector.contract.xid_catalogue.shape import Severity
from lockstep.collector.readings.kernel import Fall, KernelEvent, SwitchError, Trouble, XidEvent

# Events that both NVML and the kernel log report.

WINDOW_SECONDS = 2.0
"""The two tell of one event at most so far apart."""
KEPT_SECONDS = 60.0
"""An event is remembered so long, because the log may be behind when it is flooded."""
MAX_REMEMBERED = 1000
"""Events of one GPU, XID and origin."""

_OTHER = {"nvml": "kmsg", "kmsg": "nvml"}


class Untwinned(NamedTuple):
    """An event whose twin has not been heard yet."""

    origin: str
    pci_bus_id: str
    xid: int
    monotonic: float


class Twins:
    """Pairs the events of two origins, each at most once and in their order.

    An event is counted at once, whichever source reports it first; its twin is absorbed.
    Repeats inside the window are events of their own, because one origin never tells twice: with
    each origin in its own order, pairing the oldest first finds every pair there is.
    """

    def __init__(self) -> None:
        self._alone: dict[tuple[str, str, int], deque[float]] = {}

    def absorbs(self, event: XidEvent) -> bool:
        """Whether the event was told by the other origin before; remembered if not."""
        others = self._alone.get((_OTHER[event.origin], event.pci_bus_id, event.xid), deque())
        while others and others[0] < event.monotonic - WINDOW_SECONDS:
            others.popleft()  # too old for this event, and so for every later one
        if others and others[0] <= event.monotonic + WINDOW_SECONDS:
            others.popleft()
            return True
        self._remember(event.origin, event.pci_bus_id, event.xid, event.monotonic)
        return False

    def forget(self, now: float) -> None:
        """Drop what is too old to have a twin still; `now` as the events' monotonic."""
        old = [
            key for key, times in self._alone.items() if not times or times[-1] < now - KEPT_SECONDS
        ]
        for key in old:
            del self._alone[key]

    def alone(self) -> Iterator[Untwinned]:
        """What a restart has to know."""
        for key, times in self._alone.items():
            for monotonic in times:
                yield Untwinned(*key, monotonic)

    def resume(self, alone: Iterable[Untwinned]) -> None:
        """Go on where an earlier process of this boot stopped."""
        for event in alone:
            self._remember(*event)

    def _remember(self, origin: str, bus: str, xid: int, monotonic: float) -> None:
        times = self._alone.setdefault((origin, bus, xid), deque(maxlen=MAX_REMEMBERED))
        times.append(monotonic)


MAX_NUMBERS = 32
"""Different XIDs (or SXIDs) of one place that are counted under their own number; those that an
alert is about always are."""
OTHER = "other"
"""The number under which all further ones are counted."""
MAX_PLACES = 64
"""GPUs and switches that are counted."""
ALERTED = frozenset(PAGED).union(*REPEATED.values())
"""XIDs that are always counted under their own number."""
MAX_TROUBLES = 256
"""Kinds of other lines by device; further devices are counted together."""
DCGM: Final = "dcgm"
"""Who tells XIDs as counts; its words are heard only where the driver's own are not."""
FELL = 79
"""The XID that says the same as a line without an XID."""


class XidKey(NamedTuple):
    """What is counted of a GPU; `source` reported it first, `severity` is by its line."""

    pci_bus_id: str
    xid: str
    source: str
    severity: str


class LastKey(NamedTuple):
    """What has a last time."""

    pci_bus_id: str
    xid: str
    severity: str


class SwitchKey(NamedTuple):
    """What is counted of an NVSwitch."""

    pci_bus_id: str
    sxid: str
    severity: str


class TroubleKey(NamedTuple):
    """What is counted of the table of lines; `device` is empty where there are too many."""

    kind: str
    severity: str
    device: str


class Falls(NamedTuple):
    """How often a GPU fell off the bus, and when it did last (monotonic)."""

    times: int
    monotonic: float


class Ledger:
    """All counts since boot.

    Attributes:
        xids: Events by key.
        last: Unix time of the last event by place, XID and severity.
        falls: By place.
        switches: SXIDs by key.
        troubles: Other lines of the kernel log by key, and when the last one was (unix).
        twins: What NVML and the kernel log have not both told yet.
        dropped: Events of more places than are counted.
    """

    def __init__(self) -> None:
        self.xids: dict[XidKey, int] = {}
        self.last: dict[LastKey, float] = {}
        self.falls: dict[str, Falls] = {}
        self.switches: dict[SwitchKey, int] = {}
        self.troubles: dict[TroubleKey, tuple[int, float]] = {}
        self.twins = Twins()
        self.dropped = 0
        self._numbers: dict[str, set[str]] = {}

    def note(self, event: KernelEvent, unix: float, times: int = 1) -> bool:
        """Count an event that happened at `unix`; whether it is the first of its kind there.

        Args:
            event: What happened.
            unix: When.
            times: How often, of XIDs that DCGM told as a count.
        """
        if isinstance(event, Trouble):
            return self._note_trouble(event, unix)
        number = self._number(event)
        if number is None:
            self.dropped += 1
            return False
        match event:
            case XidEvent():
                return self._note_xid(event, number, unix, times)
            case SwitchError(pci_bus_id=place, severity=severity):
                key = SwitchKey(place, number, severity)
                self.switches[key] = self.switches.get(key, 0) + 1
                return self.switches[key] == 1
            case Fall(pci_bus_id=place, monotonic=monotonic):
                return self._note_fall(place, monotonic)

    def resume(self, earlier: "Ledger") -> None:
        """Go on with what an earlier process of this boot has counted."""
        self.xids, self.last = earlier.xids, earlier.last
        self.falls, self.switches, self.twins = earlier.falls, earlier.switches, earlier.twins
        self.troubles = earlier.troubles
        self._numbers = {}
        for place in self.falls:
            self._numbers.setdefault(place, set())
        for place, number, *_ in (*self.xids, *self.switches):
            self._numbers.setdefault(place, set()).add(number)

    def forget_counts(self, origin: str) -> None:
        """Drop what one has told: somebody who is nearer to the driver tells the same again."""
        self.xids = {key: count for key, count in self.xids.items() if key.source != origin}

    def _note_xid(self, event: XidEvent, number: str, unix: float, times: int) -> bool:
        place = event.pci_bus_id
        if event.xid == FELL:
            self._note_fall(place, event.monotonic)
        if event.origin != DCGM and self.twins.absorbs(event):
            return False
        severity = str(judged(event.xid, event.text).severity)
        key, last = XidKey(place, number, event.origin, severity), LastKey(place, number, severity)
        self.xids[key] = self.xids.get(key, 0) + times
        first = last not in self.last
        self.last[last] = max(unix, self.last.get(last, 0.0))
        return first

    def _note_trouble(self, event: Trouble, unix: float) -> bool:
        key = TroubleKey(event.kind, str(self._rated(event, unix)), event.device)
        if key not in self.troubles and len(self.troubles) >= MAX_TROUBLES:
            key = key._replace(device="")
        times, last = self.troubles.get(key, (0, 0.0))
        self.troubles[key] = times + 1, max(unix, last)
        return times == 0

    def _rated(self, event: Trouble, unix: float) -> Severity:
        """How bad it is, beside what was told shortly before."""
        for pair in TOGETHER:
            others = pair.kinds - {event.kind}
            if event.kind in pair.kinds and any(
                key.kind in others and 0 <= unix - last <= pair.seconds
                for key, (_, last) in self.troubles.items()
            ):
                return pair.severity
        return event.severity

    def _note_fall(self, place: str, monotonic: float) -> bool:
        before = self.falls.get(place, Falls(0, -2 * WINDOW_SECONDS))
        if before.times and abs(monotonic - before.monotonic) <= WINDOW_SECONDS:
            return False  # the XID and the line say it of one fall
        self.falls[place] = Falls(before.times + 1, monotonic)
        return before.times == 0

    def _number(self, event: XidEvent | SwitchError | Fall) -> str | None:
        """The number to count it under, or None where there are too many places."""
        if event.pci_bus_id not in self._numbers and len(self._numbers) >= MAX_PLACES:
            return None
        numbers = self._numbers.setdefault(event.pci_bus_id, set())
        if isinstance(event, Fall):
            return ""
        number = str(event.xid if isinstance(event, XidEvent) else event.sxid)
        waited_for = isinstance(event, XidEvent) and event.xid in ALERTED
        full = len(numbers - {OTHER}) >= MAX_NUMBERS
        if number not in numbers and full and not waited_for:
            number = OTHER
        numbers.add(number)
        return number
