"""Who a rank says that it is: the labels of `lockstep_rank_info`, wherever they are stored."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lockstep.analyzer.shapes.labels import number, page_label

Labels = Mapping[str, str]


class RankLabels(NamedTuple):
    """One series; of what a page does not tell, a rank is a replica of its own: dp = rank.

    `gpu` is None, `uuid` and `node` are empty where there is none; `world` is 0. `steps_by` is by
    which means the steps of somebody else's program are known; empty = of a reference run, or of
    a page that does not tell.
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
