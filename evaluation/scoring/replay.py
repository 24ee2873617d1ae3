"""How soon a fault would have been found: the recorded run replayed as growing prefixes.

This is a replay of the archive, not a live measurement: at each moment the detectors see the
steps that had ended and, for ranks that stopped and for links, the samples that had been scraped by
then, and nothing of the run's end. A rank or link counts as found with its first finding, of either
tier.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lockstep.analyzer.shapes.run import Run
from lockstep.analyzer.shapes.wording import ENDS
from lockstep.analyzer.verdict.case import opened
from lockstep.analyzer.verdict.pipeline import comparable, effects, through
from lockstep.collector.contract.words import Cause

EVERY_SECONDS = 0.5
ENDINGS = ("ended", "outcome", "ending")
STOPS = (Cause.FREEZE, Cause.CRASH)
NETWORK = (Cause.LINK, Cause.CONGESTION)


def detection_delay(
    run: Run, truth: Mapping[str, Any], after: Sequence[float] | None = None
) -> float | None:
    """Seconds of run time from the fault's onset until its rank or link is accused; None = never.

    Args:
        run: The whole run.
        truth: The fault as in truth.json: `rank` or `node`, `cause`, `from_step`.
        after: Seconds after the onset at which to look, ascending; None = every half second.
    """
    ranks = {
        info.rank
        for info in run.ranks
        if (info.rank == truth["rank"] if truth.get("rank") is not None
            else info.node == truth.get("node"))
    }  # fmt: skip
    onset = _onset(run, ranks, int(truth["from_step"]))
    moments = np.concatenate([run.windows["end"], run.samples["time"]])
    if onset is None or not moments.size:
        return None
    told = truth.get("cause") in (*STOPS, *NETWORK)
    wanted = {truth.get("node")} if truth.get("cause") in NETWORK else ranks
    looks = np.arange(onset + EVERY_SECONDS, moments.max() + EVERY_SECONDS, EVERY_SECONDS)
    for moment in looks if after is None else [onset + each for each in after]:
        if _accused(prefix(run, float(moment), with_samples=told)) & wanted:
            return float(moment - onset)
    return None


def prefix(run: Run, until: float, *, with_samples: bool = True) -> Run:
    """The run as it was known at `until` (unix seconds)."""
    samples = run.samples[run.samples["time"] <= until] if with_samples else run.samples[:0]
    return dataclasses.replace(
        run,
        meta={key: value for key, value in run.meta.items() if key not in ENDINGS},
        windows=run.windows[run.windows["end"] <= until],
        samples=samples,
        ops=None,
    )


def _accused(run: Run) -> set[int | str | None]:
    """Ranks that are slow or stopped, and nodes of links."""
    found = through((comparable, effects), opened(run)).findings
    ranks = {one.rank for one in found if one.kind in ("slow", "hang")}
    links = [one for one in found if one.kind == "link"]
    ends = {end for one in links for end in str(one.details["link"]).split(ENDS)}
    return {*ranks, *(one.details["node"] for one in links), *ends}


def _onset(run: Run, ranks: set[int], step: int) -> float | None:
    """When the faulty rank began that step, or ended the one before if it never ended it."""
    own = run.windows[run.windows["rank"].isin(ranks)]
    begun = own[(own["from_step"] <= step) & (own["to_step"] > step)]
    if len(begun):
        return float(begun["start"].min())
    before = own[own["to_step"] <= step]
    return float(before["end"].max()) if len(before) else None
