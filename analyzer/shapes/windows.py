"""The windows of a run (docs/method/case.md): of its steps, or of the counters of scrapes."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.labels import parsed
from lockstep.analyzer.shapes.waits import all_known, waited
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import PHASES

PHASE_COLUMNS: tuple[str, ...] = tuple(f"{phase}_seconds" for phase in PHASES)
SUMS: tuple[str, ...] = (
    "wall_seconds", "own_seconds", "cpu_seconds", *PHASE_COLUMNS, "samples", "tokens", "flops",
)  # fmt: skip
COLUMNS: tuple[str, ...] = (
    "rank", "attempt", "from_step", "to_step", "start", "end", "steps", "collective_seconds",
    "tags", "loss", *SUMS,
)  # fmt: skip
KNOWN = "known_steps"
"""Steps of which own time is known (contract TRAIN_KNOWN_STEPS); not a column of windows."""
COUNTERS: Mapping[str, str] = {
    metrics.TRAIN_OWN.name: "own_seconds",
    metrics.TRAIN_KNOWN_STEPS.name: KNOWN,
    metrics.TRAIN_CPU.name: "cpu_seconds",
    metrics.TRAIN_SAMPLES.name: "samples",
    metrics.TRAIN_TOKENS.name: "tokens",
    metrics.TRAIN_FLOPS.name: "flops",
}
"""Counters of a rank -> column of the window."""
MAX_GAP = 3.5
"""A scrape interval longer than this many median intervals is a gap: nobody knows its inside. A run
that stands still while it is scraped is none."""


def from_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """One window of length 1 a row of steps.parquet; a step that was recorded twice counts once.

    Collective time is `wait_seconds`, or the rest of the step where an archive lacks that column:
    own time is the step outside blocking collectives (contract TRAIN_OWN). Both are NaN where
    nobody timed all collectives of the step.
    """
    windows = steps.drop_duplicates(["rank", "attempt", "step"], keep="last")
    windows = windows.rename(columns={"step": "from_step"})
    return windows.assign(
        to_step=windows["from_step"] + 1,
        end=windows["start"] + windows["wall_seconds"],
        steps=1,
        collective_seconds=_waited(windows),
        tags=windows["tags"].fillna(""),
    )[list(COLUMNS)]


def _waited(steps: pd.DataFrame) -> "pd.Series[float]":
    rest = waited(steps["wall_seconds"], steps["own_seconds"])
    return steps["wait_seconds"].fillna(rest) if "wait_seconds" in steps else rest


def from_samples(samples: pd.DataFrame) -> pd.DataFrame:
    """Windows between scrapes, the same edges in steps for every rank.

    Scrapes of different nodes see different steps, so each rank's counters are read, by linear
    interpolation over its step number, at the edges of the rank that was scraped most. A counter
    that falls is a restart: the next attempt. Inside a gap nothing is known: NaN. Own time is known
    where it is known of every step of the window (contract TRAIN_KNOWN_STEPS).
    """
    counters = _counters(samples)
    if counters.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    parts = []
    for attempt, rows in counters.groupby("attempt"):
        edges = _edges(rows)
        for rank, own in rows.groupby("rank"):
            parts.append(_interpolate(own, edges).assign(rank=int(str(rank)), attempt=attempt))
    windows = pd.concat(parts, ignore_index=True)
    return windows[windows["wall_seconds"].notna()].reset_index(drop=True)[list(COLUMNS)]


def as_texts(samples: pd.DataFrame) -> pd.DataFrame:
    """Some of `Run.samples` with their words as texts, which are mapped and joined like any."""
    return samples.astype({
        name: "str" for name in ("node", "metric", "labels")
        if isinstance(samples[name].dtype, pd.CategoricalDtype)
    })  # fmt: skip


def _counters(samples: pd.DataFrame) -> pd.DataFrame:
    """One row a rank and scrape: `rank, time, attempt, step, <sums>, loss`."""
    names = dict(COUNTERS) | {
        metrics.TRAIN_STEPS.name: "step", metrics.TRAIN_LOSS.name: "loss",
    }  # fmt: skip
    wanted = samples["metric"].isin([*names, metrics.TRAIN_PHASE.name])
    rows = as_texts(samples[wanted & samples["rank"].notna()])
    phase = rows["metric"] == metrics.TRAIN_PHASE.name
    texts = rows.loc[phase, "labels"].dropna().unique()
    phases = {text: f"{name}_seconds" for text in texts if (name := parsed(text).get("phase"))}
    named = rows["metric"].map(names).where(~phase, rows["labels"].map(phases))
    rows = rows.assign(column=named)[named.notna()]
    wide = rows.pivot_table("value", ["rank", "time"], "column", aggfunc="last").reset_index()
    if not {"step", *PHASE_COLUMNS} <= set(wide):
        return pd.DataFrame()
    wide = wide.reindex(columns=["rank", "time", "step", "loss", KNOWN, *SUMS])
    # The phases of a step are all of it: `other` is the remainder (contract words.Phase).
    wide["wall_seconds"] = wide[list(PHASE_COLUMNS)].sum(axis=1, min_count=len(PHASE_COLUMNS))
    wide = wide[wide["step"].notna()].sort_values(["rank", "time"])
    by_rank = wide.groupby("rank")
    restarted = (by_rank["step"].diff() < 0) | (by_rank["wall_seconds"].diff() < 0)
    return wide.assign(attempt=restarted.groupby(wide["rank"]).cumsum().astype(int))


def _edges(rows: pd.DataFrame) -> NDArray[np.float64]:
    """Step numbers at the scrapes of the rank with the most distinct ones."""
    distinct = rows.groupby("rank")["step"].nunique()
    mine = rows.loc[rows["rank"] == distinct.idxmax(), "step"]
    edges: NDArray[np.float64] = np.unique(mine.to_numpy(dtype=float))
    return edges


def _longest_unseen(time: NDArray[np.float64], first: NDArray[np.intp]) -> NDArray[np.float64]:
    """From each first scrape of a step to the next: the longest interval without any scrape.

    In median intervals between scrapes, or between steps where these are longer: inside a step no
    counter moves, and a scrape that is lost there loses nothing.
    """
    lengths = np.diff(time)
    if len(first) < 2:
        return np.zeros(0)
    longest: NDArray[np.float64] = np.maximum.reduceat(lengths[: first[-1]], first[:-1])
    return longest / max(np.median(lengths), np.median(np.diff(time[first])))


def _interpolate(own: pd.DataFrame, edges: NDArray[np.float64]) -> pd.DataFrame:
    first = ~own["step"].duplicated().to_numpy()
    unseen = _longest_unseen(own["time"].to_numpy(dtype=float), np.flatnonzero(first))
    own = own[first]
    step = own["step"].to_numpy(dtype=float)

    def at_edges(column: str) -> NDArray[np.float64]:
        values = own[column].to_numpy(dtype=float)
        read: NDArray[np.float64] = np.interp(edges, step, values, left=np.nan, right=np.nan)
        return read

    middle = (edges[1:] + edges[:-1]) / 2
    place = np.clip(np.searchsorted(step, middle) - 1, 0, max(len(step) - 2, 0))
    known = unseen[place] <= MAX_GAP if unseen.size else np.zeros(middle.size, dtype=bool)
    moments = at_edges("time")
    sums = {name: np.where(known, np.diff(at_edges(name)), np.nan) for name in SUMS}
    # Between two scrapes the known steps are spread evenly: less than all of them is not all.
    timed = all_known(np.diff(at_edges(KNOWN)), np.diff(edges))
    sums["own_seconds"] = np.where(timed, sums["own_seconds"], np.nan)
    return pd.DataFrame(
        {
            "from_step": edges[:-1].astype(np.int64),
            "to_step": edges[1:].astype(np.int64),
            "start": moments[:-1],
            "end": moments[1:],
            "steps": np.diff(edges).astype(np.int64),
            "collective_seconds": waited(sums["wall_seconds"], sums["own_seconds"]),
            "tags": "",
            "loss": at_edges("loss")[1:],
            **sums,
        }
    )
