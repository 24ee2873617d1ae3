"""What people read after an installation: what comes first, what is not there, what stays."""

import re
import tomllib

import pytest
from helm_python import Chart

from lockstep.app import build
from tests.deploy.chart.chart import CHART, DEPLOY, objects, values_files

README = CHART / "README.md"
BUILD = DEPLOY / "images" / "build.sh"
VERSION = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["version"]
PARTS = ("collector", "watch", "dashboard", "nodes", "workloads")
REGISTRY = {"images": {"registry": "registry.example"}}


def notes(values=None) -> str:
    with Chart.load(CHART) as chart:
        told = chart.render(values or {}, name="lockstep", namespace="lockstep")
    [text] = [text for path, text in told.items() if path.endswith("NOTES.txt")]
    return text


def test_they_say_what_is_not_read():
    told = notes()

    assert "NOT read. Set collector.dcgmExporter.enabled or collector.nvml.enabled" in told
    assert "needs root: collector.podResources=true" in told
    assert "nobody else in" in told


@pytest.mark.parametrize(
    ("values", "xids"),
    [
        ({}, "XIDs: NOT seen: no source reports them"),
        ({"nvml": {"enabled": True}}, "XIDs: by NVML, as numbers without the driver's words"),
        ({"dcgmExporter": {"enabled": True}}, "DCGM_EXP_XID_ERRORS_TOTAL in its list of counters"),
        ({"kernelLog": True}, "XIDs: by the kernel's log"),
    ],
)
def test_they_say_who_tells_xids_and_what_is_blind_without_the_kernel_log(values, xids):
    told = notes({"collector": values})

    assert xids in told
    assert ("kernelLog" in values) == ("the kernel's log: read" in told)
    assert ("kernelLog" in values) == ("alerts on them are blind" not in told)
    assert ("kernelLog" in values) == ("PRIVILEGED containers (kernelLog)" in told)


def test_they_warn_of_images_that_nobody_has_published():
    assert "WARNING: images.registry is empty" in notes()
    # Helm renders for a Kubernetes of its own age; tests/cluster reads the notes of 1.20.
    assert "WARNING" not in notes(REGISTRY)


@pytest.mark.parametrize("part", PARTS)
def test_the_readme_builds_and_pushes_every_image_before_it_installs(part: str):
    before, _, _ = README.read_text().partition("helm install")
    [loop] = re.findall(r"for part in ([^;]+); do", before)

    assert part in loop.split()
    assert (DEPLOY / "images" / part / "Dockerfile").is_file()
    assert "make images REGISTRY=REGISTRY" in before
    assert part in BUILD.read_text().partition("|| parts=(")[2].partition(")")[0].split()
    assert f"docker push REGISTRY/lockstep-$part:{VERSION}" in before


def test_they_say_what_an_uninstall_takes_and_what_it_leaves():
    def going(**values) -> str:
        return " ".join(notes(values).partition("`helm uninstall` deletes")[2].split())

    kept = {"persistence": {"keep": True}}
    assert "watch.persistence.keep=true leaves it" in going()
    assert "deletes the namespace lockstep-runs" in going(runs={"enabled": True})
    assert "" == going(watch=kept, runs={"enabled": True, **kept})


def test_what_is_kept_is_a_claim_and_the_namespace_that_it_is_in():
    def kept(**values) -> set[str]:
        # https://helm.sh/docs/howto/charts_tips_and_tricks
        told = {"helm.sh/resource-policy": "keep"}
        return {
            f"{each['kind']} {each['metadata']['name']}" for each in objects(values)
            if told.items() <= each["metadata"].get("annotations", {}).items()
        }  # fmt: skip

    keep = {"persistence": {"keep": True}}
    assert set() == kept(runs={"enabled": True})
    assert {"PersistentVolumeClaim lockstep-findings"} == kept(watch=keep, runs={"enabled": True})
    assert {"PersistentVolumeClaim lockstep-runs", "Namespace lockstep-runs"} == (
        kept(runs={"enabled": True, **keep})
    )


def test_conditions_are_taken_off_nodes_by_a_command_that_there_is():
    told = notes({"nodes": {"enabled": True, "dryRun": False}})
    commands = build().registered_commands
    [nodes] = [one.callback for one in commands if one.name == "nodes"]

    assert "lockstep nodes --remove" in told
    assert "remove" in nodes.__annotations__
    assert "--remove" not in notes({"nodes": {"enabled": True}})


@pytest.mark.parametrize("name", values_files())
def test_no_line_is_left_empty_by_a_choice(name: str):
    assert "\n\n\n" not in notes(dict(values_files()[name]))
