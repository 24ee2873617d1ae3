"""What is to be done to nodes, and what is to be remembered."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lockstep.collector.contract.kubernetes import Family
from lockstep.watch.node_conditions.shapes import Condition, Known, Node, Quarantine, State


@dataclass(frozen=True, slots=True)
class Write:
    """Conditions and the annotation of one node, in one patch.

    Attributes:
        node: As it was when this was decided.
        conditions: Those that are written; others stay.
        faults: All of the node.
        begun: Faults that were not written before.
        ended: Those that were, and no longer are.
    """

    node: Node
    conditions: Mapping[str, Condition]
    faults: Mapping[str, Known]
    begun: Mapping[str, Known] = field(default_factory=dict)
    ended: Mapping[str, Known] = field(default_factory=dict)

    @property
    def tells(self) -> bool:
        """Whether it is more than a heartbeat."""
        return bool(self.begun or self.ended)


@dataclass(frozen=True, slots=True)
class Taint:
    """Our taint comes to a node."""

    node: Node
    family: Family
    quarantine: Quarantine


@dataclass(frozen=True, slots=True)
class Release:
    """Our taint leaves a node."""

    node: Node
    quarantine: Quarantine


Action = Write | Taint | Release


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done, and what is to be remembered.

    Attributes:
        actions: At most one Write, and one Taint or Release, a node.
        state: For the next decision.
        held: Why no finding is written, at most that silent nodes are Unknown; empty = it may be.
        skipped: Node -> why it is not quarantined although it should be.
    """

    actions: tuple[Action, ...]
    state: State
    held: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)
