"""XIDs, SXIDs and GPUs that fell off the bus; and what of the kernel log was lost."""

from collections.abc import Iterator

from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.sources.kmsg import KernelLog
from collector.sources.xid import Errors, Name


def collect(errors: Errors) -> Iterator[Sample]:
    """Counts since boot; a GPU that is lost keeps its name and its counts."""

    def who(place: str) -> tuple[str, str, str]:
        gpu, uuid = errors.names.get(place, Name())
        return gpu, uuid, place

    for (place, xid, source), count in errors.xids.items():
        yield m.GPU_XID_ERRORS(count, *who(place), xid, source)
    for (place, xid), unix in errors.last.items():
        yield m.GPU_XID_LAST(unix, *who(place), xid)
    for place, count in errors.falls.items():
        yield m.GPU_FALLEN(count, *who(place))
    for (place, sxid, severity), count in errors.switches.items():
        yield m.NVSWITCH_SXID_ERRORS(count, place, sxid, severity)
    yield m.EVENTS_DROPPED(errors.dropped, "xid")


def collect_log(log: KernelLog) -> Iterator[Sample]:
    """Records that were lost."""
    yield m.EVENTS_DROPPED(log.dropped, "kmsg")
