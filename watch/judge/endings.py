"""Which runs live, and how those ended of which no rank does, as Prometheus tells it."""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.analyzer.read.prometheus.answers import Series
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.shapes.labels import number
from lockstep.watch.judge.presence import answering
from lockstep.watch.judge.run_end import HEARD, MISSED_SCRAPES, UNTOLD_TIMES, Seen, ended
from lockstep.watch.judge.runs import End, Heard, How, Life, Place, Progress, lived, remembered
from lockstep.watch.look.snapshot import Look

LOG = logging.getLogger(__name__)

MOST_SERIES = 20_000
"""Ranks of a run whose last scrapes are read; of more, what they said last alone decides."""


def lives_now(
    connection: Connection,
    seen: Look,
    known: Mapping[str, Life],
    progress: Mapping[str, Progress],
    interval: float,
    patience: float,
    since: float = -math.inf,
) -> dict[str, Life]:
    """Every run as it was seen last, this look included.

    Args:
        connection: To the Prometheus.
        seen: Of this cycle.
        known: Those of the cycle before.
        progress: When each made its last step.
        interval: Seconds between two cycles.
        patience: Seconds for which nobody tells of a run until it is gone.
        since: Unix seconds since which it was looked without a pause.
    """
    now, members = seen.now, seen.members
    found = remembered(known, now)
    gone = []
    for run, columns in members.columns_of_run.items():
        life, attempt = found.get(run), int(members.attempt[columns].max())
        columns = columns[members.attempt[columns] == attempt]  # others are left of one before
        living = bool(seen.living[columns].any())
        if not living and not (seen.up[columns] == 0).any():
            continue
        if living or life is None or attempt > life.attempt:  # or it ended before anybody looked
            here = zip(members.job[columns].tolist(), members.instance[columns].tolist(),
                       strict=True)  # fmt: skip
            life = lived(life, _places(seen, columns), frozenset(here), attempt, now)
            found[run] = life
        if not living and (life.end is None or life.end.open):
            gone.append(run)
    told = members.columns_of_run.keys()
    # Collectors may end with their run: what they told until then is still known.
    gone += [
        run for run, life in found.items()
        if life.end is None and run not in told and now - max(life.seen, since) < ask.UP_SECONDS
    ]  # fmt: skip
    if gone:
        judged = {
            run: life if life.end is None else life.found(now)
            for run in gone for life in (found[run],)
        }  # fmt: skip
        found.update(_ended(connection, seen, judged, progress, interval))
    quiet = {
        run: life for run, life in found.items()
        if life.end is None and run not in told and now - life.seen >= patience
    }  # fmt: skip
    if quiet:
        found.update(_vanished(connection, seen, quiet, interval, patience, since))
    return found


def _places(seen: Look, columns: np.ndarray) -> dict[int, Place]:
    members = seen.members
    told = zip(
        members.rank[columns].tolist(), members.node[columns].tolist(),
        members.gpu[columns].tolist(), strict=True,
    )  # fmt: skip
    return {rank: Place(node, gpu) for rank, node, gpu in told}


def _ended(
    connection: Connection,
    seen: Look,
    lives: Mapping[str, Life],
    progress: Mapping[str, Progress],
    interval: float,
) -> dict[str, Life]:
    """Those whose end is told; what is not answered is asked again in the next cycle."""
    states: dict[str, dict[int, str]] = {}
    found: dict[str, Life] = {}
    try:
        for labels, value in connection.instant(ask.LAST_STATE, seen.now):
            rank, run = number(labels, "rank"), labels.get("run", "")
            if rank is not None and run in lives and value == 1 and _is_of(lives, seen, run, rank):
                states.setdefault(run, {})[rank] = labels.get("state", "")
        for run, life in lives.items():
            if run not in states:
                continue
            every: list[Series] = []
            told = states[run]
            if len(life.ranks) <= MOST_SERIES:
                every = connection.samples(ask.lately_up(run), seen.now)
            times, scrape = _seen(every, interval)
            if times and not any(math.isfinite(one.alive) for one in times.values()):
                every = connection.samples(ask.lately_up(run, ask.GONE_SECONDS), seen.now)
                times, scrape = _seen(every, interval)
            if every:
                told = _said(connection.samples(ask.lately_said(run), seen.now), times)
            untold = life.ranks.keys() - told.keys()
            if untold and seen.now - _told_since(every, scrape) < MISSED_SCRAPES * scrape:
                continue  # after a pause its pages are told of one after the other
            stepped = math.inf
            if every and untold:  # a lost node, or a lost collector
                stepped = _stepped(connection.samples(ask.lately_stepped(run), seen.now))
                if stepped == -math.inf and run in progress:
                    # Its steps are further apart, and the last was seen a cycle late at most.
                    stepped = progress[run].since - interval
            heard = run in seen.members.columns_of_run
            end = ended(life, told, times, scrape, seen.now, stepped, heard=heard)
            went_on = progress[run].went_on if run in progress else 0.0
            early = () if end is None or not end.by_scrapes else end.first
            if early and max(times[rank].gone for rank in early) < went_on:
                # It made steps without them: they are not what ended it.
                life = replace(
                    life, ranks={r: each for r, each in life.ranks.items() if r not in early}
                )
                told = {rank: state for rank, state in told.items() if rank not in early}
                times = {rank: each for rank, each in times.items() if rank not in early}
                end = ended(life, told, times, scrape, seen.now, stepped, heard=heard)
            if end is not None:
                found[run] = _with(life, replace(end, noticed=seen.now))
                LOG.warning("run %r ended: %s", run, end.how)
    except SourceError as error:
        LOG.warning("how runs ended is unknown for now; the next cycle asks again: %s", error)
    return found


def _vanished(
    connection: Connection,
    seen: Look,
    quiet: Mapping[str, Life],
    interval: float,
    patience: float,
    since: float,
) -> dict[str, Life]:
    """Those of which nobody will tell any more: that is their end, as far as it is known.

    Their collectors answer without them, or Prometheus cannot reach them: it says so (`up`). Where
    it does not answer itself, was started anew, or nothing at all is scraped, silence tells
    nothing. A page that was reached may be slow, and is waited for; and where no page of these
    jobs is, Prometheus itself may be cut off: it is waited for three times as long.
    """
    pages = answering(seen, interval)
    found = {
        run: _with(life, End(life.seen, How.VANISHED, noticed=seen.now))
        for run, life in quiet.items()
        if life.pages <= pages
    }
    rest = {run: life for run, life in quiet.items() if run not in found}
    if not rest or seen.now - since < patience:
        return found
    jobs = sorted({job for life in rest.values() for job, _ in life.pages})
    try:
        reached = {
            (labels.get("job", ""), labels.get("instance", "")): value
            for labels, value in connection.instant(
                ask.reached(jobs, patience), seen.now, every=True
            )
        }
        scraping = bool(pages or reached or connection.instant(ask.SCRAPING, seen.now, every=True))
    except SourceError as error:
        LOG.warning("whether runs ended is unknown for now; the next cycle asks again: %s", error)
        return found
    cut_off = not pages and not any(reached.values())
    for run, life in rest.items():
        lost = life.pages - pages
        untold = lost - reached.keys()
        waited = seen.now - max(life.seen, since)
        if any(reached.get(page) for page in lost):
            continue
        if (untold or cut_off) and waited < UNTOLD_TIMES * patience:
            continue
        if untold and not scraping:
            continue
        heard = Heard.UNREACHED if life.pages & pages or not untold else Heard.UNTOLD
        end = End(life.seen, How.VANISHED, heard=heard, noticed=seen.now)
        found[run] = _with(life, end)
        LOG.warning("run %r sends no data any more: %s", run, HEARD[heard])
    return found


def _is_of(lives: Mapping[str, Life], seen: Look, run: str, rank: int) -> bool:
    """Whether a rank is of the life that ended, and not left of an attempt before it."""
    column = seen.members.column.get((run, rank))
    if column is None:
        return rank in lives[run].ranks
    return int(seen.members.attempt[column]) == lives[run].attempt


def _with(life: Life, end: End) -> Life:
    return replace(life, end=end, heir="")


def _told_since(every: list[Series], scrape: float) -> float:
    """Unix seconds of the scrape since which a run is told of without a pause; -inf = of none."""
    if not every:
        return -math.inf
    times = np.unique(np.concatenate([one.times for one in every])) / 1000.0
    if not times.size:
        return -math.inf
    back = np.flatnonzero(np.diff(times) > MISSED_SCRAPES * scrape)
    return float(times[back[-1] + 1] if len(back) else times[0])


def _said(every: list[Series], seen: Mapping[int, Seen]) -> dict[int, str]:
    """What each rank said last, after it was seen alive for the last time."""
    found: dict[int, tuple[float, str]] = {}
    for series in every:
        rank, times = number(series.labels, "rank"), series.times[series.values == 1] / 1000.0
        if rank is None or not len(times):
            continue
        last = float(times[-1])
        before = seen[rank].alive if rank in seen else -math.inf
        if last > max(before, found.get(rank, (-math.inf, ""))[0]):
            found[rank] = last, series.labels.get("state", "")
    return {rank: state for rank, (_, state) in found.items()}


def _stepped(every: list[Series]) -> float:
    """Unix seconds of the last scrape that saw more steps.

    inf = nobody told of them; -inf = they stayed as they were.
    """
    moments = []
    for series in every:
        rises = series.times[1:][np.diff(series.values) > 0]
        if len(series.times):
            moments.append(float(rises[-1]) / 1000.0 if len(rises) else -math.inf)
    return max(moments, default=math.inf)


def _seen(every: list[Series], interval: float) -> tuple[dict[int, Seen], float]:
    """When each rank was seen alive last and gone first, and the seconds between two scrapes."""
    found: dict[int, Seen] = {}
    apart: list[float] = []
    for series in every:
        rank, times = number(series.labels, "rank"), series.times / 1000.0
        if rank is None or not len(times):
            continue
        apart += [float(np.median(np.diff(times)))] if len(times) > 1 else []
        alive, gone = times[series.values == 1], times[series.values == 0]
        last = float(alive[-1]) if len(alive) else -math.inf
        after = gone[gone > last]
        first = float(after[0]) if len(after) else float("inf")
        known = found.get(rank)
        if known is None or last > known.alive:
            found[rank] = Seen(last, first)
    return found, float(np.median(apart)) if apart else interval
