"""One run: model and hardware on one time axis."""

from lockstep.analyzer.read.prometheus.questions import own_per_step
from lockstep.grafana.annotations import CHECKPOINTS, STARTS, XIDS, findings
from lockstep.grafana.board import board
from lockstep.grafana.links import lead
from lockstep.grafana.panels import lines, number, states, tell
from lockstep.grafana.settings import Json, Settings
from lockstep.grafana.targets import (
    RATE,
    grown,
    highest,
    instant,
    lowest,
    of_run_gpus,
    of_run_nodes,
    per_second,
    query,
    ranked_in_run,
    rate,
    worst,
)  # fmt: skip

_RUN = 'run=~"$run"'
_TO_STRAGGLER = lead("straggler", "straggler", "run")
_TO_NODE = lead("node", "node", "node")
_TO_GPU = lead("node", "node", "node", "gpu")
_NO_RANKS = "No rank of this run reported steps in the range"
_NO_GPUS = "No GPU of this run is reported: it trains on CPUs, or ranks do not report their uuid"
_STEPS = per_second(f"lockstep_train_steps_total{{{_RUN}}}", "run, rank")


def make(settings: Settings) -> Json:
    """The dashboard."""
    return board(
        "run", "Is the run well, and if not, what happened at that moment?",
        [
            _numbers(),
            [_events()],
            [_loss(), _throughput()],
            [_step(), _phases()],
            [_flops(), _collectives()],
            [_utilization(), _clock()],
            [_temperature(), _power()],
            [_cpu(), _memory()],
            [_network(), _progress()],
        ],
        settings, events=[findings(_RUN), STARTS, CHECKPOINTS, XIDS],
    )  # fmt: skip


def _numbers() -> list[Json]:
    return [
        number(
            "Slowdown", "none",
            [instant(f"max by (run) (lockstep_run_slowdown_ratio{{{_RUN}}})", "{{run}}")],
            tell("Step time over what it would be without the culprits.", "1.",
                 "open Straggler."), _TO_STRAGGLER,
        ),
        number(
            "Against baseline", "percentunit",
            [instant(f"max by (run) (lockstep_run_throughput_baseline_ratio{{{_RUN}}})",
                     "{{run}}")],
            tell("Steps per second over those of the baseline.", "near 100 %.",
                 "runbook LockstepRunSlowVsBaseline."), lead("straggler", "runs", "run"),
        ),
        number(
            "Step", "s",
            [instant(f"max by (run) (lockstep_run_step_duration_median_seconds{{{_RUN}}})",
                     "{{run}}")],
            tell("Wall time of a step over the last minutes, median over ranks.",
                 "steady.", "see which phase grew, below."), _TO_STRAGGLER,
        ),
        number(
            "Ranks that live", "percentunit",
            [instant(f"avg by (run) (lockstep_rank_up{{{_RUN}}})", "{{run}}")],
            tell("Share of the run's ranks whose process lives.", "100 %.",
                 "runbook LockstepRankGone. Limit: all of them."),
            lead("straggler", "run", "run"), limit=1, below=True,
        ),
        number(
            "Coverage", "percentunit",
            [instant(f"max by (run) (lockstep_run_coverage_ratio{{{_RUN}}})", "steps"),
             instant(f"max by (run) (lockstep_run_known_ranks{{{_RUN}}})\n/ on (run)\n"
                     f"count by (run) (lockstep_rank_up{{{_RUN}}})", "own time")],
            tell("Share of ranks that reported their step times, and of those whose own time "
                 "is known.", "100 %.",
                 "which of the others are slow is unknown: time their collectives "
                 "(lockstep.recorder), or open Lockstep itself."), lead("self", "health", "run"),
        ),
    ]  # fmt: skip


def _events() -> Json:
    return states(
        "Findings", "none",
        [query("max by (run, node, rank, gpu, cause, tier)"
               f" (lockstep_finding_active{{{_RUN}}}) == 1",
               "{{cause}}: {{node}} gpu{{gpu}} rank {{rank}} ({{tier}})")],
        tell("A lane a finding, while it was open. Restarts, checkpoints and XIDs are drawn "
             "across all panels.", "empty.", "click the lane for the evidence."),
        lead("straggler", "straggler", "run", "node"), words={"1": "open"},
        nothing="No finding was open in the range",
    )  # fmt: skip


def _loss() -> Json:
    return lines(
        "Loss", "none", [query(f"avg by (run) (lockstep_train_loss{{{_RUN}}})", "{{run}}")],
        tell("Training loss of the last step in nats, mean over the ranks that tell one.",
             "falls, and flattens.",
             "a jump with no event across it is the model or the data, not the machines."),
        lead("straggler", "run", "run"), low=None, nothing=_NO_RANKS,
    )  # fmt: skip


def _throughput() -> Json:
    return lines(
        "Throughput", "short",
        [query(per_second(f"lockstep_train_{what}_total{{{_RUN}}}", "run"),
               f"{what}/s {{{{run}}}}") for what in ("tokens", "samples")],
        tell("Tokens and samples per second over all ranks.", "steady.",
             "a step down that stays is a straggler or a link; a dip is a checkpoint."),
        _TO_STRAGGLER, nothing=_NO_RANKS,
    )  # fmt: skip


def _a_step(counter: str) -> str:
    return f"{per_second(f'{counter}{{{_RUN}}}', 'run, rank')} / ({_STEPS} > 0)"


def _step() -> Json:
    own = own_per_step(RATE, f"{{{_RUN}}}")
    wall = _a_step("lockstep_train_phase_seconds_total")
    return lines(
        "Step time", "s",
        [query(f"quantile by (run) (0.5, {wall})", "whole step, median"),
         query(f"quantile by (run) (1, {own})", "own time, slowest rank"),
         query(f"quantile by (run) (0.95, {own})", "own time, 95 %"),
         query(f"quantile by (run) (0.5, {own})", "own time, median")],
        tell("Seconds a step. Own time is what a rank takes without waiting for others.",
             "slowest and median own time are close; where not all collectives are timed own time "
             "is unknown, and not drawn.",
             "where the slowest rank leaves the median, everybody waits for it: open Straggler."),
        _TO_STRAGGLER, nothing=_NO_RANKS,
    )  # fmt: skip


def _phases() -> Json:
    seconds = f"rate(lockstep_train_phase_seconds_total{{{_RUN}}}[{RATE}])"
    return lines(
        "Phases of a step", "percentunit",
        [query(f"sum by (run, phase) ({seconds})\n/ on (run) group_left ()\n"
               f"sum by (run) ({seconds})", "{{phase}}")],
        tell("Share of the ranks' wall time by phase.", "steady; grad_sync is a small part.",
             "grad_sync grew: a rank is late, or the network is slow. data grew: storage or "
             "CPUs."),
        _TO_STRAGGLER, stacked=True, high=1, nothing=_NO_RANKS,
    )  # fmt: skip


def _flops() -> Json:
    return lines(
        "Model FLOP/s", "flops",
        [query(per_second(f"lockstep_train_model_flops_total{{{_RUN}}}", "run"), "{{run}}")],
        tell("Model FLOPs per second over all ranks, by Megatron's formula. Over the peak of the "
             "GPUs it is MFU; the page of the run has that.", "steady.",
             "compare with the clocks below: they fall together in throttling."),
        lead("straggler", "run", "run"), nothing=_NO_RANKS,
    )  # fmt: skip


def _collectives() -> Json:
    return lines(
        "Time in collectives", "percentunit",
        [query("avg by (run, group) (rate(lockstep_train_collective_seconds_total"
               f"{{{_RUN}}}[{RATE}]))", "{{group}}")],
        tell("Share of time between arrival at collectives and their end, by group, mean over "
             "ranks: waiting and transfer.", "steady.", "open Collectives: who arrives last?"),
        lead("nccl", "collectives", "run"), nothing=_NO_RANKS,
    )  # fmt: skip


def _spread(title: str, unit: str, series: str, text: str) -> Json:
    shares = ((1, "highest"), (0.5, "median"), (0, "lowest"))
    return lines(
        title, unit,
        [query(f"quantile({share}, {of_run_gpus(series)})", f"{name} of the run's GPUs")
         for share, name in shares],
        text, lead("node", "cluster"), low=None, nothing=_NO_GPUS,
    )  # fmt: skip


def _utilization() -> Json:
    return _spread(
        "GPU utilisation", "percentunit", "max by (uuid) (lockstep_gpu_utilization_ratio)",
        tell("Share of time with a kernel running; waiting in NCCL counts as running.",
             "high and narrow.", "lowest at 0: a rank is gone, or reads data."),
    )  # fmt: skip


def _clock() -> Json:
    return _spread(
        "SM clock", "hertz", 'max by (uuid) (lockstep_gpu_clock_hertz{domain="sm"})',
        tell("Clock of the multiprocessors.", "all alike under load.",
             "the lowest leaves the median: heat, power or a fault; open Straggler."),
    )  # fmt: skip


def _temperature() -> Json:
    by = "node, gpu, uuid"
    gauge = 'lockstep_gpu_temperature_celsius{sensor="gpu"}'
    hottest = worst(
        of_run_gpus(f"max by ({by}) ({gauge})"), by, ranked_in_run(highest(gauge, by), "uuid"), 5
    )
    return lines(
        "Hottest GPUs", "celsius", [query(hottest, "{{node}} gpu{{gpu}}")],
        tell("Core temperature of the five GPUs of the run that were hottest in the range.",
             "depends on the model.", "Node shows the margin to the GPU's own limit."),
        _TO_GPU, low=None, nothing=_NO_GPUS,
    )  # fmt: skip


def _power() -> Json:
    return lines(
        "Power", "watt",
        [query(f"sum({of_run_gpus('max by (uuid) (lockstep_gpu_power_watts)')})",
               "all GPUs of the run")],
        tell("Draw of the run's GPUs.", "steady under load.",
             "a fall means that they wait: look at the step time."),
        lead("cluster", "cluster"), nothing=_NO_GPUS,
    )  # fmt: skip


def _cpu() -> Json:
    counter = 'lockstep_host_cpu_seconds_total{mode!~"idle|iowait"}'
    busy = f"sum by (node) ({rate(counter)})\n/ on (node) max by (node) (lockstep_host_cpus)"
    busiest = worst(of_run_nodes(busy), "node", ranked_in_run(grown(counter, "node"), "node"), 5)
    return lines(
        "CPU", "percentunit", [query(busiest, "{{node}}")],
        tell("Share of processors that are busy; five nodes of the run that worked most.",
             "far from 100 %.", "a foreign program, or too few processors for the data loader."),
        _TO_NODE, high=1,
    )  # fmt: skip


def _memory() -> Json:
    gauge = "lockstep_host_memory_available_bytes"
    free = f"min by (node) ({gauge})\n/ on (node) min by (node) (lockstep_host_memory_total_bytes)"
    fullest = worst(
        of_run_nodes(free), "node", ranked_in_run(lowest(gauge, "node"), "node"), 5, "bottomk"
    )
    return lines(
        "Memory available", "percentunit", [query(fullest, "{{node}}")],
        tell("Share of memory that programs can still get; five nodes of the run with least.",
             "steady.", "falls without end: a leak; the kernel will kill a rank."),
        _TO_NODE, high=1,
    )  # fmt: skip


def _network() -> Json:
    queries = []
    for metric, name in (
        ("lockstep_ib_port_data_bytes_total", "InfiniBand"),
        ("lockstep_net_bytes_total", "Ethernet"),
    ):
        counter = f'{metric}{{direction="transmit"}}'
        ranked = ranked_in_run(grown(counter, "node"), "node")
        sent = worst(of_run_nodes(per_second(counter, "node")), "node", ranked, 10)
        queries.append(query(sent, f"{name} {{{{node}}}}"))
    return lines(
        "Network, sent", "Bps", queries,
        tell("What ten nodes of the run send, those that sent most.", "alike on all nodes.",
             "one node sends less: its link or its rank; open Node."), _TO_NODE,
    )  # fmt: skip


def _progress() -> Json:
    return lines(
        "Standing still", "s",
        [query(f"max by (run) (lockstep_train_progress_age_seconds{{{_RUN}}})",
               "no progress, worst rank"),
         query(f"min by (run) (lockstep_train_progress_age_seconds{{{_RUN}}})",
               "no progress, best rank"),
         query(f"max by (run) (lockstep_train_heartbeat_age_seconds{{{_RUN}}})",
               "no heartbeat, worst rank")],
        tell("Seconds since a training thread began or ended anything, and since a process last "
             "ran.", "about one step; the heartbeat under 3 s.",
             "no progress anywhere: the run hangs, open Collectives. No heartbeat: that process "
             "is frozen."),
        lead("nccl", "collectives", "run"), nothing=_NO_RANKS,
    )  # fmt: skip
