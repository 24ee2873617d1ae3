"""How soon a fault would have been found: the recorded run replayed as growing prefixes.

This is a replay of the archive, not a live measurement: at each moment the detectors see the
steps that had ended and, for ranks that stopped, the samples that had been scraped by then, and
nothing of the run's end. A rank counts as found with its first finding, of either tier.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analyzer.align import align
from analyzer.culprits.slow_nodes import settled
from analyzer.detectors import DETECTORS
from analyzer.run import Run
from collector.contract.words import Cause

EVERY_SECONDS = 0.5
ENDINGS = ("ended", "outcome", "ending")
STOPS = (Cause.FREEZE, Cause.CRASH)


def detection_delay(
    run: Run, truth: Mapping[str, Any], after: Sequence[float] | None = None
) -> float | None:
    """Seconds of run time from the fault's onset until its rank is accused; None = never.

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
    stops = truth.get("cause") in STOPS
    looks = np.arange(onset + EVERY_SECONDS, moments.max() + EVERY_SECONDS, EVERY_SECONDS)
    for moment in looks if after is None else [onset + each for each in after]:
        if _accused(prefix(run, float(moment), with_samples=stops)) & ranks:
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


def _accused(run: Run) -> set[int | None]:
    grid = align(run)
    found = [finding for detector in DETECTORS for finding in detector.detect(grid)]
    return {finding.rank for finding in settled(grid, found) if finding.kind in ("slow", "hang")}


def _onset(run: Run, ranks: set[int], step: int) -> float | None:
    """When the faulty rank began that step, or ended the one before if it never ended it."""
    own = run.windows[run.windows["rank"].isin(ranks)]
    begun = own[(own["from_step"] <= step) & (own["to_step"] > step)]
    if len(begun):
        return float(begun["start"].min())
    before = own[own["to_step"] <= step]
    return float(before["end"].max()) if len(before) else None
