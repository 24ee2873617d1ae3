"""How much of a step ranks are in collectives: who waits least, who most; no middle of the two."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from lockstep.analyzer.report.figures import cell

ALIKE = 0.05
"""Share of the step within which ranks wait alike. Ours: less is noise between nodes."""
CLEFT = 0.5
"""Of the whole distance, so much lies between two groups of ranks that stand apart."""
NAMED_AT_MOST = 3


@dataclass(frozen=True, slots=True)
class Waits:
    """What ranks wait.

    Attributes:
        middle: Share of the step of one rank: half of the ranks wait no longer; NaN = not known.
        words: A sentence.
    """

    middle: float
    words: str


UNKNOWN = Waits(float("nan"), "How long ranks are in collectives is not known.")


def waits(ranks: pd.DataFrame | None) -> Waits:
    """Shares of the step in collectives, lowest and highest with names.

    Args:
        ranks: As protocol.Source.ranks gives it; None = nobody told.
    """
    if ranks is None or ranks.empty or not np.isfinite(ranks["wait_share"]).any():
        return UNKNOWN
    told = ranks[np.isfinite(ranks["wait_share"])]
    told = told.sort_values("wait_share", kind="stable", ignore_index=True)
    unknown = len(ranks) - len(told)
    shares = told["wait_share"].to_numpy(np.float64)
    middle = float(shares[(len(shares) - 1) // 2])
    whole = shares[-1] - shares[0]
    if len(told) == 1:
        words = f"{_name(told.iloc[0])} is in collectives for {_between(shares)} of a step."
    elif whole <= ALIKE:
        every = f"The {len(told):,} ranks that tell it" if unknown else "All ranks"
        words = f"{every} are in collectives for {_between(shares)} of a step."
    else:
        gaps = np.diff(shares)
        cut = int(gaps.argmax()) + 1
        if gaps.max() >= CLEFT * whole:
            words = _groups(told, shares, cut)
        else:
            words = (
                f"Ranks are in collectives for {_percent(shares[0])} ({_name(told.iloc[0])}) to"
                f" {_percent(shares[-1])} ({_name(told.iloc[-1])}) of a step."
            )
    more = "" if not unknown else f" Of {unknown:,} of {len(ranks):,} ranks it is not known."
    return Waits(middle, f"{words[:1].upper()}{words[1:]}{more}")


def _groups(told: pd.DataFrame, shares: np.ndarray, cut: int) -> str:
    """Two groups that stand apart: the smaller one by its names."""
    low, high = told.iloc[:cut], told.iloc[cut:]
    few, others = (low, high) if len(low) <= len(high) else (high, low)
    mine, theirs = (shares[:cut], shares[cut:]) if few is low else (shares[cut:], shares[:cut])
    return (
        f"{_names(few, others)} {'is' if len(few) == 1 else 'are'} in collectives for"
        f" {_between(mine)} of a step, the other{'s' if len(others) > 1 else ''} for"
        f" {_between(theirs)}."
    )


def _names(some: pd.DataFrame, others: pd.DataFrame) -> str:
    nodes: Sequence[str] = list(dict.fromkeys(some["node"].astype(str)))
    apart = not set(nodes) & set(others["node"].astype(str))
    if len(some) > 1 and apart and len(nodes) <= NAMED_AT_MOST:
        return f"the ranks of {' and '.join(nodes)}"
    named = [_name(row) for _, row in some.head(NAMED_AT_MOST).iterrows()]
    left = len(some) - len(named)
    return f"{', '.join(named)}{f' and {left:,} more' if left else ''}"


def _name(row: "pd.Series[Any]") -> str:
    return f"rank {row['rank']} on {row['node']}" if row["node"] else f"rank {row['rank']}"


def _between(shares: np.ndarray) -> str:
    low, high = _percent(shares[0]), _percent(shares[-1])
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def _percent(share: float) -> str:
    return cell(float(share), "share")
