"""XID events of GPUs, SXIDs of switches and other trouble of the kernel log, each counted once.

NVML and the kernel log tell of most XIDs both; where neither is heard, DCGM's counts stand in.
`_total` counts from boot: what the log of this boot still holds when the collector first starts is
counted too, and with a state folder a restarted collector goes on where the one before stopped.
"""

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from lockstep.collector.clock import Clock
from lockstep.collector.contract.kernel_log import KINDS
from lockstep.collector.contract.xid import BY_LINE, describe, judged
from lockstep.collector.contract.xid_catalogue.shape import Severity
from lockstep.collector.readings.gpu import Gpu
from lockstep.collector.readings.kernel import (
    Fall,
    KernelEvent,
    KernelEvents,
    SwitchError,
    Trouble,
    XidEvent,
    pci_bus_id,
)
from lockstep.collector.sources.gpu.xid.dcgm_counts import DcgmCounts, place_of, tells
from lockstep.collector.sources.gpu.xid.ledger import (
    DCGM,
    WINDOW_SECONDS,
    Falls,
    LastKey,
    Ledger,
    SwitchKey,
    TroubleKey,
    Untwinned,
    XidKey,
)

LOG = logging.getLogger(__name__)


class Log(Protocol):
    """The kernel log."""

    def available(self) -> bool:
        """Whether it can be read."""
        ...

    def why_not(self) -> str:
        """What is missing."""
        ...

    def take(self) -> KernelEvents:
        """What was heard since the last call."""
        ...

    def resume(self, sequence: int) -> None:
        """Go on behind this record."""
        ...


class Name(NamedTuple):
    """What a GPU is called on the page; empty where no source of GPUs has told yet."""

    gpu: str = ""
    uuid: str = ""


class Told(NamedTuple):
    """One event with the name of its GPU; both are empty where it is about none, or none known."""

    event: KernelEvent
    gpu: str = ""
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Errors:
    """Counts since boot, by place on the PCI bus.

    Attributes:
        names: Of GPUs, also of those that are lost by now.
        xids: Events.
        last: Unix time of the last event, by place, XID and severity.
        falls: How often a GPU fell off the bus.
        switches: SXIDs.
        troubles: Other lines of the kernel log: how often, and when last (unix).
        dropped: Events of more places than are counted, since the start.
        tellers: Who would tell of an XID of a GPU, by place: what is not counted is 0 there.
        heard: Whether the kernel log was heard at all: what it did not tell is 0 then.
    """

    names: dict[str, Name]
    xids: dict[XidKey, int]
    last: dict[LastKey, float]
    falls: dict[str, int]
    switches: dict[SwitchKey, int]
    troubles: dict[TroubleKey, tuple[int, float]]
    dropped: int
    tellers: dict[str, str]
    heard: bool


class Xids:
    """Source of Errors.

    Args:
        clock: Dates the events.
        log: The kernel log, or None if it is not wanted.
        driver: Events that NVML told since the last call.
        gpus: The GPUs as last read; the same tuple as before where nothing was read since.
        source: Who read them.
    """

    name = "xid"

    def __init__(
        self,
        clock: Clock,
        log: Log | None,
        driver: Callable[[], Iterable[XidEvent]],
        gpus: Callable[[], Sequence[Gpu]],
        source: Callable[[], str] = lambda: NVML,
    ) -> None:
        self._clock, self._log, self._driver, self._gpus = clock, log, driver, gpus
        self._source = source
        self._dcgm = DcgmCounts()
        self._lock = threading.Lock()
        self._ledger = Ledger()
        self._names: dict[str, Name] = {}
        self._sequence: int | None = None
        self._held: list[XidEvent] = []
        self._told: deque[KernelEvent] = deque(maxlen=MAX_TOLD)

    def available(self) -> bool:
        """Whether there is someone to tell of errors."""
        return self._has_log() or any(self._told_of(gpu) for gpu in self._gpus())

    def why_not(self) -> str:
        """What is missing."""
        log = "the kernel log is not wanted" if self._log is None else self._log.why_not()
        if self._gpus():
            return f"{log}; and {self._source()} reports no XIDs: it lacks DCGM_FI_DEV_XID_ERRORS"
        return f"{log}; and NVML sees no GPU that answers"

    def read(self) -> Errors:
        """Everything that was told since boot, as far as it could be heard."""
        with self._lock:
            heard = KernelEvents((), None) if self._log is None else self._log.take()
            now, wall = self._clock.monotonic(), self._clock.wall()
            self._learn_names()
            events = (*heard.events, *self._not_held(self._driver(), now))
            for event in sorted(events, key=lambda one: one.monotonic):
                self._told.append(event)
                if isinstance(event, XidEvent) and event.uuid:
                    self._names.setdefault(event.pci_bus_id, Name("", event.uuid))
                if self._ledger.note(event, wall - max(now - event.monotonic, 0.0)):
                    self._tell(event)
            if heard.sequence is not None:
                self._sequence = heard.sequence
            self._count_by_dcgm(now, wall)
            if heard.sequence is not None or not self._has_log():
                self._ledger.twins.forget(now)  # before, all of the log may still tell its half
            return self._errors()

    def recent(self) -> tuple[Told, ...]:
        """The last events since the start, oldest first; NVML and the log may both tell of one."""
        with self._lock:
            return tuple(Told(event, *self._name(event)) for event in self._told)

    def memory(self) -> dict[str, Any]:
        """What a restart has to know, for the state folder: counts and place in the log fit."""
        with self._lock:
            counts = written(self._ledger, self._names, self._sequence)
            return counts | {DCGM: self._dcgm.memory()}

    def recall(self, tree: Any) -> None:
        """Go on with the memory of an earlier process of this boot; call before `read`.

        Raises:
            ValueError: It is not a memory.
        """
        earlier, names, sequence = read(tree)
        with self._lock:
            self._dcgm.recall(tree.get(DCGM, []))
            self._ledger.resume(earlier)
            self._names = {place: Name(*name) for place, name in names.items()}
            if sequence is not None and self._log is not None:
                self._log.resume(sequence)
                self._sequence = sequence

    def _not_held(self, driver: Iterable[XidEvent], now: float) -> list[XidEvent]:
        """Events of NVML, those that only a line rates after the time in which it comes.

        NVML tells the number alone. Where the log tells the event too, its line is counted, and
        the event is its twin.
        """
        waits = now - WINDOW_SECONDS if self._has_log() else math.inf
        xid_events: list[XidEvent] = []
        held: list[XidEvent] = []
        for event in (*self._held, *driver):
            rated = event.xid not in BY_LINE or event.monotonic < waits
            (xid_events if rated else held).append(event)
        self._held = held[:MAX_HELD]
        return xid_events + held[MAX_HELD:]

    def _count_by_dcgm(self, now: float, wall: float) -> None:
        """Count what DCGM's counts tell, where the driver itself is not heard.

        What stood when a GPU was first looked at happened since boot: it has that time, so
        that a restart tells nothing anew.
        """
        gpus = self._gpus() if self._source().startswith(DCGM) else ()
        rises = list(self._dcgm.rises(gpus))
        if self._hears_driver():
            self._ledger.forget_counts(DCGM)
            return
        for place, index, uuid, xid, times, before in rises:
            self._names.setdefault(place, Name(index, uuid))
            event = XidEvent(0.0 if before else now, place, xid, DCGM, uuid=uuid)
            if not before:
                self._told.append(event)
            if self._ledger.note(event, wall - now if before else wall, times):
                self._tell(event)

    def _hears_driver(self) -> bool:
        return self._sequence is not None and self._has_log()

    def _told_of(self, gpu: Gpu) -> bool:
        """Whether an XID of a GPU would be told: of DCGM's sources only if they tell the field."""
        return not self._source().startswith(DCGM) or tells(gpu)

    def _tellers(self) -> dict[str, str]:
        if self._has_log():
            # Before all of the log is heard: what it still holds would be a rise then.
            return dict.fromkeys(self._names, NVML) if self._sequence is not None else {}
        if not self._source().startswith(DCGM):
            return dict.fromkeys(self._names, NVML)
        return {place_of(gpu): DCGM for gpu in self._gpus() if tells(gpu)}

    def _name(self, event: KernelEvent) -> Name:
        place = event.device if isinstance(event, Trouble) else event.pci_bus_id
        return self._names.get(place, Name())

    def _has_log(self) -> bool:
        return self._log is not None and self._log.available()

    def _learn_names(self) -> None:
        # A GPU that answers has the name of its place before a lost one that was there.
        for gpu in sorted(self._gpus(), key=lambda gpu: gpu.up):
            place = pci_bus_id(gpu.info.get("pci_bus_id", ""))
            if place is not None and not gpu.is_mig and gpu.uuid:
                self._names[place] = Name(str(gpu.index), gpu.uuid)

    def _errors(self) -> Errors:
        ledger = self._ledger
        return Errors(
            names=dict(self._names),
            xids=dict(ledger.xids),
            last=dict(ledger.last),
            falls={place: falls.times for place, falls in ledger.falls.items()},
            switches=dict(ledger.switches),
            troubles=dict(ledger.troubles),
            dropped=ledger.dropped,
            tellers=self._tellers(),
            heard=self._hears_driver(),
        )

    def _tell(self, event: KernelEvent) -> None:
        """Log the first event of its kind, in words."""
        if isinstance(event, Trouble):
            self._tell_trouble(event)
            return
        gpu = self._names.get(event.pci_bus_id, Name()).gpu
        where = f"GPU {gpu} at {event.pci_bus_id}" if gpu else f"GPU at {event.pci_bus_id}"
        match event:
            case XidEvent(xid=number, text=text):
                row, said = describe(number), judged(number, text)
                advice = f"{row.advice} ({said.action})" if said.action else row.advice
                fault = said.fault if said.caused_by is None else f"after XID {said.caused_by}"
                LOG.warning(
                    "%s: XID %d, %s (%s, %s). %s%s (counted from now on, not logged again)",
                    where, number, row.text, said.severity, fault, advice,
                    f" Log: {text}" if text else "",
                )  # fmt: skip
            case Fall():
                LOG.warning("%s has fallen off the bus, says the kernel log", where)
            case SwitchError(sxid=number, severity=severity):
                LOG.warning("NVSwitch at %s: SXID %d, %s", event.pci_bus_id, number, severity)

    def _tell_trouble(self, event: Trouble) -> None:
        kind = KINDS[event.kind]
        LOG.warning(
            "%s%s (%s). %s Log: %s (counted from now on, not logged again)",
            f"{event.device}: " if event.device else "", kind.text, event.severity, kind.advice,
            event.text,
        )  # fmt: skip


NVML = "nvml"
"""The source of XIDs that have not happened: alerts add up all sources, so one is enough."""
MAX_TOLD = 256
"""Events that are kept as they were told; counts keep all."""
MAX_HELD = 1000
"""Events of NVML that wait for their line; further ones are counted as the catalogue rates them."""
Names = Mapping[str, tuple[str, str]]


def written(ledger: Ledger, names: Names, sequence: int | None) -> dict[str, Any]:
    """The counts as JSON values, and the record of the kernel log up to which they go."""
    return {
        "sequence": sequence,
        "names": [[place, *name] for place, name in names.items()],
        "xids": [[*key, count] for key, count in ledger.xids.items()],
        "last": [[*key, unix] for key, unix in ledger.last.items()],
        "falls": [[place, *falls] for place, falls in ledger.falls.items()],
        "switches": [[*key, count] for key, count in ledger.switches.items()],
        "troubles": [[*key, *told] for key, told in ledger.troubles.items()],
        "untwinned": [list(one) for one in ledger.twins.alone()],
    }


def read(tree: Any) -> tuple[Ledger, dict[str, tuple[str, str]], int | None]:
    """What `written` was given.

    Raises:
        ValueError: It is not of this form.
    """
    ledger = Ledger()
    try:
        sequence = None if tree["sequence"] is None else _count(tree["sequence"])
        names = {_word(place): (_word(gpu), _word(uuid)) for place, gpu, uuid in tree["names"]}
        for place, xid, *more in tree["xids"]:
            source, severity, count = more if len(more) == 3 else (more[0], _rated(xid), more[1])
            key = XidKey(_word(place), _word(xid), _word(source), _word(severity))
            ledger.xids[key] = _count(count)
        for place, xid, *more in tree["last"]:
            severity, unix = more if len(more) == 2 else (_rated(xid), more[0])
            ledger.last[LastKey(_word(place), _word(xid), _word(severity))] = _seconds(unix)
        for place, count, monotonic in tree["falls"]:
            ledger.falls[_word(place)] = Falls(_count(count), _seconds(monotonic))
        for place, sxid, severity, count in tree["switches"]:
            ledger.switches[SwitchKey(_word(place), _word(sxid), _word(severity))] = _count(count)
        for kind, severity, device, count, unix in tree.get("troubles", ()):
            trouble = TroubleKey(_word(kind), _word(severity), _word(device))
            ledger.troubles[trouble] = _count(count), _seconds(unix)
        ledger.twins.resume(
            Untwinned(_origin(origin), _word(place), _count(xid), _seconds(monotonic))
            for origin, place, xid, monotonic in tree["untwinned"]
        )
    except (KeyError, IndexError, AttributeError, TypeError) as error:
        raise ValueError(f"it is not what was written: {error!r}") from error
    return ledger, names, sequence


def _rated(xid: Any) -> str:
    """The severity of a count that was written before counts had one."""
    number = _word(xid)
    return str(describe(int(number)).severity if number.isdecimal() else Severity.WARNING)


def _word(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 128:
        raise ValueError(f"{value!r} is not a word")
    return value


def _origin(value: Any) -> str:
    if value not in ("nvml", "kmsg"):
        raise ValueError(f"{value!r} is neither nvml nor kmsg")
    return str(value)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a time")
    return float(value)
