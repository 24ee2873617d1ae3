"""Alerts about lines of the kernel log without an XID."""

from tests.deploy.cases.shape import Case, page


def _count(kind: str, severity: str, pod: str = "c-1") -> str:
    return page("lockstep_kernel_events_total", kind=kind, severity=severity, pod=pod)


def _last(device: str, severity: str = "fatal", pod: str = "c-1") -> str:
    return page(
        "lockstep_kernel_event_last_timestamp_seconds", kind="nic_health", severity=severity,
        device=device, pod=pod,
    )  # fmt: skip


HEALTH = {"node": "a", "kind": "nic_health"}

FATAL = Case(
    "KernelEventFatal", HEALTH, "a: the kernel logged nic_health, fatal",
    {
        "count": (_count("nic_health", "fatal"), "0x200"), "last": (_last("0000:05:00.0"), "_x200"),
        "other": (_last("0000:06:00.0"), "_x200"), "info": (_count("nic_health", "info"), "0x200"),
        "info last": (_last("0000:05:00.0", "info"), "_x200"),
        "next pod": (_count("nic_health", "fatal", "c-2"), "_x200"),
        "next last": (_last("0000:05:00.0", pod="c-2"), "_x200"),
    },
    fires=[({"count": "0x8 1x60", "last": "_x9 120x60"}, "-1m45s +2m15s")],
    silent=[({}, "-10m"), ({"info": "0x8 1x60", "info last": "_x9 120x60"}, "-2m15s -5m")],
    boundary=[({"count": "5x100"}, "-8m"), ({"count": "5x8 6x60"}, "-2m +2m15s")],
    clears=[({"count": "0x8 1x60", "last": "_x9 120x60"}, "+5m -9m")],
    more={
        "a line while nobody scraped is told": (
            {"count": "0x20 _x80 1x60", "last": "_x101 900x60"}, "-25m +25m45s -32m",
        ),
        "a second device is told too": (
            {"count": "1x60 2x60", "last": "5x120", "other": "_x60 900x60"}, "-14m +16m -22m",
        ),
        "an old line with another pod after a roll-out is no new one": (
            {"count": "3x40 stale", "last": "5x40 stale", "next pod": "_x44 3x80",
             "next last": "_x44 5x80"},
            "-12m -20m -25m",
        ),
    },
)  # fmt: skip

WARNING = Case(
    "KernelEventWarning",
    {"node": "a", "kind": "oom"},
    "a: the kernel logged oom",
    {"count": (_count("oom", "warning"), "0x400"), "info": (_count("pcie_aer", "info"), "0x400")},
    fires=[({"count": "0x8 1x300"}, "-2m +4m")],
    silent=[({}, "-10m"), ({"info": "0x8 1x300"}, "-4m -10m")],
    boundary=[({"count": "5x400"}, "-8m"), ({"count": "5x8 6x300"}, "-2m15s +4m")],
    clears=[({"count": "0x8 1x400"}, "+50m -1h5m")],
)

CASES = (FATAL, WARNING)
