"""A run that Kueue holds back says behind whom, and its time to start has not begun."""

from dataclasses import replace
from typing import Any

import pytest

from tests.cluster.controllers import kueue
from tests.workloads.kubernetes.conftest import RUN, FakeCluster
from tests.workloads.kubernetes.story import Told, started
from tests.workloads.kubernetes.test_cluster_run import JOB, condition, workers
from workloads.launchers.kubernetes.conditions import Phase
from workloads.launchers.kubernetes.facts import look
from workloads.launchers.kubernetes.kueue import QUEUE_LABEL, suspended, waits_behind
from workloads.launchers.kubernetes.preflight import refusal
from workloads.launchers.kubernetes.settings import Settings
from workloads.launchers.kubernetes.submission import submission
from workloads.spec import RunSpec

NO_ROOM = "couldn't assign flavors to pod set worker: insufficient unused quota for cpu"


def workload(name: str, created: str, priority: int = 0, **conditions: bool) -> dict[str, Any]:
    told = [{"type": kind, "status": str(value), "message": "" if value else NO_ROOM}
            for kind, value in conditions.items()]  # fmt: skip
    return {
        "metadata": {"name": f"job-{name}", "creationTimestamp": created,
                     "ownerReferences": [{"name": name, "uid": f"uid-{name}"}]},
        "spec": {"queueName": "gpus", "priority": priority},
        "status": {"conditions": told},
    }  # fmt: skip


def test_behind_whom_is_by_priority_then_age_and_who_runs_is_told() -> None:
    told = waits_behind("gpus", "uid-me", [
        workload("me", "2026-01-01T10:00:00Z", QuotaReserved=False),
        workload("later", "2026-01-01T11:00:00Z"), workload("early", "2026-01-01T09:00:00Z"),
        workload("urgent", "2026-01-01T12:00:00Z", priority=9),
        workload("runs", "2026-01-01T08:00:00Z", Admitted=True),
        workload("over", "2026-01-01T07:00:00Z", Admitted=True, Finished=True),
    ])  # fmt: skip

    assert f"in queue gpus behind early, urgent while runs runs: {NO_ROOM}" == told


def test_where_workloads_may_not_be_seen_the_queue_alone_is_told() -> None:
    assert "in queue gpus" == waits_behind("gpus", "uid-me", [])


def test_the_job_names_its_queue(spec: RunSpec, settings: Settings) -> None:
    queued = replace(settings, queue="gpus")
    labels = submission(spec, queued, ["x"]).whole["metadata"]["labels"]

    assert "gpus" == labels[QUEUE_LABEL]
    assert QUEUE_LABEL not in submission(spec, settings, ["x"]).whole["metadata"]["labels"]


def let_go(cluster: FakeCluster, value: bool = True) -> None:
    cluster.objects[JOB] = kueue.suspended(cluster.objects[JOB], not value)


def test_time_in_the_queue_is_not_time_to_start(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    told = Told([])
    queued = replace(settings, queue="gpus", start_timeout=10.0)
    run = started(
        cluster, spec, queued,
        {100: lambda: let_go(cluster), 104: lambda: workers(cluster),
         120: lambda: condition(cluster, "Succeeded")},
    )  # fmt: skip
    assert suspended(cluster.objects[JOB])  # by Kueue's webhook
    ended = run.wait(told)

    assert (Phase.SUCCEEDED, True) == (ended.phase, ended.ran)
    assert "queued" in told.stages
    assert not suspended(cluster.objects.get(JOB))
    assert RUN


def queues(
    cluster: FakeCluster, version: str, gpus: str, *flavors: dict[str, Any], **spec: Any
) -> None:
    """A LocalQueue `gpus` and the ClusterQueue behind it, whose first flavor has so many GPUs."""
    group = f"/apis/kueue.x-k8s.io/{version}"
    cluster.objects[group] = {"resources": [{"name": "localqueues"}]}
    cluster.objects[f"{group}/namespaces/lockstep-runs/localqueues/gpus"] = {
        "spec": {"clusterQueue": "team"}
    }
    first = {"name": "nvidia.com/gpu", "nominalQuota": gpus}
    told = [{"name": f"f{n}", "resources": [each]} for n, each in enumerate((first, *flavors))]
    cluster.objects[f"{group}/clusterqueues/team"] = {"spec": {
        "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": told}], **spec,
    }}  # fmt: skip


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_run_that_its_queue_can_never_let_in_is_refused_with_the_capacity(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, version: str
) -> None:
    settings = replace(settings, queue="gpus")
    queues(cluster, version, "4")
    refused = refusal(look(cluster, settings), spec, settings)

    assert refused is not None
    assert 64 == refused.code
    assert "can give at most 4 nvidia.com/gpu (ClusterQueue team)" in refused.sentence
    assert "the run needs 8" in refused.sentence


MORE = {"name": "nvidia.com/gpu", "nominalQuota": "4"}


@pytest.mark.parametrize(
    ("told", "fits"),
    [
        (("8", {}), True),
        (("4", {}, MORE), False),  # one flavor for all ranks
        (("4", {"cohortName": "all"}), True),  # lent without a limit
        (("4", {"cohort": "all"}, {**MORE, "borrowingLimit": "3"}), True),
    ],
)
def test_only_what_kueue_can_never_give_is_refused(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Any, fits: bool
) -> None:
    gpus, about, *flavors = told
    settings = replace(settings, queue="gpus")
    queues(cluster, "v1beta2", gpus, *flavors, **about)

    assert fits == (refusal(look(cluster, settings), spec, settings) is None)


def test_a_limit_to_borrowing_is_part_of_the_capacity(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    settings = replace(settings, queue="gpus")
    limited = {"name": "nvidia.com/gpu", "nominalQuota": "4", "borrowingLimit": "3"}
    queues(cluster, "v1beta2", "0", limited, cohortName="all")
    place = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/team"
    group = cluster.objects[place]["spec"]["resourceGroups"][0]
    group["flavors"][0]["resources"][0]["borrowingLimit"] = "0"
    refused = refusal(look(cluster, settings), spec, settings)

    assert refused is not None
    assert "at most 7 nvidia.com/gpu" in refused.sentence


def test_a_queue_that_is_not_there_is_refused_and_one_that_may_not_be_seen_is_not(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    settings = replace(settings, queue="gpus")
    assert None is refusal(look(cluster, settings), spec, settings)  # no Kueue to be seen
    queues(cluster, "v1beta2", "8")
    del cluster.objects["/apis/kueue.x-k8s.io/v1beta2/clusterqueues/team"]
    refused = refusal(look(cluster, settings), spec, settings)
    assert refused is not None
    assert "leads to the ClusterQueue team, which is not there" in refused.sentence
    other = replace(settings, queue="others")
    refused = refusal(look(cluster, other), spec, other)
    assert refused is not None
    assert "there is not the queue others of namespace lockstep-runs" in refused.sentence


def test_a_run_that_waits_too_long_in_its_queue_ends_and_says_behind_whom(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    place = "/apis/kueue.x-k8s.io/v1beta2/namespaces/lockstep-runs/workloads"
    cluster.objects[place] = {"items": [workload("other", "2026-01-01T08:00:00Z", Admitted=True)]}
    queued = replace(settings, queue="gpus", queue_timeout=60.0)
    ended = started(cluster, spec, queued, {}).wait(Told([]))

    assert (Phase.FAILED, False) == (ended.phase, ended.ran)
    assert "it waited 60 s in queue gpus while other runs" == ended.reason


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_run_whose_quota_is_taken_back_ends_and_says_so(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, version: str
) -> None:
    def preempted() -> None:
        let_go(cluster, False)
        for path in [path for path in cluster.objects if "-worker-" in path]:
            del cluster.objects[path]
        own = workload("me", "2026-01-01T10:00:00Z")
        own["metadata"]["ownerReferences"] = [{"uid": cluster.objects[JOB]["metadata"]["uid"]}]
        own["status"]["conditions"] = [{"type": "Evicted", "status": "True", "reason": "Preempted",
                                        "message": "to accommodate a workload"}]  # fmt: skip
        place = f"/apis/kueue.x-k8s.io/{version}/namespaces/lockstep-runs/workloads"
        cluster.objects[place] = {"items": [own]}

    ended = started(
        cluster, spec, replace(settings, queue="gpus"),
        {10: lambda: let_go(cluster), 14: lambda: workers(cluster), 30: preempted},
    ).wait(Told([]))  # fmt: skip

    assert Phase.FAILED is ended.phase
    assert ended.reason == (
        "Kueue took its quota back (Preempted: to accommodate a workload) after it had run, and its"
        " ranks are gone"
    )


def test_a_run_that_somebody_suspends_by_hand_ends_and_says_so(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    ended = started(
        cluster, spec, settings, {4: lambda: workers(cluster), 20: lambda: let_go(cluster, False)}
    ).wait(Told([]))

    assert "somebody suspended it after it had run, and its ranks are gone" == ended.reason
