"""Who the ranks are: from ranks.parquet, else from the ranks' info series, else from the layout."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from lockstep.analyzer.read.exchanges import exchanges, with_stages
from lockstep.analyzer.read.layouts import place_of
from lockstep.analyzer.read.rank_info import rank_labels
from lockstep.analyzer.shapes.labels import number, parsed
from lockstep.analyzer.shapes.run import RankInfo
from lockstep.collector.contract.metrics import RANK_INFO

SHOWN_RANKS = 16
MOST_RANKS = 1_000_000
"""A label that says more is a page's mistake."""
UNKNOWN_NODE = "unknown"


def rank_infos(
    table: pd.DataFrame,
    samples: pd.DataFrame,
    layout: Mapping[str, Any] | None,
    missing: list[str],
    *,
    others: Iterable[int] = (),
) -> tuple[RankInfo, ...]:
    """Every rank that should exist, in rank order.

    Ranks of the layout that nobody described are added by the rule of docs/method/case.md, with a
    note in `missing`: a rank that never answered is unknown, not absent.

    Args:
        table: contract.archive.RANKS.
        samples: contract.archive.SAMPLES; info series tell of ranks that the table lacks.
        layout: Of run.json; None = not known.
        missing: Gets what is not there, in words.
        others: More ranks that must exist, whoever they are.
    """
    series = _from_series(samples)
    partners = exchanges(samples)
    known = {int(row["rank"]): _from_row(row) for row in table.to_dict("records")}
    for rank in known.keys() & series.keys():
        known[rank] = replace(known[rank], external=series[rank].external)
    known = series | known
    expected = {*_expected(layout), *others}
    silent = sorted(expected - known.keys())
    if silent:
        shown = ", ".join(map(str, silent[:SHOWN_RANKS]))
        more = f" and {len(silent) - SHOWN_RANKS} more" * (len(silent) > SHOWN_RANKS)
        missing.append(f"rank {shown}{more} never told who it is")
        place = place_of(max(expected) + 1, [(i.rank, i.dp, i.pp, i.tp) for i in known.values()])
        known |= {
            rank: _from_layout(rank, layout)
            if layout and "ranks_per_node" in layout
            else _nowhere(rank, *place(rank))
            for rank in silent
        }
    return with_stages([
        replace(known[rank], exchange=partners.get(rank)) for rank in sorted(known)
    ])  # fmt: skip


def world_of(samples: pd.DataFrame) -> int:
    """How many ranks there are by what they tell themselves; 0 = nobody tells."""
    labels = samples.loc[samples["metric"] == RANK_INFO.name, "labels"].dropna().unique()
    world = max((number(parsed(text), "world_size") or 0 for text in labels), default=0)
    return world if world <= MOST_RANKS else 0


def _nowhere(rank: int, dp: int, pp: int, tp: int) -> RankInfo:
    """A rank of which no more is known than that it must exist."""
    return RankInfo(rank, UNKNOWN_NODE, None, None, 0, dp, pp, tp)


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
        told = parsed(row["labels"]) if isinstance(row["labels"], str) else {}
        who = rank_labels({**told, "rank": str(int(row["rank"]))})
        if who is not None:
            node = who.node or str(row["node"])
            gpu = None if pd.isna(row["gpu"]) else int(row["gpu"])
            ranks[who.rank] = RankInfo(
                who.rank,
                node,
                gpu,
                None,
                who.local_rank,
                who.dp,
                who.pp,
                who.tp,
                external=bool(who.steps_by),
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
