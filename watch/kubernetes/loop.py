"""Cycle after cycle: what watch says, what the nodes say, what is decided, what is written."""

import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Protocol

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.kubernetes import NAMESPACE
from lockstep.collector.contract.metrics import Sample
from lockstep.terminal.output import bug
from lockstep.watch.kubernetes import view
from lockstep.watch.kubernetes.applying import Nodes, Result, carried_out, events
from lockstep.watch.kubernetes.decide import decide
from lockstep.watch.kubernetes.election import Lead, Leases
from lockstep.watch.kubernetes.shapes import (
    ApiError,
    Breaker,
    Decision,
    LacksRightError,
    Mode,
    Node,
    State,
    WatchState,
    Write,
)
from lockstep.watch.kubernetes.shapes import Settings as Rules
from lockstep.watch.kubernetes.watch_page import WatchError

LOG = logging.getLogger(__name__)
PAUSE_SECONDS = 0.1
"""After a conflict, doubled each time, and as much again by chance."""
MOST_TOLD = 10_000
"""Names of events of a dry run that are remembered."""


LEASE_CYCLES = 3
LEAST_LEASE_SECONDS = 15.0
"""Of kube-controller-manager's own lease."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings.

    Attributes:
        watch: Address of its page.
        mode: How far to go.
        dry_run: Tell what would be written by events that begin with [dry-run], and write nothing
            else.
        selector: Of the nodes that may be touched; empty = those with GPUs.
        namespace: Of the lease.
        interval: Seconds between two cycles.
        lease: Of its lease, seconds.
    """

    watch: str
    mode: Mode = Mode.OBSERVE
    dry_run: bool = False
    selector: str = ""
    namespace: str = NAMESPACE
    interval: float = 10.0
    lease: float = LEAST_LEASE_SECONDS

    @property
    def writes(self) -> bool:
        """Whether conditions are written."""
        return self.mode is not Mode.OBSERVE and not self.dry_run


def lease_seconds(interval: float) -> float:
    """How long a lease holds that is renewed in every cycle."""
    return max(LEAST_LEASE_SECONDS, LEASE_CYCLES * interval)


class Api(Nodes, Leases, Protocol):
    """What is asked of a cluster: `lockstep.watch.kubernetes.client.Cluster`."""

    def nodes(self, selector: str = "") -> list[dict[str, Any]]:
        """All nodes, or those that are chosen."""


class Acting:
    """The loop.

    Args:
        settings: How to work.
        cluster: Where.
        read: Reads what watch says; raises WatchError.
        me: Who we are; no two processes are the same.
        clock: Unix seconds.
        rules: Thresholds of the decision.

    Attributes:
        decision: The last one.
        nodes: Those that may be touched, as the last cycle had them.
        told: What watch said then; None = nothing.
        trouble: Why the last cycle wrote no finding; empty = it wrote what was to be written, but
            for nodes that refused.
        failed: Node -> why it could not be written to when that was last tried.
    """

    def __init__(
        self, settings: Settings, cluster: Api, read: Callable[[], WatchState], me: str,
        clock: Callable[[], float], rules: Rules | None = None,
    ) -> None:  # fmt: skip
        self.decision = Decision((), State())
        self.nodes: Sequence[Node] = ()
        self.told: WatchState | None = None
        self.trouble = "no cycle yet"
        self.results: Counter[Result] = Counter()
        self.failed: dict[str, str] = {}
        self._settings = settings
        self._cluster = cluster
        self._read = read
        self._clock = clock
        self._rules = replace(rules or Rules(), mode=settings.mode)
        self._lead = Lead(cluster, settings.namespace, me, settings.lease, clock)
        self._ended = threading.Event()
        self._told: set[str] = set()
        self._cycles = 0
        self._last: float | None = None

    def run(self, ended: threading.Event) -> None:
        """Cycles until `ended` is set."""
        self._ended = ended
        due = monotonic()
        while not ended.is_set():
            try:
                self.cycle()
            except Exception as error:  # noqa: BLE001 - one cycle must not end the others
                self._say("the cycle failed")
                bug("a cycle failed", error)
            due = max(due + self._settings.interval, monotonic())
            ended.wait(due - monotonic())

    def stop(self) -> None:
        """Let somebody else lead."""
        self._lead.release()

    def cycle(self) -> bool:
        """One cycle; whether watch and the API answered it."""
        self._cycles += 1
        try:
            waits = self._lead.renew() if self._settings.writes else ""
            items = self._cluster.nodes(self._settings.selector)
            self.nodes = view.touchable(items, selected=bool(self._settings.selector))
        except ApiError as error:
            self._say(str(error))
            return False
        try:
            self.told, silent = self._read(), ""
        except WatchError as error:
            self.told, silent = None, str(error)
        now = self._clock()
        state = replace(self.decision.state, breaker=self._breaker())
        rules = replace(self._rules, paused=self._lead.paused)
        self.decision = decide(self.nodes, self.told, state, now, rules)
        held = waits or silent or self.decision.held
        breaker = self.decision.state.breaker
        if breaker != state.breaker and self._settings.writes and not waits:
            try:
                self._lead.keep(breaker)
            except ApiError as error:
                held = str(error)
        writes = [one for one in self.decision.actions if isinstance(one, Write) and not waits]
        self._say(self._carried_out(writes, now, held))
        if self.told is None:
            return False
        self._last = now
        return True

    def degraded(self) -> bool:
        """Whether a node that may be touched has an open fault, or one that is not yet over."""
        open_now = {} if self.told is None else self.told.faults
        return any(node.faults or open_now.get(node.name) for node in self.nodes)

    def samples(self) -> list[Sample]:
        """The page."""
        found = [m.NODE_QUARANTINED(int(node.tainted), node.name) for node in self.nodes]
        found += [m.NODE_FAULTS(len(node.faults), node.name) for node in self.nodes]
        found += [m.REMEDIATION_WRITES(self.results[one], one.value) for one in Result]
        found += (
            m.BREAKER_OPEN(int(self.decision.state.breaker.open)),
            m.REMEDIATION_HELD(int(bool(self.trouble))),
            m.REMEDIATION_CYCLES(self._cycles),
        )
        return found if self._last is None else [*found, m.REMEDIATION_LAST(self._last)]

    def _breaker(self) -> Breaker:
        """Of the lease where there is one, else as this process knows it."""
        return self._lead.breaker if self._settings.writes else self.decision.state.breaker

    def _carried_out(self, writes: Sequence[Write], now: float, held: str) -> str:
        """Write; why no finding, or not all, was written, empty = they were.

        Args:
            writes: What was decided; while it is held, no more than that nodes are Unknown.
            now: Unix seconds.
            held: Why nothing else was.
        """
        names = {write.node.name for write in writes}
        self.failed = {name: why for name, why in self.failed.items() if name in names}
        # Who failed comes last, so that no other node waits for it.
        for write in sorted(writes, key=lambda one: one.node.name in self.failed):
            if self._ended.is_set():
                return held or "it ends"
            if not self._settings.writes:
                self._tell(write, now)
            elif self._written(write, now):
                # The others would meet the same. The oldest is told, so that it is told once.
                return held or next(iter(self.failed.values()))
        if self.nodes and len(self.failed) == len(self.nodes):
            return held or next(iter(self.failed.values()))
        return held

    def _written(self, write: Write, now: float) -> bool:
        """Write to one node; whether the others need not be tried."""
        name, ends = write.node.name, False
        try:
            result, why = carried_out(
                self._cluster, write, now, self._pause, selected=bool(self._settings.selector)
            )
            ends = result is Result.UNREACHABLE
        except LacksRightError as error:
            result, why, ends = Result.REFUSED, str(error), True
        self.results[result] += 1
        before = self.failed.get(name)
        if result in (Result.REFUSED, Result.UNREACHABLE):
            self.failed[name] = why
        else:
            self.failed.pop(name, None)
        if result is Result.DONE and write.tells:
            LOG.warning("%s: %s", name, describe_write(write))
        elif result is not Result.DONE and not ends and why != before:
            LOG.warning("%s: nothing written: %s", name, why)
        return ends

    def _tell(self, write: Write, now: float) -> None:
        """What would be written: in the log once, and as events of a dry run."""
        for body in events(write, now, dry_run=True):
            name = body["metadata"]["name"]
            if name in self._told:
                continue
            if self._settings.dry_run:
                try:
                    self._cluster.create_event(body)
                except ApiError as error:
                    LOG.warning("%s: no event: %s", write.node.name, error)
                    return
            LOG.warning("%s: would be written: %s", write.node.name, describe_write(write))
            if len(self._told) >= MOST_TOLD:
                self._told.clear()
            self._told.add(name)

    def _pause(self, attempt: int) -> None:
        longest = PAUSE_SECONDS * 2**attempt
        self._ended.wait(longest / 2 + random.random() * longest / 2)  # noqa: S311 - no secret

    def _say(self, trouble: str) -> None:
        """Once for each change of what is wrong."""
        if trouble and trouble != self.trouble:
            LOG.warning("no finding is written: %s", trouble)
        elif self.trouble and not trouble:
            LOG.warning("nodes are written from now on")
        self.trouble = trouble


def describe_write(write: Write) -> str:
    """What a write tells, in words."""
    parts = [f"{one.value} is open" for one in write.begun.values()]
    parts += [f"{one.value} is over" for one in write.ended.values()]
    return "; ".join(parts)
