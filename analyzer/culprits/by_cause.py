"""Nodes that times alone cannot accuse, and what the hardware says of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from analyzer.cause_weights import fitted, weigh_causes
from analyzer.culprits.pooled import pooled
from analyzer.detectors.stage_levels import KIND
from analyzer.run import Finding, Grid
from analyzer.slowness.significance import PARTS_AT_MOST

HEAVIER = 99.0
"""Odds, before the hardware is asked, that a stage is heavier by design and its node not slow:
chosen, as even stages are the exception (embedding and loss are at the ends of a pipeline)."""
UNSEEN = 0.5
"""Share of what could be wrong with a node that may be left where it is said to be well."""
MOST = 2.0
"""Times the others' work that a stage is given by design at the most: chosen, as whoever lays out a
pipeline would move layers to the others long before."""
DESIGN = "stage-imbalance"


def by_cause(grid: Grid, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, those of kind `heavy` as `slow` where their node likelier is slow than not.

    That is the confidence in the place: nothing but what its hardware tells speaks for it. Who is
    slow anyway is told once.
    """
    known = {one.rank for one in findings if one.kind == "slow"}
    nodes: dict[str, list[Finding]] = {}
    for one in findings:
        if one.kind == KIND:
            nodes.setdefault(one.details["node"], []).append(replace(one, kind="slow"))
    twice = {node for node, mine in nodes.items() if known.intersection(one.rank for one in mine)}
    left = {node: _left(grid, mine) for node, mine in nodes.items() if node not in twice}
    return tuple(
        _with_place(one, left)
        for one in findings
        if one.kind != KIND or one.details["node"] not in twice
    )


def heavier_stages(findings: Sequence[Finding]) -> tuple[Mapping[str, object], ...]:
    """Structures of docs/reference/verdict.md: a heavier stage of a node that surely is well."""
    firsts = {one.details["node"]: one for one in findings if one.kind == KIND}
    return tuple(
        {"kind": DESIGN, "share": None, "text": f"{one.text}; nothing says that the node is slow"}
        for one in firsts.values()
        if _beyond_parts(one) and _by_design(one)
    )


def heavier_or_slow(findings: Sequence[Finding]) -> Finding | None:
    """Of a node that nobody can say is well; None without."""
    return next(
        (
            one
            for one in findings
            if one.kind == KIND and _beyond_parts(one) and not _by_design(one)
        ),
        None,
    )


def _left(grid: Grid, mine: Sequence[Finding]) -> float:
    """How much likelier than before its symptoms make all known causes together.

    Those of a cause of which a source is not there make it no less likely.
    """
    told = pooled(mine, [weigh_causes(grid, one) for one in mine])[0]
    before = np.array([fitted().log_odds(one.cause, ()) for one in told])
    now = np.array([one.log_odds for one in told])
    silent = np.array([bool(one.missing) for one in told])
    now = np.where(silent, np.maximum(now, before), now)
    return float(np.exp(now).sum() / np.exp(before).sum())


def _with_place(one: Finding, left: Mapping[str, float]) -> Finding:
    if one.kind != KIND:
        return one
    odds = left[one.details["node"]] / HEAVIER
    place = odds / (1.0 + odds)
    slow = _beyond_parts(one) and place > 1.0 - place
    details = {**one.details, "left": left[one.details["node"]], "place_confidence": place}
    return replace(one, kind="slow" if slow else KIND, details=details)


def _by_design(one: Finding) -> bool:
    """Whether a heavier stage is all that is left to explain it."""
    return bool(one.details["left"] < UNSEEN and one.slowdown <= MOST)


def _beyond_parts(one: Finding) -> bool:
    """Whether identical parts cannot differ by as much."""
    return bool(np.log(one.slowdown) >= PARTS_AT_MOST)
