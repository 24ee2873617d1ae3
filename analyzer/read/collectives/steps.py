"""The steps of a job that reports none: the period of its collectives.

A collective of one size that comes again after always as many others of its communicator ends a
window. Of those that all processes have, the rarest with enough windows is taken: a window of
several steps is as good as one of a single step, a part of a step is not. Of several that come as
often, the one is taken after which it is quiet the longest: all that was waited in a step is in one
window then.
"""

from dataclasses import dataclass, replace

import numpy as np

from lockstep.analyzer.shapes.waits import Collectives, Floats, Ints, Waits

WINDOWS_WANTED = 60
WINDOWS_AT_LEAST = 10
AS_MANY = 0.1
"""Share by which windows with as many collectives may differ: a few fall on the other side."""
REGULAR = 0.9
"""Share of the distances that must be whole periods."""
SAME = 0.02
"""Share by which the counts of two communicators may differ: files are cut at different places."""
MOST_CLASSES = 64
"""Sizes of one operation of a communicator that are looked at, the most frequent."""
LONGEST_PERIOD = 64
CLOSE = 0.5
"""Share of the distance between steps, below which collectives are of one step."""
ALIKE = 0.5
"""Autocorrelation from which on distances in time have a rhythm."""
AT_ONCE = 0.5
"""Share of the time that they took, within which lines that were all written at once are
reported."""
DRAINS = 4
"""Times that a window is longer than what lies between two writings of a file."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The collective that ends a window, in one communicator.

    Attributes:
        communicator, op: Places in `Collectives`.
        bytes: Its payload.
        sequences: Numbers at which it came, rising.
        every: Numbers from one to the next.
        alone: Whether the communicator has no other collective of this kind.
    """

    communicator: int
    op: int
    bytes: int
    sequences: Ints
    every: int
    alone: bool

    @property
    def periods(self) -> int:
        """How many there are, with those that were not reported."""
        return int(self.sequences[-1] - self.sequences[0]) // self.every + 1


@dataclass(frozen=True, slots=True)
class Steps:
    """Which window each row falls into.

    Attributes:
        window: (N,) number, -1 = none.
        ends: (W, P) unix seconds of each process's clock at which it ended a window; NaN = not
            known.
        first: Number of the first window of `ends`.
        words: How they were found.
        regular: Share of the windows in which a process has as many collectives as it usually has:
            how sure it is that they are steps.
    """

    window: Ints
    ends: Floats
    first: int
    words: str
    regular: float


def steps_of(collectives: Collectives, waited: Waits) -> Steps | None:
    """The windows; None where nothing comes again often enough.

    Args:
        collectives: Of one job.
        waited: Of the same rows.
    """
    collectives = _clocked(collectives, waited)
    anchors, told_words = _anchors(collectives, waited)
    if not anchors:
        return None
    group, words = _rhythm(collectives, anchors, told_words)
    window = np.full(len(collectives), -1, np.int64)
    number = np.full(len(collectives), -1, np.int64)
    for anchor, (merged, phase) in zip(anchors, group, strict=True):
        mine = (
            (collectives.communicator == anchor.communicator) & (collectives.op == anchor.op)
            & ~waited.twice & ~collectives.transfers
        )  # fmt: skip
        offset = int(anchor.sequences[0]) % anchor.every
        period = (collectives.sequence[mine] - offset) // anchor.every
        is_end = (collectives.sequence[mine] - offset) % anchor.every == 0
        is_end &= (period - phase) % merged == merged - 1
        number[mine] = np.where(is_end, (period - phase) // merged, -1)
    moments = []
    for process in np.unique(collectives.process).tolist():
        rows = np.flatnonzero(collectives.process == process)
        rows = rows[np.argsort(collectives.time[rows], kind="stable")]
        ends = np.flatnonzero(number[rows] >= 0)
        if not len(ends):
            continue
        numbers = number[rows[ends]]
        after = np.searchsorted(ends, np.arange(len(rows)), side="left")
        inside = after < len(ends)
        following = np.minimum(after, len(ends) - 1)
        before = np.append(-2, numbers[:-1])[following]
        # Behind an end that is not reported, nobody knows which window it is.
        inside &= numbers[following] - before == 1
        window[rows] = np.where(inside, numbers[following], -1)
        moments.append((process, numbers, collectives.time[rows[ends]]))
    if not moments:
        return None
    first = min(int(numbers.min()) for _, numbers, _ in moments)
    last = max(int(numbers.max()) for _, numbers, _ in moments)
    if last - first > len(collectives):
        return None  # numbers that no run counts to
    ends_of = np.full((last - first + 1, len(collectives.processes)), np.nan)
    for process, numbers, when in moments:
        ends_of[numbers - first, process] = when
    return Steps(window, ends_of, first, words, _regular(collectives, waited, window))


def _regular(collectives: Collectives, waited: Waits, window: Ints) -> float:
    rows = np.flatnonzero((window >= 0) & ~waited.twice)
    if not len(rows):
        return 0.0
    first, shape = int(window[rows].min()), len(collectives.processes)
    cell, counts = np.unique((window[rows] - first) * shape + collectives.process[rows],
                             return_counts=True)  # fmt: skip
    process = cell % shape
    usual = np.array([
        np.median(counts[process == one]) if (process == one).any() else 0 for one in range(shape)
    ])  # fmt: skip
    return float(np.mean(np.abs(counts - usual[process]) <= AS_MANY * usual[process]))


def _clocked(collectives: Collectives, waited: Waits) -> Collectives:
    """Without the times of processes whose lines were written all at once.

    Collectives of one communicator come one after the other: they cannot have been reported in less
    time than they took.
    """
    rows = np.flatnonzero(
        ~waited.twice & np.isfinite(collectives.seconds) & np.isfinite(collectives.time)
    )
    shape = (len(collectives.processes), len(collectives.communicators))
    cell = collectives.process[rows] * shape[1] + collectives.communicator[rows]
    cells, place = np.unique(cell, return_inverse=True)
    busy = np.bincount(place, collectives.seconds[rows])
    most = np.zeros(shape[0])
    np.maximum.at(most, cells // shape[1], busy)
    first, last = np.full(shape[0], np.inf), np.full(shape[0], -np.inf)
    np.minimum.at(first, collectives.process[rows], collectives.time[rows])
    np.maximum.at(last, collectives.process[rows], collectives.time[rows])
    useless = last - first < AT_ONCE * most
    return replace(
        collectives, time=np.where(useless[collectives.process], np.nan, collectives.time)
    )


def _anchors(collectives: Collectives, waited: Waits) -> tuple[list[Anchor], str]:
    """One of each communicator of a set that has all processes once."""
    found: list[Anchor] = []
    usable = ~collectives.transfers & ~waited.twice
    keys = collectives.communicator * len(collectives.ops) + collectives.op
    for key in np.unique(keys[usable]).tolist():
        place, op = divmod(key, len(collectives.ops))
        if collectives.communicators[place].size > 1:
            rows = usable & (keys == key)
            found += _classes(place, op, collectives.sequence[rows], collectives.bytes[rows])
    processes = set(np.unique(collectives.process).tolist())
    members = {
        place: set(np.unique(collectives.process[collectives.communicator == place]).tolist())
        for place in {one.communicator for one in found}
    }
    # By how many windows they make: first enough and few, then as many as there are.
    counts = sorted({one.periods for one in found})
    enough = [one for one in counts if one >= WINDOWS_WANTED]
    fewer = [one for one in reversed(counts) if WINDOWS_AT_LEAST <= one < WINDOWS_WANTED]
    for count in (*enough, *fewer):
        alike = [one for one in found if abs(one.periods - count) <= max(1, SAME * count)]
        chosen: list[Anchor] = []
        covered: set[int] = set()
        for one in _last_first(collectives, alike):
            if not members[one.communicator] & covered:
                chosen.append(one)
                covered |= members[one.communicator]
        if covered == processes:
            one = chosen[0]
            name = collectives.communicators[one.communicator].name or "a group without a name"
            return chosen, f"{collectives.ops[one.op]} of {one.bytes} bytes in {name}"
    return [], ""


def _last_first(collectives: Collectives, anchors: list[Anchor]) -> list[Anchor]:
    """By how long it is quiet after them, together with those of groups that are alike."""
    quiet = _quiet(collectives)

    def after(row: Anchor) -> float:
        mine = (collectives.communicator == row.communicator) & (collectives.op == row.op)
        waits = quiet[mine & (collectives.bytes == row.bytes) & np.isfinite(quiet)]
        return float(np.median(waits)) if waits.size else 0.0

    by_group: dict[tuple[str, int, int], list[float]] = {}
    known = [(after(one), one) for one in anchors]
    for seconds, one in known:
        group = collectives.communicators[one.communicator]
        by_group.setdefault((group.name, group.size, one.op), []).append(seconds)
    middle = {key: float(np.median(each)) for key, each in by_group.items()}

    def rank(pair: tuple[float, Anchor]) -> tuple[float, int, float]:
        seconds, one = pair
        group = collectives.communicators[one.communicator]
        return -middle[group.name, group.size, one.op], -group.size, -seconds

    return [one for _, one in sorted(known, key=rank)]


def _quiet(collectives: Collectives) -> Floats:
    """(N,) seconds from each row until its process began the next; NaN = not known."""
    order = np.lexsort((collectives.time, collectives.process))
    seconds = np.nan_to_num(collectives.seconds[order])
    found = np.full(len(collectives), np.nan)
    gaps = np.diff(collectives.time[order]) - seconds[1:]
    found[order[:-1]] = np.where(np.diff(collectives.process[order]) == 0, gaps, np.nan)
    return found


def _classes(row: int, op: int, sequence: Ints, size: Ints) -> list[Anchor]:
    numbers, first = np.unique(sequence, return_index=True)
    sizes = size[first]
    kinds, counts = np.unique(sizes, return_counts=True)
    anchors = []
    for kind in kinds[np.argsort(-counts)][:MOST_CLASSES].tolist():
        mine = numbers[sizes == kind]
        if len(mine) < WINDOWS_AT_LEAST:
            continue
        apart = np.diff(mine)
        every = int(np.median(apart))
        if every < 1 or float(np.mean(apart % every == 0)) < REGULAR:
            continue
        anchors.append(Anchor(row, op, int(kind), mine, every, len(kinds) == 1))
    return anchors


def _rhythm(
    collectives: Collectives, anchors: list[Anchor], words: str
) -> tuple[list[tuple[int, int]], str]:
    """(periods of a window, phase) of each anchor, and in words how it was found.

    Where a communicator has one kind of collective only, their distances in time show how many
    are a step: they are far apart between steps and close within. Where a file is written seldom, a
    window holds several writings.
    """
    first = anchors[0]
    gaps, numbers = _gaps(collectives, first)
    merged, phase = 1, 0
    told_words = f"steps are the period of {words}"
    if first.alone and len(gaps) >= WINDOWS_AT_LEAST:
        merged, phase = _period(gaps, numbers)
        many = f"{merged} times " if merged > 1 else ""
        told_words = f"steps are the period of {many}{words}"
    drained = _drains(collectives, first, float(np.median(gaps)) * merged if len(gaps) else np.nan)
    if drained > 1:
        merged *= drained
        told_words += f", {drained} of them a window, because the files were written that seldom"
    return [(merged, phase)] * len(anchors), told_words + "; no steps were reported"


def _gaps(collectives: Collectives, anchor: Anchor) -> tuple[Floats, Ints]:
    """(n,) seconds after which the next came, by the clock of one process, and numbers of both."""
    rows = np.flatnonzero(
        (collectives.communicator == anchor.communicator) & (collectives.op == anchor.op)
        & (collectives.bytes == anchor.bytes)
    )  # fmt: skip
    rows = rows[collectives.process[rows] == collectives.process[rows[0]]]
    rows = rows[np.argsort(collectives.sequence[rows], kind="stable")]
    offset = int(anchor.sequences[0]) % anchor.every
    period = (collectives.sequence[rows] - offset) // anchor.every
    gaps = np.diff(collectives.time[rows])
    keep = np.isfinite(gaps) & (np.diff(period) == 1)
    return gaps[keep], period[:-1][keep]


def _period(gaps: Floats, numbers: Ints) -> tuple[int, int]:
    """After how many distances they come again, and the number that is first.

    Each is a step where they do not, or where the longest is not much longer than the shortest.
    """
    ranked = np.argsort(np.argsort(gaps)).astype(float)
    ranked -= ranked.mean()
    most = min(LONGEST_PERIOD, len(gaps) // 5)
    lags = range(1, most + 1)
    alike = np.array([(ranked[lag:] * ranked[:-lag]).sum() / (len(gaps) - lag) for lag in lags])
    if not len(alike) or alike.max() < ALIKE * float((ranked**2).mean()):
        return 1, 0
    period = int(np.flatnonzero(alike >= 0.9 * alike.max())[0]) + 1
    place = numbers % period
    middle = [float(np.median(gaps[place == one])) for one in range(period)]
    if min(middle) > CLOSE * max(middle):
        return 1, 0
    return period, (int(np.argmax(middle)) + 1) % period


def _drains(collectives: Collectives, anchor: Anchor, period: float) -> int:
    """How many periods a window must have, so that it holds DRAINS writings of a file.

    Lines that are written sooner after one another than their collectives took were written
    together.
    """
    rows = np.flatnonzero(
        collectives.process
        == collectives.process[collectives.communicator == anchor.communicator][0]
    )
    rows = rows[np.argsort(collectives.time[rows], kind="stable")]
    gaps = np.diff(collectives.time[rows])
    together = gaps < 0.5 * np.nan_to_num(collectives.seconds[rows][1:])
    if not len(gaps) or together.mean() <= 0.5 or not period > 0:
        return 1
    begins = collectives.time[rows][np.append(True, ~together)]
    between = float(np.median(np.diff(begins))) if len(begins) > DRAINS else np.inf
    if not np.isfinite(between) or between <= period:
        return 1
    return int(np.ceil(DRAINS * between / period))
