"""Which rank, GPU and node holds the run back: scores, the worst twenty, a map."""

from lockstep.grafana.annotations import STARTS, findings
from lockstep.grafana.board import board
from lockstep.grafana.links import lead, of_row
from lockstep.grafana.panels import heat, lines, number, rows, tell
from lockstep.grafana.settings import Json, Settings
from lockstep.grafana.targets import (
    ROWS,
    TOP,
    fastest,
    highest,
    instant,
    lowest,
    per_second,
    query,
    row,
    worst,
)  # fmt: skip

_RUN = 'run=~"$run"'
_RANK = "run, rank"
_PLACE = "run, rank, node, gpu"
_LEGEND = "rank {{rank}} {{node}} gpu{{gpu}}"
_TO_GPU = lead("node", "node", "run", "node", "gpu", "rank")
_NO_RULES = "No data: are the recording rules (lockstep-peers) loaded, and does a run train?"
_NO_WATCH = "No data: is lockstep watch scraped, and does a run train?"
_WHERE = f"on (run, rank) group_left (node, gpu) lockstep:rank:place{{{_RUN}}}"
_LIMIT = 1.1
"""The dashboard's own measure of slow: shapes.FLEET_METRICS, `slowdown`."""


def make(settings: Settings) -> Json:
    """The dashboard."""
    return board(
        "straggler", "Which rank, GPU and node holds the run back, and why?",
        [
            _numbers(),
            [_map()],
            [_nodes(), _worst()],
            [_own(), _wait()],
            [
                _peers("Own time against peers", "lockstep:train_own_seconds:z",
                       "Own time of a step"),
                _peers("Waiting against peers", "lockstep:train_wait_seconds:z",
                       "Time in data-parallel collectives beyond who waits least", low=True),
            ],
            [
                _peers("Temperature against peers", "lockstep:gpu_temperature_celsius:z",
                       "Core temperature"),
                _peers("SM clock against peers", "lockstep:gpu_sm_clock_hertz:z", "SM clock",
                       low=True),
                _peers("Power against peers", "lockstep:gpu_power_watts:z", "Draw", low=True),
            ],
            [_clock(), _held_back()],
            [_phases(), _findings()],
        ],
        settings, events=[findings(_RUN), STARTS],
    )  # fmt: skip


def _numbers() -> list[Json]:
    to = lead("run", "straggler", "run")
    return [
        number(
            "Slowdown", "none",
            [instant(f"max by (run) (lockstep_run_slowdown_ratio{{{_RUN}}})", "{{run}}")],
            tell("Step time over what it would be without the culprits.", "1.",
                 "see who is named below."), to,
        ),
        number(
            "Slowest rank", "none",
            [instant(f"max by (run) (lockstep_rank_straggler_ratio{{{_RUN}}})", "{{run}}")],
            tell("Own time of a step over the median of its peers.", "near 1.",
                 "from 1.1 on it holds the run back. Limit: 1.1, as the map of the dashboard."),
            to, limit=_LIMIT,
        ),
        number(
            "Ranks beyond 1.1", "none",
            [instant(f"count by (run) (lockstep_rank_straggler_ratio{{{_RUN}}} > {_LIMIT})\n"
                     f"or 0 * max by (run) (lockstep_run_known_ranks{{{_RUN}}} > 0)", "{{run}}")],
            tell("Ranks whose own time is 10 % and more above their peers'.", "none.",
                 "one: that GPU. All of a node: the node. All of a stage: the layout, nobody's "
                 "fault. Grey: no rank's own time is known."), to,
        ),
        number(
            "Open findings", "none",
            [instant("count by (run) (max by (run, node, rank, gpu, cause)"
                     f" (lockstep_finding_active{{{_RUN}}}) == 1)\n"
                     f'or 0 * max by (run) (lockstep_run_status{{{_RUN},status!="unknown"}})',
                     "{{run}}")],
            tell("What lockstep watch holds for wrong now.", "0; grey where it cannot say.",
                 "read the table below. Limit: 1."),
            to, limit=1,
        ),
    ]  # fmt: skip


def _map() -> Json:
    ratio = f"lockstep_rank_straggler_ratio{{{_RUN}}}"
    drawn = worst(f"max by ({_RANK}) ({ratio})\n* {_WHERE}", _RANK, highest(ratio, _RANK), ROWS)
    return heat(
        "Own time over peers, by rank", "none", [query(drawn, _LEGEND)],
        tell(f"A row a rank: own time of a step over the median of its peers; the {ROWS} ranks "
             "that were highest in the range.", "all rows dark.",
             "one bright row is that GPU; rows of one node are the node."),
        _TO_GPU, low=1, high=1.5,
    )  # fmt: skip


def _nodes() -> Json:
    ratio = f'lockstep_node_straggler_ratio{{{_RUN},node=~"$node"}}'
    return lines(
        "Nodes", "none",
        [query(worst(f"max by (run, node) ({ratio})", "run, node", highest(ratio, "run, node")),
               "{{node}}")],
        tell("Own time over peers of the node's slowest rank; 20 nodes.", "near 1.",
             "runbook LockstepStragglerNode. Limit: 1.1, as the map of the dashboard."),
        lead("node", "node", "run", "node"), low=None, limit=_LIMIT, nothing=_NO_WATCH,
    )  # fmt: skip


def _worst() -> Json:
    names = ("over peers", "GPU clock over peers")
    return rows(
        "Slowest ranks", "none",
        [row(f"topk({TOP}, max by ({_PLACE}) (lockstep_rank_straggler_ratio{{{_RUN}}}\n"
             f"* {_WHERE}))"),
         row(f"max by ({_PLACE}) (lockstep:rank:place{{{_RUN}}}\n"
             "* on (run, node, gpu) group_left ()\n"
             f"min by (run, node, gpu) (lockstep_gpu_sm_clock_peer_ratio{{{_RUN}}}))")],
        tell("Own time over peers, and the SM clock of the rank's GPU over its peers', now.",
             "both near 1.", "slow with a low clock: heat, power or the GPU. Slow with a good "
             "clock: CPU, data or a program beside it."),
        lead("node", "node", "run", "node", "gpu", "rank", value=of_row), names=names,
        nothing=_NO_RULES,
    )  # fmt: skip


def _own() -> Json:
    series = f"lockstep:train_own_seconds:avg1m{{{_RUN}}}"
    drawn = worst(f"max by ({_PLACE}) ({series})", _PLACE, highest(series, _PLACE))
    return lines(
        "Own time of a step", "s",
        [query(drawn, _LEGEND),
         query(f"max by (run, pp, tp) (lockstep:train_own_seconds:med{{{_RUN}}})",
               "median of stage {{pp}}, tensor part {{tp}}")],
        tell("What a rank takes without waiting; 20 ranks, and the medians of their peers.",
             "ranks lie on their median.", "a stage whose median is high is structure: nobody is "
             "to blame."), _TO_GPU, nothing=_NO_RULES,
    )  # fmt: skip


def _wait() -> Json:
    series = f"lockstep:train_wait_seconds:avg1m{{{_RUN}}}"
    drawn = worst(
        f"max by ({_PLACE}) ({series})", _PLACE, lowest(series, _PLACE), TOP, "bottomk"
    )  # fmt: skip
    return lines(
        "Waiting", "s", [query(drawn, _LEGEND)],
        tell("Time in a data-parallel collective beyond who waits least; the 20 ranks that wait "
             "least.", "all near 0.",
             "one at 0 and all others high: it arrives last, and the others wait for it."),
        _TO_GPU, nothing=_NO_RULES,
    )  # fmt: skip


def _peers(title: str, series: str, what: str, *, low: bool = False) -> Json:
    selector = f"{series}{{{_RUN}}}"
    ranked, end = (lowest, "bottomk") if low else (highest, "topk")
    drawn = worst(f"max by ({_PLACE}) ({selector})", _PLACE, ranked(selector, _PLACE), TOP, end)
    return lines(
        title, "none", [query(drawn, _LEGEND)],
        tell(f"{what}, in spreads (robust z) from the median of its peers; the 20 ranks furthest "
             f"{'below' if low else 'above'}.", "between -3 and 3.",
             "one rank far away from all others: click it."),
        _TO_GPU, low=None, nothing=_NO_RULES,
    )  # fmt: skip


def _clock() -> Json:
    ratio = f"lockstep_gpu_sm_clock_peer_ratio{{{_RUN}}}"
    by = "run, node, gpu"
    drawn = worst(f"min by ({by}) ({ratio})", by, lowest(ratio, by), TOP, "bottomk")
    return lines(
        "SM clock over peers", "percentunit", [query(drawn, "{{node}} gpu{{gpu}}")],
        tell("Clock of a GPU over the median of the run's others; the 20 lowest.", "100 %.",
             "runbook LockstepGpuClockBelowPeers."),
        lead("node", "node", "run", "node", "gpu"), low=None, nothing=_NO_WATCH,
    )  # fmt: skip


def _held_back() -> Json:
    queue = f"lockstep_rank_run_queue_seconds_total{{{_RUN}}}"
    quota = f"lockstep_rank_cpu_throttled_seconds_total{{{_RUN}}}"
    return lines(
        "Ranks without a processor", "percentunit",
        [query(fastest(queue, _RANK, 10), "rank {{rank}} waits for a processor"),
         query(fastest(quota, _RANK, 10), "rank {{rank}} is held back by its quota")],
        tell("Share of time in which a rank was ready to run and had no processor, and in which "
             "its CPU quota held it back; ten each.", "near 0.",
             "processors are short on that node, or the pod's limit is too low."),
        lead("node", "node", "run", "rank"), nothing="None, or no data",
    )  # fmt: skip


def _phases() -> Json:
    phase = f"lockstep_train_phase_seconds_total{{{_RUN}}}"
    steps = f"lockstep_train_steps_total{{{_RUN}}}"
    mean = (
        f"{per_second(phase, 'run, rank, phase')}\n"
        f"/ on (run, rank) group_left () ({per_second(steps, 'run, rank')} > 0)"
    )
    return lines(
        "Phases: slowest rank over median", "s",
        [query(f"max by (run, phase) ({mean})\n- on (run, phase)\n"
               f"quantile by (run, phase) (0.5, {mean})", "{{phase}}")],
        tell("By how many seconds a step the slowest rank leaves the median, by phase.",
             "near 0.", "forward or backward: the GPU. data: the loader. grad_sync alone: it "
             "waits, and is not the culprit."),
        lead("run", "straggler", "run"),
    )  # fmt: skip


def _findings() -> Json:
    return rows(
        "Findings", "none",
        [row("max by (run, node, rank, gpu, link, cause, tier)"
             f" (lockstep_finding_active{{{_RUN}}}) == 1")],
        tell("What lockstep watch holds for wrong now. An empty cell does not apply.", "no row.",
             "click the row for the evidence for and against."),
        lead("node", "straggler", "run", "node", value=of_row), names=("open",),
        nothing="No finding is reported: none is open, or lockstep watch does not judge",
    )  # fmt: skip
