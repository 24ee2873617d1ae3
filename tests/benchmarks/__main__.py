"""`python -m tests.benchmarks [NAME]...`: runs every benchmark, or those that are named.

One that is named alone may have options.

A table each: figure, goal (at most), measured, verdict; exits 1 when a goal was missed, 130 on
Ctrl-C, with what was measured until then where a benchmark can say it.
"""

import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module

from lockstep.collector.contract.words import ExitCode
from tests.benchmarks.interrupted import InterruptedEarlyError

BENCHMARKS: dict[str, str] = {
    "asymmetric_programs": "programs with different work by rank: who is named, who is not",
    "alert_delay": "from an XID, and from a straggler's first slow step, to the webhook",
    "api_mutations": "1,000 requests to the API that schemathesis makes: none ends in 5xx",
    "bench_baselines": "a regression of 5 %, its version, and one slow GPU, over labelled pairs",
    "bench_runs": "a matrix of real runs: unattended, killed ten times, 60 writers at once",
    "busy_hosts": "simulated runs on crowded hosts: whose phase takes longer, and nobody else's",
    "chart_install": "the chart on a real API server: install, upgrade, rollback, uninstall",
    "collector": "the collector with 8 GPUs: serving, CPU, memory, throttled seconds",
    "collector_changes": "how soon the page tells of a lost, new or partitioned GPU, and of an XID",
    "collector_clients": "scrapes of the collector by 12 clients at once",
    "collector_everything": "the collector with every source on: serving, CPU, memory",
    "collector_memory": "the collector's resident memory over 100,000 scrapes",
    "collector_peers": "the page beside prometheus_client and node_exporter",
    "dashboard_heatmap": "the dashboard's map of 10,000 GPUs: server, wire, browser, memory",
    "dashboard_live": "Now, Cluster and Run in a browser, over a live Prometheus of 500 nodes",
    "dashboard_run_browser": "the Run page of a day in a browser",
    "dashboard_run_page": "lines and events of the Run page of a day, out of an archive",
    "diagnosis": "CPU of one diagnosis of 8 ranks and 400 steps",
    "ends": "who is named for 2,000 simulated ends of runs, by what is missing of their pages",
    "end_alert": "from the end of a run without a clean close to the webhook and the report",
    "false_alarms": "false alarms of 1,000 healthy node-months, and delays at 15 s",
    "fleet_pass": "10,000 GPUs, 1 h at 15 s, 20 metrics: from values to alarms",
    "kills": "200 real runs with a rank killed: healthy ones, the first to die named",
    "hang_alert": "from a run's silence to the alert that names who stopped it",
    "hang_verdicts": "520 constructed hangs and published ones by dumps alone; 500 healthy; speed",
    "help_speed": "wall time of `lockstep --help`",
    "independent_runs": "simulated runs of a generator that knows no analyzer: who is named, found",
    "foreign_runs": "simulated runs of one whose author had read no code: who is named, found",
    "still_and_slow_writers": "ranks that stand still for a while, slow writers of checkpoints",
    "large_runs": "analyze of 512 and 2,048 ranks with all samples: seconds, memory",
    "leftovers": "what 100 runs leave, killed ones included",
    "nccl_inspector": "20,000 lines a second of NCCL Inspector",
    "own_scripts": "scripts of others with a slow rank and healthy: who is named, who is not",
    "node_conditions": "from a decision to conditions and event on a real Kubernetes API; memory",
    "live_hour": "an hour of churn: each fault told once, nothing else; 20 reports at once",
    "ledger_starting": "parts of starting of a real program with known delays, against the truth",
    "ledger_truth": "buckets of real runs, killed and resumed at known moments, against the truth",
    "op_detection": "slow workers found in op traces, and structure told from them",
    "op_shapes": "transients, ramps, on and off, pairs and two replicas in synthetic op traces",
    "nccl_ras": "an answer of NCCL's RAS about 1,000 ranks",
    "probe": "the pairwise probe among 8 nodes with a real bad link or node",
    "pods": "images above their base; the chart on two nodes that run containers, and away again",
    "prometheus_decoding": "CPU of an answer of Prometheus beside json and float",
    "recorder_exceptions": "200 exceptions within the recorder, in four kinds of training",
    "recording_rules": "recording rules in a real Prometheus, and their reader at 100,000 GPUs",
    "real_hangs": "320 real hangs of gloo programs, and 100 real runs that are well",
    "report_speed": "`lockstep report` on an hour of 64 and of 512 ranks",
    "resnet": "ResNet-20 against the best accuracy of its synthetic images, and seconds to it",
    "shared_gpu": "runs of four ranks that share one real GPU, over NCCL: who is named",
    "sdk": "CPU of lockstep.recorder in somebody else's program",
    "stage_prior": "how often a node that alone holds a stage, and is slower, is slow: BY_TIMES",
    "stack_pause": "how long a program stands still while its stacks are read",
    "top": "CPU of `lockstep top` in a terminal, over pages and over a Prometheus",
    "tensor_parallel": "CPU of our tensor parallel, torch's DTensor and one rank",
    "training_loop": "CPU of the whole loop against plain torch",
    "verdict_by_source": "culprits by NCCL Inspector's lines alone, and by our recorder",
    "watch_fleet": "cycles and memory of `lockstep watch` over 500 nodes of 8 GPUs, on one core",
    "watch_life": "72 simulated hours of a cluster: every finding opens, closes and is told once",
    "watch_states": "1,000 states of what watch reads, each with one input taken away",
    "trace_with_delays": "a slow worker in op traces with delays that no operation shows",
    "weight": "files, lines and statements of the source, and what is generated",
    "whatif": "every published quantity of an op trace; a run of 10,000 GPUs",
    "window_shapes": "ranks slow on and off, and in a climb of ten windows: missed, others named",
    "recording": "CPU that recording adds to a training step",
}


def main(names: list[str]) -> int:
    if len(names) > 1 and names[1].startswith("-"):  # options, which the benchmark reads itself
        names = names[:1]
    if unknown := set(names) - BENCHMARKS.keys():
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 64
    if len(names) == 1:
        return _run(names[0])
    worst = 0
    for name in names or BENCHMARKS:
        code = _apart(name)
        if code == ExitCode.INTERRUPTED:
            return code
        worst = max(worst, code)
    return worst


def _apart(name: str) -> int:
    """A process each: what one benchmark imports or starts must not burden the next."""
    process = subprocess.Popen([sys.executable, "-m", "tests.benchmarks", name])
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue  # it has it, too, and says what it measured until then


def _run(name: str) -> int:
    print(f"{name}: {BENCHMARKS[name]}", flush=True)
    benchmark = import_module(f"tests.benchmarks.{name}")
    goals: dict[str, float] = getattr(benchmark, "GOALS", {})
    try:
        return _told(benchmark.main(), goals)
    except InterruptedEarlyError as interrupted:
        print("  interrupted; until then:")
        _told(interrupted.figures, goals)
        return ExitCode.INTERRUPTED


def _told(figures: Mapping[str, float], goals: Mapping[str, float]) -> int:
    """Prints the figures beside their goals; 1 where one was missed."""
    width = max(map(len, figures), default=0)
    missed = False
    print(f"  {'figure':{width}}  {'measured':>10}  {'goal':>10}  verdict")
    for figure, value in figures.items():
        goal, verdict = "", ""
        if figure in goals:
            good = value <= goals[figure]
            missed |= not good
            goal, verdict = f"<= {goals[figure]:g}", "reached" if good else "MISSED"
        print(f"  {figure:{width}}  {value:10.4g}  {goal:>10}  {verdict}".rstrip())
    return int(missed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
