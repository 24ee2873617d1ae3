"""XIDs, SXIDs and GPUs that fell off the bus; and what of the kernel log was lost."""

from collections.abc import Iterator

from collector.contract import metrics as m
from collector.contract.alerted import XIDS
from collector.contract.metrics import Sample
from collector.sources.kmsg import KernelLog
from collector.sources.xid import Errors, Name

ZERO_FROM = "nvml"
"""Who tells of XIDs that nobody has told of: alerts add up both, so one of them is enough."""


def collect(errors: Errors) -> Iterator[Sample]:
    """Counts since boot; a GPU that is lost keeps its name and its counts."""

    def who(place: str) -> tuple[str, str, str]:
        gpu, uuid = errors.names.get(place, Name())
        return gpu, uuid, place

    for (place, xid, source), count in errors.xids.items():
        yield m.GPU_XID_ERRORS(count, *who(place), xid, source)
    yield from _zeros(errors)
    for (place, xid), unix in errors.last.items():
        yield m.GPU_XID_LAST(unix, *who(place), xid)
    for place, count in errors.falls.items():
        yield m.GPU_FALLEN(count, *who(place))
    for (place, sxid, severity), count in errors.switches.items():
        yield m.NVSWITCH_SXID_ERRORS(count, place, sxid, severity)
    yield m.EVENTS_DROPPED(errors.dropped, "xid")


def _zeros(errors: Errors) -> Iterator[Sample]:
    """What an alert waits for and has not happened, of each GPU that has its name.

    Not before the log is heard: what it still holds would be a rise then.
    """
    if not errors.whole:
        return
    for place, name in errors.names.items():
        for xid in XIDS if name.gpu else ():
            if (place, xid, ZERO_FROM) not in errors.xids:
                yield m.GPU_XID_ERRORS(0, *name, place, xid, ZERO_FROM)


def collect_log(log: KernelLog) -> Iterator[Sample]:
    """Records that were lost."""
    yield m.EVENTS_DROPPED(log.dropped, "kmsg")
