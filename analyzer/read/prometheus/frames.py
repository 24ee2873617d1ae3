"""Series as the tables of an archive: samples.parquet and ranks.parquet."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lockstep.analyzer.read.prometheus.answers import Series
from lockstep.analyzer.read.ranks import UUID, place_of
from lockstep.analyzer.shapes.labels import Target, name_of, number, page_label, target_of, text_of
from lockstep.analyzer.shapes.windows import MAX_GAP
from lockstep.collector.contract import archive
from lockstep.collector.contract.metrics import BUILD_INFO, RANK_INFO, SAMPLES

MOST_RANKS = 1_000_000
SHOWN_RANKS = 16
UNKNOWN_NODE = "unknown"


def samples_frame(series: Sequence[Series]) -> pd.DataFrame:
    """contract.archive.SAMPLES by time, and the `uuid` of each GPU.

    A series' words are one object, not one a sample.
    """
    nodes = node_names(series)
    kept = [(name, one) for one in series if (name := name_of(one.labels)) is not None]
    counts = np.array([len(one.times) for _, one in kept], dtype=np.int64)

    def words(texts: Sequence[str | None]) -> pd.Series:
        return pd.Series(np.repeat(np.array(texts, dtype=object), counts), dtype=object)

    def ids(label: str) -> pd.Series:
        each = pd.array([number(one.labels, label) for _, one in kept], dtype="Int32")
        return pd.Series(each.take(np.repeat(np.arange(len(kept)), counts)))

    times = [one.times for _, one in kept] or [np.empty(0, dtype=np.int64)]
    values = [one.values for _, one in kept] or [np.empty(0)]
    frame = pd.DataFrame(
        {
            "time": np.concatenate(times) / 1000,
            "node": words([nodes[target_of(one.labels)] for _, one in kept]),
            "gpu": ids("gpu"),
            "rank": ids("rank"),
            "metric": words([name for name, _ in kept]),
            "labels": words([text_of(one.labels, name) for name, one in kept]),
            "value": np.concatenate(values),
            UUID: words([page_label(one.labels, UUID) or None for _, one in kept]),
        }
    )
    columns = [*(column.name for column in archive.SAMPLES), UUID]
    return frame[columns].sort_values("time", kind="stable", ignore_index=True)


def ranks_frame(series: Sequence[Series], missing: list[str]) -> pd.DataFrame:
    """contract.archive.RANKS: who reported itself last, and who should be there and never did."""
    nodes = node_names(series)
    latest: dict[int, Series] = {}
    for one in _infos(series):
        rank = number(one.labels, "rank")
        if rank is not None and (rank not in latest or one.times[-1] > latest[rank].times[-1]):
            latest[rank] = one
    rows = [_row(rank, one, nodes) for rank, one in sorted(latest.items())]
    worlds = [number(one.labels, "world_size") or 0 for one in latest.values()]
    world = min(max(worlds, default=0), MOST_RANKS)
    silent = [rank for rank in range(world) if rank not in latest]
    if silent:
        shown = ", ".join(map(str, silent[:SHOWN_RANKS]))
        more = f" and {len(silent) - SHOWN_RANKS} more" if len(silent) > SHOWN_RANKS else ""
        missing.append(f"rank {shown}{more} of {world} never reported who it is")
        place = place_of(world, [_place(row) for row in rows])
        rows += [_silent(rank, *place(rank)) for rank in silent]
    return pd.DataFrame(rows, columns=[column.name for column in archive.RANKS])


def node_names(series: Sequence[Series]) -> dict[Target, str]:
    """The node behind each target: as its ranks say, or as its labels do, or its address."""
    names: dict[Target, str] = {}
    for one in series:
        target = target_of(one.labels)
        name = name_of(one.labels)
        of_page = name in SAMPLES and "node" in SAMPLES[name].labels
        label = "" if of_page else one.labels.get("node", "")
        names[target] = label or names.get(target) or target[1]
    for one in sorted(_infos(series), key=lambda info: int(info.times[-1])):
        target = target_of(one.labels)
        names[target] = page_label(one.labels, "node") or names[target]
    return names


def _infos(series: Sequence[Series]) -> list[Series]:
    return [one for one in series if one.labels.get("__name__") == RANK_INFO.name]


def _row(rank: int, info: Series, nodes: Mapping[Target, str]) -> dict[str, Any]:
    labels = info.labels
    place = {name: number(labels, name) or 0 for name in ("local_rank", "pp", "tp")}
    dp = number(labels, "dp")
    return {
        "rank": rank, "node": nodes[target_of(labels)], "gpu": number(labels, "gpu"),
        "uuid": page_label(labels, "uuid") or None, "dp": rank if dp is None else dp, **place,
        "pod": labels.get("pod"),
    }  # fmt: skip


def _place(row: Mapping[str, Any]) -> tuple[int, int, int, int]:
    return row["rank"], row["dp"], row["pp"], row["tp"]


def _silent(rank: int, dp: int, pp: int, tp: int) -> dict[str, Any]:
    return {
        "rank": rank, "node": UNKNOWN_NODE, "gpu": None, "uuid": None, "local_rank": 0,
        "dp": dp, "pp": pp, "tp": tp, "pod": None,
    }  # fmt: skip


SHOWN_NODES = 4


def gaps(samples: pd.DataFrame) -> list[str]:
    """A sentence on the nodes that were not scraped for a while, and on scrapes that failed."""
    words = []
    scraped = samples[samples["metric"] == BUILD_INFO.name]
    for node, rows in scraped.groupby("node"):
        lengths = np.diff(np.unique(rows["time"].to_numpy(dtype=float)))
        long = lengths[lengths > MAX_GAP * np.median(lengths)] if lengths.size else lengths
        if long.size:
            words.append(f"{node} was not scraped for {long.sum():.0f} s")
    if len(words) > SHOWN_NODES:
        words = [*words[:SHOWN_NODES], f"{len(words) - SHOWN_NODES} more nodes have gaps"]
    return words
