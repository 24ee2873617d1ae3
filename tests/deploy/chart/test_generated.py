"""What is generated from the chart is committed as it is generated, and is the same chart."""

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from helm_python import Chart, HelmError

from tests.deploy.chart.chart import CHART, DEPLOY, Manifest, key, objects
from tests.deploy.chart.generated import LINKS, NO_SECRET, RELEASED, adopted, files, stale, write

OVERLAYS = DEPLOY / "kustomize" / "overlays"


def test_the_committed_files_are_what_is_generated():
    assert [] == stale(), "run python -m tests.deploy.chart"


@pytest.mark.parametrize(("link", "folder"), LINKS.items())
def test_the_chart_links_to_rules_and_dashboards(link: str, folder: str):
    assert (DEPLOY / link).is_symlink()
    assert (DEPLOY / folder).resolve() == (DEPLOY / link).resolve()


@pytest.mark.parametrize("missing", ["rules", "dashboards"])
def test_a_checkout_without_links_is_refused(missing: str, tmp_path: Path):
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    shutil.rmtree(chart / "files" / missing)
    (chart / "files" / missing).write_text("../../elsewhere")  # what git writes in place of a link
    with (
        Chart.load(chart) as broken,
        pytest.raises(HelmError, match=f"files/{missing} of the chart has no {missing}"),
    ):
        broken.render({}, name="lockstep", namespace="lockstep")


def test_a_packed_chart_carries_rules_and_dashboards(tmp_path: Path):
    with Chart.load(CHART) as chart:
        packed = chart.save(tmp_path)
    with tarfile.open(packed) as archive:
        names = {Path(name).name for name in archive.getnames() if "/files/" in name}

    rules, boards = DEPLOY / "rules", DEPLOY.parent / "grafana" / "json"
    assert {path.name for path in [*rules.glob("*.rules.yml"), *boards.glob("*.json")]} <= names
    assert not [name for name in names if name.endswith(".prometheusrule.yaml")]


def test_a_packed_chart_renders_outside_the_tree_what_the_folder_renders(tmp_path: Path):
    with Chart.load(CHART) as chart:
        packed = chart.save(tmp_path)
        folder = chart.render(NO_SECRET, name="lockstep", namespace="lockstep")
    with Chart.load(packed) as archive:
        assert folder == archive.render(NO_SECRET, name="lockstep", namespace="lockstep")


def test_a_file_by_hand_is_noticed_and_writing_takes_it_away(tmp_path):
    deploy = tmp_path / "deploy"
    write(deploy)
    assert [] == stale(deploy)
    (deploy / "kustomize/base/services.yaml").write_text("# mine\n")
    (deploy / "kustomize/base/more.yaml").write_text("# mine\n")

    assert ["kustomize/base/services.yaml", "kustomize/base/more.yaml"] == stale(deploy)
    write(deploy)
    assert sorted(name for name in files() if name.startswith("kustomize/")) == sorted(
        str(path.relative_to(deploy)) for path in deploy.rglob("kustomize/*/*") if path.is_file()
    )


def built(name: str) -> dict[tuple[str, str, str], Manifest]:
    """What kustomize makes of an overlay."""
    # Not the kubectl of Kubernetes 1.20: its kustomize 2.0 knows no `patches` with a target.
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl, which has kustomize: its build of the overlays was not compared")
    answer = subprocess.run(["kubectl", "kustomize", OVERLAYS / name],
                            capture_output=True, text=True, timeout=240)  # fmt: skip
    assert 0 == answer.returncode, answer.stderr
    return {key(each): each for each in yaml.safe_load_all(answer.stdout)}


def wanted(values=None) -> dict[tuple[str, str, str], Manifest]:
    return {key(each): each for each in [RELEASED, *map(adopted, objects(values))]}


def test_kustomize_with_the_operator_is_the_chart():
    assert wanted(NO_SECRET) == built("kube-prometheus")


def test_the_development_overlay_is_the_chart_without_operator_and_claim():
    values = {"monitoring": {"operator": False}, **NO_SECRET}
    chart, overlay = wanted(values), built("dev")
    changed = {name for name in overlay if chart.get(name) != overlay[name]}

    assert {("PersistentVolumeClaim", "lockstep", "lockstep-findings")} == set(chart) - set(overlay)
    assert {("Deployment", "lockstep", f"lockstep-{name}") for name in ("watch", "dashboard")} == (
        changed
    )


@pytest.mark.parametrize("name", ["watch", "dashboard"])
def test_the_development_overlay_changes_what_it_means_to(name: str):
    spec = built("dev")["Deployment", "lockstep", f"lockstep-{name}"]["spec"]["template"]["spec"]
    [container] = spec["containers"]

    assert [{"name": "kept", "emptyDir": {}}] == [
        one for one in spec["volumes"] if one["name"] == "kept"
    ]
    assert [name, "--prometheus=http://prometheus.monitoring.svc:9090"] == container["args"][:2]
    assert "affinity" not in spec
