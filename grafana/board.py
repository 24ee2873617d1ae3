"""A whole dashboard."""

from collections.abc import Sequence

from grafana.annotations import annotations
from grafana.links import CHOICES, TITLES, of_dashboard
from grafana.panels import placed
from grafana.settings import PREFIX, REFRESH, SCHEMA_VERSION, Json, Settings
from grafana.variables import variables

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
