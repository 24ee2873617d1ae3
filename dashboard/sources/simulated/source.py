"""The simulated fleet as a Source."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract.words import PHASES
from lockstep.dashboard.shapes import (
    Answer,
    Check,
    Event,
    FindingRow,
    FleetMetric,
    FleetSnapshot,
    Health,
    LedgerRow,
    Lines,
    Matrix,
    NodeFacts,
    RunRow,
    Severity,
    Span,
)
from lockstep.dashboard.sources.grid import Grid, grid
from lockstep.dashboard.sources.simulated import stories
from lockstep.dashboard.sources.simulated.charts import SHARES, gpu_charts, node_charts, run_charts
from lockstep.dashboard.sources.simulated.plan import GPUS_PER_NODE, RUN, SCRAPE, Plan, plan
from lockstep.dashboard.sources.simulated.vectors import OWN_SHARE, STEP_SECONDS, step, vector
from lockstep.dashboard.trouble import Kind, TroubleError

ROWS = 64
"""Ranks of which the course over time is told: the slowest, and others evenly."""
POINTS = 300
CHART_POINTS = 240
COLUMNS = ("rank", "node", "gpu", "uuid", "dp", "pp", "tp", "steps", "wall_seconds", "own_seconds",
           "slowdown", "wait_share", *(f"{phase}_seconds" for phase in PHASES))  # fmt: skip


class SimulatedSource:
    """A Source made by a program; `Answer.simulated` says so.

    Args:
        gpus: How many, in nodes of GPUS_PER_NODE.
        seed: Of names, places and noise: the same seed is the same fleet.
        clock: Unix seconds; None = this machine's.

    Raises:
        ValueError: That is no number of GPUs.
    """

    def __init__(
        self, gpus: int = 10_000, seed: int = 0, clock: Callable[[], float] | None = None
    ) -> None:
        self._clock, self._seed = clock or SystemClock().wall, seed
        self._plan: Plan = plan(gpus, seed, self._clock())
        self.name = f"simulated fleet of {gpus:,} GPUs"
        self.live = True
        names = np.array(self._plan.names)[self._plan.node]
        self._columns = names, np.where(self._plan.rank >= 0, RUN, "")

    def answer(self, span: Span | None = None, run: str = "") -> Answer:
        now, nodes = self._clock(), len(self._plan.names)
        return Answer(
            name=self.name, live=True, at=self._now(), now=now, scrape_seconds=SCRAPE,
            nodes=(nodes, nodes - (self._plan.silent >= 0)), simulated=True,
        )  # fmt: skip

    def extent(self) -> Span:
        return Span(self._plan.started, self._now())

    def runs(self, span: Span | None = None) -> tuple[RunRow, ...]:
        if span is not None and span.end < self._plan.started:
            return ()
        return (stories.row(self._plan, self._now()),)

    def run(self, run: str) -> RunRow:
        self._known(run)
        return stories.row(self._plan, self._now())

    def spec(self, run: str) -> Mapping[str, Any]:
        self._known(run)
        return {
            "run": run, "workload": "gpt", "seed": self._seed, "simulated": ["everything"],
            "layout": {"nodes": -(-self._plan.ranks // GPUS_PER_NODE), "dp": self._plan.ranks,
                       "pp": 1, "tp": 1, "world": self._plan.ranks},
        }  # fmt: skip

    def verdict(self, run: str) -> Mapping[str, Any] | None:
        self._known(run)
        return stories.verdict(self._plan, self._now())

    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        if run:
            self._known(run)
        return stories.findings(self._plan, span)

    def events(self, span: Span, run: str = "", node: str = "") -> tuple[Event, ...]:
        if run:
            self._known(run)
        if node:
            self._index(node)
        found = stories.events(self._plan, span)
        return tuple(one for one in found if not node or one.node == node)

    def run_lines(self, run: str, span: Span) -> tuple[Lines, ...]:
        self._known(run)
        return run_charts(self._plan, self._grid(span), self._seed)

    def ranks(self, run: str, span: Span) -> pd.DataFrame:
        self._known(run)
        plan, at = self._plan, min(span.end, self._now())
        here = np.flatnonzero(plan.rank >= 0)
        slow = vector(plan, "slowdown", at, self._seed)[here]
        wall, own = step(plan, at), STEP_SECONDS * OWN_SHARE * slow
        steps = max(0.0, at - max(span.start, plan.started)) // wall
        frame = pd.DataFrame(
            {
                "rank": plan.rank[here], "node": self._columns[0][here], "gpu": plan.gpu[here],
                "uuid": [stories.uuid(place) for place in here.tolist()], "dp": plan.rank[here],
                "pp": 0, "tp": 0, "steps": int(steps), "wall_seconds": wall, "own_seconds": own,
                "slowdown": slow, "wait_share": 1 - own / wall,
                **{f"{phase}_seconds": share / OWN_SHARE * own for phase, share in SHARES.items()},
            }
        )  # fmt: skip
        frame["grad_sync_seconds"] = wall - own
        return frame.sort_values("slowdown", ascending=False, ignore_index=True)[list(COLUMNS)]

    def rank_times(self, run: str, span: Span) -> Matrix:
        places, times, values = self._course(run, span, "slowdown")
        return Matrix("Own time over peers", "ratio", places, times, None, values)

    def collectives(self, run: str, span: Span) -> pd.DataFrame:
        self._known(run)
        plan, at = self._plan, min(span.end, self._now())
        wall = step(plan, at)
        count = int(max(0.0, at - max(span.start, plan.started)) // wall)
        wait = wall - STEP_SECONDS * OWN_SHARE
        late = int(plan.rank[plan.culprits[0]])
        return pd.DataFrame(
            [("grads-reduce-scatter", "dp", count, 2.5e8, wait, 1.1 * wait, count * wait, 1.9e11,
              late, wall - STEP_SECONDS)],
            columns=["op", "group", "count", "bytes", "median_seconds", "p95_seconds",
                     "total_seconds", "busbw", "late_rank", "late_seconds"],
        )  # fmt: skip

    def arrivals(self, run: str, span: Span) -> Matrix:
        places, times, values = self._course(run, span, "slowdown")
        behind = STEP_SECONDS * OWN_SHARE * (values - np.nanmin(values, axis=0, initial=9.0))
        return Matrix("Arrival after the first rank", "s", places, times, None, behind)

    def operations(self, run: str, rank: int, span: Span) -> pd.DataFrame:
        self._known(run)
        raise self._no_operations()

    def trace(self, run: str, span: Span) -> bytes:
        self._known(run)
        raise self._no_operations()

    def fleet(self, metric: FleetMetric, at: float | None = None) -> FleetSnapshot:
        plan, moment = self._plan, self._now() if at is None else at
        return FleetSnapshot(
            metric=metric, at=moment, nodes=self._columns[0], gpus=plan.gpu, ranks=plan.rank,
            runs=self._columns[1],
            values=vector(plan, metric.key, moment, self._seed).astype(np.float32),
            silent=plan.names[plan.silent :] if plan.silent >= 0 else (), simulated=True,
        )  # fmt: skip

    def nodes(self) -> tuple[str, ...]:
        return self._plan.names

    def node(self, node: str, span: Span) -> NodeFacts:
        plan, index = self._plan, self._index(node)
        here = np.flatnonzero(plan.node == index)
        busy = bool((plan.rank[here] >= 0).any())
        gpus = pd.DataFrame(
            {"gpu": plan.gpu[here], "uuid": [stories.uuid(place) for place in here.tolist()],
             "model": "simulated", "run": self._columns[1][here], "rank": plan.rank[here]}
        )  # fmt: skip
        facts = {"host": node, "GPU model": "simulated", "GPUs": str(len(here))}
        return NodeFacts(node, facts, gpus, (RUN,) if busy else (), self._checks(index))

    def node_lines(self, node: str, span: Span) -> tuple[Lines, ...]:
        return node_charts(self._plan, self._index(node), self._grid(span), self._seed)

    def gpu_lines(self, node: str, gpu: int, span: Span) -> tuple[Lines, ...]:
        index = self._index(node)
        here = np.flatnonzero((self._plan.node == index) & (self._plan.gpu == gpu))
        if not here.size:
            known = tuple(map(str, self._plan.gpu[self._plan.node == index].tolist()))
            raise TroubleError(
                Kind.UNKNOWN_ID, f"{node} has no GPU {gpu}.", "Choose one of its GPUs.", known
            )
        return gpu_charts(self._plan, int(here[0]), self._grid(span), self._seed)

    def health(self, run: str = "") -> Health:
        names = self._plan.names
        up = np.arange(len(names)) != self._plan.silent
        checks = [Check("Simulated", Severity.NOTE, "A program makes every number.",
                        "Look at a run of yours: lockstep dashboard DIR")]  # fmt: skip
        if not up.all():
            checks.append(Check("Nodes that answer", Severity.WARNING,
                                f"{names[self._plan.silent]} is silent (simulated)."))  # fmt: skip
        sources = pd.DataFrame(
            {
                "node": names,
                "up": up,
                "age_seconds": np.where(up, self._clock() - self._now(), np.nan),
            }
        )
        return Health(tuple(checks), sources)

    def ledgers(self, span: Span, run: str = "") -> tuple[LedgerRow, ...]:
        if run:
            self._known(run)
        return ()  # nothing of a simulated fleet was spent

    def folder(self, run: str) -> Path | None:
        self._known(run)
        return None

    def _now(self) -> float:
        """The last simulated scrape."""
        return math.floor(self._clock() / SCRAPE) * SCRAPE

    def _grid(self, span: Span) -> Grid:
        return grid(span, SCRAPE, CHART_POINTS, self._now())

    def _course(self, run: str, span: Span, key: str) -> tuple[tuple[str, ...], Any, Any]:
        """Names, times and (R, T) values of ROWS ranks: the culprits, and others evenly."""
        self._known(run)
        plan = self._plan
        even = np.linspace(0, plan.ranks - 1, min(ROWS, plan.ranks)).astype(int)
        places = list(dict.fromkeys([*plan.culprits, *even.tolist()]))[:ROWS]
        times = grid(span, SCRAPE, POINTS, self._now()).times
        values = [vector(plan, key, at, self._seed, np.array(places)) for at in times.tolist()]
        names = tuple(f"rank {plan.rank[one]} ({stories.where(plan, one)})" for one in places)
        return names, times, np.stack(values, axis=1)

    def _checks(self, index: int) -> tuple[Check, ...]:
        silent, hot = index == self._plan.silent, index == self._plan.hot
        heat = Check("Temperature", Severity.OK, "Its GPUs are as warm as their peers (simulated).")
        if hot:
            heat = Check("Temperature", Severity.CRITICAL, "Its GPUs throttle (simulated).",
                         "On a real node: look at fans and inlet air.")  # fmt: skip
        if silent:
            return (Check("Answers", Severity.CRITICAL, "It does not answer (simulated)."),)
        return Check("Answers", Severity.OK, "Scraped within 15 s (simulated)."), heat

    def _known(self, run: str) -> None:
        if run != RUN:
            raise TroubleError(
                Kind.UNKNOWN_ID, f"The simulated fleet has no run {run!r}.", "Choose one.", (RUN,)
            )

    def _index(self, node: str) -> int:
        if node not in self._plan.names:
            raise TroubleError(
                Kind.UNKNOWN_ID, f"The simulated fleet has no node {node!r}.", "Choose one.",
                self._plan.names[:20],
            )  # fmt: skip
        return self._plan.names.index(node)

    def _no_operations(self) -> TroubleError:
        return TroubleError(
            Kind.NOT_TOLD, "The simulated fleet has no single operations.",
            "Look at the archive of a run: lockstep dashboard DIR",
        )  # fmt: skip
