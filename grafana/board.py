"""A whole dashboard.

What a reader chooses: source, run, node, GPU; each narrows the next one.

There is no `cluster`: nothing that Lockstep exports has such a label.
"""

from collections.abc import Sequence

from lockstep.grafana.annotations import annotations
from lockstep.grafana.links import CHOICES, TITLES, of_dashboard
from lockstep.grafana.panels import placed
from lockstep.grafana.settings import PREFIX, REFRESH, SCHEMA_VERSION, Json, Settings
from lockstep.grafana.targets import SOURCE

SHARED_CROSSHAIR = 1


def board(
    key: str, description: str, shelves: Sequence[Sequence[Json]], settings: Settings, *,
    events: Sequence[Json] = (), since: str = "now-1h",
) -> Json:  # fmt: skip
    """A dashboard.

    Args:
        key: Of links.TITLES; its uid and file are named after it, and it is its tag of level.
        description: The question that it answers.
        shelves: Panels, side by side.
        events: Annotations.
        since: Where its range begins.
    """
    return {
        "uid": f"{PREFIX}{key}", "title": f"Lockstep / {TITLES[key]}", "description": description,
        "tags": ["lockstep", key], "timezone": settings.timezone, "editable": False,
        "graphTooltip": SHARED_CROSSHAIR, "schemaVersion": SCHEMA_VERSION, "version": 1,
        "refresh": REFRESH, "time": {"from": since, "to": "now"}, "timepicker": {},
        "templating": {"list": variables(settings, CHOICES[key])},
        "annotations": {"list": annotations(*events)},
        "links": of_dashboard(), "panels": placed(shelves),
    }  # fmt: skip


EVERYTHING = ".*"
ON_TIME_CHANGE = 2
"""Grafana's VariableRefresh: asks again when the range changes, so that past runs can be chosen."""
_HIDDEN = 2
_NATURALLY = 7
"""Grafana's VariableSort: node-2 before node-10."""
# A run's series have `run`, those of a node have none: where all runs are chosen, `.*` takes both.
_QUERIES = {
    "run": 'label_values({__name__=~"lockstep_rank_info|lockstep_run_slowdown_ratio"}, run)',
    "node": 'label_values({__name__=~"lockstep_rank_info|lockstep_build_info",run=~"$run"}, node)',
    "gpu": 'label_values(lockstep_gpu_info{node=~"$node"}, gpu)',
}
_HELP = {
    "run": "Training run: <namespace>.<name>.<id>, or workload and start time.",
    "node": "Node, as its collector's target is called; of the chosen runs only.",
    "gpu": "Index on its node.",
}


def variables(settings: Settings, names: tuple[str, ...]) -> list[Json]:
    """Source first, then those of `names` that a reader chooses, then where links lead."""
    source = {
        "type": "datasource", "name": "datasource", "label": "Source", "query": "prometheus",
        "description": "The Prometheus, Thanos or Mimir that scrapes Lockstep.",
        "refresh": 1, "regex": "", "multi": False, "includeAll": False, "hide": 0,
        "current": {"selected": False, "text": "default", "value": "default"}, "options": [],
    }  # fmt: skip
    url = settings.streamlit_url
    address = {
        "type": "constant", "name": "streamlit_url", "label": "Address of lockstep dashboard",
        "description": "Where links to pages lead; set it when the dashboards are generated.",
        "query": url, "hide": _HIDDEN, "skipUrlSync": True,
        "current": {"selected": False, "text": url, "value": url},
        "options": [{"selected": True, "text": url, "value": url}],
    }  # fmt: skip
    return [source, *(_chosen(name) for name in names), address]


def _chosen(name: str) -> Json:
    return {
        "type": "query", "name": name, "label": name, "description": _HELP[name],
        "datasource": SOURCE, "query": {"query": _QUERIES[name], "refId": name},
        "definition": _QUERIES[name], "refresh": ON_TIME_CHANGE, "sort": _NATURALLY,
        "multi": True, "includeAll": True, "allValue": EVERYTHING, "regex": "", "hide": 0,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "options": [],
    }  # fmt: skip
