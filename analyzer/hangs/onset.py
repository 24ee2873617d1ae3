"""Who began a stop: ranks, nodes and the user as hypotheses, by what each page showed last."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hangs.last_seen import (
    READ_SECONDS,
    STALL_SECONDS,
    alive_until,
    dead,
    died_first,
    frozen,
    inside_operations,
    longest_inside,
    out_of_sight,
    scrape_seconds,
    silent,
    stall_after,
    step_seconds,
    under_way,
    unseen_then,
)
from lockstep.analyzer.hangs.run_end import NOTICED, SILENT, Ended, last_said
from lockstep.analyzer.shapes.run import FloatGrid, Grid, RankInfo
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import RankState

GROUP = re.compile(r'group="(\w+)"')
OPERATION = re.compile(r'op="([\w-]+)"')


@dataclass(frozen=True, slots=True)
class GroupWaits:
    """How ranks stand in the groups of one kind; all else is of shape (R,).

    Attributes:
        kind: Of the groups.
        group: Number of each rank's group.
        sequence: The newest collective that any rank of it arrived at.
        waiting, missing: Is in that one, did not arrive there; nobody of groups that do not stand.
        seconds: For which any of its group is in it.
        since: Unix seconds when the rank began to wait; infinite = not for long.
    """

    kind: str
    group: NDArray[np.int64]
    sequence: FloatGrid
    waiting: NDArray[np.bool_]
    missing: NDArray[np.bool_]
    seconds: FloatGrid
    since: FloatGrid


@dataclass(frozen=True, slots=True)
class Stall:
    """One collective that some wait in; masks over ranks."""

    group: str
    sequence: int
    op: str | None
    waiting: NDArray[np.bool_]
    missing: NDArray[np.bool_]
    seconds: float


def group_waits(grid: Grid, how: Ended) -> Iterator[GroupWaits]:
    """Groups in which some wait for long, or waited when somebody of them was gone."""
    never = np.full(len(grid.ranks), np.nan)
    noticed = how.word is not None or bool(last_said(grid, NOTICED).any())
    for key, enqueued in grid.last.items():
        if not key.startswith(metrics.TRAIN_ENQUEUED.name + "{"):
            continue
        kind = _label(GROUP, key) or "world"
        group, done = groups(grid.ranks, kind), grid.last.get(key.replace("enqueued", "completed"))
        newest = of_group(group, enqueued)
        waiting = (enqueued == newest) & ~((never if done is None else done) >= newest)
        inside = [(age, grid.last_time[it]) for it, age in inside_operations(grid)
                  if (_label(GROUP, it) or "world") == kind]  # fmt: skip
        seconds = of_group(
            group, np.fmax.reduce([never, *(np.where(waiting, age, np.nan) for age, _ in inside)])
        )
        since = np.fmin.reduce([never, *(seen - age for age, seen in inside)])
        long = seconds >= stall_after(grid)
        stands = long | (noticed & (of_group(group, dead(grid)) > 0))
        stands &= of_group(group, waiting) > 0
        yield GroupWaits(
            kind, group, newest, waiting & stands, (enqueued < newest) & stands,
            np.nan_to_num(seconds), np.where(waiting & long & np.isfinite(since), since, np.inf),
        )  # fmt: skip


def longest_stall(
    grid: Grid, waits: Sequence[GroupWaits], began: NDArray[np.bool_], hidden: NDArray[np.bool_]
) -> Stall | None:
    """The longest that somebody is missing from; who began it inside a collective is missing.

    Not those of whom only old sequences are known, unless they began it.
    """
    stall: Stall | None = None
    for group in waits:
        missing = group.missing & (began | ~hidden)
        missing |= group.waiting & began & ~(of_group(group.group, missing) > 0)
        waiting = group.waiting & ~missing & (of_group(group.group, missing) > 0)
        if not waiting.any():
            continue
        longest = max(
            np.flatnonzero(waiting), key=lambda at: (group.seconds[at], group.sequence[at])
        )
        here = group.group == group.group[longest]
        seconds = float(group.seconds[longest])
        if stall is None or seconds > stall.seconds:
            ops = {float(np.nanmax(age[group.waiting & here], initial=0.0)): _label(OPERATION, it)
                   for it, age in inside_operations(grid)
                   if (_label(GROUP, it) or "world") == group.kind}  # fmt: skip
            stall = Stall(
                group.kind, int(group.sequence[longest]), ops.get(seconds), waiting & here,
                missing & here, seconds,
            )  # fmt: skip
    return stall


def groups(ranks: Sequence[RankInfo], kind: str) -> NDArray[np.int64]:
    """(R,) number of each rank's group of a kind: those that differ in that coordinate only."""
    other = {"dp": ("pp", "tp"), "pp": ("dp", "tp"), "tp": ("dp", "pp")}.get(kind, ())
    places = [[getattr(info, name) for name in other] for info in ranks]
    return np.unique(np.array(places), axis=0, return_inverse=True)[1].reshape(-1)


def of_group(group: NDArray[np.int64], values: NDArray[np.generic]) -> FloatGrid:
    """(R,) the highest value in each rank's group; NaN = of nobody."""
    highest = np.full(group.max(initial=-1) + 1, np.nan)
    np.fmax.at(highest, group, values.astype(float))
    return highest[group]


def _label(pattern: re.Pattern[str], key: str) -> str | None:
    match = pattern.search(key)
    return match.group(1) if match else None


Mask = NDArray[np.bool_]

ROLES = STUCK, FROZEN, DEAD, WAITS, FOLLOWS, ENDED, LEFT, KILLED = (
    "stuck", "frozen", "dead", "waits", "follows", "ended", "left", "killed",
)  # fmt: skip
"""It began the stop, as it goes on without progress, its process is stopped, or it died; or it
waits for who did; it goes because that one died; it was ended after it had waited; or the user
ended it as all others, by a word or by a signal that leaves no time for one."""
WORLDS = ((STUCK, WAITS), (STUCK, ENDED), (FROZEN, WAITS), (FROZEN, ENDED), (DEAD, WAITS),
          (DEAD, FOLLOWS), (DEAD, ENDED))  # fmt: skip
"""(who began it, all others): each as likely as any before somebody looks."""
NEVER, RARELY, SELDOM, OFTEN, MOSTLY, ALWAYS = 0.001, 0.01, 0.1, 0.3, 0.7, 0.98
"""Probabilities a factor of about three to ten apart: finer ones nobody has measured."""
AT_ONCE, LATER, GONE = "gone at once", "gone after a stall", "gone at once or after a stall"
SHOWN: Mapping[str, tuple[float, ...]] = {
    # role of ROLES: stuck, frozen, dead, waits, follows, ended, left, killed
    # The helper thread beats each second, whatever its rank waits for.
    "heartbeat old": (NEVER, ALWAYS, RARELY, NEVER, NEVER, NEVER, NEVER, NEVER),
    "heartbeat fresh": (ALWAYS, RARELY, ALWAYS, ALWAYS, ALWAYS, ALWAYS, ALWAYS, ALWAYS),
    # Who waits is inside an operation, who stops mostly in none; with one begun, and not inside it,
    # are both.
    "inside an operation": (RARELY, RARELY, RARELY, MOSTLY, MOSTLY, MOSTLY, OFTEN, OFTEN),
    "in no operation": (MOSTLY, MOSTLY, MOSTLY, NEVER, SELDOM, NEVER, OFTEN, OFTEN),
    # Who began it is missing from a collective that others stand in; and so is who waits for it in
    # another group.
    "missing": (MOSTLY, MOSTLY, MOSTLY, OFTEN, OFTEN, OFTEN, OFTEN, OFTEN),
    "not missing": (OFTEN, OFTEN, OFTEN, MOSTLY, MOSTLY, MOSTLY, MOSTLY, MOSTLY),
    # Who waits goes when its connection breaks, or minutes later, by a watchdog or a launcher; of
    # a run that goes together some are there still, few where a signal ends it.
    "there": (MOSTLY, MOSTLY, NEVER, ALWAYS, OFTEN, OFTEN, MOSTLY, OFTEN),
    AT_ONCE: (NEVER, NEVER, ALWAYS, RARELY, MOSTLY, NEVER, MOSTLY, MOSTLY),
    LATER: (OFTEN, OFTEN, RARELY, RARELY, OFTEN, MOSTLY, RARELY, RARELY),
    # What was the cause comes first.
    "others went before": (ALWAYS, ALWAYS, NEVER, ALWAYS, ALWAYS, ALWAYS, ALWAYS, ALWAYS),
    "others stopped before": (SELDOM, SELDOM, SELDOM, ALWAYS, ALWAYS, ALWAYS, ALWAYS, ALWAYS),
    # A signal leaves no time for a word. An error is often another one's, and that of a watchdog
    # which ends who waits is one. Whom a user ends is told to stop, and all at once: nobody meets
    # another's end.
    "said nothing": (OFTEN, OFTEN, MOSTLY, SELDOM, SELDOM, OFTEN, SELDOM, ALWAYS),
    "said failed": (SELDOM, SELDOM, SELDOM, OFTEN, OFTEN, OFTEN, NEVER, NEVER),
    "said peer lost": (SELDOM, SELDOM, RARELY, OFTEN, OFTEN, SELDOM, NEVER, NEVER),
    "said stopped": (SELDOM, SELDOM, RARELY, OFTEN, OFTEN, OFTEN, MOSTLY, NEVER),
    "said finished": (SELDOM, SELDOM, RARELY, RARELY, RARELY, RARELY, OFTEN, RARELY),
    # The launcher sees ends in their order. Who waits ends itself, hardly ever by such a signal.
    "first, by a signal": (RARELY, RARELY, ALWAYS, NEVER, NEVER, NEVER, NEVER, NEVER),
    "first, by itself": (OFTEN, OFTEN, MOSTLY, SELDOM, SELDOM, SELDOM, NEVER, NEVER),
}
"""P(shown by a rank's page, or seen of it by the launcher | its role). What is not known of a rank
is in no row: it neither clears nor accuses."""
WORDS = {
    "said nothing": SILENT,
    "said failed": (RankState.FAILED,),
    "said peer lost": (RankState.PEER_LOST,),
    "said stopped": (RankState.STOPPED,),
    "said finished": (RankState.FINISHED,),
}
NODE = SELDOM
"""Prior of all ranks of a node by that of one rank."""
USER = 1.0 / SELDOM
"""Prior of a user who ends a run, by that of one rank: so do most runs end."""
STAYS = MOSTLY
"""P(all others of a run that its user ends are there a scrape after the first), for each scrape."""
TOLD_APART = 2.0
"""Who is less likely by less than this is not distinguished; a choice of ours."""


@dataclass(frozen=True, slots=True)
class Began:
    """Who began it.

    Attributes:
        ranks: (R,) who is named; several where they are not distinguished, or are all of `node`.
        certainty: (R,) posterior of each; of the node where that is named.
        node: Where all ranks stopped alike, or are not distinguished.
        states: (R,) STUCK, FROZEN or DEAD, if it is this one.
    """

    ranks: Mask
    certainty: FloatGrid
    node: str | None
    states: Sequence[str]


def began(grid: Grid, how: Ended, waits: Sequence[GroupWaits]) -> Began:
    """Whom to name for a stop: the likeliest, and who is not distinguished from it."""
    chance, states = _posterior(grid, how, waits)
    names, node_of, whole = _nodes(grid)
    # Nothing is known of who was not seen then, unless others stand and wait.
    hidden = unseen_then(grid) & ~np.isfinite(since(waits))
    seen = np.concatenate([~hidden, np.bincount(node_of, hidden) == 0, [False]])
    ranks, nodes = np.split(np.where(seen, chance, 0.0)[:-1], [len(node_of)])
    best = max(ranks.max(), nodes.max())
    index = int(np.argmax(nodes) if nodes.max() == best else node_of[np.argmax(ranks)])
    here, alike = node_of == index, ranks * TOLD_APART >= best
    named = chance[~seen].sum() * TOLD_APART < best
    if named and whole[index] and (nodes[index] == best or (alike == here).all()):
        sure = np.full(len(ranks), nodes[index] + ranks[here].sum())
        return Began(here, sure, str(names[index]), states)
    if alike.sum() * 2 > len(ranks):
        alike = np.isclose(ranks, best)
    named &= alike.sum() * 2 <= len(ranks)
    return Began(alike & named, ranks, None, states)


def _posterior(
    grid: Grid, how: Ended, waits: Sequence[GroupWaits]
) -> tuple[FloatGrid, Sequence[str]]:
    """(probability of each rank, each node, and the user; (R,) the likeliest role)."""
    shown = _shown(grid, how, waits)
    rows = {name: np.array(cells) for name, cells in SHOWN.items()}
    rows[GONE] = rows[AT_ONCE] + rows[LATER]
    table = np.log(np.stack([rows[name] for name in shown]))
    logs = dict(zip(ROLES, table.T @ np.array([*shown.values()], dtype=float), strict=True))
    _, node_of, whole = _nodes(grid)
    lost = np.log(_lost(grid, node_of, waited=bool(np.isfinite(since(waits)))))
    by_rank, by_node = [], []
    for role, others in WORLDS:
        mine, if_others = logs[role] - logs[others], logs[others].sum()
        together = np.log(NODE) + np.bincount(node_of, mine) + lost
        by_rank.append(if_others + mine + lost[node_of])
        by_rank[-1][how.done] = -np.inf
        suspect = whole & (np.bincount(node_of, how.done) == 0)
        by_node.append(np.where(suspect, if_others + together, -np.inf))
    by_user = np.logaddexp(logs[LEFT].sum(), logs[KILLED].sum()) - np.log(2.0)
    user = by_user + _by_user(grid, how, since(waits))
    each = np.array([*np.logaddexp.reduce(by_rank), *np.logaddexp.reduce(by_node), user])
    states = [WORLDS[best][0] for best in np.argmax(by_rank, axis=0)]
    return np.exp(each - np.logaddexp.reduce(each)), states


def _lost(grid: Grid, node_of: NDArray[np.int64], *, waited: bool) -> FloatGrid:
    """(nodes,) P(silent since the stop | began it) by P(so | did not); 1 = not silent since then.

    A node that began it is as often lost with its collector as not. How often one that did not is
    silent, the others show: with Beta(1, 1 / SELDOM - 1) for that share, of n nodes k being silent,
    the ratio is (1 / SELDOM - 2 + n - k) / k. Where nobody was seen to wait, so that nothing else
    is known of who was not seen, since when it was not is no excuse.
    """
    unseen = unseen_then(grid)
    lately = silent(grid) & ~out_of_sight(grid) & np.isfinite(grid.scraped_until)
    then, every = (
        np.bincount(node_of, some) > 0
        for some in (unseen & (lately | (not waited)), unseen | silent(grid))
    )
    known, lost = int((~every).sum()), int(every.sum())
    ratio = (1.0 / SELDOM - 2.0 + known) / max(lost, 1)
    return np.where(then, max(ratio, 1.0), 1.0)


def _nodes(grid: Grid) -> tuple[NDArray[np.str_], NDArray[np.int64], Mask]:
    """(names of the nodes, (R,) place of each rank's, which hold several ranks and not all)."""
    names, node_of = np.unique([info.node for info in grid.ranks], return_inverse=True)
    return names, node_of, (np.bincount(node_of) > 1) & (len(names) > 1)


def _shown(grid: Grid, how: Ended, standing: Sequence[GroupWaits]) -> Mapping[str, Mask]:
    """(R,) for each of SHOWN whether it is so; of one that was out of sight nothing is known."""
    gone, hidden, unseen = dead(grid), out_of_sight(grid) | how.done, unseen_then(grid)
    began_to_wait, missing = since(standing), away(grid, standing) & ~how.done
    # Whose page, or heartbeat, is no later than the stall was seen as it went on.
    stalled = np.isfinite(began_to_wait)
    later = ~stalled | (alive_until(grid) >= began_to_wait + READ_SECONDS)
    beat = _last_of(grid, metrics.TRAIN_HEARTBEAT_AGE.name)
    beats = np.isfinite(beat) & (~stalled | (beat >= began_to_wait + READ_SECONDS))
    known, begun = under_way(grid)
    # Operations say nothing of who moved when it was looked at; nor of one whose peer was lost in
    # it. But one that is gone keeps its sequences, and where it is missing it never arrived.
    stood = np.any([missing, *(group.waiting for group in standing)], axis=0) & gone
    known &= stood | (stalled & later)
    known &= ~last_said(grid, NOTICED) | missing
    waits = [np.isfinite(group.since) for group in standing]
    inside = np.any([longest_inside(grid) > step_seconds(grid), *waits], axis=0)
    # Whom the launcher of a run that hangs ended was there until then.
    late = gone & (how.word == "hang") & ~died_first(grid)
    late |= gone & (alive_until(grid) >= began_to_wait + STALL_SECONDS)
    down = np.full(len(gone), np.nan) if grid.down_since is None else grid.down_since
    # It went between the last scrape that saw it and the first that did not.
    soon = gone & ~late & (down <= began_to_wait + STALL_SECONDS)
    down = np.where(how.done, np.nan, down)  # a clean end says nothing of who went first
    outlived = (alive_until(grid) >= np.fmin.reduce(down, initial=np.inf)) & ~unseen
    steps, until = _progress(grid, ~gone & ~hidden & later)
    # Whoever needs it works for the rest of a step before it waits.
    alone = READ_SECONDS + step_seconds(grid)
    read = grid.last_time.get(metrics.TRAIN_STEPS.name, alive_until(grid))
    when = np.fmin(np.where(np.isfinite(until), until, read), began_to_wait)
    behind = steps > _least_after(when + alone, steps, alive_until(grid))
    behind |= until > _least_after(when + alone, until, alive_until(grid)) + READ_SECONDS
    went_on = np.fmax.reduce(until, initial=-np.inf) > down + alone
    first = how.first & (how.word in ("crash", "hang"))
    # How it ended tells more than what it said before.
    watched = np.array([info.rank in how.codes for info in grid.ranks])
    shown = {
        "heartbeat old": frozen(grid),
        "heartbeat fresh": beats & ~frozen(grid),
        "inside an operation": known & inside,
        "in no operation": known & ~begun & ~inside,
        "missing": missing & known,
        "not missing": missing.any() & known & ~missing,
        "there": ~gone & ~unseen & later & ~watched,
        AT_ONCE: soon,
        LATER: late,
        GONE: gone & ~soon & ~late,
        "others went before": outlived | went_on,
        "others stopped before": behind,
        **{name: last_said(grid, words) & ~watched for name, words in WORDS.items()},
        "first, by a signal": first & how.struck,
        "first, by itself": first & (not how.struck),
    }
    return {name: mask & ~hidden for name, mask in shown.items()}


def _progress(grid: Grid, of: Mask) -> tuple[FloatGrid, FloatGrid]:
    """((R,) steps, (R,) unix seconds of the last sign of progress) of some; NaN = not known."""
    steps = grid.last.get(metrics.TRAIN_STEPS.name, np.full(len(grid.ranks), np.nan))
    until = _last_of(grid, metrics.TRAIN_PROGRESS_AGE.name)
    return np.where(of, steps, np.nan), np.where(of, until, np.nan)


def _least_after(when: FloatGrid, value: FloatGrid, seen: FloatGrid) -> FloatGrid:
    """(R,) the least of what pages that were read at `when` or later show; infinite = none."""
    order = np.argsort(seen)
    known = np.where(np.isfinite(value), value, np.inf)[order]
    least = np.append(np.minimum.accumulate(known[::-1])[::-1], np.inf)
    earliest: FloatGrid = least[np.searchsorted(seen[order], when)]
    return earliest


def _last_of(grid: Grid, age: str) -> FloatGrid:
    """(R,) unix seconds of the last that a gauge tells the age of; NaN = not known."""
    nobody = np.full(len(grid.ranks), np.nan)
    return grid.last_time.get(age, nobody) - grid.last.get(age, nobody)


def since(waits: Sequence[GroupWaits]) -> float:
    """Unix seconds since when somebody waits for long; infinite = nobody does."""
    return min((float(group.since.min()) for group in waits), default=np.inf)


def away(grid: Grid, waits: Sequence[GroupWaits]) -> Mask:
    """(R,) missing from a collective that others stand in."""
    nobody = np.zeros(len(grid.ranks), dtype=bool)
    missing: Mask = np.any([nobody, *(group.missing for group in waits)], axis=0)
    return missing


def _by_user(grid: Grid, how: Ended, stalled: float) -> float:
    """Log P(its user ended it, and the others were there, and stood, as long as they did).

    Beside what pages show, and by the same of one rank.
    """
    if how.word is not None or grid.down_since is None or not dead(grid).any():
        return -np.inf
    first = float(np.nanmin(grid.down_since))
    others = ~(grid.down_since <= first) & ~out_of_sight(grid)
    progress = _progress(grid, others)[1][others].max(initial=first)
    began_to_stand = np.maximum(stalled if np.isfinite(stalled) else progress, first)
    stood = alive_until(grid)[others].min(initial=np.inf) - began_to_stand
    scrapes = max(float(np.nan_to_num(stood, posinf=0.0)), 0.0) / scrape_seconds(grid)
    return float(np.log(USER) + np.log(STAYS) * scrapes)
