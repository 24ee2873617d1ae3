"""The questions to Prometheus: each PromQL expression that several readers ask, once.

The answers are one number a rank, a GPU, a node, a page or a run.
"""

from collections.abc import Iterable, Mapping

from lockstep.analyzer.read.prometheus.promql import lasting, one_of, quoted, series
from lockstep.analyzer.shapes.waits import SLACK
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metric_rows.ranges import (
    AGE,
    CLOCK,
    FLAG,
    GPUS_MISSING,
    NVLINKS,
    THINGS,
    Range,
)  # fmt: skip
from lockstep.collector.contract.xid import PAGED, selector

LOOK_BACK = 300.0
"""Seconds: so long Prometheus holds on to a series' last sample (`--query.lookback-delta`)."""
FROZEN_SECONDS = 3.0
"""contract.metrics.TRAIN_HEARTBEAT_AGE."""
STUCK_SECONDS = 30.0
"""Without progress and outside every collective. A checkpoint may take longer, at the cost of a
diagnosis, or of a page that is read."""
MOST_STOPPED = 64
OF_RANK = "max by (run, rank)"
INFOS = m.RANK_INFO.name
NEWEST_SCRAPE = f"max(timestamp({m.BUILD_INFO.name}))"
"""When any collector answered last."""
SCRAPES = f"count_over_time({m.BUILD_INFO.name}[{lasting(LOOK_BACK)}])"
NEWEST = f"timestamp({m.BUILD_INFO.name})"
"""Of each page: how many scrapes there were in LOOK_BACK, and when the newest was."""
COLLECTORS = f"count({m.BUILD_INFO.name})"
NODES_BY_RANK = f"group by (job, instance, node, exported_node) ({m.RANK_INFO.name})"
"""What the ranks of each page call their node."""
LIVING = f"{OF_RANK} ({m.RANK_UP.name})"
TOLD = f"max by (run) (timestamp({m.RANK_UP.name}))"
STEPS = f"{OF_RANK} ({m.TRAIN_STEPS.name})"
OWN = f"{OF_RANK} ({m.TRAIN_OWN.name})"
KNOWN = f"{OF_RANK} ({m.TRAIN_KNOWN_STEPS.name})"
GONE = f"count by (run) ({LIVING} == 0)"
"""How many ranks of each run are gone."""
UP_SECONDS = 300.0
"""Before the end of a run, in which the scrapes are read that saw its ranks."""
GONE_SECONDS = m.RANK_GONE_SECONDS + UP_SECONDS
"""The same of one that is reported to be gone, and that nobody saw alive in that time."""
LAST_STATE = (
    f"max by (run, rank, state) (last_over_time({m.RANK_LAST_STATE.name}[{lasting(UP_SECONDS)}]))"
)
"""What each rank that is gone said last, also where its page has ended since."""
OPEN = f"max by (run) ({m.TRAIN_OPEN_OP_AGE.name})"
STOPPED = (
    f"topk by (run) ({MOST_STOPPED}, {OF_RANK} ({m.TRAIN_HEARTBEAT_AGE.name}) > {FROZEN_SECONDS}"
    f" or {OF_RANK} ({m.TRAIN_PROGRESS_AGE.name}) > {STUCK_SECONDS}"
    f" unless {OF_RANK} ({m.TRAIN_OPEN_OP_AGE.name}))"
)
"""Ranks that are frozen, or that make no progress and wait in no collective."""
_PROGRESS = m.TRAIN_PROGRESS_AGE.name
SILENCE = f"min by (run) ({_PROGRESS} + (time() - timestamp({_PROGRESS})))"
"""Seconds for which no rank of a run is known to have begun or ended anything."""
QUIET = f"min by (run) ({_PROGRESS})"
"""The same when it was scraped: what certainly was so long."""
OF_DIAGNOSIS = (
    m.TRAIN_PHASE, m.TRAIN_CPU, m.TRAIN_COLLECTIVE, m.TRAIN_COLLECTIVES, m.TRAIN_ENQUEUED,
    m.TRAIN_COMPLETED, m.TRAIN_HEARTBEAT_AGE,
)  # fmt: skip
"""What a diagnosis reads of each rank beside steps and own time: why it is slow, who is missing."""
_OF_DIAGNOSIS = "|".join(metric.name for metric in OF_DIAGNOSIS)
TELLING = f'count by (run, rank) (group by (run, rank, __name__) ({{__name__=~"{_OF_DIAGNOSIS}"}}))'
"""How many of these metrics each rank's page reports."""
PAGES = f"max by (job, instance, node) (timestamp({m.BUILD_INFO.name}))"
LOST = (
    f"max by (job, instance, node) ({m.GPU_EXPECTED.name})"
    f" - on (job, instance, node) max by (job, instance, node) ({m.GPU_PRESENT.name})"
)
"""Of each page that reports it: 0 says that somebody looked and none is missing."""
_PAGED = selector(PAGED, fatal=True)
XIDS = (
    f"{m.GPU_XID_LAST.name}{{{_PAGED}}}\nor\nmax by (job, instance, node)"
    f" ({m.GPU_XID_ERRORS.name}{{{_PAGED}}} or 0 * {m.GPU_XID_ERRORS.name}) > bool 0"
)
"""Each error that pages; and for each page that reports such errors, without `xid`, whether it
counted any. So an empty answer, or a count without its errors, says that nobody looked."""
LINKS = f"sum by (job, instance, node, gpu, uuid) ({m.GPU_NVLINK_UP.name})"
NODES = "group by (node) (kube_node_info)"
"""The nodes that kube-state-metrics knows."""
SCRAPING = "count(up == 1)"
"""Whether any page is reached; `up` is Prometheus' own account of each that it scrapes."""
PORTS = f"max by (job, instance, node, device, port) ({m.IB_STATE.name} == 4)"
"""4 = active (contract.metrics.IB_STATE)."""

WITHIN: Mapping[str, Range] = {
    LIVING: FLAG, TOLD: CLOCK, STEPS: m.TRAIN_STEPS.within, OWN: m.TRAIN_OWN.within,
    KNOWN: m.TRAIN_KNOWN_STEPS.within, GONE: THINGS, OPEN: m.TRAIN_OPEN_OP_AGE.within,
    STOPPED: AGE, SILENCE: AGE, QUIET: AGE, TELLING: THINGS, PAGES: CLOCK,
    LOST: GPUS_MISSING, XIDS: CLOCK, LINKS: NVLINKS, PORTS: FLAG,
}  # fmt: skip
"""What the answers can be: a value beyond it, whoever reported it, is none."""


def up_by_page(pages: str | None = None) -> str:
    """1 or 0 for each rank of each page; of pages by their matchers, None = of all."""
    up = m.RANK_UP.name if pages is None else series(m.RANK_UP.name, pages)
    return f"max by (job, instance, run, rank) ({up})"


UP_BY_PAGE = up_by_page()


def targets_with(selector: str, seconds: float) -> str:
    """The targets whose pages had some series in that time."""
    return f"count by (job, instance) (last_over_time({selector}{span(seconds)}))"


def gpu_targets(seconds: float) -> str:
    """The targets whose pages had a GPU in that time, with their label `node`."""
    return f"count by (job, instance, node) (last_over_time({m.GPU_UP.name}{span(seconds)}))"


def collectors(seconds: float) -> str:
    """The targets that are collectors and answered in that time, with their label `node`."""
    return f"group by (job, instance, node) (last_over_time({m.BUILD_INFO.name}{span(seconds)}))"


def collectors_present(seconds: float) -> str:
    """How many collectors answered in that time."""
    return f"count(present_over_time({m.BUILD_INFO.name}{span(seconds)}))"


def samples_present(selector: str, seconds: float) -> str:
    """How many of some series had a sample in that time."""
    return f"count(count_over_time({selector}{span(seconds)}))"


def runs_with(selector: str, seconds: float) -> str:
    """The runs of some series in that time."""
    return f"group by (run) (last_over_time({selector}{span(seconds)}))"


def run_slowdown(**equal: str) -> str:
    """What `watch` exports of each run."""
    return f"max by (run) ({series(m.RUN_SLOWDOWN.name, **equal)})"


def run_coverage(run: str) -> str:
    """The same of one run, in a quarter of an hour."""
    return f"max(last_over_time({series(m.RUN_COVERAGE.name, run=run)}[15m]))"


def steps_per_second(span: str, selector: str = "") -> str:
    """Of each rank; `span` and `selector` are as those of `own_per_step`."""
    return _rate(m.TRAIN_STEPS, span, selector)


def waiting_per_second(span: str, selector: str = "") -> str:
    """Seconds in collectives, from arrival to completion, per second of each rank."""
    return f"sum by (run, rank) ({_rate(m.TRAIN_COLLECTIVE, span, selector)})"


def lately_up(run: str, seconds: float = UP_SECONDS) -> str:
    """The last scrapes of the ranks of a run: 1 = alive, 0 = gone."""
    return f"{m.RANK_UP.name}{{run={quoted(run)}}}{span(seconds)}"


def lately_said(run: str) -> str:
    """The last words of the ranks of a run in the same time."""
    return f"{m.RANK_LAST_STATE.name}{{run={quoted(run)}}}{span(UP_SECONDS)}"


def lately_stepped(run: str) -> str:
    """The steps of the ranks of a run in the same time."""
    return f"{m.TRAIN_STEPS.name}{{run={quoted(run)}}}{span(UP_SECONDS)}"


def reached(jobs: Iterable[str], seconds: float) -> str:
    """Of each page of some jobs: 1 = a scrape reached it in that time, 0 = every one failed.

    Of others nobody says that they are scraped.
    """
    tried = f"up{{job=~{one_of(jobs)}}}{span(seconds)}"
    return f"max by (job, instance) (max_over_time({tried}))"


def longest_silence(run: str) -> str:
    """The longest of the day before, in which Prometheus is looked at once a minute.

    What comes before the second step, as compiling and loading, is none.
    """
    of_run = f"{{run={quoted(run)}}}"
    begun = f"max({m.TRAIN_STEPS.name}{of_run}) > 1"
    return f"max_over_time((min({_PROGRESS}{of_run}) and on () {begun})[1d:1m])"


def rate(metric: m.Metric, seconds: float) -> str:
    """Rise per second of a rank's counter."""
    return f"{OF_RANK} (rate({metric.name}{span(seconds)}))"


def own_per_step(span: str, selector: str = "") -> str:
    """PromQL: own seconds per step by (run, rank) over a span; absent where it is not known.

    Absent, too, where the rank did no step, and where it was resumed: it begins at the resumed
    step, which `rate` would count as that many steps.

    Args:
        span: A duration of PromQL such as `1m`; it must hold two scrapes.
        selector: In braces, such as `{run="a"}`; empty = every rank.
    """
    steps = steps_per_second(span, selector)
    again = f"resets({m.TRAIN_STEPS.name}{selector}[{span}]) > 0"
    return (
        f"sum by (run, rank) ({_rate(m.TRAIN_OWN, span, selector)} >= 0)\n"
        f"/ on (run, rank)\n(sum by (run, rank) ({steps}\n  unless {again}) > 0)\n"
        f"and on (run, rank)\n"
        f"sum by (run, rank) ({_rate(m.TRAIN_KNOWN_STEPS, span, selector)})\n"
        f"  >= on (run, rank) {1.0 - SLACK:.9f} * sum by (run, rank) ({steps})"
    )


def _rate(metric: m.Metric, span: str, selector: str) -> str:
    return f"rate({metric.name}{selector}[{span}])"


def own_seconds_query(seconds: float) -> str:
    """Own seconds per step of each rank; absent where it is not known."""
    return f"{OF_RANK} ({own_per_step(span(seconds)[1:-1])})"


def gauge(metric: m.Metric, selector: str, seconds: float) -> str:
    """A GPU's gauge: the mean of what was scraped since the check before, nothing where none was.

    A value that Prometheus only repeats would count as evidence again.
    """
    return f'max by (uuid) (avg_over_time({metric.name}{{{selector}uuid!=""}}{span(seconds)}))'


def span(seconds: float) -> str:
    """A range of PromQL."""
    return f"[{lasting(seconds)}]"
