"""What accounts of the chart may do: exactly what the code does."""

import pytest

from lockstep.collector.contract.kubernetes import LEASE, RUNS_NAMESPACE
from lockstep.watch.kubernetes.client import DRY_RUN, OBSERVE, RIGHTS, Right
from lockstep.workloads.launch.kubernetes.facts import ENFORCED_LABEL
from lockstep.workloads.launch.kubernetes.settings import Kind, Settings
from lockstep.workloads.launch.kubernetes.submission import rights
from tests.deploy.chart.chart import Manifest, key, objects, part, render, values_files

MATRIX = values_files()


def granted(manifests: list[Manifest]) -> dict[str, set[Right]]:
    """Account -> what it may do, one resource at a time."""
    roles = {key(each): each["rules"] for each in manifests if each["kind"].endswith("Role")}
    found: dict[str, set[Right]] = {}
    for each in manifests:
        if each["kind"].endswith("RoleBinding"):
            reference, where = each["roleRef"], each["metadata"].get("namespace", "")
            rows = {
                Right(where, group, resource, tuple(rule["verbs"]),
                      tuple(rule.get("resourceNames", ())))
                for rule in roles[reference["kind"], where, reference["name"]]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
            }  # fmt: skip
            for subject in each["subjects"]:
                found.setdefault(f"{subject['namespace']}:{subject['name']}", set()).update(rows)
    return found


@pytest.mark.parametrize(("values", "needed"), [
    ({"mode": "annotate", "dryRun": False}, RIGHTS),
    ({"mode": "annotate", "dryRun": True}, DRY_RUN),
    ({}, DRY_RUN),
    ({"mode": "observe"}, OBSERVE),
    ({"mode": "observe", "dryRun": False}, OBSERVE),
])  # fmt: skip
def test_who_acts_on_nodes_may_do_exactly_what_its_code_does(values, needed):
    told = granted(objects({"nodes": {"enabled": True, **values}}))

    assert {"lockstep:lockstep-nodes": set(needed)} == told


def test_the_lease_is_there_so_that_nobody_needs_the_right_to_make_one():
    for values in ({}, {"dryRun": False}, {"mode": "observe"}):
        [lease] = render({"nodes": {"enabled": True, **values}})["nodes-lease.yaml"]
        assert ("Lease", "lockstep", LEASE) == key(lease)
        # What is not said here, an upgrade leaves as the process and people have written it.
        assert {"apiVersion", "kind", "metadata"} == lease.keys()
        assert "annotations" not in lease["metadata"]


def test_who_launches_runs_may_do_exactly_what_launchers_do():
    told = granted(objects({"runs": {"enabled": True}}))[f"{RUNS_NAMESPACE}:lockstep-runs"]
    needed = {
        (right.verb, right.group, right.resource)
        for kind in Kind
        for chain in (True, False)
        for right in rights(Settings(image="i", analyzer_image="i", kind=kind, chain=chain))
    }
    # Argo's executor writes results of steps; quotas, nodes and the namespace are what a preflight
    # judges by.
    needed |= {(verb, "argoproj.io", "workflowtaskresults") for verb in ("create", "patch")}
    needed |= {("list", "", "resourcequotas")}
    # Kueue's quota, and behind whom a run waits.
    needed |= {("get", "kueue.x-k8s.io", "localqueues"), ("list", "kueue.x-k8s.io", "workloads")}

    assert needed == {
        (verb, one.group, one.resource) for one in told if one.namespace for verb in one.verbs
    }
    assert {RUNS_NAMESPACE, ""} == {one.namespace for one in told}
    assert {
        Right("", "", "nodes", ("list",)),
        Right("", "kueue.x-k8s.io", "clusterqueues", ("get",)),
        Right("", "kueue.x-k8s.io", "resourceflavors", ("list",)),
        Right("", "", "namespaces", ("get",), (RUNS_NAMESPACE,)),
    } == {one for one in told if not one.namespace}


@pytest.mark.parametrize("name", [name for name, one in MATRIX.items() if "runs" in one])
def test_who_launches_runs_finds_no_account_secret_or_pod_of_another_part(name: str):
    # Who may create pods may let them take any account and any Secret of the namespace.
    manifests = objects(MATRIX[name])
    [home] = [one["metadata"]["namespace"] for one in render(MATRIX[name])["runs-role.yaml"][:1]]

    assert {"runs"} == {part(one) for one in manifests if one["metadata"].get("namespace") == home}


def test_a_namespace_of_runs_is_of_the_chart_and_says_what_it_lets_in():
    [space] = render({"runs": {"enabled": True}})["runs-namespace.yaml"]

    assert RUNS_NAMESPACE == space["metadata"]["name"]
    # Rings of ranks lie on the node.
    assert "privileged" == space["metadata"]["labels"][ENFORCED_LABEL]
    values = {"runs": {"enabled": True, "podSecurity": "restricted"}}
    [space] = render(values)["runs-namespace.yaml"]
    assert "restricted" == space["metadata"]["labels"][ENFORCED_LABEL]
    assert "runs-namespace.yaml" not in render(MATRIX["existing-claims"])


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
