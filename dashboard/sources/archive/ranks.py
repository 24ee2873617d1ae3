"""Who the ranks are, how long each takes, and how that changed."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.read.archive.files import part, whole
from lockstep.analyzer.read.archive.series import ScrapedSeries
from lockstep.analyzer.read.archive.steps import Steps, middle, quantiles
from lockstep.analyzer.read.archive.table import Table
from lockstep.analyzer.read.ranks import rank_infos
from lockstep.analyzer.stats.coverage import KNOWN_AT_LEAST
from lockstep.analyzer.stragglers.peers import group_numbers, over_peers
from lockstep.collector.contract import archive, metrics
from lockstep.collector.contract.words import PHASES
from lockstep.dashboard.shapes import Floats, Matrix

MEMBER_COLUMNS = ("rank", "node", "gpu", "uuid", "local_rank", "dp", "pp", "tp")
MOST_RANKS = 20_000
"""More are not laid out from a run.json that nobody checked."""
NEEDED = ("rank", "node", "local_rank", "dp", "pp", "tp")


def members(table: Table, samples: ScrapedSeries, meta: Mapping[str, Any]) -> pd.DataFrame:
    """One row a rank, in rank order: MEMBER_COLUMNS; `gpu` is null on CPU, `uuid` empty."""
    rows = table.read([column.name for column in archive.RANKS]).to_pandas()
    rows = rows.dropna(subset=list(NEEDED)).astype({"node": str})
    rows = rows[rows["rank"] >= 0].drop_duplicates("rank", keep="last")
    infos_read = _rank_info(samples) if rows.empty else pd.DataFrame({"metric": [], "rank": []})
    infos = rank_infos(rows, infos_read, _layout(meta), [])
    frame = pd.DataFrame(
        [(info.rank, info.node, info.gpu, info.uuid or "", info.local_rank, info.dp, info.pp,
          info.tp) for info in infos],
        columns=list(MEMBER_COLUMNS),
    )  # fmt: skip
    return frame.astype({"gpu": "Int32", "node": str, "uuid": str})


def with_unknown(who: pd.DataFrame, seen: "list[int]") -> pd.DataFrame:
    """With a row for each rank that has steps and that nobody described."""
    more = [rank for rank in seen if rank not in set(who["rank"])]
    if not more:
        return who
    extra = pd.DataFrame({
        "rank": more, "node": "", "gpu": pd.array([pd.NA] * len(more), dtype="Int32"), "uuid": "",
        "local_rank": 0, "dp": more, "pp": 0, "tp": 0,
    })  # fmt: skip
    return pd.concat([who, extra], ignore_index=True) if len(who) else extra


def nodes(who: pd.DataFrame, samples: ScrapedSeries) -> tuple[str, ...]:
    """Names, those with ranks first, in rank order."""
    return tuple(dict.fromkeys([*(each for each in who["node"] if each), *samples.nodes()]))


def _rank_info(samples: ScrapedSeries) -> pd.DataFrame:
    """The ranks' info series as lockstep.analyzer.read.topology reads them."""
    return pd.DataFrame(
        [(each.metric, each.labels, each.node, None if each.gpu < 0 else each.gpu, each.rank)
         for each in samples.series([metrics.RANK_INFO]) if each.rank >= 0],
        columns=["metric", "labels", "node", "gpu", "rank"],
    )  # fmt: skip


def _layout(meta: Mapping[str, Any]) -> Mapping[str, Any] | None:
    layout = {name: whole(value) for name, value in part(meta, "layout").items()}
    numbers = {name: value for name, value in layout.items() if value}
    count = numbers.get("nodes", 0) * numbers.get("ranks_per_node", 0)
    needed = {"nodes", "ranks_per_node", "dp", "tp"}
    return numbers if needed <= numbers.keys() and 0 < count <= MOST_RANKS else None


PHASE_COLUMNS = tuple(f"{phase}_seconds" for phase in PHASES)
COLUMNS = ("own_seconds", "tags", *PHASE_COLUMNS)
WHO = ("rank", "node", "gpu", "uuid", "dp", "pp", "tp")
MOST_WINDOWS = 300
UNTIMED = "a collective of theirs was not timed; lockstep.recorder() times them"


def table(who: pd.DataFrame, steps: Steps) -> pd.DataFrame:
    """One row a rank, sorted by slowdown (lockstep.dashboard.protocol.Source.ranks)."""
    shown = ~steps.slow_by_design if len(steps.steps) else np.zeros(0, dtype=bool)
    if not shown.any():
        shown = np.ones(len(steps.steps), dtype=bool)
    place = {int(rank): at for at, rank in enumerate(steps.ranks)}
    medians = {
        name: middle(values[shown].T) if values.size else np.full(len(steps.ranks), np.nan)
        for name, values in steps.cells.items()
    }
    count = np.isfinite(steps.cells["wall_seconds"]).sum(axis=0)
    known = np.isfinite(steps.cells["own_seconds"]).sum(axis=0)
    # Of fewer steps the median would be that of some steps, and not of the range.
    medians["own_seconds"] = np.where(
        known >= KNOWN_AT_LEAST * count, medians["own_seconds"], np.nan
    )
    at = [place.get(int(rank), -1) for rank in who["rank"]]

    def of(values: Floats) -> Floats:
        return np.append(values, np.nan)[at]

    frame = who[list(WHO)].assign(
        steps=np.append(count, 0)[at], wall_seconds=of(medians["wall_seconds"]),
        own_seconds=of(medians["own_seconds"]),
    )  # fmt: skip
    own, wall = frame["own_seconds"].to_numpy(float), frame["wall_seconds"].to_numpy(float)
    frame["slowdown"] = beside_peers(own[None, :], frame)[0]
    frame["wait_share"] = np.where(wall > 0, 1 - own / np.where(wall > 0, wall, 1.0), np.nan)
    for column in PHASE_COLUMNS:
        frame[column] = of(medians[column])
    frame = frame.sort_values("slowdown", ascending=False, na_position="last", ignore_index=True)
    if unknown := int((frame["own_seconds"].isna() & (frame["steps"] > 0)).sum()):
        frame.attrs["note"] = (
            f"own time of {unknown:,} of {len(frame):,} ranks is unknown: {UNTIMED}"
        )
    return frame


def beside_peers(own: Floats, who: pd.DataFrame) -> Floats:
    """(W, R) own time over that of the peers (lockstep.analyzer.stragglers.peers).

    Args:
        own: (W, R) seconds; NaN = not known.
        who: A row a rank.
    """
    places = list(zip(who["pp"].tolist(), who["tp"].tolist(), strict=True))
    return over_peers(own, group_numbers(places, np.asarray(np.isfinite(own).any(axis=0))))


def times(who: pd.DataFrame, steps: Steps, unit_title: str = "Own time over peers") -> Matrix:
    """Own time of each rank over that of its peers, by window."""
    mine = np.isin(steps.ranks, who["rank"])
    own = windowed(steps.cells["own_seconds"][:, mine], MOST_WINDOWS)
    ranks = steps.ranks[mine]
    rows = who.set_index("rank").loc[ranks] if len(ranks) else who.iloc[:0]
    first = begins(len(steps.steps), MOST_WINDOWS)
    return Matrix(
        unit_title, "ratio", names(rows.reset_index()), steps.start[first],
        steps.steps[first].astype(np.float64),
        beside_peers(own, rows).T,
    )  # fmt: skip


def begins(count: int, most: int) -> NDArray[np.int64]:
    """Where each of at most `most` windows of steps begins."""
    return np.unique(np.linspace(0, count, min(count, most), endpoint=False).astype(np.int64))


def windowed(values: Floats, most: int) -> Floats:
    """(windows, R) medians over the steps of each window."""
    if not len(values):
        return values
    edges = [*begins(len(values), most), len(values)]
    longest = int(np.diff(edges).max())
    if longest == 1:
        return values
    padded = np.full((len(edges) - 1, longest, values.shape[1]), np.nan)
    for window, (begin, end) in enumerate(pairwise(edges)):
        padded[window, : end - begin] = values[begin:end]
    return quantiles(np.moveaxis(padded, 1, 2), (0.5,))[0]


def names(who: pd.DataFrame) -> tuple[str, ...]:
    """Of rows: rank, node and GPU."""
    return tuple(
        f"rank {rank} ({node})" if gpu is None or (isinstance(gpu, float) and math.isnan(gpu))
        or pd.isna(gpu) else f"rank {rank} ({node}, GPU {int(gpu)})"
        for rank, node, gpu in zip(who["rank"], who["node"], who["gpu"], strict=True)
    )  # fmt: skip
