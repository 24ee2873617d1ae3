"""Verdicts of every kind, as short as they can be."""

from typing import Any

from lockstep.dashboard.shapes import RunRow, Span

ROW = RunRow("gpt-a", "ended", Span(100.0, 200.0), folder="runs/gpt a")
FACTS = [
    {"for": False, "text": "the power limit was not lowered", "query": "power"},
    {"for": True, "text": "93 °C, peers 64 °C", "query": "lockstep_gpu_temperature_celsius"},
]
CULPRIT: dict[str, Any] = {
    "scope": "rank", "rank": 2, "node": "node-1", "gpu": 0, "link": None, "dp": 2, "pp": 0,
    "slowdown": 1.5, "cause": "thermal", "confidence": 0.97, "tier": "page", "evidence": FACTS,
    "since": "2026-11-18T11:06:40Z", "place_confidence": 0.99,
}  # fmt: skip


def verdict(**changes: Any) -> dict[str, Any]:
    """docs/reference/verdict.md: healthy, with some parts changed."""
    return {
        "schema_version": 1, "run": "gpt-a", "status": "healthy",
        "sentence": "Healthy: no rank holds the run back.", "slowdown": 1.0, "coverage": 1.0,
        "culprits": [], "hang": None, "structure": [], "what_if": {"method": "none"},
        "rejected": [], "alternatives": [], "missing": [], "provenance": [], "anomalies": [],
    } | changes  # fmt: skip


HEALTHY = verdict()
SLOW = verdict(status="degraded", sentence="Rank 2 is slower.", culprits=[CULPRIT],
               alternatives=[{"cause": "power", "confidence": 0.02}])  # fmt: skip
HUNG = verdict(status="degraded", sentence="Rank 1 stopped the run.",
               culprits=[CULPRIT | {"rank": 1, "cause": "freeze", "slowdown": None}],
               hang={"group": "dp", "sequence": 82, "op": "dp-all-reduce",
                     "missing_ranks": [1]})  # fmt: skip
LINK = verdict(status="degraded", sentence="The link holds the run back.", culprits=[
    CULPRIT | {"scope": "link", "rank": None, "node": None, "gpu": None, "cause": "link",
               "link": "node-0 – node-1"}])  # fmt: skip
RACK = verdict(status="degraded", sentence="Leaf leaf-3 holds the run back.", culprits=[
    CULPRIT | {"scope": "rack", "rank": None, "node": None, "gpu": None, "cause": "congestion",
               "link": "leaf leaf-3", "tier": "record"}])  # fmt: skip
NODE = verdict(status="degraded", sentence="node-1 is slower.", culprits=[
    CULPRIT | {"scope": "node", "rank": None, "gpu": None, "cause": "data"}])  # fmt: skip
UNKNOWN = verdict(status="unknown", sentence="Unknown: too few steps. No rank is named.",
                  coverage=0.2, missing=["operations: there are none"])  # fmt: skip
UNIFORM = verdict(status="degraded", sentence="Slower, and no node is to blame.", structure=[
    {"kind": "uniform", "share": 0.2, "text": "all workers compute 1.3x as long"}])  # fmt: skip
STAGES = verdict(structure=[{"kind": "stage-imbalance", "share": 0.12, "text": "stage 3"}])
EVERY = (HEALTHY, SLOW, HUNG, LINK, RACK, NODE, UNKNOWN, UNIFORM, STAGES)
BROKEN = {
    "status": 7, "sentence": None, "culprits": [None, 3, {"rank": "x", "evidence": "no"}],
    "hang": [], "structure": {"kind": 1}, "what_if": [1], "alternatives": [{}],
    "rejected": [{"rank": True}], "missing": [1, None], "anomalies": [{"gpu": 1.5}],
    "recurrence": [{}], "coverage": float("nan"), "provenance": "x", "lost_per_day": 3,
}  # fmt: skip
"""As nobody but an editor writes one."""
