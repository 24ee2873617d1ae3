"""A run that Kueue holds back says behind whom, and its time to start has not begun."""

from dataclasses import replace
from typing import Any

import pytest

from tests.cluster.controllers import kueue
from tests.workloads.kubernetes.conftest import RUN, FakeCluster
from tests.workloads.kubernetes.story import Told, started
from tests.workloads.kubernetes.test_cluster_run import JOB, condition, workers
from workloads.launchers.kubernetes.conditions import Phase
from workloads.launchers.kubernetes.kueue import QUEUE_LABEL, suspended, waits_behind
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
