"""XIDs, SXIDs, GPUs that fell off the bus, other trouble; what of the kernel log was lost."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.kernel_log import TOLD
from lockstep.collector.contract.metric_rows.alerted import XID_ZEROS
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.contract.xid_catalogue.shape import Severity
from lockstep.collector.sources.gpu.xid.source import Errors, Name
from lockstep.collector.sources.host.kmsg import KernelLog


def collect(errors: Errors) -> Iterator[Sample]:
    """Counts since boot; a GPU that is lost keeps its name and its counts."""

    def who(bus_id: str) -> tuple[str, str, str]:
        gpu, uuid = errors.names.get(bus_id, Name())
        return gpu, uuid, "" if bus_id == uuid else bus_id

    for (bus_id, xid, source, severity), count in errors.xids.items():
        yield m.GPU_XID_ERRORS(count, *who(bus_id), xid, source, severity)
    yield from _zeros(errors)
    for (bus_id, xid, severity), unix in errors.last.items():
        yield m.GPU_XID_LAST(unix, *who(bus_id), xid, severity)
    for bus_id, count in errors.falls.items():
        yield m.GPU_FALLEN(count, *who(bus_id))
    for (bus_id, sxid, severity), count in errors.switches.items():
        yield m.NVSWITCH_SXID_ERRORS(count, bus_id, sxid, severity)
    yield from _troubles(errors)
    yield m.EVENTS_DROPPED(errors.dropped, "xid")


def _zeros(errors: Errors) -> Iterator[Sample]:
    """What an alert waits for and has not happened, of each GPU that has its name and a teller."""
    for place, teller in errors.tellers.items():
        gpu, uuid = errors.names.get(place, Name())
        for xid, severity in XID_ZEROS if gpu else ():
            if (place, xid, teller, severity) not in errors.xids:
                where = "" if place == uuid else place
                yield m.GPU_XID_ERRORS(0, gpu, uuid, where, xid, teller, severity)


def _troubles(errors: Errors) -> Iterator[Sample]:
    """Each that an alert counts, so that its first one is a rise; not before the log was heard."""
    if not errors.heard:
        return
    for kind, rated in TOLD:
        counted = [times for key, (times, _) in errors.troubles.items() if key[:2] == (kind, rated)]
        if counted or rated is not Severity.INFO:
            yield m.KERNEL_EVENTS(sum(counted), kind, str(rated))
    for (kind, severity, device), (_, unix) in errors.troubles.items():
        yield m.KERNEL_EVENT_LAST(unix, kind, severity, device)


def collect_log(log: KernelLog) -> Iterator[Sample]:
    """Records that were lost."""
    yield m.EVENTS_DROPPED(log.dropped, "kmsg")
    for driver, lines in log.unread.items():
        yield m.KERNEL_LINES_UNREAD(lines, driver)
