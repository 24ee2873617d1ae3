"""A cluster in a dictionary: faults come and go, humans interfere, decisions are carried out."""

import random
from dataclasses import dataclass, field, replace

from lockstep.collector.contract.kubernetes import HEALTHY
from lockstep.watch.kubernetes.decide import decide
from lockstep.watch.kubernetes.shapes import (
    Breaker,
    Decision,
    Fault,
    Node,
    Release,
    Settings,
    State,
    Status,
    Taint,
    WatchState,
    Write,
)

CAUSES = ("xid", "ecc", "thermal", "nvlink", "link", "host-cpu", "unknown")
START = 1_800_000_000.0


def fault(cause: str, number: int = 0, run: str = "") -> Fault:
    return Fault(f"{cause}-{number}", cause, run, gpu="3")


def nodes(count: int) -> list[Node]:
    return [
        Node(f"n{number}", f"uid-{number}", "1", rack=f"r{number // 4}") for number in range(count)
    ]


def told(
    now: float, names: list[str], faults: dict[str, tuple[Fault, ...]] | None = None
) -> WatchState:  # fmt: skip
    return WatchState(now, 1.0, True, dict.fromkeys(names, now), faults or {}, frozenset(names))


def applied(node: Node, decision: Decision) -> Node:
    """The node after what was decided about it."""
    for action in decision.actions:
        if action.node.name != node.name:
            continue
        if isinstance(action, Write):
            merged = {**node.conditions, **action.conditions}
            node = replace(node, conditions=merged, faults=action.faults)
        elif isinstance(action, Taint):
            node = replace(node, tainted=True, ours=True, quarantine=action.quarantine)
        elif isinstance(action, Release):
            node = replace(node, tainted=False, ours=False, quarantine=action.quarantine)
    return node


@dataclass
class World:
    """What happens to some nodes, by chance.

    Attributes:
        owners: Node -> who put the taint with our key there.
        quarantined: When we did, of all times.
    """

    chance: random.Random
    settings: Settings
    nodes: dict[str, Node]
    now: float = START
    state: State = field(default_factory=State)
    faults: dict[str, dict[str, Fault]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    owners: dict[str, str] = field(default_factory=dict)
    quarantined: list[float] = field(default_factory=list)
    answered: bool = True
    paused: str = ""
    dark: frozenset[str] = frozenset()

    def look(self, seconds: float) -> Decision:
        """Time passes, and a decision is made and carried out; checks what must always hold."""
        self.now += seconds
        heard = [name for name in self.nodes if name not in self.silent]
        page = WatchState(
            self.now, 1.0, self.answered, dict.fromkeys(heard, self.now),
            {name: tuple(each.values()) for name, each in self.faults.items()},
            frozenset(heard) - self.dark,
        )  # fmt: skip
        before, was_open = list(self.nodes.values()), self.state.breaker.open
        settings = replace(self.settings, paused=self.paused)
        decision = decide(before, page, self.state, self.now, settings)
        self._check(decision, before, was_open)
        self.state = decision.state
        self.nodes = {node.name: applied(node, decision) for node in before}
        self._check_after(decision)
        return decision

    def restart(self) -> None:
        """All is lost but the nodes and the lease."""
        self.state = State(breaker=self.state.breaker)

    def reset(self) -> None:
        """A human closes the breaker."""
        self.state = replace(self.state, breaker=Breaker(False, self.now, "reset"))

    def step(self) -> None:
        """Something happens."""
        name = self.chance.choice(list(self.nodes))
        node = self.nodes[name]
        what = self.chance.randrange(20)
        if what < 7:
            one = fault(self.chance.choice(CAUSES), self.chance.randrange(3),
                        self.chance.choice(("", "a", "b")))  # fmt: skip
            self.faults.setdefault(name, {})[one.id] = one
        elif what < 12:
            self.faults.pop(name, None)
        elif what == 12:
            self.silent ^= {name}
        elif what == 13:
            self.nodes[name] = replace(node, away=not node.away)
        elif what == 14 and self.owners.get(name) == "us":
            del self.owners[name]  # a human takes our taint away, and leaves the annotation
            self.nodes[name] = replace(node, tainted=False, ours=False)
        elif what == 15 and not node.tainted:
            self.owners[name] = "a human"
            self.nodes[name] = replace(node, tainted=True)
        elif what == 16:
            self.restart()
        elif what == 17:
            self.answered = not self.answered
        elif what == 18:
            self.paused = "" if self.paused else "paused: maintenance"
        elif what == 19 and self.chance.random() < 0.3:
            for each in self.nodes:
                self.faults.setdefault(each, {})["xid-9"] = fault("xid", 9)

    def _check(self, decision: Decision, before: list[Node], was_open: bool) -> None:
        if was_open:
            assert decision.state.breaker.open, "a breaker closed itself"
        if decision.state.breaker.open or self.paused or not self.answered:
            assert () == decision.actions, "something was done although it was held"
        for action in decision.actions if decision.held else ():
            assert isinstance(action, Write)
            assert not action.tells
            assert {Status.UNKNOWN} == {one.status for one in action.conditions.values()}
            assert action.node.name in self.silent, "Unknown, of a node that is heard"
        known = {node.name: node for node in before}
        for action in decision.actions:
            assert known[action.node.name] == action.node
            if isinstance(action, Write) and self.faults.get(action.node.name):
                healthy = action.conditions.get(HEALTHY)
                assert healthy is None or healthy.status is not Status.TRUE, "a fault is told"
            if isinstance(action, Release):
                assert "us" == self.owners.get(action.node.name), "released what was not ours"
                del self.owners[action.node.name]
            if isinstance(action, Taint):
                assert not action.node.tainted
                assert not action.node.away
                self.owners[action.node.name] = "us"
                self.quarantined.append(self.now)

    def _check_after(self, decision: Decision) -> None:
        settings, nodes = self.settings, self.nodes.values()
        if any(isinstance(action, Taint) for action in decision.actions):
            most = min(max(1, int(settings.share * len(self.nodes))), settings.cap)
            # A node that is released and away for another reason is counted below.
            released = sum(
                isinstance(action, Release) and not action.node.away for action in decision.actions
            )
            assert sum(node.away or node.tainted for node in nodes) + released <= most
        recent = [one for one in self.quarantined if self.now - one < settings.new_seconds]
        assert len(recent) <= settings.new, "too many in too short a time"
        for node in nodes:
            if self.owners.get(node.name) == "us":
                assert node.ours
                assert node.quarantine.since is not None, "a taint without its owner's note"
