"""All groups of alert rules, in the order of the file."""

from dataclasses import replace

from lockstep.analyzer.rules.alert_rules import (
    gpu,
    kernel,
    links,
    memory,
    monitor,
    ports,
    training,
    xid,
)
from lockstep.analyzer.rules.alert_rules.shape import Alert, Group, Recording
from lockstep.collector.contract.metrics import PENDING

WRITTEN = (
    Group("lockstep-gpu", (*xid.XID, *gpu.STATE, *memory.MEMORY)),
    Group("lockstep-links", (*links.NVLINK, *links.PCIE, *ports.PORT)),
    # They read half a day and more: once a minute is enough, and a fifteenth of the cost.
    Group("lockstep-day", (*xid.DAY, *ports.FLAPPING), interval="1m"),
    Group("lockstep-kernel", kernel.KERNEL),
    Group("lockstep-training", training.TRAINING),
    Group("lockstep-monitor", monitor.MONITOR),
)
"""Every rule, with those whose series this version does not export."""


def rendered(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups without alerts that can never fire: they need a series that is pending."""
    return tuple(
        replace(
            group,
            rules=tuple(
                rule
                for rule in group.rules
                if isinstance(rule, Recording) or rule.needs.isdisjoint(PENDING)
            ),
        )
        for group in groups
    )


def alerts(groups: tuple[Group, ...]) -> tuple[Alert, ...]:
    """The alerts of groups."""
    return tuple(rule for group in groups for rule in group.rules if isinstance(rule, Alert))


GROUPS = rendered(WRITTEN)
"""What is in the rule files."""
ALERTS = alerts(GROUPS)
"""Every alert that Prometheus raises."""
