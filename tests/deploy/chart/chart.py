"""The chart of deploy/chart, rendered by the real Helm (its SDK as a Python wheel)."""

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart

Manifest = dict[str, Any]
"""An object of Kubernetes."""

DEPLOY = Path(__file__).parents[3] / "deploy"
CHART = DEPLOY / "chart"
RELEASE = NAMESPACE = "lockstep"
WORKLOADS = ("DaemonSet", "Deployment")


def values_files() -> dict[str, Mapping[str, Any]]:
    """The render matrix: defaults, and each file of deploy/chart/ci."""
    files = sorted((CHART / "ci").glob("*-values.yaml"))
    told = {path.name.removesuffix("-values.yaml"): path.read_text("utf-8") for path in files}
    return {"default": {}} | {name: yaml.safe_load(text) for name, text in told.items()}


def render(values: Mapping[str, Any] | None = None) -> dict[str, list[Manifest]]:
    """Template -> its objects, in the namespace `lockstep`; templates that give none are left out.

    Raises:
        HelmError: The values are refused.
    """
    return _render(json.dumps(values or {}))


@functools.cache
def _render(values: str) -> dict[str, list[Manifest]]:
    told = json.loads(values)
    with Chart.load(CHART) as chart:
        chart.validate_schema(told)
        texts = chart.render(told, name=RELEASE, namespace=NAMESPACE)
    found = {
        Path(path).name: [each for each in yaml.safe_load_all(text) if each]
        for path, text in sorted(texts.items())
        if path.endswith(".yaml")
    }
    return {name: manifests for name, manifests in found.items() if manifests}


def forget_renders() -> None:
    """Render anew, with what is drawn at random."""
    _render.cache_clear()


def objects(values: Mapping[str, Any] | None = None) -> list[Manifest]:
    """All objects of a render."""
    return [each for manifests in render(values).values() for each in manifests]


def key(manifest: Manifest) -> tuple[str, str, str]:
    """(kind, namespace, name)."""
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def pods(manifests: list[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    """Every workload with its pod template."""
    for each in manifests:
        if each["kind"] in WORKLOADS:
            yield each, each["spec"]["template"]


def part(manifest: Manifest) -> str:
    """The part of Lockstep that an object belongs to."""
    return str(manifest["metadata"]["labels"]["app.kubernetes.io/component"])
