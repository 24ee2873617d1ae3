"""A source made by hand, whole or broken in the ways in which sources break."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

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
from lockstep.dashboard.trouble import Kind, TroubleError

START = 1_700_000_000.0
SPAN = Span(START, START + 60.0)
TIMES = np.linspace(START, START + 59.0, 60)
PHASES = ("data", "forward", "backward", "grad_sync", "optimizer")
VERDICT: dict[str, Any] = {
    "schema_version": 1, "run": "gpt-1", "status": "degraded",
    "sentence": "Rank 1 on node-0 is slow: thermal.", "slowdown": 1.31,
    "slowdown_interval": [1.28, 1.34], "lost_gpu_hours": 0.6, "coverage": 0.98,
    "culprits": [{
        "scope": "gpu", "rank": 1, "node": "node-0", "gpu": 1, "uuid": "GPU-1", "dp": 1, "pp": 0,
        "tp": 0, "link": None, "from_step": 20, "to_step": None, "since": "2023-11-14T22:13:40Z",
        "slowdown": 1.31, "cause": "thermal", "confidence": 0.93, "tier": "page",
        "evidence": [{"for": True, "text": "It throttled.", "query": "lockstep_gpu_throttle"},
                     {"for": False, "text": "Its power is as its peers'.", "query": "x"}],
        "place_confidence": 0.98,
    }],
    "anomalies": [], "hang": None, "structure": [],
    "what_if": {"method": "simulation", "S": 1.31, "S_t": {"forward-compute": 1.3},
                "S_dp": {"0": 1.0, "1": 1.3}, "S_pp": {"0": 1.3}, "M_W": 0.9, "M_S": 0.1,
                "fixes": [{"remove": "node-0", "gain": 0.18, "interval": [0.16, 0.2]}]},
    "rejected": [{"rank": 0, "why": "as its peers"}],
    "alternatives": [{"cause": "power", "confidence": 0.05}], "missing": [],
}  # fmt: skip


@dataclass
class Fake:
    """Two runs on two nodes of two GPUs each.

    Attributes:
        trouble: Raised by every question.
        names: Of the runs and of the nodes.
        told: False = nobody told any number, though runs and nodes are known.
        analyzed: Whether there are verdicts.
        answered: What the source says of itself.
    """

    live: bool = False
    name: str = "archive of a test"
    trouble: TroubleError | None = None
    run_names: tuple[str, ...] = ("gpt-1", "gpt-0")
    node_names: tuple[str, ...] = ("node-0", "node-1")
    told: bool = True
    analyzed: bool = True
    missing: tuple[str, ...] = ()
    age: float = 1.0
    silent: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.trouble is not None:
            raise self.trouble

    def answer(self, span: Span | None = None, run: str = "") -> Answer:
        self._ask("answer")
        nodes = len(self.node_names)
        return Answer(
            self.name, self.live, SPAN.end - self.age if self.told else None, SPAN.end,
            15.0 if self.live else math.nan, (nodes, nodes - len(self.silent)), self.missing,
        )  # fmt: skip

    def extent(self) -> Span:
        self._ask("extent")
        return SPAN

    def runs(self, span: Span | None = None) -> tuple[RunRow, ...]:
        self._ask("runs")
        return tuple(self._row(run) for run in self.run_names)

    def run(self, run: str) -> RunRow:
        self._ask("run")
        if run not in self.run_names:
            raise TroubleError(
                Kind.UNKNOWN_ID, f"There is no run {run}.", "Choose one of these.", self.run_names
            )
        return self._row(run)

    def _row(self, run: str) -> RunRow:
        row = RunRow(
            run, "running" if self.live else "ended", SPAN, "gpt", 2, 4, "dp=4 pp=1 tp=1",
            provenance=("emulated devices",),
        )  # fmt: skip
        if not self.analyzed:
            return row
        return replace(
            row, status="degraded", sentence=VERDICT["sentence"], slowdown=1.31,
            lost_gpu_hours=0.6, culprits=1,
        )  # fmt: skip

    def spec(self, run: str) -> Mapping[str, Any]:
        self.run(run)
        return {"run": run, "spec": {"workload": "gpt", "layout": {"dp": 4, "pp": 1, "tp": 1}},
                "layout": {"dp": 4, "pp": 1, "tp": 1}, "seed": 0}  # fmt: skip

    def verdict(self, run: str) -> Mapping[str, Any] | None:
        self.run(run)
        culprit = VERDICT["culprits"][0] | {"node": self.node_names[0]}
        return VERDICT | {"run": run, "culprits": [culprit]} if self.analyzed else None

    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        self._ask("findings")
        if not (self.analyzed and self.told and self.run_names):
            return ()
        return (
            FindingRow(
                "F-1", Severity.CRITICAL, True, self.run_names[0], self.node_names[0], 1, 1, "",
                "thermal", 0.93, 1.31, START + 20, None, VERDICT["sentence"],
            ),
        )  # fmt: skip

    def events(self, span: Span, run: str = "", node: str = "") -> tuple[Event, ...]:
        self._ask("events")
        if not (self.told and self.run_names):
            return ()
        return (
            Event(START + 20, None, "throttle", Severity.WARNING, f"{self.node_names[0]} throttles",
                  self.run_names[0], self.node_names[0], 1, 1),
        )  # fmt: skip

    def run_lines(self, run: str, span: Span) -> tuple[Lines, ...]:
        self.run(run)
        keys = ("loss", "throughput", "step", "mfu", "phases", "gpu", "cpu", "memory", "network")
        return tuple(self._lines(key) for key in keys)

    def _lines(self, key: str, *names: str) -> Lines:
        times = TIMES if self.told else np.empty(0)
        named = names or (("p5", "p50", "p95") if key == "step" else ("all",))
        if key == "phases":
            named = PHASES
        values = {name: np.full(len(times), 0.2 + at / 10) for at, name in enumerate(named)}
        steps = np.arange(len(times), dtype=np.float64)
        band = ("p5", "p95") if key == "step" else None
        return Lines(key, key.capitalize(), "ratio", times, values, steps, band, key == "phases")

    def ranks(self, run: str, span: Span) -> pd.DataFrame:
        self.run(run)
        count = 4 if self.told else 0
        ranks = np.arange(count)
        return pd.DataFrame({
            "rank": ranks, "node": [self.node_names[rank // 2] for rank in ranks],
            "gpu": ranks % 2, "uuid": [f"GPU-{rank}" for rank in ranks], "dp": ranks,
            "pp": 0, "tp": 0, "steps": 60, "wall_seconds": 1.0, "own_seconds": 0.7,
            "slowdown": [1.31, 1.0, 1.0, 1.0][:count], "wait_share": 0.3,
            **{f"{phase}_seconds": 0.2 for phase in PHASES},
        })  # fmt: skip

    def _matrix(self, run: str, title: str, unit: str) -> Matrix:
        self.run(run)
        times = TIMES if self.told else np.empty(0)
        rows = tuple(f"rank {rank} ({self.node_names[rank // 2]}, GPU {rank % 2})"
                     for rank in range(4))  # fmt: skip
        return Matrix(title, unit, rows, times, None, np.ones((4, len(times))))

    def rank_times(self, run: str, span: Span) -> Matrix:
        return self._matrix(run, "Own time over the stage's median", "ratio")

    def arrivals(self, run: str, span: Span) -> Matrix:
        return self._matrix(run, "Arrival after the first", "s")

    def collectives(self, run: str, span: Span) -> pd.DataFrame:
        self.run(run)
        frame = pd.DataFrame({
            "op": ["dp-all-reduce"], "group": ["dp"], "count": [60], "bytes": [1e6],
            "median_seconds": [0.01], "p95_seconds": [0.02], "total_seconds": [0.6],
            "busbw": [1e8], "late_rank": [1], "late_seconds": [0.005],
        })  # fmt: skip
        return frame if self.told else frame.iloc[:0]

    def operations(self, run: str, rank: int, span: Span) -> pd.DataFrame:
        self.run(run)
        frame = pd.DataFrame({
            "op": ["forward-compute", "dp-all-reduce"], "group": ["", "dp"], "step": [0, 0],
            "sequence": [0, 0], "start": [START, START + 0.5], "seconds": [0.5, 0.1],
            "bytes": [0.0, 1e6],
        })  # fmt: skip
        return frame if self.told else frame.iloc[:0]

    def trace(self, run: str, span: Span) -> bytes:
        self.run(run)
        return b"trace"

    def fleet(self, metric: FleetMetric, at: float | None = None) -> FleetSnapshot:
        self._ask("fleet")
        count = 2 * len(self.node_names) if self.told else 0
        places = range(count)
        return FleetSnapshot(
            metric, SPAN.end, np.array([self.node_names[place // 2] for place in places], np.str_),
            np.array([place % 2 for place in places], np.int32),
            np.array(list(places), np.int32),
            np.array([self.run_names[0] if self.run_names else ""] * count, np.str_),
            np.linspace(1.0, 1.3, count).astype(np.float32), self.silent,
        )  # fmt: skip

    def nodes(self) -> tuple[str, ...]:
        self._ask("nodes")
        return self.node_names

    def node(self, node: str, span: Span) -> NodeFacts:
        self._ask("node")
        if node not in self.node_names:
            raise TroubleError(
                Kind.UNKNOWN_ID, f"There is no node {node}.", "Choose one of these.",
                self.node_names,
            )  # fmt: skip
        gpus = pd.DataFrame({"gpu": [0, 1], "uuid": ["GPU-0", "GPU-1"], "model": "emulated",
                             "run": self.run_names[0] if self.run_names else "",
                             "rank": [0, 1]})  # fmt: skip
        check = Check("scrape", Severity.OK, "It answers.")
        return NodeFacts(node, {"host": node}, gpus, self.run_names[:1], (check,))

    def node_lines(self, node: str, span: Span) -> tuple[Lines, ...]:
        self.node(node, span)
        return tuple(
            self._lines(key, "GPU 0", "GPU 1", "peers low", "peers high")
            for key in ("utilization", "temperature", "power", "clock")
        ) + tuple(self._lines(key) for key in ("cpu", "memory", "disk", "network"))

    def gpu_lines(self, node: str, gpu: int, span: Span) -> tuple[Lines, ...]:
        self.node(node, span)
        if gpu not in (0, 1):
            raise TroubleError(
                Kind.UNKNOWN_ID, f"{node} has no GPU {gpu}.", "Open the page of the node."
            )
        return tuple(self._lines(key) for key in ("utilization", "clock", "temperature", "power"))

    def health(self, run: str = "") -> Health:
        self._ask("health")
        sources = pd.DataFrame({"node": list(self.node_names), "up": True, "age_seconds": 1.0})
        checks = tuple(Check("answers", Severity.OK, "All answer.") for _ in range(self.told))
        return Health(checks, sources if self.told else sources.iloc[:0])

    def ledgers(self, span: Span, run: str = "") -> tuple[LedgerRow, ...]:
        self._ask("ledgers")
        if run:
            self.run(run)
        told = {"computing": 60.0, "communication": 11.0, "starting": 15.0, "unknown": 1.0}
        return tuple(
            LedgerRow(name, "unknown", "71% useful; the largest loss is starting, 15%.",
                      told, {"rank 1 (thermal)": 13.0}, ("a part is not known",), attempts=1)
            for name in self.run_names if run in ("", name)
        ) if self.told else ()  # fmt: skip

    def folder(self, run: str) -> Path | None:
        self.run(run)
        return None
