"""PromQL for what the rules recorded: an answer grows with what is wrong, not with the run."""

from lockstep.analyzer.read.prometheus.promql import one_of, quoted
from lockstep.analyzer.read.prometheus.questions import (
    FROZEN_SECONDS,
    STUCK_SECONDS,
    span,
    targets_with,
)
from lockstep.analyzer.rules.recording_rules.rules import RANKS
from lockstep.analyzer.rules.recording_rules.signals import OWN, PLACE, STRATUM, Signal
from lockstep.analyzer.rules.recording_rules.suspects import Place
from lockstep.collector.contract import metrics

SHARE = 0.15
"""Of the time that a rank must deviate, as slowness.TRANSIENT_SHARE: what lasted for less and is
over wakes nobody, and is not asked for."""
RECENT = "2m"
"""Or it deviates now, on average over this: two windows of a signal."""
FRESH = "1m"


def where(run: str | None) -> str:
    """A selector of one run, or of all."""
    return "" if run is None else f"{{run={quoted(run)}}}"


def outliers(signal: Signal, run: str | None, seconds: float, limit: float, most: int) -> str:
    """Z of the ranks that deviate in the suspicious direction, the worst `most` of each run."""
    z = signal.recorded("z") + where(run)
    lately = span(seconds)
    high = (
        f"topk by (run) ({most}, quantile_over_time({1 - SHARE}, {z}{lately}) > {limit}"
        f" or avg_over_time({z}[{RECENT}]) > {limit})"
    )
    low = (
        f"bottomk by (run) ({most}, quantile_over_time({SHARE}, {z}{lately}) < -{limit}"
        f" or avg_over_time({z}[{RECENT}]) < -{limit})"
    )
    return f"{high} or {low}" if signal.high is None else high if signal.high else low


def slowdowns(run: str, ranks: list[int], seconds: float) -> str:
    """Own time of some ranks over their stratum's median, in the slowest SHARE of the time."""
    here = f"{{run={quoted(run)},rank=~{one_of(map(str, sorted(ranks)))}}}"
    lately = span(seconds)
    slow = f"quantile_over_time({1 - SHARE}, {OWN.recorded('avg1m')}{here}{lately})"
    usual = f"quantile_over_time(0.5, {OWN.recorded('med')}{where(run)}{lately})"
    return f"{slow} / on ({', '.join(STRATUM)}) group_left () {usual}"


def stopped(run: str | None, seconds: float, most: int) -> str:
    """Places of ranks that vanished, whose process froze, or who are stuck by themselves."""
    here = where(run)
    place, now = f"{PLACE}{here}", f"last_over_time({PLACE}{here}[{FRESH}])"
    beat = f"last_over_time({metrics.TRAIN_HEARTBEAT_AGE.name}{here}[{FRESH}])"
    progress = f"last_over_time({metrics.TRAIN_PROGRESS_AGE.name}{here}[{FRESH}])"
    inside = f"last_over_time({metrics.TRAIN_OPEN_OP_AGE.name}{here}[{FRESH}])"
    return (
        f"topk by (run) ({most},"
        f" last_over_time({place}{span(seconds)}) unless on (run, rank) {now}"
        f" or {now} and on (run, rank) ({beat} > {FROZEN_SECONDS}"
        f" or {progress} > {STUCK_SECONDS} unless on (run, rank) {inside}))"
    )


def levels(run: str | None, seconds: float) -> str:
    """Count, median and MAD of every stratum and signal."""
    names = '__name__=~"lockstep:.+:(count|med|mad)"'
    here = "" if run is None else f",run={quoted(run)}"
    return f"last_over_time({{{names}{here}}}{span(seconds)})"


def known_ranks(run: str | None, seconds: float) -> str:
    """Ranks of each run whose own time is known: in all but SHARE of the time at least so many."""
    count = OWN.recorded("count") + where(run)
    return f"sum by (run) (quantile_over_time({SHARE}, {count}{span(seconds)}))"


def expected(run: str | None, seconds: float) -> str:
    """Ranks with a place by run; the label `world_size` says how many there should be."""
    return f"last_over_time({RANKS}{where(run)}{span(seconds)})"


def peers(strata: list[Place], seconds: float, most: int) -> str:
    """Places of the ranks nearest the median of some strata of one run."""
    run = quoted(strata[0][0])
    pps, tps = (one_of(sorted({place[part] for place in strata})) for part in (1, 2))
    here = f"{{run={run},pp=~{pps},tp=~{tps}}}"
    lately = span(seconds)
    near = f"abs(avg_over_time({OWN.recorded('z')}{here}{lately}))"
    rest = f"1e9 * last_over_time({PLACE}{here}{lately})"
    by = ", ".join(STRATUM)
    return f"bottomk by ({by}) ({most}, {near} or on (run, rank) {rest})"


def pages(run: str, ranks: list[int], seconds: float) -> str:
    """Where the pages of some ranks were scraped."""
    here = f"{{run={quoted(run)},rank=~{one_of(map(str, ranks))}}}"
    return targets_with(f"{metrics.RANK_UP.name}{here}", seconds)
