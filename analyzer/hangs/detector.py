"""Who stopped a run: missing from a collective that others are in, or the first that was gone."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lockstep.analyzer.hangs.last_seen import dead, out_of_sight, silent, stall_after
from lockstep.analyzer.hangs.onset import Began, Stall, began, group_waits, longest_stall, since
from lockstep.analyzer.hangs.run_end import (
    FINISHED,
    INTERRUPTED,
    Ended,
    ended,
    failed_alike,
    how_it_went,
)
from lockstep.analyzer.shapes.run import Finding, Grid
from lockstep.analyzer.shapes.wording import TOLD


def hang(grid: Grid) -> Sequence[Finding]:
    """One finding of kind `hang` a rank that began it.

    By the launcher's word, what gone ranks said last, and sequence numbers of the last scrapes. A
    run that finished has no hang. One that its user ended may: then the stall shows it.
    How ranks went after the stall is the user's doing, and says nothing.

    The `state` of a finding is dead, frozen, stuck, or raised: that exception ended its work, and
    its process is there. `details["went"]` says how it ended by itself, where that was seen, and
    `details["waits"]` who waits for whom.

    `details["certainty"]` is the posterior of its place; `details["node"]` is there where all
    ranks of a node stopped alike, or it is not known which of them did.
    """
    how = ended(grid)
    if how.word == FINISHED or failed_alike(grid, how) is not None:
        return ()
    seen, by_user = grid, how.word == INTERRUPTED
    grid = replace(grid, down_since=None) if by_user else grid
    waits = tuple(group_waits(grid, how))
    ended_by = since(waits) + stall_after(seen)
    if by_user and seen.down_since is not None and (seen.down_since < ended_by).any():
        # Others may have waited for one that was ended.
        return ()
    if not (any(group.waiting.any() for group in waits) or dead(grid).any() or how.first.any()):
        return ()
    onset = began(grid, how, waits)
    stall = longest_stall(grid, waits, onset.ranks, out_of_sight(grid))
    columns = np.flatnonzero(onset.ranks).tolist()
    return [_finding(grid, how, stall, onset, column) for column in columns]


def _finding(
    grid: Grid, how: Ended, stall: Stall | None, onset: Began, column: int
) -> Finding:  # fmt: skip
    rank, unseen = grid.ranks[column].rank, bool(silent(grid)[column])
    went, certainty = how_it_went(how, rank), float(onset.certainty[column])
    # What the launcher saw of its end outranks what scrapes saw before.
    gone = rank in how.codes
    state = "dead" if gone else "raised" if rank in how.raised else onset.states[column]
    nobody = np.zeros(len(grid.ranks), dtype=bool)
    behind, inside_it = (nobody, nobody) if stall is None else (stall.missing, stall.waiting)
    missing, waiting, began = (
        [grid.ranks[positions].rank for positions in np.flatnonzero(mask)]
        for mask in (behind, inside_it & ~onset.ranks, onset.ranks)
    )
    words = {
        "frozen": "its process is there but its heartbeat stopped",
        "dead": went or "its process is gone",
        "raised": went,
        "stuck": (
            "its node is not scraped any more, so the state of its process is unknown"
            if unseen
            else "its process is alive and makes no progress"
        ),
    }[state]
    sure = certainty >= TOLD and (len(began) == 1 or (onset.node is not None and not unseen))
    if stall is None or (not (stall.missing & onset.ranks).any() and how.word == "crash"):
        text = _first(rank, began, certain=sure)
    elif sure:
        text = _missing(rank, missing, waiting, stall)
    else:
        text = _untold(began, missing, waiting, stall)
    return Finding(
        detector="hang",
        kind="hang",
        rank=rank,
        first=len(grid.start),
        last=None,
        slowdown=float("nan"),
        interval=(float("nan"), float("nan")),
        score=0.0 if stall is None else stall.seconds,
        share={},
        text=f"{text}: {words}",
        details={
            "group": None if stall is None else stall.group,
            "sequence": None if stall is None else stall.sequence,
            "op": None if stall is None else stall.op,
            "missing_ranks": missing,
            "waiting_ranks": waiting,
            "state": state,
            "went": went,
            "waits": text,
            "stalled_seconds": None if stall is None else stall.seconds,
            "certainty": certainty,
            **({} if onset.node is None else {"node": onset.node}),
        },
    )


def _first(rank: int, began: list[int], *, certain: bool) -> str:
    if certain:
        return f"rank {rank} was the first of all ranks to go"
    if len(began) == 1:
        return f"rank {rank} seems to hold the others up"
    return f"which of {_ranks(began)} began it is unknown"


def _missing(rank: int, missing: list[int], waiting: list[int], stall: Stall) -> str:
    if rank in missing:
        return f"rank {rank} is missing from {_where(stall)}, in which {_waits(waiting)}"
    return f"{_waits(missing)} for rank {rank}, so that {_waits(waiting)} in {_where(stall)}"


def _untold(began: list[int], missing: list[int], waiting: list[int], stall: Stall) -> str:
    verb = "is" if len(missing) == 1 else "are"
    there = f"{_ranks(missing)} {verb} missing from {_where(stall)}, in which {_waits(waiting)}"
    if len(began) == 1:
        return f"{there}, and whether that rank waits for another is unknown"
    return f"{there}, and which of {_ranks(began)} began it is unknown"


def _where(stall: Stall) -> str:
    return f"{stall.op or 'collective'} number {stall.sequence} of group {stall.group}"


def _waits(ranks: list[int]) -> str:
    return f"{_ranks(ranks)} wait{'s' if len(ranks) == 1 else ''}"


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
