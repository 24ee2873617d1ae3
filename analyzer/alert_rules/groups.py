"""All groups of alert rules, in the order of the file."""

from analyzer.alert_rules import gpu, kernel, links, memory, monitor, ports, training, xid
from analyzer.alert_rules.shape import Alert, Group

GROUPS = (
    Group("lockstep-gpu", (*xid.XID, *gpu.STATE, *memory.MEMORY)),
    Group("lockstep-links", (*links.NVLINK, *links.PCIE, *ports.PORT)),
    # They read half a day and more: once a minute is enough, and a fifteenth of the cost.
    Group("lockstep-day", (*xid.DAY, *ports.FLAPPING), interval="1m"),
    Group("lockstep-kernel", kernel.KERNEL),
    Group("lockstep-training", training.TRAINING),
    Group("lockstep-monitor", monitor.MONITOR),
)
ALERTS: tuple[Alert, ...] = tuple(
    rule for group in GROUPS for rule in group.rules if isinstance(rule, Alert)
)
"""Every alert that Prometheus raises."""
