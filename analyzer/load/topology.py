"""Who the ranks are: from ranks.parquet, else from the ranks' info series, else from the layout."""

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analyzer.run import RankInfo
from collector.contract.metrics import RANK_INFO

LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def rank_infos(
    table: pd.DataFrame,
    samples: pd.DataFrame,
    layout: Mapping[str, Any] | None,
    missing: list[str],
) -> tuple[RankInfo, ...]:
    """Every rank that should exist, in rank order.

    Ranks of the layout that nobody described are added by the rule of DESIGN 3.2, with a note in
    `missing`: a rank that never answered is unknown, not absent.
    """
    known = {int(row["rank"]): _from_row(row) for row in table.to_dict("records")}
    if not known:
        known = _from_series(samples)
    silent = [rank for rank in _expected(layout) if rank not in known]
    if silent:
        missing.append(f"rank {', '.join(map(str, silent))} never told who it is")
    for rank in silent:
        assert layout is not None
        known[rank] = _from_layout(rank, layout)
    return tuple(known[rank] for rank in sorted(known))


def _from_row(row: Mapping[Any, Any]) -> RankInfo:
    return RankInfo(
        rank=int(row["rank"]),
        node=str(row["node"]),
        gpu=None if pd.isna(row["gpu"]) else int(row["gpu"]),
        uuid=str(row["uuid"]) if isinstance(row["uuid"], str) else None,
        local_rank=int(row["local_rank"]),
        dp=int(row["dp"]),
        pp=int(row["pp"]),
        tp=int(row["tp"]),
    )


def _from_series(samples: pd.DataFrame) -> dict[int, RankInfo]:
    rows = samples[(samples["metric"] == RANK_INFO.name) & samples["rank"].notna()]
    ranks: dict[int, RankInfo] = {}
    for row in rows.drop_duplicates("rank", keep="last").to_dict("records"):
        labels = dict(LABEL.findall(row["labels"] or ""))
        ranks[int(row["rank"])] = RankInfo(
            rank=int(row["rank"]),
            node=labels.get("node") or str(row["node"]),
            gpu=None if pd.isna(row["gpu"]) else int(row["gpu"]),
            uuid=None,
            local_rank=int(labels.get("local_rank", 0)),
            dp=int(labels.get("dp", row["rank"])),
            pp=int(labels.get("pp", 0)),
            tp=int(labels.get("tp", 0)),
        )
    return ranks


def _expected(layout: Mapping[str, Any] | None) -> range:
    if not layout or "nodes" not in layout or "ranks_per_node" not in layout:
        return range(0)
    return range(int(layout["nodes"]) * int(layout["ranks_per_node"]))


def _from_layout(rank: int, layout: Mapping[str, Any]) -> RankInfo:
    width = int(layout["ranks_per_node"])
    tp = int(layout.get("tp", 1))
    dp = int(layout.get("dp", 1))
    return RankInfo(
        rank=rank,
        node=f"node-{rank // width}",
        gpu=None,
        uuid=None,
        local_rank=rank % width,
        dp=rank // tp % dp,
        pp=rank // (tp * dp),
        tp=rank % tp,
    )
