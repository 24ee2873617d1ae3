"""A name is no identity: what somebody else created under it is never touched."""

from dataclasses import replace

import pytest

from lockstep.workloads.launch.kubernetes.cluster import RefusedError, UnreachableError
from lockstep.workloads.launch.kubernetes.objects import Objects, TakenError
from lockstep.workloads.launch.kubernetes.settings import Kind, Settings
from lockstep.workloads.launch.kubernetes.submission import submission
from lockstep.workloads.spec import RunSpec
from tests.workloads.launch.kubernetes.conftest import AWAY, RUN, FakeCluster

RUNS = "namespaces/lockstep-runs"
JOB = f"/apis/kubeflow.org/v2beta1/{RUNS}/mpijobs/{RUN.lower()}"
CHAIN = f"/apis/argoproj.io/v1alpha1/{RUNS}/workflows/{RUN.lower()}"
SERVICE = f"/api/v1/{RUNS}/services/{RUN.lower()}"
MARK = "lockstep.example/submission"


def objects(cluster: FakeCluster, spec: RunSpec, settings: Settings) -> Objects:
    return Objects(cluster, submission(spec, settings, ["true"]))


@pytest.fixture(params=["mpijob", "job", "argo"])
def each_kind(request: pytest.FixtureRequest, settings: Settings) -> Settings:
    kind = Kind.JOB if request.param == "job" else Kind.MPIJOB
    return replace(settings, kind=kind, chain=request.param == "argo")


def test_a_name_that_is_taken_is_refused_and_the_first_run_goes_on(
    cluster: FakeCluster, spec: RunSpec, each_kind: Settings
) -> None:
    objects(cluster, spec, replace(each_kind, submission="first")).create()
    before = dict(cluster.objects)
    second = objects(cluster, spec, replace(each_kind, submission="second"))

    with pytest.raises(TakenError, match="a run of that name is already there: "):
        second.create()
    assert not second.perhaps_there
    assert not second.delete()
    assert before == cluster.objects


def test_a_chain_is_refused_where_a_run_of_its_name_is(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    objects(cluster, spec, settings).create()
    before = dict(cluster.objects)

    with pytest.raises(TakenError, match=f"MPIJob {RUN.lower()} in namespace lockstep-runs"):
        objects(cluster, spec, replace(settings, chain=True)).create()
    assert before == cluster.objects


@pytest.mark.parametrize("status", [403, 409])
def test_a_refused_first_object_deletes_nothing_and_the_reason_is_told(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, status: int
) -> None:
    own = objects(cluster, spec, replace(settings, submission="ours"))
    cluster.fails = [RefusedError(status, "the quota says no")]  # 409: it has just changed

    with pytest.raises(RefusedError, match="the quota says no"):
        own.create()
    assert [] == [each for each in cluster.asked if each.startswith("DELETE")]
    assert not own.perhaps_there


def test_a_later_object_whose_name_is_taken_takes_the_first_back(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    foreign = {"metadata": {"name": RUN.lower(), "uid": "another"}}
    cluster.objects[SERVICE] = foreign
    before = dict(cluster.objects)

    with pytest.raises(RefusedError, match="already exists"):
        objects(cluster, spec, replace(settings, kind=Kind.JOB)).create()
    assert before == cluster.objects


@pytest.mark.parametrize("error", [AWAY, KeyboardInterrupt()])
def test_what_was_created_without_an_answer_is_deleted(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, error: Exception
) -> None:
    before = dict(cluster.objects)
    cluster.lost = [error]

    with pytest.raises(type(error)):
        objects(cluster, spec, replace(settings, submission="ours")).create()
    assert before == cluster.objects


def test_what_somebody_else_created_stays_when_the_api_did_not_answer_us(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    objects(cluster, spec, replace(settings, submission="theirs")).create()
    before = dict(cluster.objects)
    own = objects(cluster, spec, replace(settings, submission="ours"))
    cluster.fails = [AWAY]

    with pytest.raises(UnreachableError):
        own.create()
    assert before == cluster.objects
    assert f"kubectl -n lockstep-runs delete mpijobs.kubeflow.org -l {MARK}=ours" == (
        own.stop_command
    )


def test_a_run_that_took_the_name_later_stays(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    own = objects(cluster, spec, replace(settings, submission="ours"))
    own.create()
    cluster.delete(JOB)
    objects(cluster, spec, replace(settings, submission="theirs")).create()

    assert (None, True) == own.look()
    assert not own.delete()
    assert JOB in cluster.objects


def test_what_is_being_deleted_is_not_deleted_again(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    own = objects(cluster, spec, settings)
    own.create()
    cluster.objects[JOB]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert own.delete()
    assert f"DELETE {JOB}" not in cluster.asked


def test_a_step_of_a_chain_belongs_to_it_and_goes_with_it(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    chain = replace(settings, chain=True, submission="ours")
    objects(cluster, spec, chain).create()
    objects(cluster, spec, replace(settings, submission="ours", step=True)).create()
    [owner] = cluster.objects[JOB]["metadata"]["ownerReferences"]

    assert ("Workflow", cluster.objects[CHAIN]["metadata"]["uid"]) == (owner["kind"], owner["uid"])
    cluster.delete(CHAIN)
    assert JOB not in cluster.objects


@pytest.mark.parametrize("chain", ["theirs", ""])
def test_a_step_whose_chain_is_not_there_belongs_to_nobody(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, chain: str
) -> None:
    if chain:
        objects(cluster, spec, replace(settings, chain=True, submission=chain)).create()
    objects(cluster, spec, replace(settings, submission="ours", step=True)).create()

    assert "ownerReferences" not in cluster.objects[JOB]["metadata"]


def test_a_chain_ends_its_run_too_also_by_hand_and_nobody_elses(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    chain = objects(cluster, spec, replace(settings, chain=True, submission="ours"))
    chain.create()
    # By a launcher whose account may not read the chain: nobody owns it.
    objects(cluster, spec, replace(settings, submission="ours")).create()

    assert chain.delete()
    assert {CHAIN, JOB}.isdisjoint(cluster.objects)
    objects(cluster, spec, replace(settings, submission="theirs")).create()
    assert not chain.delete()
    assert JOB in cluster.objects
    assert (
        "kubectl -n lockstep-runs delete workflows.argoproj.io,mpijobs.kubeflow.org"
        f" {RUN.lower()} --ignore-not-found"
    ) == chain.stop_command
