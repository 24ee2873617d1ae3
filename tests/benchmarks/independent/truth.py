"""The truth of a run, as grading takes it."""

from collections.abc import Mapping
from typing import Any

from tests.benchmarks.independent.faults import NETWORK_FAULTS
from tests.benchmarks.simulated.grading import Injected, Truth

UNSEEN_PLACE = (*NETWORK_FAULTS, "nvlink")
"""Kinds whose place only sensors tell: in steps, all that share the link wait alike."""


def read(truth: Mapping[str, Any]) -> Truth:
    """Of the JSON of a run's truth file."""
    return Truth(tuple(map(_injected, truth["faults"])), truth["benign"] or "healthy")


def _injected(fault: Mapping[str, Any]) -> Injected:
    slowdown = fault["step_slowdown_on"]
    return Injected(
        kind=fault["kind"],
        scope=fault["scope"],
        ranks=(fault["rank"],) if fault["scope"] == "rank" else tuple(fault["members"]),
        nodes=tuple(fault["nodes"]),
        link=fault["link"],
        causes=(fault["cause"],),
        effect=None if slowdown is None else slowdown - 1,
        tellable=fault["telemetry"] != "none" or fault["kind"] not in UNSEEN_PLACE,
        detail=f"{fault['shape']}, sensors {fault['telemetry']}",
    )
