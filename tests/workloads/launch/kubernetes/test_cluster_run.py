"""A run on a cluster from where it was submitted: how it ends, and that nothing stays."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from lockstep.workloads.launch.kubernetes import cluster_run
from lockstep.workloads.launch.kubernetes.cluster import RefusedError, UnreachableError
from lockstep.workloads.launch.kubernetes.cluster_run import ClusterRun
from lockstep.workloads.launch.kubernetes.conditions import Phase
from lockstep.workloads.launch.kubernetes.settings import Kind, Settings
from lockstep.workloads.launch.kubernetes.submission import submission
from lockstep.workloads.spec import RunSpec
from tests.workloads.launch.kubernetes.conftest import AWAY, NAMESPACE, RUN, FakeCluster
from tests.workloads.launch.kubernetes.story import Told, started

JOB = f"/apis/kubeflow.org/v2beta1/namespaces/lockstep-runs/mpijobs/{RUN.lower()}"


@pytest.fixture
def told() -> Told:
    return Told([])


def workers(cluster: FakeCluster) -> None:
    """All pods of the run run; of an MPIJob its launcher too, which the operator then creates."""
    for index in range(4):
        cluster.pod(f"{RUN.lower()}-worker-{index}", node=f"gpu-{index}")
    if JOB in cluster.objects:
        launcher(cluster)


def launcher(cluster: FakeCluster, phase: str = "Running", **status: Any) -> None:
    cluster.pod(f"{RUN.lower()}-launcher-x", role="launcher", node="gpu-0", phase=phase, **status)


def condition(cluster: FakeCluster, kind: str, message: str = "") -> None:
    one = {"type": kind, "status": "True", "reason": kind, "message": message}
    cluster.objects[JOB].setdefault("status", {}).setdefault("conditions", []).append(one)


def lost(cluster: FakeCluster, index: int) -> None:
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    cluster.pod(
        f"{RUN.lower()}-worker-{index}", node=f"gpu-{index}", phase="Failed",
        containerStatuses=[{"state": state}],
    )  # fmt: skip


def test_a_launcher_that_fails_before_it_is_seen_means_that_the_run_ran(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    # Its workers go with it, before the next look; the operator had waited until all were ready.
    def failed() -> None:
        state = {"terminated": {"exitCode": 69, "startedAt": "2026-01-01T00:00:00Z"}}
        launcher(cluster, "Failed", containerStatuses=[{"name": "launcher", "state": state}])
        condition(cluster, "Failed")

    ended = started(cluster, spec, settings, {4: failed}).wait(told)

    assert (Phase.FAILED, True) == (ended.phase, ended.ran)


def test_a_run_that_succeeds_leaves_nothing(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    before = set(cluster.objects)
    run = started(
        cluster, spec, settings,
        {4: lambda: workers(cluster), 20: lambda: condition(cluster, "Succeeded")},
    )  # fmt: skip
    ended = run.wait(told)

    assert (Phase.SUCCEEDED, "", True) == (ended.phase, ended.reason, ended.ran)
    assert ["waiting for pods", "running"] == told.stages
    assert run.end()
    assert before == set(cluster.objects)


def test_a_failed_worker_fails_the_run_and_is_named(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    run = started(
        cluster, spec, settings,
        {
            4: lambda: workers(cluster), 10: lambda: lost(cluster, 2),
            14: lambda: condition(cluster, "Failed", "launcher failed"),
        },
    )  # fmt: skip
    ended = run.wait(told)

    assert Phase.FAILED is ended.phase
    name = f"worker {RUN.lower()}-worker-2 on node gpu-2 ended with code 137 (OOMKilled)"
    assert f"{name}; Failed: launcher failed" == ended.reason


def test_a_lost_worker_ends_a_run_whose_operator_does_not_notice(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    vanished = f"{NAMESPACE}/pods/{RUN.lower()}-worker-1"
    run = started(
        cluster, spec, settings,
        {4: lambda: workers(cluster), 10: lambda: cluster.objects.pop(vanished)},
    )  # fmt: skip
    ended = run.wait(told)

    assert f"worker {RUN.lower()}-worker-1 on node gpu-1 is gone" == ended.reason
    assert "failing" in told.stages
    assert run.clock() < 10 + cluster_run.LOST_SECONDS + 6


def test_a_run_goes_on_without_a_collector_and_tells_it(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    def loses_its_collector() -> None:
        states = {"ranks": {"running": {}}, "collector": {"terminated": {"exitCode": 1}}}
        cluster.pod(f"{RUN.lower()}-worker-2", node="gpu-2", containerStatuses=[
            {"name": name, "state": state} for name, state in states.items()
        ])  # fmt: skip

    ended = started(
        cluster, spec, settings,
        {
            4: lambda: workers(cluster), 10: loses_its_collector,
            200: lambda: condition(cluster, "Succeeded"),
        },
    ).wait(told)  # fmt: skip

    what = f"the collector of {RUN.lower()}-worker-2 on node gpu-2 ended with code 1: "
    assert (Phase.SUCCEEDED, 1) == (ended.phase, len(ended.noted))
    assert ended.noted[0].startswith(what)
    assert ("running", f"5 pods; {ended.noted[0]}") in told.said


def test_an_image_that_cannot_be_pulled_fails_at_once_with_the_reason(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    statuses = [{"image": "r/i:1", "state": state}]
    run = started(
        cluster, spec, settings,
        {6: lambda: cluster.pod("w", node="gpu-0", phase="Pending", containerStatuses=statuses)},
    )  # fmt: skip
    ended = run.wait(told)

    assert "w on node gpu-0 cannot start: r/i:1: ImagePullBackOff: not found" == ended.reason
    assert not ended.ran
    assert run.clock() <= 8


def test_a_run_that_gets_no_room_ends_after_its_start_timeout(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4"}
    run = started(cluster, spec, replace(settings, start_timeout=60.0), {})
    cluster.pod("w", phase="Pending", conditions=[why])
    ended = run.wait(told)

    assert "not all of its pods ran within 62 s: Unschedulable: 0/4" == ended.reason


def test_an_operator_that_does_nothing_is_told(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    run = started(cluster, spec, settings, {})

    assert run.wait(told).reason.endswith("no controller creates its pods")


@pytest.mark.parametrize("kind", list(Kind))
def test_a_run_that_nobody_ends_is_ended_after_its_timeout_counted_from_when_its_pods_ran(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told, kind: Kind
) -> None:
    settings = replace(settings, kind=kind, timeout=100.0, start_timeout=900.0)
    run = started(cluster, spec, settings, {800: lambda: workers(cluster)})
    ended = run.wait(told)

    assert (Phase.LATE, "it took longer than --timeout 100") == (ended.phase, ended.reason)
    assert 900 <= run.clock() <= 904


PULLS = {"waiting": {"reason": "ContainerCreating", "message": "it pulls"}}


def test_the_wait_for_the_launcher_of_an_mpijob_is_none_of_its_timeout(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    settings = replace(settings, timeout=100.0, start_timeout=900.0)

    def waits() -> None:
        workers(cluster)
        launcher(cluster, "Pending", containerStatuses=[{"state": PULLS}])

    ended = started(
        cluster, spec, settings,
        {4: waits, 600: lambda: launcher(cluster), 690: lambda: condition(cluster, "Succeeded")},
    ).wait(told)  # fmt: skip
    assert (Phase.SUCCEEDED, True) == (ended.phase, ended.ran)
    assert ("waiting for pods", "ContainerCreating: it pulls") in told.said


def test_a_launcher_that_never_starts_ends_the_run_after_its_start_timeout(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    def waits() -> None:
        workers(cluster)
        launcher(cluster, "Pending", containerStatuses=[{"state": PULLS}])

    ended = started(cluster, spec, replace(settings, start_timeout=60.0), {4: waits}).wait(told)

    assert (Phase.FAILED, False) == (ended.phase, ended.ran)
    assert "not all of its pods ran within 62 s: ContainerCreating: it pulls" == ended.reason


def test_pods_that_somebody_deleted_are_not_those_that_run(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    def ending() -> None:
        workers(cluster)
        worker = f"{NAMESPACE}/pods/{RUN.lower()}-worker-0"
        cluster.objects[worker]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    ended = started(
        cluster, spec, replace(settings, timeout=50.0, start_timeout=400.0),
        {4: ending, 300: lambda: workers(cluster), 340: lambda: condition(cluster, "Succeeded")},
    ).wait(told)  # fmt: skip

    assert Phase.SUCCEEDED is ended.phase


def test_the_limit_that_a_job_keeps_itself_leaves_time_to_start(
    spec: RunSpec, settings: Settings
) -> None:
    settings = replace(settings, timeout=100.0, start_timeout=900.0)
    job = submission(spec, replace(settings, kind=Kind.JOB), []).whole
    mpijob = submission(spec, settings, []).whole

    assert 1000 == job["spec"]["activeDeadlineSeconds"]
    assert 1000 == mpijob["spec"]["runPolicy"]["activeDeadlineSeconds"]  # its launcher's alone


def test_a_run_whose_time_the_cluster_says_is_over_was_too_late(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    def over() -> None:
        condition(cluster, "Failed", "Job was active longer than specified deadline")
        cluster.objects[JOB]["status"]["conditions"][0]["reason"] = "DeadlineExceeded"

    ended = started(
        cluster, spec, settings, {4: lambda: workers(cluster), 20: over}
    ).wait(told)  # fmt: skip

    assert Phase.LATE is ended.phase
    assert "DeadlineExceeded: Job was active longer than specified deadline" == ended.reason


def test_a_run_that_somebody_deletes_was_stopped(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    ended = started(cluster, spec, settings, {10: lambda: cluster.delete(JOB)}).wait(told)

    assert (Phase.STOPPED, f"MPIJob {RUN.lower()} was deleted") == (ended.phase, ended.reason)


def test_an_api_that_is_away_is_waited_for_and_told(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    run = started(
        cluster, spec, settings,
        {
            2: lambda: workers(cluster), 10: lambda: cluster.fails.extend([AWAY] * 20),
            80: lambda: condition(cluster, "Succeeded"),
        },
    )  # fmt: skip

    assert Phase.SUCCEEDED is run.wait(told).phase
    assert "waiting for the cluster" in told.stages


def test_an_api_that_stays_away_is_given_up(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    run = started(cluster, spec, settings, {})
    cluster.fails = [AWAY] * 10_000

    with pytest.raises(UnreachableError, match="does not answer"):
        run.wait(told)
    assert cluster_run.AWAY_SECONDS <= run.clock() < cluster_run.AWAY_SECONDS + 10


def test_rights_that_are_taken_away_end_the_waiting(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    run = started(cluster, spec, settings, {})
    cluster.fails = [RefusedError(403, "forbidden")]

    with pytest.raises(RefusedError, match="forbidden"):
        run.wait(told)


@pytest.mark.parametrize("number", [0, 1])
def test_what_cannot_be_created_whole_is_not_created(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, number: int
) -> None:
    before = set(cluster.objects)
    made = submission(spec, replace(settings, kind=Kind.JOB), [])
    run = ClusterRun(cluster, made, RUN, settings)
    create = cluster.create
    calls = iter(range(2))

    def refuse(path: str, manifest: Any) -> dict[str, Any]:
        if next(calls) == number:
            raise RefusedError(422, "not valid")
        return create(path, manifest)

    run.objects.cluster = Refusing(cluster, refuse)  # type: ignore[assignment]
    with pytest.raises(RefusedError, match="not valid"):
        run.create()
    assert before == set(cluster.objects)


@dataclass(slots=True)
class Refusing:
    """A cluster with another way to create."""

    cluster: FakeCluster
    create: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster, name)


def test_logs_are_fetched_of_every_container(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Told
) -> None:
    run = started(
        cluster, spec, settings,
        {2: lambda: workers(cluster), 6: lambda: condition(cluster, "Succeeded")},
    )  # fmt: skip
    ended = run.wait(told)
    first = f"{NAMESPACE}/pods/{RUN.lower()}-worker-0/log"
    for pod in ended.pods:
        cluster.objects[f"{NAMESPACE}/pods/{pod.name}/log"] = {"log": f"of {pod.name}"}
    del cluster.objects[first]

    others = ("worker-1", "worker-2", "worker-3", "launcher-x")
    assert {f"{RUN.lower()}-{each}.ranks" for each in others} == set(run.logs(ended.pods))


@pytest.mark.parametrize(
    ("state", "over"),
    [
        ([{"state": {"terminated": {"exitCode": 0}}}], True),
        ([{"state": {"waiting": {"reason": "ErrImagePull"}}}], True),
        ([{"state": {"waiting": {"reason": "ContainerCreating"}}}], False),
        ([{"state": {"waiting": {"reason": "PodInitializing"}}}], False),
        ([{"state": {}}], False),
        ([{"state": {"running": {}}}, {"state": {"terminated": {"exitCode": 0}}}], False),
        ([], False),
    ],
)
def test_a_pod_of_which_nothing_runs_is_its_nodes_to_forget(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, state: list[Any], over: bool
) -> None:
    run = started(cluster, spec, settings, {})
    cluster.pod("late", node="gpu-1", containerStatuses=state)
    about = cluster.objects[f"{NAMESPACE}/pods/late"]["metadata"]
    about |= {"ownerReferences": [], "deletionTimestamp": "2026-01-01T00:00:00Z"}

    assert over == run.end()
    assert ([] if over else ["late on node gpu-1"]) == [each.described for each in run.leaving]


def test_pods_that_do_not_end_are_told(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    run = started(cluster, spec, settings, {})
    cluster.pod("stuck")
    cluster.objects[f"{NAMESPACE}/pods/stuck"]["metadata"]["ownerReferences"] = []

    assert not run.end()
    assert () == run.leaving  # nobody deletes it
