"""A symptom, and how a series becomes one: how far it moves, since when, and with own time or not.

One measure for all series: how far it is beyond before, and beyond what
happened to its peers as well, in units of what such a difference is off by. What its sensor cannot
tell apart is no movement, however quiet the series was.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.labels import parsed
from lockstep.analyzer.shapes.run import Basis, Finding, FloatGrid, Grid
from lockstep.analyzer.stats.before_after import column_of, query
from lockstep.analyzer.stats.changepoint import BLOCK_STEPS_AT_LEAST, SCORES_AT_LEAST
from lockstep.analyzer.stats.robust_stats import mean, mean_of, median, median_of, spread
from lockstep.collector.contract.metrics import METRICS

ALIKE = 0.5
"""Spearman's rho from which own time follows a signal: a step in both, with noise on one, gives
sqrt(3 p (1 - p)) with p = the share of the windows inside: 0.87 at half, 0.52 at a tenth.
Chosen, so that a tenth is enough."""
UNLIKE = 0.15
"""Below, the signal moves without the rank's own time: chosen, as far as chance takes rho
over 44 windows (1 / sqrt(n - 1))."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """A symptom as the telemetry shows it.

    Attributes:
        seen: Whether it is there beyond before and beyond the peers.
        text: That in one sentence part, with numbers; empty where there is nothing to show.
        query: The PromQL that shows it.
        began: Seconds from the finding's onset to its begin; NaN = no onset to compare with.
        with_onset: Whether it began with the finding; None = not known.
        near: Whether it began at another time, and that is not far for the length of the run.
        follows: Spearman's rho of own time, over the peers', with it; NaN = too little moved.
        grave: Whether it is there in full, and not in part only.
        far: Robust deviations beyond what is usual; NaN = not measured by a series.
        basis: What it is read from.
    """

    seen: bool
    text: str
    query: str
    began: float = float("nan")
    with_onset: bool | None = None
    near: bool = False
    follows: float = float("nan")
    grave: bool = True
    far: float = float("nan")
    basis: Basis = Basis.TELEMETRY

    @property
    def explains(self) -> bool:
        """Whether it can be why the rank is slow: there, and not from another time."""
        return self.seen and self.with_onset is not False

    @property
    def states(self) -> tuple[str, ...]:
        """Its states, each a word in the table of weights (docs/method/causes.md)."""
        if not self.seen:
            return ("none",)
        states = ["strong" if self.grave else "mild"]
        if self.with_onset is False:
            states.append("near" if self.near else "elsewhen")
        if self.follows >= ALIKE:
            states.append("follows")
        elif self.follows < UNLIKE:
            states.append("apart")
        return tuple(states)


def with_more(
    first: Symptom | None, other: Symptom | None, said: str, joined: str = " and"
) -> Symptom | None:
    """Of two symptoms of one part the first if it is there, with the words of the other.

    Args:
        first: What matters more.
        other: The other one.
        said: Beginning of its words that the first has said.
        joined: What is between.
    """
    if not first or not first.seen:
        return other or first
    more = f"{joined}{other.text.removeprefix(said)}" if other and other.seen else ""
    return replace(first, text=first.text + more)


MILD = 3.0
"""Robust deviations from which a series has moved: Shewhart's limits (1931; chance passes three
sigma once in 741 looks, one-sided)."""
STRONG = 2 * MILD
"""And beyond any doubt."""
SCRAPES, STEPS = 2.0, 1.0 + BLOCK_STEPS_AT_LEAST
"""Evidence is aligned to the onset within so many scrapes (the one that saw it, and the one that
its rate begins at), and so many windows, by which a finding's onset can be off: a block of steps
and the window that it begins in."""
NEAR_SECONDS = 900.0
"""Counters may rise minutes before or after their trouble costs time: chosen, a quarter of an
hour. What is half of the slow time away is at another time."""
SCRAPE_SECONDS = 15.0
"""Where nobody told how often a node was scraped: the interval of our deployments (deploy/)."""
PERCENT = 0.01
"""NVML reports whole percents (nvmlDeviceGetUtilizationRates), and kernels that count by ticks
10 ms of a second (USER_HZ, proc(5))."""


class Sensor(NamedTuple):
    """How a series is read.

    Attributes:
        resolution: The smallest difference that it reports, in its own unit; what is quieter than
            this is as noisy.
        healthy: What it is where neither before nor the peers are known; NaN = not known.
        lower: Whether trouble is a fall.
        events: Whether it counts events: then chance alone moves its rate (Poisson).
        bad: Where trouble begins, however far the series moved; NaN = anywhere.
        compared: Whether the peers show what is usual where there is no past.
    """

    resolution: float
    healthy: float = float("nan")
    lower: bool = False
    events: bool = False
    bad: float = float("nan")
    compared: bool = True


SECONDS = Sensor(0.005, healthy=0.0)
"""A second, of what counts time: the kernel hands out processors by slices of 5 ms
(`sched_cfs_bandwidth_slice_us`) and looks every 4 ms (`CONFIG_HZ` 250)."""
EVENTS = Sensor(0.0, healthy=0.0, events=True)
"""A second; a healthy part counts next to none."""
WHOLE = Sensor(0.1, lower=True)
"""Lanes, generations, links: there are none between, so what moves their mean is the share of the
windows that lack one. Chosen: three of ten have moved, six of ten are most."""


@dataclass(frozen=True, slots=True)
class Level:
    """How high a series is, in its own unit (counters: per second); NaN = did not answer.

    Means over windows, not medians: an error every few seconds is in few windows.

    Attributes:
        before: Of the rank, before the finding (after it, where it was there from the start).
        during: Of the rank, while it is slow.
        peers: The median of the other ranks', in the same windows.
        common: By how much these changed from before, their median; NaN = no past.
        noise: By what the difference is off, as a Gaussian's sigma: the larger of the standard
            error of the rank's own means and the robust deviation of the same difference among
            its peers, which drift and differ as it does.
        seconds: The shorter of the two spans that are compared: what is counted in it is all that
            a rate is known by.
        past: What `before` is, in words: of a finding from the first step on, what came after it.
    """

    before: float
    during: float
    peers: float
    common: float = float("nan")
    noise: float = 0.0
    seconds: float = float("nan")
    past: str = "before"

    def usual(self, sensor: Sensor) -> float:
        """What it would be without the trouble.

        As before, and moved as the peers did where they moved into trouble as well: what happens to
        all of them is no trouble of one. That the others are better off is none, either.
        Without past what the peers are.
        """
        if np.isfinite(self.before):
            common = float(np.nan_to_num(self.common))
            return self.before + (min(common, 0.0) if sensor.lower else max(common, 0.0))
        return self.peers if sensor.compared and np.isfinite(self.peers) else sensor.healthy

    def whose(self, sensor: Sensor) -> str:
        """Whose level the usual one is, in words behind it."""
        if np.isfinite(self.before):
            return self.past
        known = sensor.compared and np.isfinite(self.peers)
        return "at its peers" if known else "of one that is well"


Words = Callable[[Level], str]
"""What is seen of a series, from how high it is."""


def deviations(reading: Level, sensor: Sensor) -> float:
    """How far a level is beyond what is usual, in units of its noise; NaN = not known.

    `(during - usual) / max(noise, resolution)`; of events the noise is at least
    `sqrt(max(usual * seconds, 1)) / seconds`, one event or the Poisson deviation of what is usual.
    """
    usual = reading.usual(sensor)
    moved = usual - reading.during if sensor.lower else reading.during - usual
    noise = max(reading.noise, sensor.resolution)
    if sensor.events and reading.seconds > 0:
        noise = max(noise, float(np.sqrt(max(usual * reading.seconds, 1.0))) / reading.seconds)
    return moved / noise if noise > 0 else float(np.inf * np.sign(moved)) if moved else 0.0


def symptom(
    grid: Grid, finding: Finding, cells: FloatGrid | None, sensor: Sensor, words: Words,
    query: str, *, silent: str | None = None, mild: bool = False,
) -> Symptom | None:  # fmt: skip
    """The symptom that a series shows; None where it does not answer.

    Args:
        grid: The run's windows.
        finding: Whom it is about.
        cells: (W, R) the series.
        sensor: How it is read.
        words: What is seen.
        query: The PromQL that shows it.
        silent: The text where nothing is seen, or where it is not known what is usual; None = the
            same text as where it is seen, and no symptom.
        mild: Whether the most it can be is mild.
    """
    reading = level(grid, finding, cells)
    if cells is None or reading is None:
        return None
    far, text = deviations(reading, sensor), words(reading)
    if np.isnan(far) and silent is None:
        return None
    harmless = reading.during > sensor.bad if sensor.lower else reading.during < sensor.bad
    if harmless or not far >= MILD:
        return Symptom(False, text if silent is None else silent, query, far=far)
    late = onset_delay(grid, finding, cells, reading.usual(sensor), reading.during)
    within = None if np.isnan(late) else abs(late) <= tolerance(grid)
    rho = dose_response(grid, finding, cells)
    # A link that loses width is worse the lower it is.
    rho = -rho if sensor.lower else rho
    grave = far >= STRONG and not mild
    return Symptom(True, text, query, late, within, is_near(grid, finding, late), rho, grave, far)


def of_signal(
    grid: Grid, finding: Finding, key: str, sensor: Sensor, words: Words
) -> Symptom | None:
    """The symptom that a series of the telemetry shows, by its own name."""
    return symptom(grid, finding, grid.signals.get(key), sensor, words, query(grid, finding, key))


def of_time(grid: Grid, finding: Finding, key: str, words: str) -> Symptom | None:
    """The symptom that a counter of seconds shows; `words` say what these are spent in."""

    def text(reading: Level) -> str:
        before = "" if np.isnan(reading.before) else f" ({reading.past}: {reading.before:.0%})"
        return f"{words} {reading.during:.0%} of the time{before}"

    cells = grid.signals.get(key)
    return symptom(grid, finding, cells, SECONDS, text, query(grid, finding, key))


class SeriesName(NamedTuple):
    """The key of a signal of the Grid: its metric and its labels, (name, value) each."""

    metric: str
    labels: tuple[tuple[str, str], ...]


@lru_cache(4096)
def series_name(key: str) -> SeriesName:
    """A key of `Grid.signals` or `Grid.last`, parsed; values stay escaped."""
    metric, _, labels = key.partition("{")
    return SeriesName(metric, tuple(parsed(labels).items()))


def series_of(grid: Grid, metric: str, **labels: str) -> list[str]:
    """The keys of the metric's signals that have all `labels`.

    Raises:
        ValueError: The metric has no label of that name.
    """
    unknown = labels.keys() - set(METRICS[metric].labels)
    if unknown:
        raise ValueError(f"{metric} has no label {', '.join(sorted(unknown))}")
    names = {key: series_name(key) for key in grid.signals}
    return [
        key
        for key, name in names.items()
        if name.metric == metric and set(labels.items()) <= set(name.labels)
    ]


def total(grid: Grid, metric: str, **labels: str) -> FloatGrid | None:
    """(W, R) sum over the metric's series that have all `labels`; None if none answered.

    Raises:
        ValueError: The metric has no label of that name.
    """
    keys = series_of(grid, metric, **labels)
    if not keys:
        return None
    summed = np.zeros((len(grid.start), len(grid.ranks)))
    there = np.zeros(summed.shape, dtype=bool)
    for key in keys:
        cells = grid.signals[key]
        there |= np.isfinite(cells)
        summed += np.nan_to_num(cells)
    return np.where(there, summed, np.nan)


def of_same_model(grid: Grid, finding: Finding, key: str) -> FloatGrid | None:
    """(W, R) a series of the telemetry, of the ranks on the finding's model of GPU; NaN elsewhere.

    Temperatures, power and its limits are those of a model. A rank without a model may be on any.
    """
    cells, column = grid.signals.get(key), column_of(grid, finding.rank)
    if cells is None or column is None:
        return cells
    model = grid.ranks[column].model
    alike = [not model or info.model in ("", model) for info in grid.ranks]
    return np.where(np.array(alike), cells, np.nan)


def level(grid: Grid, finding: Finding, cells: FloatGrid | None) -> Level | None:
    """How high a series is; None if the finding's rank did not answer during it."""
    column = column_of(grid, finding.rank)
    if cells is None or column is None:
        return None
    during, before = spans(grid, finding)
    there = np.isfinite(cells[:, column])
    if not (there & during).any():
        return None
    node = finding.details.get("node")
    peers = [
        c
        for c, info in enumerate(grid.ranks)
        if c != column and (node is None or info.node != node)
    ]
    others = cells[:, peers]
    now, then = mean(others[during], 0), mean(others[before], 0)
    known = bool((there & before).any())
    length, past = (
        float(np.nansum((grid.end - grid.start)[there & span])) for span in (during, before)
    )
    scrape = scrape_seconds(grid)
    error = float(np.nan_to_num(spread(cells[before if known else during, column]))) * np.sqrt(
        sum(1.0 / max(seconds / scrape, 1.0) for seconds in (length, past) if seconds > 0)
    )
    return Level(
        mean_of(cells[before, column]),
        mean_of(cells[during, column]),
        median_of(now),
        median_of(now - then),
        max(float(error), float(np.nan_to_num(spread(now - then if known else now)))),
        min(length, past) if known else length,
        "before" if (~grid.masked[: finding.first]).any() else "afterwards",
    )


def spans(grid: Grid, finding: Finding) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(W,) unmasked windows of the finding, and those before it (after it, if none are)."""
    windows = np.arange(len(grid.start))
    stop = len(windows) if finding.last is None else finding.last
    during = ~grid.masked & (windows >= finding.first) & (windows < stop)
    before = ~grid.masked & (windows < finding.first)
    return during, before if before.any() else ~grid.masked & (windows >= stop)


def onset_delay(grid: Grid, finding: Finding, cells: FloatGrid, normal: float, now: float) -> float:
    """Seconds from the finding's onset to where the series goes from one level to the other.

    The likeliest change point between two known levels: where the distance to their middle turns.
    One window that crosses the middle by chance is none. NaN where the finding has no onset in the
    run, or the series never crosses.
    """
    column = column_of(grid, finding.rank)
    if column is None or not 0 < finding.first < len(grid.start) or now == normal:
        return float("nan")
    stop = len(grid.start) if finding.last is None else finding.last
    beyond = (cells[:, column] - (normal + now) / 2) * np.sign(now - normal)
    known = np.flatnonzero(np.isfinite(beyond) & ~grid.masked & (np.arange(len(beyond)) < stop))
    if not (beyond[known] > 0).any():
        return float("nan")
    turn = known[turning_point(beyond[known])]
    return float(grid.start[turn] - grid.start[finding.first])


def turning_point(away: FloatGrid) -> NDArray[np.int64]:
    """The row of (n, ...) from which a series is higher: where its cumulative sum is lowest.

    (Page, "Continuous inspection schemes", Biometrika 1954.)

    Args:
        away: Its distance from the middle of the two levels; NaN counts nothing.
    """
    steps = np.concatenate([np.zeros_like(away[:1]), np.nan_to_num(away)[:-1]])
    return np.asarray(np.cumsum(steps, axis=0).argmin(axis=0))


def tolerance(grid: Grid) -> float:
    """Seconds between a finding's onset and what began with it."""
    window = float(np.median(grid.end - grid.start)) if len(grid.start) else 0.0
    return SCRAPES * scrape_seconds(grid) + STEPS * window


def scrape_seconds(grid: Grid) -> float:
    """Between two scrapes of a node: what is read in between is the same reading."""
    return grid.scrape_seconds if np.isfinite(grid.scrape_seconds) else SCRAPE_SECONDS


def is_near(grid: Grid, finding: Finding, late: float) -> bool:
    """Whether so many seconds from the onset are not far for this finding; NaN is not."""
    if not 0 <= finding.first < len(grid.start):
        return False
    stop = len(grid.start) if finding.last is None else finding.last
    return near(grid, finding.first, max(stop, finding.first + 1), late)


def near(grid: Grid, first: int, stop: int, late: float) -> bool:
    """Whether so many seconds are not far for a span of windows; NaN is."""
    length = float(grid.end[stop - 1] - grid.start[first])
    return abs(late) <= min(NEAR_SECONDS, length / 2)


def dose_response(grid: Grid, finding: Finding, cells: FloatGrid) -> float:
    """Spearman's rho over windows of own time, over the peers', with a series (`goes_with`)."""
    column = column_of(grid, finding.rank)
    if column is None or len(grid.ranks) < 2:
        return float("nan")
    peers = [c for c in range(len(grid.ranks)) if c != column]
    own = grid.time["own"]
    known = ~grid.masked & np.isfinite(own[:, column]) & np.isfinite(own[:, peers]).any(axis=1)
    theirs = median(own[np.ix_(known, np.array(peers))], 1)
    return goes_with(own[known, column] / theirs, cells[known, column])


def goes_with(response: FloatGrid, dose: FloatGrid) -> float:
    """Spearman's rho of two (n,) series.

    NaN where either stands still or too few windows know both for a spread of theirs.
    """
    known = np.isfinite(response) & np.isfinite(dose)
    if known.sum() < SCORES_AT_LEAST:
        return float("nan")
    ranks = [pd.Series(series[known]).rank() for series in (response, dose)]
    if any(np.ptp(each) == 0 for each in ranks):
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
