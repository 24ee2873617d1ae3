"""Counterfactuals as the `what_if` of a verdict (docs/reference/verdict.md)."""

from collections.abc import Callable
from typing import Any

from lockstep.analyzer.operations.whatif.analysis import Unexplained, WhatIf


def worker_name(dp: int, stage: int) -> str:
    """A worker where nobody knows its node."""
    return f"dp {dp} stage {stage}"


def document(
    found: WhatIf | Unexplained, name: Callable[[int, int], str] = worker_name
) -> dict[str, Any]:
    """The keys of docs/reference/verdict.md, and after them what the method adds.

    `S` and what hangs on it are as published; `S_strata` and `fixes` are ours: structure is no
    loss there. `S_steps` is S of every step.

    Args:
        found: Of `analyze`.
        name: From dp and stage to what is to be removed, as the node.
    """
    if isinstance(found, Unexplained):
        return {"method": "none", "why": found.why}
    slow = found.published
    return {
        "method": "simulation",
        "S": slow.s,
        "S_t": slow.s_types,
        "S_dp": {str(dp): float(s) for dp, s in enumerate(slow.s_dp)},
        "S_pp": {str(stage): float(s) for stage, s in enumerate(slow.s_pp)},
        "M_W": slow.worst.rem,
        "M_S": slow.last_stage.rem,
        "fixes": [
            {"remove": name(one.dp, one.stage), "gain": one.gain, "interval": _pair(one.interval)}
            for one in found.candidates
            if one.gain > 0
        ],
        "S_interval": _pair(found.s_interval),
        "S_strata": found.s_strata,
        "S_strata_interval": _pair(found.s_strata_interval),
        "M_W_interval": _pair(found.m_w_interval),
        "M_W_add": slow.worst.add,
        "M_S_add": slow.last_stage.add,
        "S_w": [[float(s) for s in stages] for stages in slow.s_workers],
        "S_steps": [float(s) for s in slow.s_steps],
        "launch_error": found.trust.launch_error,
        "notes": list(found.notes),
    }


def _pair(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)
