"""`helm test`: what it creates, with which rights, and where it looks."""

import pytest

from lockstep.commands.doctor import NAMESPACES
from lockstep.doctor.installed import OF_THE_CHART, SETS
from tests.deploy.chart.chart import Manifest, hooks, objects, values_files
from tests.deploy.chart.pod_security import violations

MATRIX = values_files()


def pod(values: object = None) -> Manifest:
    return next(each for each in hooks(values) if each["kind"] == "Pod")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MATRIX)
def test_it_leaves_nothing_and_may_list_what_it_lists_and_no_more(name: str):
    found = hooks(MATRIX[name])

    assert ["ServiceAccount", "Pod"] == [found[0]["kind"], found[-1]["kind"]]
    for each in found:
        told = each["metadata"]["annotations"]
        assert "test" == told["helm.sh/hook"]
        assert "before-hook-creation,hook-succeeded" == told["helm.sh/hook-delete-policy"]
    for role in (each for each in found if each["kind"] == "Role"):
        assert [["list"], ["list"]] == [rule["verbs"] for rule in role["rules"]]
        assert list(SETS) == role["rules"][1]["resources"]
    assert not [each for each in found if each["kind"].startswith("Cluster")]


@pytest.mark.parametrize("name", MATRIX)
def test_it_looks_where_the_chart_puts_pods_and_claims_and_may_do_so(name: str):
    homes = {
        each["metadata"]["namespace"] for each in objects(MATRIX[name])
        if each["kind"] in (*SETS.values(), "PersistentVolumeClaim")
    }  # fmt: skip
    found = hooks(MATRIX[name])
    [arguments] = [each["args"] for each in pod(MATRIX[name])["spec"]["containers"]]
    asked = {word.partition("=")[2] for word in arguments if word.startswith("--namespace=")}

    assert homes <= asked
    assert asked == {each["metadata"]["namespace"] for each in found if each["kind"] == "Role"}
    bound = {each["metadata"]["namespace"] for each in found if each["kind"] == "RoleBinding"}
    assert asked == bound


def test_its_pod_fits_the_restricted_profile_and_ends_by_itself():
    found = pod()

    assert [] == violations(found)
    assert found["spec"]["activeDeadlineSeconds"] > 120
    assert "FallbackToLogsOnError" == found["spec"]["containers"][0]["terminationMessagePolicy"]


def test_namespaces_by_default_are_those_of_the_chart():
    values = {"runs": {"enabled": True}}
    arguments = pod(values)["spec"]["containers"][0]["args"]

    assert [f"--namespace={each}" for each in NAMESPACES] == arguments[3:]


def test_every_part_carries_the_label_by_which_it_is_found():
    key, _, value = OF_THE_CHART.partition("=")
    for name in MATRIX:
        for each in objects(MATRIX[name]):
            if each["kind"] in (*SETS.values(), "PersistentVolumeClaim"):
                assert value == each["metadata"]["labels"][key]


@pytest.mark.parametrize("name", MATRIX)
def test_the_last_words_of_every_container_are_its_pods_state(name: str):
    for each in objects(MATRIX[name]):
        if each["kind"] in SETS.values():
            spec = each["spec"]["template"]["spec"]
            for one in (*spec["containers"], *spec.get("initContainers", ())):
                if "lockstep-" in one["image"]:
                    assert "FallbackToLogsOnError" == one["terminationMessagePolicy"], one["name"]
