"""From a look to what the screen says: who is late, in a sentence and in three tables.

It says how things are now. It is no verdict: that takes a test over time, and looks for causes.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from textwrap import shorten
from typing import NamedTuple

import numpy as np

from lockstep.analyzer.shapes.labels import number
from lockstep.analyzer.shapes.wording import ratio
from lockstep.analyzer.stats.peer_groups import MAJORITY
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.visible import visible_line
from lockstep.collector.contract.words import CLOCK_EVENT_REASONS, RankState
from lockstep.top.look import Answered, Look, Rates, Who
from lockstep.watch.look.members import Members, members
from lockstep.watch.look.panel import over_peers

LATE = 1.1
"""Own time over peers from which on a rank holds its run back, as on the dashboard's map."""
FROZEN_SECONDS = 3.0
"""contract.metrics.TRAIN_HEARTBEAT_AGE."""
STANDS_SECONDS = 10.0
"""In one collective, or without one and without progress: hang-timeout of a local run."""
COMMAND_WIDTH = 160
"""Of the line that started a run: its beginning tells which it is."""
STALE_SECONDS = 90.0
"""Of the newest scrape: six of Prometheus' usual 15 s."""
UNKNOWN = "-"
GIB = 1 << 30


class Mood:
    """How a line is meant, in words that the terminal's colours stand beside."""

    OK, NOTE, BAD, UNKNOWN = "ok", "note", "bad", "unknown"


class Line(NamedTuple):
    """A row of a table: its cells as they are shown, and how it is meant."""

    cells: tuple[str, ...]
    mood: str


class Table(NamedTuple):
    """One of the three.

    Attributes:
        title: With how many there are.
        header: Names of the columns.
        lines: The worst first.
        empty: What to say where there are none.
    """

    title: str
    header: tuple[str, ...]
    lines: tuple[Line, ...]
    empty: str


class Sentence(NamedTuple):
    """What is so, and how it is meant."""

    text: str
    mood: str


@dataclass(frozen=True, slots=True)
class Screen:
    """All that is shown; nothing in it steers a terminal.

    Attributes:
        source: Who was asked.
        when: UTC, HH:MM:SS, on the source's clock.
        sentences: The first says who is late, or that what is known is old.
        nodes, ranks, gpus: The tables.
    """

    source: str
    when: str
    sentences: tuple[Sentence, ...]
    nodes: Table
    ranks: Table
    gpus: Table


NODE_COLUMNS = ("node", "ranks", "slowest", "load", "memory", "GPUs", "state")
RANK_COLUMNS = ("rank", "node", "GPU", "own time", "peers", "waits", "step", "now", "run")
GPU_COLUMNS = ("GPU", "node", "busy", "SM clock", "temp", "power", "rank", "state")


@dataclass(frozen=True, slots=True)
class _Rank:
    """A rank, from what its page tells.

    Attributes:
        over: Own time over its peers' median; NaN = not known.
        now: What it does, in words.
        out: Whether it is gone, frozen or stands by itself.
        inside: Seconds in the collective that it is in; None = in none.
    """

    run: str
    rank: int
    node: str
    gpu: int
    rates: Rates
    over: float
    now: str
    out: bool
    inside: float | None

    @property
    def late(self) -> bool:
        """Whether it is slow enough to hold its run back."""
        return self.over >= LATE

    @property
    def name(self) -> str:
        """As `rank 3 on node-1`."""
        return f"rank {self.rank} on {self.node}"


def screen(look: Look) -> Screen:
    """What a look shows."""
    who = members(look.rows(m.RANK_INFO))
    ranks = _ranks(look, who)
    return Screen(
        source=visible_line(look.source),
        when=datetime.fromtimestamp(look.at, UTC).strftime("%H:%M:%S"),
        sentences=tuple(
            Sentence(visible_line(text), mood) for text, mood in _sentences(look, who, ranks)
        ),
        nodes=_shown(_nodes(look, ranks)),
        ranks=_shown(_rank_table(ranks)),
        gpus=_shown(_gpus(look, ranks)),
    )


def _shown(table: Table) -> Table:
    lines = tuple(Line(tuple(map(visible_line, one.cells)), one.mood) for one in table.lines)
    return table._replace(lines=lines)


def _ranks(look: Look, who: Members) -> list[_Rank]:
    """Worst first: who is out, then by own time over peers, then those not known."""
    keys: list[Who] = list(zip(who.run.tolist(), who.rank.tolist(), strict=True))
    known = [look.rates.get(key, Rates()) for key in keys]
    own = np.array([math.nan if one.own is None else one.own for one in known], dtype=np.float64)
    over = over_peers(own, who) if keys else own
    up, beat, progress, inside, last = (
        _of_ranks(look, metric)
        for metric in (m.RANK_UP, m.TRAIN_HEARTBEAT_AGE, m.TRAIN_PROGRESS_AGE,
                       m.TRAIN_OPEN_OP_AGE, m.RANK_LAST_STATE)
    )  # fmt: skip
    found = []
    for column, key in enumerate(keys):
        now, out = _now(key, known[column], up, beat, progress, inside, last)
        found.append(_Rank(
            *key, node=str(who.node[column]), gpu=int(who.gpu[column]), rates=known[column],
            over=float(over[column]), now=now, out=out,
            inside=inside[key][1] if key in inside else None,
        ))  # fmt: skip
    return sorted(
        found,
        key=lambda one: (not one.out, math.isnan(one.over), -(one.over if one.over == one.over
                                                              else 0.0), one.run, one.rank),
    )  # fmt: skip


_Told = Mapping[Who, tuple[Mapping[str, str], float]]


def _of_ranks(look: Look, metric: m.Metric) -> dict[Who, tuple[Mapping[str, str], float]]:
    """(run, rank) -> labels and value; of several series the largest value."""
    found: dict[Who, tuple[Mapping[str, str], float]] = {}
    for labels, value in look.rows(metric):
        rank = number(labels, "rank")
        if rank is None:
            continue
        key = labels.get("run", ""), rank
        if key not in found or value > found[key][1]:
            found[key] = labels, value
    return found


def _now(
    key: Who, rates: Rates, up: _Told, beat: _Told, progress: _Told, inside: _Told, last: _Told
) -> tuple[str, bool]:
    """What a rank does, and whether that is out of the ordinary by its own doing."""
    if key in up and up[key][1] == 0:
        said = last[key][0].get("state", "") if key in last else ""
        if said == RankState.FINISHED:
            return "finished", False
        return f"gone, its last word: {said}" if said else "gone", True
    if key in beat and beat[key][1] > FROZEN_SECONDS:
        return f"frozen for {beat[key][1]:.0f} s", True
    if key in inside:
        labels, age = inside[key]
        return (f"in {labels.get('op', '?')} ({labels.get('group', '?')})"
                + (f" for {age:.0f} s" if age >= 1 else "")), False  # fmt: skip
    if key in progress and progress[key][1] > STANDS_SECONDS:
        return f"no progress for {progress[key][1]:.0f} s", True
    if key not in up:
        return "state unknown", False
    if rates.step is None:
        return "lives", False
    return ("steps" if math.isfinite(rates.step) else "no step in the span"), False


def _sentences(
    look: Look, who: Members, ranks: Sequence[_Rank]
) -> Iterable[tuple[str, str]]:  # fmt: skip
    """That all is old, where it is; then who is late; then what is missing."""
    silent = [one for one in look.nodes if one.why]
    stale = [one for one in look.nodes if _stale(one)]
    if stale:
        oldest = max(one.age or 0.0 for one in stale)
        every = len(stale) + len(silent) == len(look.nodes)
        of = "" if every else f" of {len(stale)} of {len(look.nodes)} nodes"
        below = "all below" if every else "what is below of them"
        yield f"The newest scrape{of} is {oldest:.0f} s old: {below} is from then.", Mood.UNKNOWN
    if look.findings:
        more = len(look.findings) - 1
        also = f" {more} more finding{'s are' if more > 1 else ' is'} open." if more else ""
        yield look.findings[0] + also, Mood.BAD
    told = False
    for run in who.runs:
        mine = [one for one in ranks if one.run == run]
        for text, mood in _of_run(run, mine, look):
            told = True
            yield text, mood
    if not told:
        yield "No run is reported; `lockstep run` starts one.", Mood.NOTE
    if silent:
        names = ", ".join(f"{one.node} ({one.why}{_ago(one.age)})" for one in silent[:3])
        rest = f" and {len(silent) - 3} more" if len(silent) > 3 else ""
        text = f"{len(silent)} of {len(look.nodes)} nodes do not answer: {names}{rest}."
        yield f"{text} Nothing below is about them.", Mood.UNKNOWN
    for said in look.warnings[:1]:
        yield said, Mood.UNKNOWN
    for run in who.runs:
        if line := look.commands.get(run):
            yield f"{run} is `{shorten(line, COMMAND_WIDTH, placeholder=' …')}`.", Mood.NOTE


def _of_run(run: str, ranks: Sequence[_Rank], look: Look) -> Iterable[tuple[str, str]]:
    out = [one for one in ranks if one.out]
    waiting = [one for one in ranks if not one.out and (one.inside or 0.0) >= STANDS_SECONDS]
    late = [one for one in ranks if one.late]
    if waiting:
        absent = [
            one for one in ranks
            if (one.inside is None or one.out) and one.now != "finished"
        ]  # fmt: skip
        longest = max(one.inside or 0.0 for one in waiting)
        names = _names(absent) if absent else "no rank whose page answers"
        who = f"{run} stands: {len(waiting)} of {len(ranks)} ranks wait in a collective"
        yield f"{who} for up to {longest:.0f} s; not in it: {names}.", Mood.BAD
    elif out:
        yield f"{run}: {'; '.join(f'{one.name} is {one.now}' for one in out[:3])}.", Mood.BAD
    elif late:
        first = late[0]
        more = f", and {len(late) - 1} more are late" if len(late) > 1 else ""
        takes = f"{run}: {first.name} takes {ratio(first.over)} its peers' own time"
        yield f"{takes} in the last {look.span:.0f} s{more}; the others wait for it.", Mood.BAD
    elif all(one.now == "finished" for one in ranks):
        yield f"{run} has finished.", Mood.NOTE
    else:
        yield _calm(run, ranks, look)


def _calm(run: str, ranks: Sequence[_Rank], look: Look) -> tuple[str, str]:
    """Nobody stands out: because all are alike, or because too little is known."""
    known = sum(not math.isnan(one.over) for one in ranks)
    if look.span <= 0:
        return f"{run}: who is late is known at the next look; rates are between two.", Mood.NOTE
    if known < len(ranks):
        why = (
            f"only stages of {MAJORITY} ranks or more have peers"
            if sum(one.rates.own is not None for one in ranks) > known
            else "the rest made no step, or its collectives are not timed"
        )
        some = f"{known} of {len(ranks)} ranks can be compared ({why})"
        return f"{run}: who is late is unknown: {some}.", Mood.UNKNOWN
    if run in look.doubts:
        return f"{run} is unknown: {look.doubts[run]}.", Mood.UNKNOWN
    world = _world(look, run)
    if world > len(ranks):
        here = f"{run}: none of these {len(ranks)} ranks is late"
        others = world - len(ranks)
        return f"{here}; these pages do not show the other {others}.", Mood.UNKNOWN
    fresh = {one.node for one in look.nodes if not one.why and not _stale(one)}
    if any(map(_stale, look.nodes)) and not {one.node for one in ranks} <= fresh:
        return f"{run}: its present state is unknown.", Mood.UNKNOWN
    below = f"all {len(ranks)} ranks are below {ratio(LATE)} of their peers"
    return f"{run}: no rank is late; {below} in the last {look.span:.0f} s.", Mood.OK


def _world(look: Look, run: str) -> int:
    sizes = (
        number(labels, "world_size") or 0
        for labels, _ in look.rows(m.RANK_INFO)
        if labels.get("run") == run
    )
    return max(sizes, default=0)


def _names(ranks: Sequence[_Rank]) -> str:
    first = ", ".join(one.name for one in ranks[:3])
    return first + (f" and {len(ranks) - 3} more" if len(ranks) > 3 else "")


def _stale(answered: Answered) -> bool:
    """Whether what it told last says nothing of now, though nobody says that it is silent."""
    return not answered.why and answered.age is not None and answered.age > STALE_SECONDS


def _ago(age: float | None) -> str:
    return "" if age is None else f", last heard {age:.0f} s ago"


def _nodes(look: Look, ranks: Sequence[_Rank]) -> Table:
    values = {
        metric.name: {labels.get("node", ""): value for labels, value in look.rows(metric)
                      if labels.get("window", "1m") == "1m"}
        for metric in (m.HOST_LOAD, m.HOST_CPUS, m.HOST_MEMORY_TOTAL, m.HOST_MEMORY_AVAILABLE)
    }  # fmt: skip
    gpus = Counter(labels.get("node", "") for labels, _ in look.rows(m.GPU_INFO))
    places = {one.node: one for one in look.nodes}
    lines = []
    for name in dict.fromkeys((*places, *sorted({one.node for one in ranks} - places.keys()))):
        mine = [one for one in ranks if one.node == name]
        answered = places.get(name)
        why = "" if answered is None else answered.why
        if answered is not None and _stale(answered):
            why = f"not scraped for {answered.age:.0f} s"
        silent = bool(why)
        worst = max((one.over for one in mine if not math.isnan(one.over)), default=math.nan)
        out = [one for one in mine if one.out]
        state = _node_state(why, mine, out, worst)
        load, cpus, total, free = (each.get(name) for each in values.values())
        lines.append((
            (0 if out else 1 if silent else 2, -worst if worst == worst else 0.0),
            Line(
                (
                    name,
                    str(len(mine)) if not silent else UNKNOWN,
                    _times(worst),
                    UNKNOWN if load is None or cpus is None else f"{load:.1f}/{cpus:.0f}",
                    UNKNOWN if total is None or free is None or total <= 0
                    else f"{1 - free / total:.0%}",
                    UNKNOWN if silent else str(gpus[name]),
                    state,
                ),
                Mood.UNKNOWN if silent else Mood.BAD if out or worst >= LATE else Mood.OK,
            ),
        ))  # fmt: skip
    ordered = tuple(line for _, line in sorted(lines, key=lambda pair: pair[0]))
    answering = sum(not one.why and not _stale(one) for one in look.nodes)
    return Table(
        f"Nodes: {answering} of {len(look.nodes)} answer", NODE_COLUMNS, ordered,
        "No node is reported.",
    )  # fmt: skip


def _node_state(why: str, mine: Sequence[_Rank], out: Sequence[_Rank], worst: float) -> str:
    if why:
        return why
    if out:
        return f"rank {out[0].rank} {out[0].now}"
    if worst >= LATE:
        return "late"
    if mine and all(math.isnan(one.over) for one in mine):
        return "lateness unknown"
    return "answers"


def _rank_table(ranks: Sequence[_Rank]) -> Table:
    lines = tuple(
        Line(
            (
                str(one.rank), one.node, str(one.gpu) if one.gpu >= 0 else UNKNOWN,
                _seconds(one.rates.own), _times(one.over),
                UNKNOWN if one.rates.waits is None else f"{one.rates.waits:.0%}",
                "stands" if one.rates.step == math.inf else _seconds(one.rates.step),
                one.now, one.run,
            ),
            Mood.BAD if one.out or one.late else
            Mood.UNKNOWN if math.isnan(one.over) else Mood.OK,
        )
        for one in ranks
    )  # fmt: skip
    bad = sum(one.late or one.out for one in ranks)
    known = sum(not math.isnan(one.over) for one in ranks)
    said = f", {bad} late or out" if bad else ""
    title = f"Ranks: {len(ranks)}{said}, {known} compared with peers"
    return Table(title, RANK_COLUMNS, lines, "No rank is reported.")


def _gpus(look: Look, ranks: Sequence[_Rank]) -> Table:
    at_work = {(one.node, one.gpu): one.rank for one in ranks if one.gpu >= 0}
    busy, clock, heat, power, up, stalled = (
        _of_gpus(look, metric, **only)
        for metric, only in (
            (m.GPU_UTILIZATION, {}), (m.GPU_CLOCK, {"domain": "sm"}),
            (m.GPU_TEMPERATURE, {"sensor": "gpu"}), (m.GPU_POWER, {}), (m.GPU_UP, {}),
            (m.GPU_STALLED, {}),
        )
    )  # fmt: skip
    held: dict[tuple[str, str], list[str]] = {}
    for labels, value in look.rows(m.GPU_CLOCK_EVENT_ACTIVE):
        if value > 0 and labels.get("reason") in CLOCK_EVENT_REASONS:
            key = labels.get("node", ""), labels.get("gpu", "")
            held.setdefault(key, []).append(labels["reason"])
    simulated = 0
    lines = []
    for labels, _ in look.rows(m.GPU_INFO):
        key = labels.get("node", ""), labels.get("gpu", "")
        gpu = number(labels, "gpu")
        rank = at_work.get((key[0], -1 if gpu is None else gpu))
        if stalled.get(key):
            state, level = "its driver does not answer", 0
        elif up.get(key) == 0:
            state, level = "does not answer", 0
        elif key in held:
            state, level = f"throttled: {', '.join(held[key])}", 1
        elif key not in up:
            state, level = "state unknown", 2
        else:
            state, level = "answers", 3
        simulated += labels.get("simulated") == "true"
        cells = (
            key[1] or "?", key[0], _share(busy.get(key)),
            UNKNOWN if key not in clock else f"{clock[key] / 1e6:.0f} MHz",
            UNKNOWN if key not in heat else f"{heat[key]:.0f} °C",
            UNKNOWN if key not in power else f"{power[key]:.0f} W",
            UNKNOWN if rank is None else str(rank), state,
        )  # fmt: skip
        mood = (Mood.BAD, Mood.BAD, Mood.UNKNOWN, Mood.OK)[level]
        lines.append(((level, -heat.get(key, 0.0), key), Line(cells, mood)))
    every = "all" if simulated == len(lines) else str(simulated)
    made = f", {every} simulated" if simulated else ""
    ordered = tuple(line for _, line in sorted(lines, key=lambda pair: pair[0]))
    return Table(f"GPUs: {len(lines)}{made}", GPU_COLUMNS, ordered, "No GPU is reported.")


def _of_gpus(look: Look, metric: m.Metric, **only: str) -> dict[tuple[str, str], float]:
    """(node, GPU) -> value."""
    return {
        (labels.get("node", ""), labels.get("gpu", "")): value
        for labels, value in look.rows(metric)
        if all(labels.get(name) == text for name, text in only.items())
    }


def _times(value: float) -> str:
    return UNKNOWN if math.isnan(value) else ratio(value)


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"


def _seconds(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"
