"""Who the ranks of an archive are, and which nodes there are."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lockstep.analyzer.read.archive.files import part, whole
from lockstep.analyzer.read.archive.series import ScrapedSeries
from lockstep.analyzer.read.archive.table import Table
from lockstep.analyzer.read.ranks import rank_infos
from lockstep.collector.contract import archive, metrics

COLUMNS = ("rank", "node", "gpu", "uuid", "local_rank", "dp", "pp", "tp")
MOST_RANKS = 20_000
"""More are not laid out from a run.json that nobody checked."""
NEEDED = ("rank", "node", "local_rank", "dp", "pp", "tp")


def ranks(table: Table, samples: ScrapedSeries, meta: Mapping[str, Any]) -> pd.DataFrame:
    """One row a rank, in rank order: COLUMNS; `gpu` is null on CPU, `uuid` empty."""
    rows = table.read([each.name for each in archive.RANKS]).to_pandas()
    rows = rows.dropna(subset=list(NEEDED)).astype({"node": str})
    rows = rows[rows["rank"] >= 0].drop_duplicates("rank", keep="last")
    told = _rank_info(samples) if rows.empty else pd.DataFrame({"metric": [], "rank": []})
    infos = rank_infos(rows, told, _layout(meta), [])
    frame = pd.DataFrame(
        [(each.rank, each.node, each.gpu, each.uuid or "", each.local_rank, each.dp, each.pp,
          each.tp) for each in infos],
        columns=list(COLUMNS),
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
    """The ranks' info series as lockstep.analyzer.read.ranks reads them."""
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
