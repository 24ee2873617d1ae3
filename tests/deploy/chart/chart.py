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
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast, where there is one: a render has 300 kB."""


def values_files() -> dict[str, Mapping[str, Any]]:
    """The render matrix: defaults, and each file of deploy/chart/ci."""
    files = sorted((CHART / "ci").glob("*-values.yaml"))
    told = {path.name.removesuffix("-values.yaml"): path.read_text("utf-8") for path in files}
    return {"default": {}} | {name: yaml.safe_load(text) for name, text in told.items()}


def render(values: Mapping[str, Any] | None = None) -> dict[str, list[Manifest]]:
    """Template -> its objects, in the namespace `lockstep`; templates that give none are left out.

    Hooks are none of the release's objects.

    Raises:
        HelmError: The values are refused.
    """
    told = {
        name: [each for each in manifests if not is_hook(each)]
        for name, manifests in _render(json.dumps(values or {})).items()
    }
    return {name: manifests for name, manifests in told.items() if manifests}


def _all(values: Mapping[str, Any] | None) -> list[Manifest]:
    told = _render(json.dumps(values or {}))
    return [each for manifests in told.values() for each in manifests]


@functools.cache
def _render(values: str) -> dict[str, list[Manifest]]:
    told = json.loads(values)
    with Chart.load(CHART) as chart:
        chart.validate_schema(told)
        texts = chart.render(told, name=RELEASE, namespace=NAMESPACE)
    found = {
        Path(path).name: [each for each in yaml.load_all(text, LOADER) if each]
        for path, text in sorted(texts.items())
        if path.endswith(".yaml")
    }
    return {name: manifests for name, manifests in found.items() if manifests}


def is_hook(manifest: Manifest) -> bool:
    """Whether it is there only while `helm test` runs."""
    return "helm.sh/hook" in (manifest["metadata"].get("annotations") or {})


def hooks(values: Mapping[str, Any] | None = None) -> list[Manifest]:
    """What `helm test` creates, in that order."""
    found = [each for each in _all(values) if is_hook(each)]
    return sorted(found, key=lambda each: int(
        each["metadata"]["annotations"]["helm.sh/hook-weight"]
    ))  # fmt: skip


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
