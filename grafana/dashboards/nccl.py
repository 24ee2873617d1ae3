"""Collectives: which one hangs, who is missing, how fast are they?"""

from lockstep.grafana.annotations import STARTS, findings
from lockstep.grafana.board import board
from lockstep.grafana.links import lead, of_row
from lockstep.grafana.panels import lines, number, rows, tell
from lockstep.grafana.settings import Json, Settings
from lockstep.grafana.targets import (
    fastest,
    grown,
    highest,
    instant,
    per_second,
    query,
    rate,
    row,
    worst,
)

_RUN = 'run=~"$run"'
_NODE = 'node=~"$node"'
_BY_RANK = "run, group, rank"
_TO = lead("straggler", "collectives", "run")
_TO_RANK = lead("straggler", "collectives", "run", "rank")
_ROW = lead("straggler", "collectives", "run", "rank", value=of_row)
_NO_RAS = "NCCL RAS reports nothing: no NCCL here, or RAS is off"
_NO_INSPECTOR = "NCCL Inspector reports nothing: set NCCL_INSPECTOR_ENABLE=1 in the run"
_NO_RANKS = "No rank reported collectives in the range"


def make(settings: Settings) -> Json:
    """The dashboard."""
    return board(
        "nccl", "Which collective hangs, who is missing, and how fast are they?",
        [
            _numbers(),
            [_behind(), _open()],
            [_lag(), _states()],
            [_dumps(), _events()],
            [_time(), _count()],
            [_bandwidth(), _duration()],
            [_bytes(), _congestion()],
            [_ports(), _retransmitted(), _round_trips()],
        ],
        settings, events=[findings(_RUN), STARTS],
    )  # fmt: skip


def _numbers() -> list[Json]:
    return [
        number(
            "RAS answers", "none",
            [instant("min(lockstep_nccl_ras_up)", "worst of all")],
            tell("1 if NCCL RAS answered the last question.", "1.",
                 "0: a process hangs so that even RAS is silent, or its port is closed. "
                 "Limit: 1, all answer."),
            lead("self", "health"), limit=1, below=True, nothing="no RAS here",
        ),
        number(
            "Communicators that are not well", "none",
            [instant(f'sum by (run) (lockstep_nccl_communicators{{{_RUN},health!="ok"}})',
                     "{{run}}")],
            tell("Communicators with a mismatch, an error or missing ranks, by RAS.", "0.",
                 "see who is behind, below. Limit: 1."), _TO, limit=1, nothing="no data",
        ),
        number(
            "Ranks missing", "none",
            [instant(f"sum by (run) (lockstep_nccl_communicator_missing_ranks{{{_RUN}}})",
                     "{{run}}")],
            tell("Ranks that RAS has no answer from.", "0.",
                 "their process is gone or frozen. Limit: 1."), _TO, limit=1, nothing="no data",
        ),
        number(
            "Stuck communicators", "none",
            [instant(f"sum by (run) (lockstep_nccl_communicator_stuck{{{_RUN}}})", "{{run}}")],
            tell("Ranks launched different numbers of collectives, and none launched one in 20 s.",
                 "0.", "runbook LockstepRunStalled. Limit: 1."), _TO, limit=1, nothing="no data",
        ),
        number(
            "Inspector's gaps", "none",
            [instant("sum(increase(lockstep_nccl_collective_sequence_gaps_total"
                     f"{{{_NODE}}}[$__range]))", "in the range")],
            tell("Collectives that NCCL numbered and Inspector did not write.", "0.",
                 "speeds below miss these: raise the ring's size."),
            lead("self", "health"), nothing="no Inspector",
        ),
    ]  # fmt: skip


def _behind() -> Json:
    done = f"max by ({_BY_RANK}) (lockstep_train_completed_sequence{{{_RUN}}})"
    return rows(
        "Who is behind", "none",
        [row(f"topk(20, max by (run, group) (lockstep_train_enqueued_sequence{{{_RUN}}})"
             f" - on (run, group) group_right () {done} > 1)"),
         row(f"max by ({_BY_RANK}) (lockstep_train_enqueued_sequence{{{_RUN}}})")],
        tell("By how many collectives a rank's last completed one is behind the newest that "
             "anybody in its run arrived at, and the last one that the rank arrived at. Groups of "
             "one name in different places count for themselves: compare ranks of one group.",
             "no row, or small numbers that change.",
             "in a hang the rank that arrived at least is missing."),
        _ROW, names=("behind", "arrived at"), nothing="No rank is behind",
    )  # fmt: skip


def _open() -> Json:
    age = f"lockstep_train_open_operation_age_seconds{{{_RUN}}}"
    by = "run, rank, op, group"
    return lines(
        "Open collectives", "s",
        [query(worst(f"max by ({by}) ({age})", by, highest(age, by)),
               "rank {{rank}} {{op}} ({{group}})")],
        tell("Age of the collective that a rank is inside; the 20 oldest.", "under a step.",
             "lines that rise together: they wait for a rank that has no line."),
        _TO_RANK, nothing="No rank is inside a collective",
    )  # fmt: skip


def _lag() -> Json:
    lag = f"lockstep_nccl_rank_collective_lag{{{_RUN}}}"
    by = f"{_BY_RANK}, op"
    return lines(
        "Behind, by RAS", "none",
        [query(worst(f"max by ({by}) ({lag})", by, highest(lag, by)),
               "rank {{rank}} {{op}} ({{group}})")],
        tell("Collectives by which a rank is behind the first one, as NCCL itself counts them.",
             "0 to 1.", "a line that stays: that rank does not launch."),
        _TO_RANK, nothing=_NO_RAS,
    )  # fmt: skip


def _states() -> Json:
    return rows(
        "Ranks that are not well, by RAS", "none",
        [row(f"max by ({_BY_RANK}, state) (lockstep_nccl_rank_state{{{_RUN}}}) == 1")],
        tell("A rank without a row has no reported problem.", "no row.",
             "dead or missing: its process is gone. async_error: its log says why."),
        _ROW, names=("holds",), nothing="None, or NCCL RAS reports nothing",
    )  # fmt: skip


def _dumps() -> Json:
    return rows(
        "Flight recorder", "none",
        [row(f"max by ({_BY_RANK}) (lockstep_nccl_fr_missing_from_collective{{{_RUN}}})"),
         row(f"max by ({_BY_RANK}) (lockstep_nccl_fr_stuck_seconds{{{_RUN}}})"),
         row(f"max by ({_BY_RANK}) (lockstep_nccl_fr_last_completed_collective{{{_RUN}}})")],
        tell("From torch's dumps: the collective that a rank is missing from, for how long its "
             "oldest one was open, and the last that it completed.",
             "no row: dumps are written when a run hangs.",
             "who is missing from a collective holds the others."),
        _ROW, names=("missing from", "stuck", "completed"), units=("none", "s", "none"),
        nothing="No dump was written",
    )  # fmt: skip


def _events() -> Json:
    return lines(
        "Events of peers", "cps",
        [query(fastest(f"lockstep_nccl_peer_events_total{{{_RUN}}}", "run, event"), "{{event}}")],
        tell("Events of RAS' monitor stream (NCCL 2.29), as peer_dead.", "none.",
             "a process died: look for its node."), _TO,
        nothing="None, or NCCL RAS reports nothing",
    )  # fmt: skip


def _time() -> Json:
    seconds = f"lockstep_train_collective_seconds_total{{{_RUN}}}"
    return lines(
        "Time in collectives", "percentunit",
        [query(f"quantile by (run, group) ({share}, sum by (run, rank, group) ({rate(seconds)}))",
               f"{{{{group}}}}, {name}") for share, name in ((0, "least"), (0.5, "median"))],
        tell("Share of time from arrival to completion, by group: of the median rank, and of the "
             "one with least.", "steady, and both close.",
             "least leaves the median: that rank arrives last, and is who the others wait for."),
        _TO, nothing=_NO_RANKS,
    )  # fmt: skip


def _count() -> Json:
    own = f"lockstep_train_collectives_total{{{_RUN}}}"
    return lines(
        "Collectives", "cps",
        [query(f"sum by (run, group) ({rate(own)})", "{{group}}"),
         query(per_second(f"lockstep_nccl_collectives_total{{{_RUN}}}", "run, op"),
               "{{op}}, by Inspector")],
        tell("Per second over all ranks, as ranks and NCCL Inspector count them.", "steady.",
             "0 while the run lives: it hangs."), _TO, nothing=_NO_RANKS,
    )  # fmt: skip


def _bandwidth() -> Json:
    gauge = f"lockstep_nccl_collective_bus_bandwidth_bytes_per_second{{{_RUN}}}"
    by = "run, group, op, size_bucket"
    return lines(
        "Bus bandwidth", "Bps",
        [query(worst(f"min by ({by}) ({gauge})", by, highest(gauge, by)),
               "{{op}} {{size_bucket}} ({{group}})")],
        tell("By NCCL Inspector, of the slowest node, by operation and size; comparable with what "
             "the hardware can do.", "steady for one size.",
             "a fall: waiting for a straggler, or a link; compare with waiting in Straggler."),
        _TO, nothing=_NO_INSPECTOR,
    )  # fmt: skip


def _duration() -> Json:
    bucket = f"lockstep_nccl_collective_duration_seconds_bucket{{{_RUN}}}"
    return lines(
        "Duration", "s",
        [query(f"histogram_quantile({share}, sum by (run, op, le) ({rate(bucket)}))",
               f"{{{{op}}}}, {name}") for share, name in ((0.5, "median"), (0.95, "95 %"))],
        tell("Time in an operation by NCCL Inspector, waiting included. Who comes late shows the "
             "shortest.", "steady.", "95 % far above the median: some wait long."),
        _TO, nothing=_NO_INSPECTOR,
    )  # fmt: skip


def _bytes() -> Json:
    counter = f"lockstep_nccl_collective_bytes_total{{{_RUN}}}"
    return lines(
        "Bytes", "Bps", [query(f"sum by (run, op) ({rate(counter)})", "{{op}}")],
        tell("Sizes of the operations per second, over all ranks, by NCCL Inspector.", "steady.",
             "falls with the throughput of the run."), _TO, stacked=True, nothing=_NO_INSPECTOR,
    )  # fmt: skip


def _congestion() -> Json:
    by = "node, device"
    waits = f"lockstep_ib_port_xmit_wait_total{{{_NODE}}}"
    pauses = f"lockstep_net_pfc_pause_seconds_total{{{_NODE}}}"
    told = "np_cnp_sent|rp_cnp_handled|out_of_sequence"
    rdma = f'lockstep_rdma_hw_counters_total{{{_NODE},kind=~"{told}"}}'
    return lines(
        "Congestion", "none",
        [query(fastest(waits, by, 10), "{{node}} {{device}} ticks without credit/s"),
         query(fastest(pauses, f"{by}, direction", 10),
               "{{node}} {{device}} paused, {{direction}}"),
         query(fastest(rdma, f"{by}, kind", 10), "{{node}} {{device}} {{kind}}/s")],
        tell("Waiting for credit on InfiniBand, share of time under pause and notifications of "
             "congestion on RoCE; ten each.", "low, and alike on all nodes.",
             "runbook LockstepRoceCongestionDiscards."),
        lead("node", "node", "node"), nothing="None was counted in the range",
    )  # fmt: skip


def _ports() -> Json:
    by = "node, device, port"
    return rows(
        "Ports that are down or slow", "none",
        [row(f"max by ({by}) (lockstep_ib_port_state_id{{{_NODE}}}) != 4"),
         row(f"max by ({by}) (lockstep_ib_port_physical_state_id{{{_NODE}}}) != 5"),
         row(f"max by ({by}) (lockstep_ib_port_rate_bytes_per_second{{{_NODE}}})\n"
             f"< scalar(quantile(0.5, lockstep_ib_port_rate_bytes_per_second{{{_NODE}}}))")],
        tell("Logical state (4 is active), physical state (5 is link up), and speed where it is "
             "below the median of all ports.", "no row.", "runbook LockstepIbLinkDown."),
        lead("node", "node", "node", value=of_row), names=("state", "physical", "rate"),
        units=("none", "none", "Bps"), nothing="None is down",
    )  # fmt: skip


def _retransmitted() -> Json:
    counter = f"lockstep_tcp_retransmitted_segments_total{{{_NODE}}}"
    again = per_second(counter, "node")
    sent = per_second(f'lockstep_tcp_segments_total{{{_NODE},direction="transmit"}}', "node")
    return lines(
        "TCP sent again", "percentunit",
        [query(worst(f"{again}\n/ on (node) ({sent} > 0)", "node",
                     grown(counter, "node")), "{{node}}")],
        tell("Share of TCP segments that were sent again; 20 nodes. Runs on gloo and sockets use "
             "TCP.", "below 0.1 %.", "a lossy link: see its errors on Node."),
        lead("node", "node", "node"), nothing="Nothing was sent again",
    )  # fmt: skip


def _round_trips() -> Json:
    gauge = f"lockstep_train_round_trip_seconds{{{_RUN}}}"
    return lines(
        "TCP round trips", "s",
        [query(worst(gauge, "run, rank", highest(gauge, "run, rank"), 10), "rank {{rank}}")],
        tell("To the other hosts that a rank exchanges data with, the least of its connections; "
             "ten ranks with the longest.", "alike on all ranks.",
             "the ranks of one node take longer: its link has a lower rate or a longer way."),
        _TO_RANK, nothing="No rank exchanges data over TCP, as with RDMA",
    )  # fmt: skip
