"""Where the rank-seconds of each run go, as far as Prometheus knows: by bucket, per second.

The team of a run comes from kube-state-metrics, where it was started with the labels of pods that
lockstep.analyzer.read.prometheus.kubernetes names; of all other runs it is `unknown`.

The buckets of analyzer.ledger, of ranks that live: what was before their first scrape and after
their last one, and the wait for a node, are not in series. Counters rise when a step ends, so steps
must be shorter than the window. What the buckets of a run sum to is its ranks.
"""

from collections.abc import Iterator

from lockstep.analyzer.read.prometheus import kubernetes
from lockstep.analyzer.rules.recording_rules.signals import PLACE, WINDOW
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Phase

SERIES = "lockstep:ledger_rank_seconds:rate1m"
"""By run, team and bucket; the words of lockstep.analyzer.ledger.buckets.Bucket."""
STANDS_SECONDS = 60.0
"""Without progress of any rank: the window, after which no step can be under way unseen."""
_RANKS, _STEPS = "lockstep:ledger_ranks:count", "lockstep:ledger_steps:rate1m"
_BUSY, _OWN = "lockstep:ledger_busy:rate1m", "lockstep:ledger_own:rate1m"
_EXCESS = "lockstep:ledger_straggler:rate1m"
_NAMED, _TEAM = "lockstep:ledger_pod_team:group", "lockstep:ledger_team:group"
RESTART = "5m"
"""For so long a team stays known while kube-state-metrics is not there."""
KNOWN = 0.999999
"""Of the steps of a run, whose own time must be known; else waiting cannot be distinguished
from computing."""


def ledger_rules() -> Iterator[tuple[str, str]]:
    """(recorded name, expression), in the order of evaluation."""
    phases, own = metrics.TRAIN_PHASE, metrics.TRAIN_OWN
    known, steps = metrics.TRAIN_KNOWN_STEPS, metrics.TRAIN_STEPS
    saved, evaluated = (_phase(each) for each in (Phase.CHECKPOINT, Phase.EVAL))
    yield _RANKS, f"count by (run) ({PLACE})"
    yield _STEPS, f"sum by (run) (rate({phases.name}[{WINDOW}]))"
    apart = f'phase=~"{Phase.CHECKPOINT}|{Phase.EVAL}"'
    rest = f"sum by (run) (rate({phases.name}{{{apart}}}[{WINDOW}]))"
    yield _BUSY, f"clamp_min({_STEPS} - on (run) {rest}, 0)\nor {_STEPS}"
    yield (
        _OWN,
        (
            f"clamp_min(sum by (run) (rate({own.name}[{WINDOW}])) - on (run) {rest}, 0)\n"
            f"and on (run)\nsum by (run) (rate({known.name}[{WINDOW}]))\n"
            f">= on (run) {KNOWN} * sum by (run) (rate({steps.name}[{WINDOW}]))"
        ),
    )
    slowdown = f"max by (run) ({metrics.RUN_SLOWDOWN.name} > 1)"
    yield _EXCESS, f"{_BUSY} * on (run) (1 - 1 / {slowdown})\nor 0 * {_BUSY}"
    waits = f"clamp_min({_BUSY} - on (run) {_OWN} - on (run) {_EXCESS}, 0)"
    left = f"clamp_min({_RANKS} - on (run) ({_STEPS} or 0 * {_RANKS}), 0)"
    began = f"sum by (run) ({phases.name}) > 0"
    stands = f"min by (run) ({metrics.TRAIN_PROGRESS_AGE.name}) > {STANDS_SECONDS:g}"
    parts = {
        "useful": f"{_BUSY} - on (run) {_EXCESS} - on (run) ({waits} or 0 * {_BUSY})",
        "communication": waits,
        "straggler": _EXCESS,
        "checkpoint-saved": saved,
        "evaluation": evaluated,
        "starting": f"{left} unless on (run) ({began})",
        "stall": f"({left} and on (run) ({began})) and on (run) ({stands})",
        "unknown": f"({left} and on (run) ({began})) unless on (run) ({stands})",
    }
    named = (
        f'label_replace({expression}, "bucket", "{bucket}", "", "")'
        for bucket, expression in parts.items()
    )
    yield from _team_rules()
    buckets = "\nor\n".join(named)
    yield SERIES, f"(\n{buckets}\n)\n* on (run) group_left (team) {_TEAM}"


def _team_rules() -> Iterator[tuple[str, str]]:
    """The team of each run, 1: what its pods say, or ``unknown`` where they name none or two."""
    pods = f'{kubernetes.POD_METRIC}{{{kubernetes.RUN}!="",{kubernetes.TEAM}!=""}}'
    told = f"last_over_time({pods}[{RESTART}])"
    for name, label in (("run", kubernetes.RUN), ("team", kubernetes.TEAM)):
        told = f'label_replace({told}, "{name}", "$1", "{label}", "(.*)")'
    yield _NAMED, f"group by (run, team) ({told})"
    several = f"count by (run) ({_NAMED}) > 1"
    nobody = f'label_replace(group by (run) ({_RANKS}), "team", "unknown", "", "")'
    yield _TEAM, f"({_NAMED} unless on (run) ({several}))\nor on (run) {nobody}"


def _phase(phase: Phase) -> str:
    return f'sum by (run) (rate({metrics.TRAIN_PHASE.name}{{phase="{phase}"}}[{WINDOW}]))'
