"""What is generated around the chart: its copies of rules and dashboards, and kustomize's files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.chart.chart import DEPLOY, NAMESPACE, Manifest, forget_renders, render

ROOT = DEPLOY.parent
COPIES = {"files/rules": (DEPLOY / "rules", "*.rules.yml"),
          "files/dashboards": (ROOT / "grafana" / "json", "*.json")}  # fmt: skip
DASHBOARDS = "grafana-dashboards.yaml"
OPERATOR = ("alertmanagerconfig.yaml", "podmonitors.yaml", "rules.yaml")
"""Templates whose objects need the Prometheus operator."""
HEAD = "# Generated from deploy/chart by `python -m tests.deploy.chart`; do not edit it.\n"
NO_SECRET = {"watch": {"createWebhookSecret": False}}
"""A token in a file that everybody has is none: watch makes its own."""
RELEASED = {"apiVersion": "v1", "kind": "Namespace", "metadata": {
    "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}  # fmt: skip
"""Of all parts but the collector."""


def files() -> dict[str, str]:
    """Path below deploy/ -> content."""
    return copies() | kustomize()


def copies() -> dict[str, str]:
    """The chart's copies; a chart is packed without what lies beside it."""
    return {
        f"chart/{folder}/{path.name}": path.read_text("utf-8")
        for folder, (origin, pattern) in COPIES.items()
        for path in sorted(origin.glob(pattern))
    }


def kustomize() -> dict[str, str]:
    """base/ without monitoring, operator/ and plain/ with it, and the dashboards' own file."""
    chosen = render(NO_SECRET)
    base = {name: each for name, each in chosen.items() if name not in (*OPERATOR, DASHBOARDS)}
    plain = render({"monitoring": {"operator": False}, **NO_SECRET})
    parts = {
        "base": {"namespace.yaml": [RELEASED], **base},
        "operator": {name: chosen[name] for name in OPERATOR if name in chosen},
        "plain": {"prometheus.yaml": plain["rules.yaml"]},
    }
    told = {"chart/files/dashboards/kustomization.yaml": _dashboards(chosen[DASHBOARDS])}
    for folder, templates in parts.items():
        for name, manifests in templates.items():
            told[f"kustomize/{folder}/{name}"] = _text([adopted(each) for each in manifests])
        also = ["../../chart/files/dashboards"] if folder == "base" else []
        told[f"kustomize/{folder}/kustomization.yaml"] = _text(
            [_kustomization({"resources": [*sorted(templates), *also]})]
        )
    return told


def adopted(manifest: Manifest) -> Manifest:
    """The object without the words that say that Helm manages it."""
    told = {**manifest, "metadata": _freed(manifest["metadata"])}
    if "template" in told.get("spec", {}):
        template = told["spec"]["template"]
        told["spec"] = {
            **told["spec"],
            "template": {**template, "metadata": _freed(template["metadata"])},
        }
    return told


def _freed(metadata: Mapping[str, Any]) -> dict[str, Any]:
    labels = dict(metadata.get("labels", {}))
    labels.pop("helm.sh/chart", None)
    if "app.kubernetes.io/managed-by" in labels:
        labels["app.kubernetes.io/managed-by"] = "kustomize"
    return {**metadata, "labels": labels}


def _dashboards(manifests: list[Manifest]) -> str:
    """Each a ConfigMap from the chart's own copy: a third copy of 300 KB would help nobody."""
    first = adopted(manifests[0])["metadata"]
    return _text(
        [
            _kustomization({
                "namespace": first["namespace"],
                "generatorOptions": {
                    "disableNameSuffixHash": True,
                    "labels": first["labels"],
                    "annotations": first["annotations"],
                },
                "configMapGenerator": [
                    {"name": each["metadata"]["name"], "files": sorted(each["data"])}
                    for each in manifests
                ],
            })
        ]
    )  # fmt: skip


def _kustomization(rest: Mapping[str, Any]) -> Manifest:
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **rest}


class _Readable(yaml.SafeDumper):
    """Texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _block)


def _text(manifests: list[Manifest]) -> str:
    return HEAD + yaml.dump_all(
        manifests, Dumper=_Readable, sort_keys=False, width=100, allow_unicode=True
    )


def stale(folder: Path = DEPLOY) -> list[str]:
    """Files that are not what is generated, and those that are too many."""
    wanted = files()
    wrong = [
        name
        for name, text in wanted.items()
        if not (folder / name).is_file() or (folder / name).read_text("utf-8") != text
    ]
    places = {str(Path(name).parent) for name in wanted}
    found = {f"{each}/{path.name}" for each in places for path in (folder / each).iterdir()}
    return sorted(wrong) + sorted(found - wanted.keys())


def write(folder: Path = DEPLOY) -> None:
    """Write all of them, and take away what is no longer made.

    The copies come first: what is rendered holds them.
    """
    forget_renders()
    for told in (copies, kustomize):
        for name, text in told().items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    for name in stale(folder):
        (folder / name).unlink()
