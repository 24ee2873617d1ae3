"""The ranks of a run: from ranks.parquet, else from their info series, else from the layout.

Pages say with whom a rank exchanges data, which places it where nothing else does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lockstep.analyzer.shapes.labels import number, page_label, parsed
from lockstep.analyzer.shapes.run import Exchange, RankInfo
from lockstep.collector.contract.metrics import RANK_EXCHANGE_INFO, RANK_INFO

Labels = Mapping[str, str]


class RankLabels(NamedTuple):
    """One series; of what a page does not report, a rank is a replica of its own: dp = rank.

    `gpu` is None, `uuid` and `node` are empty where there is none; `world` is 0. `steps_by` is by
    which means the steps of somebody else's program are known; empty = of a reference run, or of
    a page that does not report.
    """

    run: str
    rank: int
    attempt: int
    world: int
    local_rank: int
    dp: int
    pp: int
    tp: int
    gpu: int | None
    uuid: str
    node: str
    steps_by: str = ""


def rank_labels(labels: Labels) -> RankLabels | None:
    """Of labels that say no rank, None."""
    rank = number(labels, "rank")
    if rank is None:
        return None
    dp = number(labels, "dp")
    attempt, world, local_rank, pp, tp = (
        number(labels, name) or 0 for name in ("attempt", "world_size", "local_rank", "pp", "tp")
    )
    return RankLabels(
        labels.get("run", ""), rank, attempt, world, local_rank, rank if dp is None else dp, pp, tp,
        number(labels, "gpu"), page_label(labels, "uuid"), page_label(labels, "node"),
        page_label(labels, "steps_by"),
    )  # fmt: skip


def last_attempts(infos: Iterable[tuple[Labels, float]]) -> list[tuple[RankLabels, Labels]]:
    """By run and rank; of several attempts of a rank the last counts."""
    latest: dict[tuple[str, int], tuple[RankLabels, Labels]] = {}
    for labels, _ in infos:
        who = rank_labels(labels)
        if who is None:
            continue
        known = latest.get((who.run, who.rank))
        if known is None or who.attempt >= known[0].attempt:
            latest[who.run, who.rank] = who, labels
    return [latest[key] for key in sorted(latest)]


Place = tuple[int, int, int]


def place_of(world: int, known: Iterable[tuple[int, int, int, int]]) -> Callable[[int], Place]:
    """Rank -> (dp, pp, tp) by the rule of docs/method/case.md, `rank = (pp · DP + dp) · TP + tp`.

    With no sizes that fit the ranks that reported, all others count as data-parallel.

    Args:
        world: Number of ranks.
        known: (rank, dp, pp, tp) of those that reported.
    """
    told = list(known)
    widths = [width for width in range(1, world + 1) if world % width == 0]
    for tp in widths:
        for dp in widths:
            rule = _rule(dp, tp)
            if world % (tp * dp) == 0 and all(rule(one[0]) == one[1:] for one in told):
                return rule
    return lambda rank: (rank, 0, 0)


def _rule(dp: int, tp: int) -> Callable[[int], Place]:
    return lambda rank: (rank // tp % dp, rank // (tp * dp), rank % tp)


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
        samples: contract.archive.SAMPLES; info series report ranks that the table lacks.
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
        missing.append(f"rank {shown}{more} never reported who it is")
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
    """How many ranks there are by what they report themselves; 0 = nobody reports."""
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


MOST_PEERS = 2
"""Of a stage: the one before and the one behind."""


def exchanges(samples: pd.DataFrame) -> dict[int, Exchange]:
    """Rank -> what its page reported last (contract RANK_EXCHANGE_INFO)."""
    rows = samples[(samples["metric"] == RANK_EXCHANGE_INFO.name) & samples["rank"].notna()]
    found = {}
    for row in rows.drop_duplicates("rank", keep="last").to_dict("records"):
        told = parsed(str(row["labels"]))
        words, numbers = (told.get(name, "").split(",") for name in ("groups", "peers"))
        known = (each for each in numbers if each.isascii() and each.isdigit() and len(each) < 10)
        peers = frozenset(map(int, known))
        averages = told.get("only_averages") == "true"
        found[int(row["rank"])] = Exchange(frozenset(words) - {""}, peers, averages)
    return found


def with_stages(ranks: Sequence[RankInfo]) -> tuple[RankInfo, ...]:
    """With the stages of a pipeline where every rank reports with whom it exchanges data.

    Sends and receives between neighbours make a chain, or a circle where stages are interleaved;
    its places are the stages, the lowest rank is in the first, and equal places of all chains are
    replicas. As they are where somebody reported places, where the chains are not alike, and where
    all of a chain reduce data together: stages do not, but replicas do that hand each other keys
    and values (ring attention, arXiv 2310.01889).
    """
    told = {info.rank: info.exchange for info in ranks if info.external and info.exchange}
    if len(told) < len(ranks) or any(info.pp or info.tp for info in ranks):
        return tuple(ranks)
    peers = {rank: set(one.peers) - {rank} for rank, one in told.items()}
    for rank, others in [(rank, tuple(others)) for rank, others in peers.items()]:
        for other in others:
            peers.setdefault(other, set()).add(rank)
    if peers.keys() != told.keys() or not all(0 < len(o) <= MOST_PEERS for o in peers.values()):
        return tuple(ranks)
    chains = _chains(peers)
    stage = {rank: place for chain in chains for place, rank in enumerate(chain)}
    if len(set(map(len, chains))) > 1 or not _apart(chains, stage, _members(told)):
        return tuple(ranks)
    replica = dict.fromkeys(stage.values(), 0)
    placed = []
    for info in ranks:
        pp = stage[info.rank]
        placed.append(replace(info, dp=replica[pp], pp=pp))
        replica[pp] += 1
    return tuple(placed)


def _chains(peers: Mapping[int, set[int]]) -> list[list[int]]:
    """Ranks in the order of each chain, from its lower end, or around from its lowest rank."""
    left, found = set(peers), []
    while left:
        around = _reached(min(left), peers)
        ends = sorted(rank for rank in around if len(peers[rank]) == 1) or [min(around)]
        chain = [ends[0]]
        while further := sorted(peers[chain[-1]] - set(chain)):
            chain.append(further[0])
        found.append(chain)
        left -= around
    return found


def _reached(first: int, peers: Mapping[int, set[int]]) -> set[int]:
    found, open_ = {first}, [first]
    while open_:
        more = peers[open_.pop()] - found
        found |= more
        open_ += more
    return found


def _members(partners: Mapping[int, Exchange]) -> Iterable[set[int]]:
    """The ranks of each group."""
    found: dict[str, set[int]] = {}
    for rank, one in partners.items():
        for group in one.groups:
            found.setdefault(group, set()).add(rank)
    return found.values()


def _apart(
    chains: Sequence[Sequence[int]], stage: Mapping[int, int], groups: Iterable[set[int]]
) -> bool:
    """Whether groups are of one stage each, or of some of one chain (as tied embeddings)."""
    return all(
        len({stage[rank] for rank in group}) == 1 or any(group < set(chain) for chain in chains)
        for group in groups
    )


# CUDA_VISIBLE_DEVICES, MIG and exporters of other makers number GPUs differently; what all of them
# agree on is the uuid.

UUID = "uuid"


def as_ranks_number(samples: pd.DataFrame, ranks: Sequence[RankInfo]) -> pd.DataFrame:
    """The samples without their column `uuid`, `gpu` as the rank of that uuid has it.

    A series whose GPU no rank of the node has keeps its number; where a rank's GPU has the same
    one, it is another GPU's and left out; but not on a node where no uuid is a rank's, as where one
    side reports those of parts (MIG).
    """
    if UUID not in samples:
        return samples
    number = {
        (info.node, info.uuid): info.gpu for info in ranks if info.uuid and info.gpu is not None
    }
    told_of = set(zip(samples["node"], samples[UUID], strict=True))
    matched = {node for node, uuid in number if (node, uuid) in told_of}
    taken = {(info.node, info.gpu) for info in ranks if info.gpu is not None and info.uuid}
    told = samples.drop(columns=UUID)
    code, keys = pd.factorize(pd.MultiIndex.from_frame(samples[["node", UUID, "gpu"]]))
    gpus: list[int | None] = []
    kept: list[bool] = []
    for node, uuid, gpu in keys:
        mine = None if pd.isna(gpu) else int(gpu)
        named = mine is not None and isinstance(uuid, str)
        known = number.get((node, uuid)) if named else None
        gpus.append(mine if known is None else known)
        another = named and known is None and node in matched and (node, mine) in taken
        kept.append(not another)
    told["gpu"] = pd.array(gpus, dtype="Int32").take(code)
    return told[np.array(kept, dtype=bool)[code]].reset_index(drop=True)
