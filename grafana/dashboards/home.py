"""Where to begin: what runs, what is wrong, and which dashboard answers which question."""

from lockstep.grafana.annotations import findings
from lockstep.grafana.board import board
from lockstep.grafana.links import TITLES, lead, of_row
from lockstep.grafana.panels import index, lines, number, rows, tell
from lockstep.grafana.settings import PREFIX, Json, Settings
from lockstep.grafana.targets import instant, query, row

_QUESTIONS = {
    "straggler": "know which node holds a run back, and why",
    "run": "see loss, throughput and hardware of a run on one time axis",
    "cluster": "see all nodes and GPUs",
    "node": "look at one machine and its GPUs",
    "nccl": "know which collective hangs, and who is missing",
    "self": "know whether these numbers can be trusted",
}
_INDEX = "\n".join([
    "| If you want to … | open |",
    "|---|---|",
    *(f"| {question} | [{TITLES[key]}](/d/{PREFIX}{key}?${{__url_time_range}}) |"
      for key, question in _QUESTIONS.items()),
    "| read findings with their evidence, and reports | [lockstep dashboard](${streamlit_url}/) |",
])  # fmt: skip
_NO_WATCH = "no data: is lockstep watch scraped?"


def make(settings: Settings) -> Json:
    """The dashboard."""
    return board(
        "home", "What runs, what is wrong, and where to look on?",
        [[_index()], _state(), [_runs()], [_findings(), _alerts()], [_slowdown(), _open()],
         [_ledger(), _ledger_shares(), _ledger_teams()]],
        settings, events=[findings('run=~"$run"')], since="now-6h",
    )  # fmt: skip


def _index() -> Json:
    return index(
        "Where to look", _INDEX,
        tell("Which dashboard answers which question.", "does not apply.", "does not apply."),
        lead("cluster", "now"),
    )  # fmt: skip


def _state() -> list[Json]:
    return [
        number(
            "Runs", "none", [instant("sum(lockstep_run_active)", "running")],
            tell("Training runs of which a rank lives, as lockstep watch sees them.",
                 "as many as you started.",
                 "open the run that is missing: its ranks are gone, or not scraped."),
            lead("run", "runs"), nothing=_NO_WATCH,
        ),
        number(
            "Open findings that page", "none",
            [instant('count(max by (run, node, rank, gpu, cause)'
                     ' (lockstep_finding_active{tier="page"}) == 1)'
                     # 0 only while somebody looks.
                     "\nor 0 * (max(lockstep_analyzer_last_evaluation_timestamp_seconds)"
                     " > time() - 300)", "findings")],
            tell("Findings certain enough to wake somebody; grey while lockstep watch does not"
                 " judge.", "0.",
                 "read the table below: node, GPU and cause stand there. Limit: 1."),
            lead("straggler", "now"), limit=1, nothing=_NO_WATCH,
        ),
        number(
            "Nodes", "none",
            [instant("count(max by (node) (lockstep_node_expected) == 1)", "expected"),
             instant("count(count by (node) (lockstep_build_info))", "answer")],
            tell("Nodes whose collector was scraped in the last day, and those that answer now.",
                 "both are equal.", "open Cluster: the table of silent nodes names them."),
            lead("cluster", "cluster"),
        ),
        number(
            "GPUs", "none",
            [instant("sum(max by (node) (lockstep_gpu_expected))", "on the bus"),
             instant("sum(max by (node) (lockstep_gpu_present))", "answer")],
            tell("GPUs on the PCI bus, and those that their driver counts.", "both are equal.",
                 "a GPU fell off the bus: open Cluster, then the node."),
            lead("cluster", "cluster"), nothing="no GPU is reported",
        ),
        number(
            "Last judged", "s",
            [instant("time() - max(lockstep_analyzer_last_evaluation_timestamp_seconds)", "ago")],
            tell("Since lockstep watch last judged what Prometheus has.", "under a minute.",
                 "open Lockstep itself. Limit: 300 s, as alert LockstepAnalyzerNotRunning."),
            lead("self", "health"), limit=300, nothing=_NO_WATCH,
        ),
    ]  # fmt: skip


def _runs() -> Json:
    names = ("slowdown", "step", "against baseline", "coverage", "assessed")
    return rows(
        "Runs in numbers", "none",
        [row('max by (run) (lockstep_run_slowdown_ratio{run=~"$run"})'),
         row('max by (run) (lockstep_run_step_duration_median_seconds{run=~"$run"})'),
         row('max by (run) (lockstep_run_throughput_baseline_ratio{run=~"$run"})'),
         row('max by (run) (lockstep_run_coverage_ratio{run=~"$run"})'),
         row('max by (run, status, reason) (lockstep_run_status{run=~"$run"})')],
        tell("Each run: step time over what it would be without its culprits, seconds a step, "
             "steps per second over the baseline's, share of ranks that report; and its status, "
             "with the reason where it is unknown. An empty cell is unknown.",
             "slowdown 1, baseline near 1, coverage 100 %, healthy.", "click the run."),
        lead("run", "run", "run", value=of_row), names=names,
        units=("none", "s", "percentunit", "percentunit", "none"), nothing=_NO_WATCH,
    )  # fmt: skip


def _findings() -> Json:
    return rows(
        "Open findings", "none",
        [row('max by (run, node, rank, gpu, link, cause, tier)'
             ' (lockstep_finding_active{run=~"$run"}) == 1')],
        tell("What lockstep watch holds for wrong now. An empty cell does not apply.", "no row.",
             "click the row: the page has the evidence for and against."),
        lead("straggler", "straggler", "run", "node", value=of_row), names=("open",),
        nothing="No finding is reported: none is open, or lockstep watch does not judge",
    )  # fmt: skip


def _alerts() -> Json:
    return rows(
        "Firing alerts", "none",
        [row('max by (alertname, severity, node, run)'
             ' (ALERTS{alertname=~"Lockstep.*",alertstate="firing"})')],
        tell("Alerts of Lockstep that Prometheus raises now.", "only LockstepWatchdog.",
             "each alert has a runbook of its name in deploy/runbooks."),
        lead("node", "node", "node", value=of_row), names=("firing",),
        nothing="None fires: not even LockstepWatchdog, so the alert rules are not loaded",
    )  # fmt: skip


_LEDGER = 'lockstep:ledger_rank_seconds:rate1m{run=~"$run"}'
EVERY = 15.0
"""Seconds between two evaluations of the rules."""
_NO_LEDGER = "Told of no rank: is lockstep-peers.rules.yml loaded, and does a run make steps?"


def _ledger() -> Json:
    return lines(
        "Where the time goes", "short",
        [query(f"sum by (bucket) ({_LEDGER})", "{{bucket}}")],
        tell("Ranks by what they do, of those that live. Straggler is what culprits cost, by the "
             "slowdown that lockstep watch knows.", "useful and communication are nearly all.",
             "lockstep ledger says who and why, with what was before the first step and between "
             "attempts."),
        lead("run", "runs/ledger"), stacked=True, nothing=_NO_LEDGER,
    )  # fmt: skip


def _ledger_shares() -> Json:
    whole = f"sum by (run) (sum_over_time({_LEDGER}[$__range]))"
    return rows(
        "Where the time went", "percentunit",
        [row(f"sum by (run, team, bucket) (sum_over_time({_LEDGER}[$__range]))\n"
             f"/ on (run) group_left ()\n{whole}")],
        tell("Share of the rank-seconds of the range, by run, its team, and bucket.",
             "useful is the largest.", "the next ones are the largest losses; click the run."),
        lead("run", "runs/ledger", "run", value=of_row), names=("share",), nothing=_NO_LEDGER,
    )  # fmt: skip


def _ledger_teams() -> Json:
    hours = f"sum by (team, bucket) (sum_over_time({_LEDGER}[$__range])) * {EVERY:g} / 3600"
    whole = f"sum by (team) (sum_over_time({_LEDGER}[$__range]))"
    return rows(
        "What each team's time went into", "none",
        [row(hours),
         row(f"sum by (team, bucket) (sum_over_time({_LEDGER}[$__range]))\n"
             f"/ on (team) group_left ()\n{whole}")],
        tell("Rank-hours of the range and their share, by team and bucket. The team is the label "
             "lockstep.example/team of the run's pods; unknown without the label.",
             "useful is the largest of each team.",
             "lockstep ledger --gpu-hour-price has each bucket in money."),
        lead("run", "runs/ledger"), names=("rank-hours", "share"), units=("none", "percentunit"),
        nothing=_NO_LEDGER,
    )  # fmt: skip


def _slowdown() -> Json:
    return lines(
        "Slowdown of runs", "none",
        [query('max by (run) (lockstep_run_slowdown_ratio{run=~"$run"})', "{{run}}")],
        tell("Step time over what it would be without the culprits.", "1.",
             "click the line: the run's page says who and why."),
        lead("straggler", "straggler", "run"), low=None, nothing=_NO_WATCH,
    )  # fmt: skip


def _open() -> Json:
    return lines(
        "Findings by cause", "none",
        [query("sum by (cause, tier) (max by (run, node, rank, gpu, link, cause, tier)"
               ' (lockstep_finding_active{run=~"$run"}))', "{{cause}} ({{tier}})")],
        tell("Findings that are open, by cause and tier.", "none.",
             "many at once with one cause: look for what the nodes share (rack, leaf, firmware)."),
        lead("cluster", "now"), stacked=True, nothing="No finding was open in the range",
    )  # fmt: skip
