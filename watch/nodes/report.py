"""What one cycle found, as a table."""

from collections.abc import Iterable, Sequence

from lockstep.collector.contract.kubernetes import HEALTHY
from lockstep.terminal.output import grid
from lockstep.watch.node_conditions.actions import Decision, Write
from lockstep.watch.node_conditions.conditions import value
from lockstep.watch.node_conditions.shapes import Node, WatchState
from lockstep.watch.nodes.loop import describe_write


def lines(nodes: Sequence[Node], decision: Decision, told: WatchState | None) -> Iterable[str]:
    """A row for each node that may be touched; names come from the API, texts are printable."""
    writes = {one.node.name: one for one in decision.actions if isinstance(one, Write)}
    rows = [_row(node, writes.get(node.name), told) for node in nodes]
    return grid(("node", "healthy", "faults", "what is new"), rows).splitlines()


def _row(node: Node, write: Write | None, told: WatchState | None) -> tuple[str, str, str, str]:
    conditions = {**node.conditions, **(write.conditions if write is not None else {})}
    healthy = conditions[HEALTHY].status.value if HEALTHY in conditions else "not written"
    open_now = () if told is None else told.faults.get(node.name, ())
    known = node.faults if write is None else write.faults
    faults = {one.id: value(one) for one in open_now} | {
        name: one.value for name, one in known.items()
    }
    return node.name, healthy, "; ".join(sorted(faults.values())) or "none", _new(write)


def _new(write: Write | None) -> str:
    if write is None:
        return "nothing"
    return describe_write(write) or "conditions"
