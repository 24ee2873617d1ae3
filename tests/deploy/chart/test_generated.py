"""What is generated around the chart is committed as it is generated, and is the same chart."""

import shutil
import subprocess

import pytest
import yaml

from tests.deploy.chart.chart import DEPLOY, Manifest, key, objects
from tests.deploy.chart.generated import NO_SECRET, RELEASED, adopted, copies, files, stale, write

OVERLAYS = DEPLOY / "kustomize" / "overlays"


def test_the_committed_files_are_what_is_generated():
    assert [] == stale(), "run python -m tests.deploy.chart"


def test_the_charts_rules_and_dashboards_are_all_there_are():
    assert {path.name for path in (DEPLOY / "rules").glob("*.rules.yml")} == {
        name.rpartition("/")[2] for name in copies() if "/rules/" in name
    }
    assert {path.name for path in (DEPLOY.parent / "grafana" / "json").iterdir()} == {
        name.rpartition("/")[2] for name in copies() if "/dashboards/" in name
    }


def test_a_file_by_hand_is_noticed_and_writing_takes_it_away(tmp_path):
    write(tmp_path)
    assert [] == stale(tmp_path)
    (tmp_path / "kustomize/base/services.yaml").write_text("# mine\n")
    (tmp_path / "kustomize/base/more.yaml").write_text("# mine\n")

    assert ["kustomize/base/services.yaml", "kustomize/base/more.yaml"] == stale(tmp_path)
    write(tmp_path)
    assert sorted(files()) == sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
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
