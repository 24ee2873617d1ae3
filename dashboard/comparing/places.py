"""Where two runs ran, and how their ranks and phases compare: from the tables of their ranks."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from lockstep.collector.contract.words import PHASES

SHARE_WORTH = 1 / 3
"""A phase is named when it makes up this much of the change of a step, at least."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes of two runs: those that only one of them had, and how many both had."""

    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    both: int


def nodes(a: pd.DataFrame, b: pd.DataFrame) -> Nodes:
    """From their ranks (Source.ranks)."""
    one, other = set(a["node"]), set(b["node"])
    return Nodes(tuple(sorted(one - other)), tuple(sorted(other - one)), len(one & other))


def phases(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Seconds per step of each phase: the median over ranks of both runs, and the difference.

    Returns:
        Columns `phase, a, b, difference, change`: seconds, and `change` as a share of a; phases
        that neither run has are left out.
    """
    rows = []
    for phase in PHASES:
        one, other = _middle(a, phase), _middle(b, phase)
        if np.nan_to_num(one) or np.nan_to_num(other):
            rows.append((phase, one, other, other - one, other / one - 1.0 if one else np.nan))
    frame = pd.DataFrame(rows, columns=["phase", "a", "b", "difference", "change"])
    return frame.astype(dict.fromkeys(["a", "b", "difference", "change"], "float64"))


def moved(told: pd.DataFrame, a: pd.DataFrame, b: pd.DataFrame) -> tuple[str, ...]:
    """The phases that make up the change of the step time, the largest first.

    Args:
        told: As phases() gives it.
        a: Ranks of one run.
        b: Ranks of the other.
    """
    change = float(b["wall_seconds"].median() - a["wall_seconds"].median())
    if not np.isfinite(change) or change == 0.0:
        return ()
    share = told["difference"] / change
    named = told.assign(share=share)[share >= SHARE_WORTH].sort_values("share", ascending=False)
    return tuple(named["phase"])


def _middle(ranks: pd.DataFrame, phase: str) -> float:
    column = f"{phase}_seconds"
    if column not in ranks or not ranks[column].notna().any():
        return float("nan")
    return float(ranks[column].median())
