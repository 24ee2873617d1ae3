"""Whose runs are, from the Kubernetes labels of their pods that kube-state-metrics tells of.

`kube_pod_labels` has them only where it was started with
`--metric-labels-allowlist=pods=[lockstep.example/run,lockstep.example/team]`.
"""

from collections.abc import Iterable, Mapping

from lockstep.analyzer.read.prometheus.node_labels import LOOK_BACK, series_label
from lockstep.analyzer.read.prometheus.promql import lasting, series
from lockstep.collector.contract.kubernetes import RUN_LABEL, TEAM_LABEL

METRIC = "kube_pod_labels"
RUN, TEAM = series_label(RUN_LABEL), series_label(TEAM_LABEL)
LABELS_KEY = "labels"
"""In `Run.meta`, as in run.json of an archive: whose the run is, under `team`."""


def query(seconds: float, run: str = "") -> str:
    """Which runs had pods of which teams.

    Args:
        seconds: Before the moment that is asked for, LOOK_BACK at least: pods may go before their
            run's last sample.
        run: Empty = all.
    """
    told = series(METRIC, f'{TEAM}!=""', **({RUN: run} if run else {}))
    return f"count by ({RUN}, {TEAM}) (last_over_time({told}[{lasting(max(seconds, LOOK_BACK))}]))"


def read_teams(told: Iterable[tuple[Mapping[str, str], float]]) -> Mapping[str, str]:
    """Run -> team, of the answer to `query`; a run whose pods name two teams has none."""
    found: dict[str, set[str]] = {}
    for labels, _ in told:
        if labels.get(RUN) and labels.get(TEAM):
            found.setdefault(labels[RUN], set()).add(labels[TEAM])
    return {run: next(iter(teams)) for run, teams in found.items() if len(teams) == 1}


def labels_of(told: Iterable[tuple[Mapping[str, str], float]], run: str) -> Mapping[str, object]:
    """What `Run.meta` gains by the answer to `query`; nothing where nobody names one team."""
    team = read_teams(told).get(run)
    return {} if team is None else {LABELS_KEY: {"team": team}}
