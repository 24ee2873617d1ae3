"""What else a verdict says: who was let go, what is by design, what deviates, what is missing."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lockstep.dashboard.words.reading import mapping, number, records, text, texts, whole

REJECTED = ("rank", "why it is not to blame")
STRUCTURE = ("kind", "share of the step", "what")
ANOMALIES = ("node", "GPU", "since", "distance", "costs time", "what")
MISSING = ("what was not there",)


def rejected(verdict: Mapping[str, Any]) -> pd.DataFrame:
    """Suspects that were let go; columns `REJECTED`."""
    rows = [
        (whole(one.get("rank")), text(one.get("why"))) for one in records(verdict.get("rejected"))
    ]
    return pd.DataFrame(rows, columns=list(REJECTED)).astype({"rank": "Int64"})


def structure(verdict: Mapping[str, Any]) -> pd.DataFrame:
    """What is slow by design and nobody's fault; columns `STRUCTURE`."""
    rows = [
        (text(one.get("kind")), number(one.get("share")), text(one.get("text")))
        for one in records(verdict.get("structure"))
    ]
    return pd.DataFrame(rows, columns=list(STRUCTURE)).astype({"share of the step": "float64"})


def anomalies(verdict: Mapping[str, Any]) -> pd.DataFrame:
    """Hardware that deviates from its peers, costly or not; columns `ANOMALIES`."""
    rows = [
        (text(one.get("node")), whole(one.get("gpu")), text(one.get("since")),
         number(one.get("deviation")), "yes" if one.get("costs_time") is True else "not yet",
         text(one.get("text")))
        for one in records(verdict.get("anomalies"))
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=list(ANOMALIES))
    return frame.astype({"GPU": "Int64", "distance": "float64"})


def before(verdict: Mapping[str, Any]) -> tuple[str, ...]:
    """How often its culprits were culprits before, a sentence each."""
    told = (text(one.get("text")) for one in records(verdict.get("recurrence")))
    return tuple(f"{one}." for one in told if one)


def missing(verdict: Mapping[str, Any]) -> pd.DataFrame:
    """What was looked for and not found; columns `MISSING`."""
    return pd.DataFrame({MISSING[0]: list(texts(verdict.get("missing")))}, dtype="str")


def how_sure(verdict: Mapping[str, Any]) -> str:
    """Coverage, provenance and what goes on costing, in a sentence."""
    coverage = number(verdict.get("coverage"))
    words = (
        "How much of the run answered is not told."
        if coverage is None
        else f"{coverage:.0%} of the expected windows of all ranks answered."
    )
    made = ", ".join(texts(verdict.get("provenance")))
    words += f" Made up in this run: {made}." if made else ""
    daily = mapping(verdict.get("lost_per_day"))
    hours = number(daily.get("gpu_hours"))
    if hours is not None and daily.get("goes_on") is True:
        words += f" If it goes on, {hours:.3g} GPU-hours a day are lost."
    return words
