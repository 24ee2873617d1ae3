"""What can never be scheduled is refused in one sentence; what only has to wait is not."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.launch.kubernetes.cluster_queue import parsed
from lockstep.workloads.launch.kubernetes.doubts import doubts
from lockstep.workloads.launch.kubernetes.facts import look
from lockstep.workloads.launch.kubernetes.preflight import Refusal, refusal
from lockstep.workloads.launch.kubernetes.settings import Kind, Settings
from lockstep.workloads.spec import Layout, RunSpec
from tests.workloads.launch.kubernetes.conftest import NAMESPACE, FakeCluster, claim, node

CLAIM = f"{NAMESPACE}/persistentvolumeclaims/lockstep-runs"


def judged(cluster: FakeCluster, spec: RunSpec, settings: Settings) -> Refusal | None:
    return refusal(look(cluster, settings), spec, settings)


def quota(hard: dict[str, str], used: dict[str, str], **about: Any) -> dict[str, Any]:
    return {"metadata": {"name": "team"}, "spec": about, "status": {"hard": hard, "used": used}}


def test_a_run_that_fits_is_not_refused(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    assert None is judged(cluster, spec, settings)


@pytest.mark.parametrize("run", ["7b-run", "gpt-", "g" * 55, "gpt.1"])
def test_a_run_id_that_names_no_hosts(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, run: str
) -> None:
    refused = judged(cluster, replace(spec, run=run), settings)

    assert refused is not None
    assert 64 == refused.code
    assert f"the run id {run} names hosts of 4 nodes there" in refused.sentence


def test_more_nodes_than_there_are(cluster: FakeCluster, spec: RunSpec, settings: Settings) -> None:
    refused = judged(cluster, replace(spec, layout=Layout(5, 2, 10)), settings)

    assert refused is not None
    assert 64 == refused.code
    assert "wants 5 nodes" in refused.sentence
    assert "4 of the cluster's 4" in refused.sentence


def test_more_gpus_than_any_node_has(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    refused = judged(cluster, replace(spec, layout=Layout(1, 16, 16)), settings)

    assert refused is not None
    assert "16 nvidia.com/gpu" in refused.sentence
    assert "the largest has 8 nvidia.com/gpu" in refused.sentence
    assert "--device cpu" in refused.sentence


@pytest.mark.parametrize(
    "bad",
    [
        node(taints=[{"key": "lockstep.example/degraded", "effect": "NoSchedule"}]),
        node(taints=[{"key": "nvidia.com/gpu", "effect": "NoExecute"}]),
    ],
)
def test_nodes_with_taints_of_others_do_not_count(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, bad: dict[str, Any]
) -> None:
    cluster.objects["/api/v1/nodes/n0"] = bad
    refused = judged(cluster, spec, settings)

    assert refused is not None
    assert "3 of the cluster's 4 can give that (1 tainted)" in refused.sentence


NOT_READY = node() | {"status": {**node()["status"], "conditions": []}}


@pytest.mark.parametrize(
    "bad",
    [
        node(unschedulable=True), NOT_READY,
        node(taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
        node(taints=[{"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}]),
    ],
    ids=["cordoned", "not ready", "unreachable", "shut down"],
)  # fmt: skip
def test_nodes_that_come_back_are_waited_for_and_told(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, bad: dict[str, Any]
) -> None:
    assert [] == doubts(look(cluster, settings), spec, settings)
    cluster.objects["/api/v1/nodes/n0"] = bad

    assert None is judged(cluster, spec, settings)
    [told] = doubts(look(cluster, settings), spec, settings)
    assert (
        "1 of the nodes that could take its pods is cordoned or not ready, and it needs 1 more than"
        " are ready: its pods wait, at most --start-timeout 300 s" in told
    )
    cluster.objects["/api/v1/nodes/n4"] = node("n4")
    assert [] == doubts(look(cluster, settings), spec, settings)


def test_taints_that_runs_tolerate_count_as_none(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    taints = [
        {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        {"key": "old", "effect": "PreferNoSchedule"},
    ]
    cluster.objects["/api/v1/nodes/n0"] = node(taints=taints)

    assert None is judged(cluster, spec, settings)


def test_a_missing_namespace_claim_or_operator_is_named(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    expected = {
        NAMESPACE: (64, "no namespace lockstep-runs"),
        CLAIM: (64, "or create it: the chart does with runs.enabled=true"),
        "/apis/kubeflow.org/v2beta1": (69, "install the MPI Operator, or give --kind job"),
    }
    for path, (code, words) in expected.items():
        kept = cluster.objects.pop(path)
        refused = judged(cluster, spec, settings)
        cluster.objects[path] = kept
        assert refused is not None
        assert code == refused.code
        assert words in refused.sentence
    del cluster.objects["/apis/kubeflow.org/v2beta1"]
    assert None is judged(cluster, spec, replace(settings, kind=Kind.JOB))
    chain = judged(cluster, spec, replace(settings, chain=True))
    assert chain is not None
    assert "MPIJob" in chain.sentence


def test_missing_rights_are_named(cluster: FakeCluster, spec: RunSpec, settings: Settings) -> None:
    cluster.denied = {"create mpijobs", "get pods"}
    refused = judged(cluster, spec, settings)

    assert refused is not None
    assert 69 == refused.code
    assert "may not create mpijobs.kubeflow.org, get pods/log in namespace" in refused.sentence


@pytest.mark.parametrize(
    ("has", "words"),
    [
        (claim(phase="Lost"), "has lost its volume"),
        (claim(mode="ReadWriteOnce"), "is ReadWriteOnce, and ranks on 4 nodes write to it"),
        (claim() | {"metadata": {"deletionTimestamp": "2026"}}, "is being deleted"),
    ],
)
def test_a_claim_that_cannot_keep_the_archive_is_refused(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, has: dict[str, Any], words: str
) -> None:
    cluster.objects[CLAIM] = has
    refused = judged(cluster, spec, settings)

    assert refused is not None
    assert words in refused.sentence


def test_a_claim_of_one_node_is_enough_for_one_node(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    cluster.objects[CLAIM] = claim(mode="ReadWriteOnce", phase="Pending")

    assert None is judged(cluster, replace(spec, layout=Layout(1, 2, 2)), settings)


def test_a_quota_that_is_used_up_is_refused_with_its_numbers(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    path = f"{NAMESPACE}/resourcequotas/team"
    what = "requests.nvidia.com/gpu"
    cluster.objects[path] = quota({what: "8"}, {what: "2"})
    refused = judged(cluster, spec, settings)

    assert refused is not None
    assert f"leaves 6 of 8 {what}, and the run needs 8" in refused.sentence
    assert (69, True) == (refused.code, refused.sentence.endswith("wait until others have ended"))
    cluster.objects[path] = quota({what: "7"}, {what: "2"})
    refused = judged(cluster, spec, settings)
    assert refused is not None
    assert (64, False) == (refused.code, "wait" in refused.sentence)
    cluster.objects[path] = quota({what: "10"}, {what: "2"})
    assert None is judged(cluster, spec, settings)
    cluster.objects[path] = quota({"pods": "0"}, {}, scopes=["BestEffort"])
    assert None is judged(cluster, spec, settings)


@pytest.mark.parametrize("apart", [False, True], ids=["one quota", "two quotas"])
def test_what_a_quota_can_never_hold_is_not_told_to_wait(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, *, apart: bool
) -> None:
    gpus = {"requests.nvidia.com/gpu": "7"}
    pods, used = {"pods": "20"}, {"pods": "19"}
    path = f"{NAMESPACE}/resourcequotas"
    cluster.objects[f"{path}/a"] = quota(pods if apart else pods | gpus, used)
    if apart:
        cluster.objects[f"{path}/b"] = quota(gpus, {})
    refused = judged(cluster, spec, settings)

    assert refused is not None
    assert (64, False) == (refused.code, "wait" in refused.sentence)
    assert "leaves 7 of 7 requests.nvidia.com/gpu, and the run needs 8" in refused.sentence


def test_a_run_for_which_there_are_never_nodes_is_not_told_to_wait_for_a_quota(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    cluster.objects[f"{NAMESPACE}/resourcequotas/team"] = quota({"pods": "20"}, {"pods": "19"})
    refused = judged(cluster, replace(spec, layout=Layout(5, 2, 10)), settings)

    assert refused is not None
    assert (64, False) == (refused.code, "wait" in refused.sentence)


@pytest.mark.parametrize(
    ("place", "good"),
    [
        ("/runs/r/checkpoints/step-00000040", True), ("/runs/r/checkpoints/step-40/", True),
        ("/runs/r/checkpoints", False), ("/runs/r/checkpoints/step-", False),
        ("/runs/r/checkpoints/step-N", False), ("/runs/r/checkpoints/40", False),
    ],
)  # fmt: skip
def test_an_indexed_job_goes_on_from_one_checkpoint_only(
    cluster: FakeCluster,
    spec: RunSpec,
    settings: Settings,
    place: str,
    good: bool,
) -> None:
    spec = replace(spec, training=replace(spec.training, resume=place))
    refused = judged(cluster, spec, replace(settings, kind=Kind.JOB))

    assert None is judged(cluster, spec, settings)
    assert good is (refused is None)
    if refused is not None:
        assert 64 == refused.code
        assert "give it as /runs/RUN/checkpoints/step-N, or leave --kind" in refused.sentence


def test_what_may_not_be_seen_is_not_judged(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    facts = replace(look(cluster, settings), nodes=None, quotas=None, namespace=None)

    assert None is refusal(facts, replace(spec, layout=Layout(400, 8, 3200)), settings)


def test_what_this_account_may_not_see_is_told_in_one_sentence(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    facts = look(cluster, settings)
    half, none = replace(facts, nodes=None), replace(facts, nodes=None, quotas=None, namespace=None)

    assert [] == doubts(facts, spec, settings)
    assert [
        "not checked before the start, for this account may not list nodes (whether there is room)"
    ] == doubts(half, spec, settings)
    [told] = doubts(none, spec, settings)
    assert "list nodes (whether there is room), list resourcequotas (" in told
    assert "get namespaces (" in told
    assert "give --rings pod" in told
    assert "--rings" not in doubts(none, spec, replace(settings, host_rings=False))[0]


@pytest.mark.parametrize(
    ("device", "hard", "wanted"),
    [
        ("cuda", {"limits.memory": "1Ti", "limits.cpu": "9"}, "limits.memory and limits.cpu"),
        ("cuda", {"requests.cpu": "64"}, "requests.cpu"),
        ("cpu", {"requests.cpu": "64"}, ""),
        ("cuda", {"requests.memory": "1Ti", "limits.ephemeral-storage": "1Ti"}, ""),
    ],
)
def test_a_quota_that_wants_what_runs_leave_open_is_a_doubt_for_a_limit_range_may_give_it(
    cluster: FakeCluster, spec: RunSpec, settings: Settings,
    device: str, hard: dict[str, str], wanted: str,
) -> None:  # fmt: skip
    spec = replace(spec, device=device)
    cluster.objects[f"{NAMESPACE}/resourcequotas/team"] = quota(hard, {})
    found = doubts(look(cluster, settings), spec, settings)

    assert None is judged(cluster, spec, settings)
    assert bool(wanted) == bool(found)
    for each in found:
        assert f"the quota team of namespace lockstep-runs wants {wanted} of every cont" in each
        assert "without a LimitRange" in each


def test_a_team_that_can_be_no_label_is_said_and_stops_nothing(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    facts = look(cluster, settings)

    assert not doubts(facts, replace(spec, team="vision"), settings)
    (found,) = doubts(facts, replace(spec, team="Speech & Audio"), settings)
    assert "'Speech & Audio' can be no label of pods" in found


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", Fraction(1, 2)), ("8", Fraction(8)), ("3840Mi", Fraction(3840 << 20)),
        ("1e3", Fraction(1000)), ("2E", Fraction(2 * 10**18)), ("1.5Gi", Fraction(3 << 29)),
        ("100k", Fraction(100_000)), ("1E2", Fraction(100)), ("5u", Fraction(5, 10**6)),
        ("nothing", Fraction(0)), ("", Fraction(0)),
    ],
)  # fmt: skip
def test_quantities_are_those_of_kubernetes(text: str, number: Fraction) -> None:
    assert number == parsed(text)


@given(st.one_of(st.none(), st.text(max_size=12), st.integers(), st.floats()))
def test_no_quantity_breaks_the_look(value: object) -> None:
    assert isinstance(parsed(value), Fraction)
