"""XIDs as DCGM tells them: not as events, but as counts and as the last one, again and again.

dcgm-exporter's own counts begin anew with it. The field XID_ERRORS keeps the last XID of a GPU
until there is another or the host engine is restarted: a repeat of the same cannot be seen there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.gpu import XID_TOTAL, XID_VALUES, XID_WINDOW, Gpu
from lockstep.collector.readings.kernel import pci_bus_id

LAST = m.GPU_LAST_XID.name
LAPSE_READINGS = 2
"""Readings without a count, after which it begins anew: an exporter that was restarted tells a
count from its first event on, and one page may be short of it. A count that comes later than that
after the last XID is of another event."""
MAX_PLACES = 64
"""GPUs whose counts are remembered."""


class Rise(NamedTuple):
    """New XIDs of a GPU.

    Attributes:
        place: On the PCI bus, or the GPU's uuid where that is not told.
        gpu: The driver's number of the GPU.
        uuid: Of the GPU, also where a MIG device told.
        xid: NVIDIA's number.
        times: How many, at least.
        before: They stood when the GPU was first looked at, or when it first told its last XID:
            when they were, nobody knows. A count of a GPU that was seen without it is new.
    """

    place: str
    gpu: str
    uuid: str
    xid: int
    times: int
    before: bool


@dataclass(slots=True)
class _Told:
    """The last reading of a GPU: counts by XID, the last XIDs, and readings without a count.

    Attributes:
        last: 0 is none; empty where the last XID was never told.
        ahead: By XID that the last XID alone reported, the readings since; its count may be late.
    """

    total: dict[int, int] = field(default_factory=dict)
    window: dict[int, int] = field(default_factory=dict)
    last: frozenset[int] = frozenset()
    missed: Counter[int] = field(default_factory=Counter)
    ahead: dict[int, int] = field(default_factory=dict)


class DcgmCounts:
    """What is new of the counts, reading by reading."""

    def __init__(self) -> None:
        self._known: dict[str, _Told] = {}
        self._read: Sequence[Gpu] = ()

    def rises(self, gpus: Sequence[Gpu]) -> Iterator[Rise]:
        """The XIDs that this reading tells and none before; a reading that was seen tells none."""
        if gpus is self._read:
            return
        self._read = gpus
        for place, devices in _by_place(gpus).items():
            before = self._known.get(place)
            if before is None and len(self._known) >= MAX_PLACES:
                continue
            if not any(map(tells, devices)):
                self._known.setdefault(place, _Told())
                continue
            now = self._known[place] = _together(devices, before or _Told())
            index, uuid = str(devices[0].index), devices[0].info.get("parent", devices[0].uuid)
            for xid, times, undated in _new(before or _Told(), now):
                yield Rise(place, index, uuid, xid, times, before is None or undated)

    def memory(self) -> list[list[Any]]:
        """What a restart has to know, as JSON values."""
        return [
            [place, _pairs(told.total), _pairs(told.window), sorted(told.last)]
            for place, told in self._known.items()
        ]

    def recall(self, tree: Any) -> None:
        """Go on with the memory of an earlier process.

        Raises:
            ValueError: It is not a memory.
        """
        try:
            self._known = {
                str(place): _Told(_counts(total), _counts(window), frozenset(map(int, last)))
                for place, total, window, last in tree[:MAX_PLACES]
            }
        except (TypeError, AttributeError, KeyError, OverflowError) as error:
            raise ValueError(f"it is not what was written: {error!r}") from error


def tells(gpu: Gpu) -> bool:
    """Whether XIDs of this GPU would be told here."""
    return not XID_VALUES.isdisjoint(gpu.values)


def place_of(gpu: Gpu) -> str:
    """Where a GPU, or that of a MIG device, is counted."""
    return pci_bus_id(gpu.info.get("pci_bus_id", "")) or gpu.info.get("parent", gpu.uuid)


def _by_place(gpus: Iterable[Gpu]) -> dict[str, list[Gpu]]:
    """GPUs, also those that are lost; a MIG device tells the XIDs of its GPU."""
    by_place: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        if place_of(gpu):
            by_place.setdefault(place_of(gpu), []).append(gpu)
    return by_place


def _together(devices: Iterable[Gpu], before: _Told) -> _Told:
    """What a GPU's devices tell, and of counts that are missing what they were."""
    total: dict[int, int] = {}
    window: dict[int, int] = {}
    last: set[int] = set()
    for gpu in devices:
        for word, counts in ((XID_TOTAL, total), (XID_WINDOW, window)):
            for xid, count in gpu.values.get(word, {}).items():
                counts[int(xid)] = max(int(count), counts.get(int(xid), 0))
        if (number := gpu.value(LAST)) is not None:
            last.add(int(number))
    missed: Counter[int] = Counter()
    for gone in {*before.total, *before.window} - {*total, *window}:
        missed[gone] = before.missed[gone] + 1
        if missed[gone] < LAPSE_READINGS:
            total |= {gone: before.total[gone]} if gone in before.total else {}
            window |= {gone: before.window[gone]} if gone in before.window else {}
    ahead = {xid: age + 1 for xid, age in before.ahead.items() if age + 1 < LAPSE_READINGS}
    return _Told(total, window, frozenset(last) or before.last, missed, ahead)


def _new(before: _Told, now: _Told) -> Iterator[tuple[int, int, bool]]:
    """XIDs, how many are new, and whether they may be older than the reading.

    What two of the three tell counts once.
    """
    for xid in {*now.total, *now.window, *(now.last - before.last)} - {0}:
        was, counted = before.total.get(xid, 0), now.total.get(xid)
        if counted is not None:
            rise = counted - was if counted >= was else counted
        elif xid in now.window:
            rise = max(now.window[xid] - before.window.get(xid, 0), 0)
        else:
            now.ahead[xid] = 0
            yield xid, 1, not before.last
            continue
        if rise and now.ahead.pop(xid, None) is not None:
            rise -= 1
        if rise:
            yield xid, rise, False


def _counts(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    return {int(xid): int(count) for xid, count in pairs}


def _pairs(counts: Mapping[int, int]) -> list[list[int]]:
    return [[xid, count] for xid, count in counts.items()]
