"""With whom ranks exchange data, and what that tells of their places where nobody else does."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from lockstep.analyzer.shapes.labels import parsed
from lockstep.analyzer.shapes.run import Exchange, RankInfo
from lockstep.collector.contract.metrics import RANK_EXCHANGE_INFO

MOST_PEERS = 2
"""Of a stage: the one before and the one behind."""


def exchanges(samples: pd.DataFrame) -> dict[int, Exchange]:
    """Rank -> what its page told last (contract RANK_EXCHANGE_INFO)."""
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
    """With the stages of a pipeline where every rank tells with whom it exchanges data.

    Sends and receives between neighbours make a chain, or a circle where stages are interleaved;
    its places are the stages, the lowest rank is in the first, and equal places of all chains are
    replicas. As they are where somebody told places, where the chains are not alike, and where all
    of a chain reduce data together: stages do not, but replicas do that hand each other keys and
    values (ring attention, arXiv 2310.01889).
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


def _members(told: Mapping[int, Exchange]) -> Iterable[set[int]]:
    """The ranks of each group."""
    found: dict[str, set[int]] = {}
    for rank, one in told.items():
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
