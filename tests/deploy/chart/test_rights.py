"""What accounts of the chart may do: exactly what the code does."""

import pytest

from analyzer.act.nodes.rights import RIGHTS, Right
from tests.deploy.chart.chart import Manifest, key, objects, values_files
from workloads.launchers.kubernetes.settings import Kind, Settings
from workloads.launchers.kubernetes.submission import rights

MATRIX = values_files()


def granted(manifests: list[Manifest]) -> dict[str, set[Right]]:
    """Account -> what it may do, one resource at a time."""
    roles = {key(each): each["rules"] for each in manifests if each["kind"].endswith("Role")}
    found: dict[str, set[Right]] = {}
    for each in manifests:
        if each["kind"].endswith("RoleBinding"):
            reference, where = each["roleRef"], each["metadata"].get("namespace", "")
            rows = {
                Right(where, group, resource, tuple(rule["verbs"]))
                for rule in roles[reference["kind"], where, reference["name"]]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
            }
            for subject in each["subjects"]:
                found.setdefault(f"{subject['namespace']}:{subject['name']}", set()).update(rows)
    return found


def test_who_acts_on_nodes_may_do_exactly_what_its_code_does():
    told = granted(objects({"nodes": {"enabled": True, "mode": "annotate"}}))

    assert {"lockstep:lockstep-nodes": set(RIGHTS)} == told


def test_who_only_observes_may_only_read():
    told = granted(objects({"nodes": {"enabled": True, "mode": "observe"}}))

    assert {"lockstep:lockstep-nodes": {RIGHTS[0]}} == told


def test_who_launches_runs_may_do_exactly_what_launchers_do():
    told = granted(objects({"runs": {"enabled": True}}))["lockstep:lockstep-runs"]
    needed = {
        (right.verb, right.group, right.resource)
        for kind in Kind
        for chain in (True, False)
        for right in rights(Settings(image="i", analyzer_image="i", kind=kind, chain=chain))
    }
    # Containers of a pod are read before their logs; Argo's executor writes results of steps.
    needed |= {
        ("get", "", "pods"),
        *((verb, "argoproj.io", "workflowtaskresults") for verb in ("create", "patch")),
    }

    assert needed == {(verb, one.group, one.resource) for one in told for verb in one.verbs}
    assert {"lockstep"} == {one.namespace for one in told}


def test_nobody_has_rights_by_default():
    assert {} == granted(objects())


@pytest.mark.parametrize("name", MATRIX)
def test_no_role_has_what_is_never_needed(name: str):
    for rows in granted(objects(MATRIX[name])).values():
        for right in rows:
            words = {right.group, right.resource, *right.verbs}
            assert set() == words & {"*", "secrets", "escalate", "bind", "impersonate"}
            assert not ("nodes" == right.resource and set(right.verbs) & {"update", "delete"})
            assert not ("pods" == right.resource and "delete" in right.verbs)
