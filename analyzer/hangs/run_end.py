"""How a run ended: what its launcher saw, and what ranks that are gone said of themselves last."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hangs.last_seen import (
    STUCK_SECONDS,
    dead,
    died_first,
    longest_inside,
    stall_after,
    stood_still,
    unanswered,
    unseen_then,
)
from lockstep.analyzer.shapes.run import Basis, Culprit, Grid
from lockstep.analyzer.shapes.wording import listed
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import OWN_SIGNALS, RankState, without_numbers

FINISHED, INTERRUPTED = "finished", "interrupted"
NOTICED = (RankState.PEER_LOST, RankState.FAILED)
"""What ranks say that met an error, their own or that another one was gone."""
WENT_QUERY = "outcome of run.json"
"""Of the fact how a launcher saw a rank end."""
RAISED, EXITED = "it raised ", "it exited "
SILENT = (RankState.STARTING, RankState.RUNNING)
"""What a rank leaves that a signal ended: it could say nothing more."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the launcher says a run ended.

    Attributes:
        word: finished, interrupted, crash, hang; None while it goes on or where nobody knows. Where
            no launcher says it, ranks that were ended from outside do.
        reason: In the launcher's words; empty = none.
        first: (R,) whose end was the first failure, or who holds the others up.
        done: (R,) the launcher saw a clean end, and names others: it began nothing.
        struck: Whether signals from outside, or faults of their own, ended `first`.
        codes: rank -> exit code, -N = by signal N, of those that ended by themselves.
        raised: rank -> the exception of its own with which its log ends, type and message. One that
            says that another process was gone is none of its own, and one in the log of a rank that
            ended well, or by a signal from outside, did not end it.
    """

    word: str | None
    reason: str
    first: NDArray[np.bool_]
    done: NDArray[np.bool_]
    struck: bool
    codes: Mapping[int, int]
    raised: Mapping[int, str]


def ended(grid: Grid) -> Ended:
    """By run.json; a run from elsewhere has none, but its ranks may say that they were ended."""
    outcome = grid.meta.get("outcome", grid.meta.get("ending"))
    tree = outcome if isinstance(outcome, Mapping) else {"ending": outcome}
    named = set(tree.get("ranks") or ())
    codes = {int(one["rank"]): int(one["code"]) for one in tree.get("exits") or ()}
    raised = {
        int(one["rank"]): str(one["error"])
        for one in tree.get("raised") or ()
        if not one.get("of_lost_peer") and _by_itself(codes.get(int(one["rank"]), 1))
    }
    struck = bool(named) and all(_from_outside(codes.get(rank, 0)) for rank in named)
    word = None if tree.get("ending") is None else str(tree["ending"])
    if word is None and _from_outside_alone(grid):
        word = INTERRUPTED
    first = np.array([info.rank in named for info in grid.ranks], dtype=bool)
    clean = np.array([codes.get(info.rank) == 0 for info in grid.ranks], dtype=bool)
    return Ended(
        word,
        str(tree.get("reason") or ""),
        first,
        clean & ~first & first.any(),
        struck,
        codes,
        raised,
    )


def last_said(grid: Grid, states: tuple[RankState, ...]) -> NDArray[np.bool_]:
    """(R,) gone, and what it said of itself last is one of these; false where it is not known."""
    newest = np.full(len(grid.ranks), -np.inf)
    words = np.zeros(len(grid.ranks), dtype=bool)
    for key, value in grid.last.items():
        if key.startswith(f"{metrics.RANK_LAST_STATE.name}{{"):
            when = np.where(np.isfinite(value), grid.last_time[key], -np.inf)
            one_of = any(f'state="{state}"' in key for state in states)
            words = np.where(when > newest, one_of, words)
            newest = np.maximum(newest, when)
    return np.asarray(words & dead(grid), dtype=bool)


def unclean(grid: Grid) -> NDArray[np.bool_]:
    """(R,) gone without having said that it had finished."""
    return dead(grid) & ~last_said(grid, (RankState.FINISHED,))


def unexplained(grid: Grid) -> str | None:
    """Why a run of which nobody is named cannot be called healthy by its end; None = it can."""
    how = ended(grid)
    if how.word == FINISHED:
        return None
    if how.word == INTERRUPTED:
        # Who ended it, and not how it stood: people end runs that hang.
        waited = float(longest_inside(grid).max(initial=0.0))
        if waited < stall_after(grid):
            return None
        return (
            f"the run was ended by its user, ranks had been in one collective for {waited:.0f} s,"
            " and which rank began it is unknown"
        )
    if (alike := failed_alike(grid, how)) is not None:
        return alike
    if how.word is not None:
        because = f" ({how.reason})" if how.reason else ""
        verb = {"crash": "crashed", "hang": "was ended because it hung"}.get(how.word, how.word)
        return f"the run {verb}{because}, and which rank began it is unknown{_unseen(grid)}"
    lost = unclean(grid)
    if lost.any():
        verb = "are" if lost.sum() > 1 else "is"
        return (
            f"{_who(grid, lost)} {verb} gone without a clean end, and which of them began it is"
            f" unknown{_unseen(grid)}"
        )
    if grid.meta.get("vanished"):
        return "its series ended while its ranks were there, and how it ended is unknown"
    if (dark := unanswered(grid)) > 0:
        step = int(grid.to_step.max()) - 1 if len(grid.to_step) else None
        last = "" if step is None else f", the last reported step is {step}"
        return (
            f"no node answered a scrape in the last {dark:.0f} s{last}, and whether the run stands"
            " still or has ended is unknown"
        )
    still = stood_still(grid)
    if still >= max(STUCK_SECONDS, stall_after(grid)):
        return f"no rank has begun or ended anything for {still:.0f} s, and the reason is unknown"
    return None


def _unseen(grid: Grid) -> str:
    """Who may have gone before those that are seen to be gone, in words; empty = nobody."""
    unseen = unseen_then(grid)
    if not unseen.any():
        return ""
    verb = "they were" if unseen.sum() > 1 else "it was"
    return f"; {_who(grid, unseen)} may have gone before, as {verb} not seen alive since"


def _who(grid: Grid, ranks: NDArray[np.bool_]) -> str:
    numbers = [grid.ranks[column].rank for column in np.flatnonzero(ranks)]
    return f"rank{'s' * (len(numbers) > 1)} {listed(numbers)}"


def how_it_went(how: Ended, rank: int) -> str:
    """How a rank ended by itself, in words; empty where the launcher saw nothing of it."""
    code, error = how.codes.get(rank), how.raised.get(rank)
    if code is None:
        return "" if error is None else f"{RAISED}{error}, and its process did not end"
    if code < 0:
        names = {int(each): each.name for each in signal.Signals}
        end = f"was ended by {names.get(-code, f'signal {-code}')}"
    else:
        end = f"exited with code {code}"
    return f"it {end}" if error is None else f"{RAISED}{error} and {end}"


def seen_to_end(culprit: Culprit) -> str:
    """How a launcher saw a culprit end, in the words of `how_it_went`; empty where none did."""
    outcomes = (fact for fact in culprit.evidence if fact.basis is Basis.OUTCOME)
    return next((fact.text for fact in outcomes if fact.supports), "")


def failed_itself(culprit: Culprit) -> bool:
    """Whether an exception or its own exit code ended it, and no signal from outside."""
    went = seen_to_end(culprit)
    return went.startswith((RAISED, EXITED))


def failed_alike(grid: Grid, how: Ended) -> str | None:
    """That the program failed in the same way on most ranks, in words; None where it did not.

    The same exception but for numbers, or the same exit code without one: it is the program's, and
    of no place.
    Of a crash only ranks that have ended count: what others logged did not end them.
    """
    if how.word not in ("crash", "hang"):
        return None
    ranks = [info.rank for info in grid.ranks]
    failed = [rank for rank in ranks if how.word == "hang" or how.codes.get(rank)]
    texts = {without_numbers(how.raised[rank]): how.raised[rank]
             for rank in reversed(failed) if rank in how.raised}  # fmt: skip
    ways = [
        f"raised {texts[without_numbers(how.raised[rank])]}"
        for rank in failed
        if rank in how.raised
    ]
    ways += [
        f"exited with code {how.codes[rank]}"
        for column, rank in enumerate(ranks)
        if how.first[column] and rank not in how.raised and how.codes.get(rank, 0) > 0
    ]
    way = max(ways, key=ways.count, default="")
    count = ways.count(way)
    if not 2 * count > len(ranks) > 1:
        return None
    who = "every rank" if count == len(ranks) else f"{count} of {len(ranks)} ranks"
    return f"{who} {way}: the program itself failed, and nothing speaks against a node"


def _from_outside_alone(grid: Grid) -> bool:
    """Whether ranks were ended from outside, as with their pods, and none was gone before them."""
    outside, first = last_said(grid, (RankState.STOPPED,)), died_first(grid)
    if first.any():
        return bool(outside[first].all())
    return bool(outside.any() and not last_said(grid, (*SILENT, RankState.FAILED)).any())


def _by_itself(code: int) -> bool:
    """Whether an exception may have ended a rank: no clean end, and no signal from outside."""
    return code != 0 and not _from_outside(code)


def _from_outside(code: int) -> bool:
    return code < 0 and -code not in OWN_SIGNALS
