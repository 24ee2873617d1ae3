"""What is generated from the chart: kustomize's files.

Rules and dashboards are nobody's copies: the chart links to their folders, which Helm follows,
and kustomize, which follows no link out of its folder, reads them where they lie.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.chart.chart import DEPLOY, NAMESPACE, Manifest, render

LINKS = {"chart/files/rules": "rules", "chart/files/dashboards": "../grafana/json"}
"""Link of the chart -> folder, both below deploy/."""
DASHBOARDS, RULES = "grafana-dashboards.yaml", "rules.yaml"
OPERATOR = ("alertmanagerconfig.yaml", "podmonitors.yaml", "rules.yaml")
"""Templates whose objects need the Prometheus operator."""
HEAD = "# Generated from deploy/chart by `python -m tests.deploy.chart`; do not edit it.\n"
NO_SECRET = {"watch": {"createWebhookSecret": False}}
"""A token in a file that everybody has is none: watch makes its own."""
RELEASED = {"apiVersion": "v1", "kind": "Namespace", "metadata": {
    "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}  # fmt: skip
"""Of all parts but the collector."""


def files() -> dict[str, str]:
    """Path below deploy/ -> content: base/ without monitoring, operator/ and plain/ with it."""
    chosen = render(NO_SECRET)
    [plain] = render({"monitoring": {"operator": False}, **NO_SECRET})[RULES]
    others = {name: each for name, each in chosen.items() if name not in (*OPERATOR, DASHBOARDS)}
    base = {"namespace.yaml": [RELEASED], **others}
    operator = {name: chosen[name] for name in OPERATOR if name in chosen and name != RULES}
    manifests = {f"base/{name}": each for name, each in base.items()}
    manifests |= {f"operator/{name}": each for name, each in operator.items()}
    texts = {f"kustomize/{name}": _text(map(adopted, each)) for name, each in manifests.items()}
    return texts | {
        f"{LINKS['chart/files/dashboards']}/kustomization.yaml": _dashboards(chosen[DASHBOARDS]),
        f"{LINKS['chart/files/rules']}/kustomization.yaml": _rules(chosen[RULES], plain),
        "kustomize/base/kustomization.yaml": _kustomization(
            {"resources": [*sorted(base), "../../../grafana/json"]}
        ),
        "kustomize/operator/kustomization.yaml": _kustomization(
            {"resources": [*sorted(operator), "../../rules"], "patches": [_without("ConfigMap")]}
        ),
        "kustomize/plain/scrape.yml": plain["data"]["scrape.yml"],
        "kustomize/plain/kustomization.yaml": _kustomization({
            "resources": ["../../rules"],
            "patches": [_without("PrometheusRule")],
            "configMapGenerator": [
                {**_named(plain), "behavior": "merge", "files": ["scrape.yml"]}
            ],
        }),
    }  # fmt: skip


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
    """Each a ConfigMap of its own."""
    first = adopted(manifests[0])["metadata"]
    return _generated(first, [(each, sorted(each["data"])) for each in manifests])


def _rules(objects: list[Manifest], plain: Manifest) -> str:
    """Both ways to give Prometheus the rules; operator/ and plain/ each leave one out."""
    metadata, ours = adopted(objects[0])["metadata"], adopted(plain)["metadata"]
    rule = {"apiVersion": objects[0]["apiVersion"], "kind": "PrometheusRule"}
    also = {
        "resources": [f"{each['metadata']['name']}.prometheusrule.yaml" for each in objects],
        "patches": [_patch({**rule, "metadata": {"name": "any", "labels": metadata["labels"]}})],
    }
    return _generated(ours, [(plain, sorted(set(plain["data"]) - {"scrape.yml"}))], also)


def _generated(
    metadata: Mapping[str, Any],
    maps: Sequence[tuple[Manifest, list[str]]],
    also: Mapping[str, Any] | None = None,
) -> str:
    """ConfigMaps out of files beside the kustomization."""
    kept = {name: metadata[name] for name in ("labels", "annotations") if name in metadata}
    return _kustomization({
        "namespace": metadata["namespace"],
        **(also or {}),
        "generatorOptions": {"disableNameSuffixHash": True, **kept},
        "configMapGenerator": [
            {"name": each["metadata"]["name"], "files": names} for each, names in maps
        ],
    })  # fmt: skip


def _named(manifest: Manifest) -> dict[str, str]:
    return {name: manifest["metadata"][name] for name in ("name", "namespace")}


def _without(kind: str) -> Manifest:
    return _patch({"$patch": "delete", "kind": kind, "metadata": {"name": "any"}})


def _patch(change: Manifest) -> Manifest:
    """To every object of a kind; kustomize asks for some name."""
    return {"target": {"kind": change["kind"]}, "patch": yaml.safe_dump(change, sort_keys=False)}


def _kustomization(rest: Mapping[str, Any]) -> str:
    kind = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return _text([{**kind, **rest}])


class _Readable(yaml.SafeDumper):
    """Texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _block)


def _text(manifests: Iterable[Manifest]) -> str:
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
    places = {str(Path(name).parent) for name in wanted if name.startswith("kustomize/")}
    found = {f"{each}/{path.name}" for each in places for path in (folder / each).iterdir()}
    return sorted(wrong) + sorted(found - wanted.keys())


def write(folder: Path = DEPLOY) -> None:
    """Write all of them, and take away what is no longer made."""
    for name, text in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name in stale(folder):
        (folder / name).unlink()
