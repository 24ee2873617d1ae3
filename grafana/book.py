"""Every dashboard by the name of its file: as it is provisioned, and as it is shared."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from lockstep.grafana.dashboards import cluster, home, nccl, node, run, self, straggler
from lockstep.grafana.settings import Json, Settings

FOLDER = Path(__file__).parent / "json"
EVERY: tuple[Callable[[Settings], Json], ...] = tuple(
    each.make for each in (home, cluster, run, node, straggler, nccl, self)
)
LEGACY = frozenset({"graph", "singlestat", "table-old", "heatmap-old", "worldmap"})
"""Panels of Angular, which Grafana 12 no longer has."""


def book(settings: Settings | None = None) -> dict[str, Json]:
    """Every dashboard: name of its file -> model."""
    made = [make(settings or Settings()) for make in EVERY]
    return {f"{one['uid']}.json": one for one in made}


def text(model: Json) -> str:
    """As it is written: readable, and the same every time."""
    return json.dumps(model, indent=1, ensure_ascii=False) + "\n"


def write(folder: Path, models: Mapping[str, Json]) -> None:
    """Write all of them.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        (folder / name).write_text(text(model), encoding="utf-8")


def stale(folder: Path, models: Mapping[str, Json]) -> list[str]:
    """Names of files there that are missing, not what is generated, or not ours to be there."""
    there = {path.name: path.read_text("utf-8") for path in folder.glob("*.json")}
    wanted = {name: text(model) for name, model in models.items()}
    return sorted(
        name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name)
    )


def shared(model: Json) -> Json:
    """With `__inputs` and `__requires`, as Grafana's catalogue and its import dialogue want it.

    SOURCE: https://grafana.com/docs/grafana/latest/dashboards/share-dashboards-panels/ (export for
    sharing externally).
    """
    kinds = sorted({panel["type"] for panel in model["panels"]})
    panels = [
        {"type": "panel", "id": kind, "name": kind, "version": ""} for kind in kinds
    ]  # fmt: skip
    needs = [
        {"type": "grafana", "id": "grafana", "name": "Grafana", "version": "10.3.0"},
        {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
        *panels,
    ]
    address = next(one for one in model["templating"]["list"] if one["name"] == "streamlit_url")
    inputs = [
        {
            "name": "VAR_STREAMLIT_URL", "type": "constant", "label": address["label"],
            "value": address["query"], "description": address["description"],
        },
    ]  # fmt: skip
    words = text(model).replace(json.dumps(address["query"]), json.dumps("${VAR_STREAMLIT_URL}"))
    with_input: Json = json.loads(words)  # noqa: TID251 - our own
    return {"__inputs": inputs, "__elements": {}, "__requires": needs} | with_input


def counts(models: Mapping[str, Json]) -> dict[str, tuple[int, int, int, int, int]]:
    """By file: panels, and of these with description, with unit, with links, of legacy types.

    A text shows no data: it has no unit, and its links are its own.
    """
    told = {}
    for name, model in models.items():
        panels = model["panels"]
        defaults = [panel.get("fieldConfig", {}).get("defaults", {}) for panel in panels]
        told[name] = (
            len(panels),
            sum(bool(panel.get("description")) for panel in panels),
            sum(
                bool(one.get("unit")) or panel["type"] == "text"
                for panel, one in zip(panels, defaults, strict=True)
            ),
            sum(
                bool(one.get("links") or panel.get("links"))
                for panel, one in zip(panels, defaults, strict=True)
            ),
            sum(panel["type"] in LEGACY for panel in panels),
        )
    return told
