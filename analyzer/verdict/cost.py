"""What a run lost, loses a day if it goes on, and would get back: GPU-hours, money, step time.

Lost GPU-hours = sum over steps of (T - T_ideal) * ranks / 3600 (docs/method/cost.md). T was
measured and only T_ideal is estimated, so the interval of the loss follows from that of T /
T_ideal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lockstep.analyzer.shapes.run import Finding, Grid, Verdict
from lockstep.analyzer.stats.before_after import column_of
from lockstep.analyzer.stragglers.step_time import Cost, bill, cost, of_change, spans

LAST_SECONDS = 3600.0
"""What a day is projected from: recent, for a fault that grows; long, for one with a rhythm."""
DAY_SECONDS = 86400.0

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PerDay:
    """GPU-hours a day at the rate of the last hour of the trouble.

    Attributes:
        gpu_hours: A day.
        interval: Its 95 % interval.
        over_seconds: How long was looked at.
        goes_on: Whether the trouble lasted to the end of the run.
    """

    gpu_hours: float
    interval: Interval
    over_seconds: float
    goes_on: bool

    def to_dict(self, price: float | None) -> dict[str, object]:
        """As the verdict's JSON has it; money is None without a price of a GPU-hour."""
        money = None if price is None else self.gpu_hours * price
        return {
            "gpu_hours": self.gpu_hours,
            "interval": self.interval,
            "money": money,
            "money_interval": _priced(self.interval, price),
            "over_seconds": self.over_seconds,
            "goes_on": self.goes_on,
        }


@dataclass(frozen=True, slots=True)
class Loss:
    """What slow steps and standing still cost.

    Attributes:
        gpu_hours: So far.
        interval: 95 % interval of `gpu_hours`.
        per_day: None where nothing was slow.
    """

    gpu_hours: float
    interval: Interval
    per_day: PerDay | None


def with_loss(verdict: Verdict, loss: Loss | None, price: float | None) -> Verdict:
    """The verdict with its loss.

    Args:
        verdict: Without.
        loss: None where nothing is known of the run's time.
        price: Money per GPU-hour; None = no price.
    """
    if loss is None:
        return verdict
    return replace(
        verdict,
        lost_gpu_hours=loss.gpu_hours,
        lost_gpu_hours_interval=loss.interval,
        lost_money=None if price is None else loss.gpu_hours * price,
        lost_money_interval=_priced(loss.interval, price),
        lost_per_day=None if loss.per_day is None else loss.per_day.to_dict(price),
    )


def loss(
    grid: Grid,
    bill_of_slow: Cost | None,
    slow: Sequence[Finding],
    whole: Finding | None,
    hangs: Sequence[Finding],
) -> Loss | None:
    """The loss of a run; None where nothing is known of its time.

    Args:
        grid: The run's windows.
        bill_of_slow: What the slow steps cost.
        slow: Findings of slow ranks, which that is about.
        whole: The finding about the whole run, or a link.
        hangs: Findings of ranks that stopped the run: everybody stands still since.
    """
    if bill_of_slow is None and not hangs:
        return None
    hours, interval = (
        (0.0, (0.0, 0.0))
        if bill_of_slow is None
        else (bill_of_slow.lost_gpu_hours, bill_of_slow.lost_interval)
    )
    per_day = None if bill_of_slow is None else _per_day(grid, bill_of_slow, slow, whole)
    if hangs and len(grid.end) and np.isfinite(grid.scraped_until).any():
        still = max(float(np.nanmax(grid.scraped_until) - grid.end.max()), 0.0)
        more = still * len(grid.ranks) / 3600.0
        hours, interval = hours + more, (interval[0] + more, interval[1] + more)
        # All ranks wait day and night: that is known without an estimate.
        a_day = 24.0 * len(grid.ranks)
        per_day = PerDay(a_day, (a_day, a_day), still, goes_on=True)
    return Loss(hours, interval, per_day)


def _per_day(
    grid: Grid, whole_bill: Cost, slow: Sequence[Finding], whole: Finding | None
) -> PerDay | None:
    about = [*slow, *([whole] if whole is not None and (whole.kind == "link" or not slow) else [])]
    on = [finding for finding in about if finding.last is None] or about
    inside = np.flatnonzero(spans(grid, on)) if on else np.empty(0, dtype=int)
    if not inside.size:
        return None
    stop = float(grid.end[inside[-1]])
    recent = inside[grid.start[inside] >= stop - LAST_SECONDS]
    first = int(recent[0]) if recent.size else int(inside[-1])
    seconds = stop - float(grid.start[first])
    if not seconds > 0:
        return None
    # The findings stay whole: their slowdown is that of their span, and so must be the level.
    latest, bounds = _of_some(grid, on, about, first), bill(grid, slow, whole)
    if latest is None or bounds is None or bounds.lost_gpu_hours <= 0:
        return None
    # Where operations were simulated they know better than the bounds what the whole cost.
    scale = whole_bill.lost_gpu_hours / bounds.lost_gpu_hours * DAY_SECONDS / seconds
    low, high = latest.lost_interval
    return PerDay(
        latest.lost_gpu_hours * scale,
        (low * scale, high * scale),
        seconds,
        goes_on=any(finding.last is None for finding in about),
    )


def _of_some(
    grid: Grid, some: Sequence[Finding], about: Sequence[Finding], since: int
) -> Cost | None:
    """What some of the findings cost since a window, beside what ended before."""
    slow = [finding for finding in some if finding.kind == "slow"]
    whole = next((finding for finding in some if finding.kind != "slow"), None)
    if len(some) == len(about) or (slow and whole is not None):
        return bill(grid, slow, whole, since=since)
    if slow:
        return cost(grid, slow, about, since=since)
    return None if whole is None else of_change(grid, whole, about, since=since)


def _priced(interval: Interval, price: float | None) -> Interval | None:
    return None if price is None else (interval[0] * price, interval[1] * price)


def bounds_what_if(
    grid: Grid, slow: Sequence[Finding], bill: Cost | None, links: Sequence[Finding] = ()
) -> Mapping[str, object]:
    """`Verdict.what_if` by method `bounds`, or `none`.

    Args:
        grid: The run's windows.
        slow: Findings of slow ranks.
        bill: What they cost together; None = not known.
        links: Those that are accused beside them.
    """
    if not slow or bill is None:
        return {"method": "none"}
    by_node: dict[str, list[Finding]] = {}
    for finding in slow:
        column = column_of(grid, finding.rank)
        assert column is not None
        by_node.setdefault(grid.ranks[column].node, []).append(finding)
    fixes = []
    for node, mine in by_node.items():
        fix = cost(grid, mine, [*slow, *links])
        if fix is not None:
            low, high = fix.gain_interval
            fixes.append({"remove": node, "gain": fix.gain, "interval": [low, high],
                          "by": "bound", "over": "the steps while it was slow"})  # fmt: skip
    return {"method": "bounds", "S": bill.slowdown, "fixes": fixes}
