"""A chain: its first step puts the run there from inside of it, and analysis and report follow."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lockstep.workloads.launch.kubernetes.conditions import Phase
from lockstep.workloads.launch.kubernetes.settings import Settings
from lockstep.workloads.launch.kubernetes.submission import submission
from lockstep.workloads.launch.kubernetes.workflow import ON_TOP_SECONDS, STEP_SECONDS
from lockstep.workloads.spec import RunSpec
from tests.cluster.controllers import kueue
from tests.workloads.launch.kubernetes.conftest import NAMESPACE, RUN, FakeCluster
from tests.workloads.launch.kubernetes.story import Told, started

NAME = RUN.lower()
RUNS = "namespaces/lockstep-runs"
JOB = f"/apis/kubeflow.org/v2beta1/{RUNS}/mpijobs/{NAME}"
CHAIN = f"/apis/argoproj.io/v1alpha1/{RUNS}/workflows/{NAME}"


@pytest.fixture
def chain(settings: Settings) -> Settings:
    return replace(settings, chain=True, submission="ours")


@pytest.fixture
def step(settings: Settings) -> Settings:
    return replace(settings, submission="ours", step=True)


@pytest.fixture
def told() -> Told:
    return Told([])


def workers(cluster: FakeCluster) -> None:
    for index in range(4):
        cluster.pod(f"{NAME}-worker-{index}", node=f"gpu-{index}")


def says(cluster: FakeCluster, path: str, **status: Any) -> None:
    cluster.objects[path]["status"] = status


SUCCEEDED = {"conditions": [{"type": "Succeeded", "status": "True"}]}


def test_the_launcher_in_a_step_leaves_nothing_of_its_own_and_succeeds(
    cluster: FakeCluster, spec: RunSpec, chain: Settings, step: Settings, told: Told
) -> None:
    started(cluster, spec, chain, {})
    cluster.pod(f"{NAME}-run-1", role="step", node="gpu-0")
    before = set(cluster.objects)
    inner = started(
        cluster, spec, step,
        {4: partial(workers, cluster), 20: partial(says, cluster, JOB, **SUCCEEDED)},
    )  # fmt: skip
    ended = inner.wait(told)

    assert (Phase.SUCCEEDED, "") == (ended.phase, ended.reason)
    assert f"{NAME}-run-1" not in {each.name for each in ended.pods}
    assert inner.end()
    assert before == set(cluster.objects)


def test_a_chain_goes_on_when_its_run_has_ended_and_its_workers_are_gone(
    cluster: FakeCluster, spec: RunSpec, chain: Settings, step: Settings, told: Told
) -> None:
    before = set(cluster.objects)
    state = {"terminated": {"exitCode": 1, "reason": "Error"}}

    def fails() -> None:
        cluster.pod(
            f"{NAME}-worker-1", phase="Failed",
            containerStatuses=[{"name": "ranks", "state": state}],
        )  # fmt: skip

    def runs() -> None:
        started(cluster, spec, step, {})
        workers(cluster)

    outer = started(
        cluster, spec, chain,
        {
            4: lambda: cluster.pod(f"{NAME}-run-1", role="step"), 10: runs, 40: fails,
            110: lambda: cluster.delete(JOB),
            112: lambda: cluster.pod(f"{NAME}-analyze-1", role="step"),
            900: partial(says, cluster, CHAIN, phase="Succeeded"),
        },
    )  # fmt: skip
    ended = outer.wait(told)

    assert (Phase.SUCCEEDED, "") == (ended.phase, ended.reason)
    assert "failing" not in told.stages
    assert 900 <= outer.clock() < 904
    assert outer.end()
    assert before == set(cluster.objects)


def test_a_chain_that_fails_names_its_failed_workers_and_not_those_that_went(
    cluster: FakeCluster, spec: RunSpec, chain: Settings, step: Settings, told: Told
) -> None:
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}

    def runs() -> None:
        started(cluster, spec, step, {})
        workers(cluster)

    def fails() -> None:
        del cluster.objects[f"{NAMESPACE}/pods/{NAME}-worker-0"]
        cluster.pod(
            f"{NAME}-worker-1", node="gpu-1",
            containerStatuses=[{"name": "ranks", "state": state}],
        )  # fmt: skip
        says(cluster, CHAIN, phase="Failed", message="step run")

    ended = started(cluster, spec, chain, {4: runs, 20: fails}).wait(told)

    killed = f"worker {NAME}-worker-1 on node gpu-1 ended with code 137 (OOMKilled)"
    assert f"{killed}; Failed: step run" == ended.reason


def test_a_chain_has_time_for_its_analysis_beyond_the_timeout_of_its_run(
    cluster: FakeCluster, spec: RunSpec, chain: Settings, told: Told
) -> None:
    outer = started(
        cluster, spec, replace(chain, timeout=100.0),
        {4: lambda: cluster.pod(f"{NAME}-run-1", role="step")},
    )  # fmt: skip
    ended = outer.wait(told)

    assert (Phase.LATE, "it took longer than --timeout 100") == (ended.phase, ended.reason)
    assert outer.clock() > 100 + chain.start_timeout + ON_TOP_SECONDS


def limits(spec: RunSpec, settings: Settings) -> dict[str, int | None]:
    """What each step may take from the start of its pod; of the Workflow as a whole, nothing."""
    whole = submission(spec, settings, ["true"]).whole["spec"]
    assert "activeDeadlineSeconds" not in whole
    return {each["name"]: each.get("activeDeadlineSeconds") for each in whole["templates"]}


def test_limits_are_those_of_steps_that_run_and_none_counts_the_queue(
    spec: RunSpec, chain: Settings
) -> None:
    chain = replace(chain, timeout=100.0, start_timeout=50.0)
    others = {"chain": None, "clean-up": None,
              **dict.fromkeys(("analyze", "report", "measure"), STEP_SECONDS)}  # fmt: skip

    assert {**others, "run": 150 + STEP_SECONDS} == limits(spec, chain)
    assert {**others, "run": None} == limits(spec, replace(chain, queue="gpus"))
    waits = replace(chain, queue="gpus", queue_timeout=3600.0)
    assert {**others, "run": 3750 + STEP_SECONDS} == limits(spec, waits)


def test_a_chain_whose_run_is_queued_for_hours_says_so_and_its_limit_has_not_begun(
    cluster: FakeCluster, spec: RunSpec, chain: Settings, step: Settings, told: Told
) -> None:
    hours = 7_200
    chain, step = (replace(each, queue="gpus", timeout=100.0) for each in (chain, step))

    def let_go() -> None:
        cluster.objects[JOB] = kueue.suspended(cluster.objects[JOB], False)
        workers(cluster)

    outer = started(
        cluster, spec, chain,
        {
            4: lambda: cluster.pod(f"{NAME}-run-1", role="step"),
            8: lambda: started(cluster, spec, step, {}),
            hours: let_go, hours + 90: partial(says, cluster, CHAIN, phase="Succeeded"),
        },
    )  # fmt: skip
    ended = outer.wait(told)

    assert Phase.SUCCEEDED is ended.phase
    assert "queued" in told.stages
    assert hours - 10 < ended.queued <= hours


def test_a_chain_that_somebody_stops_by_argo_was_stopped(
    cluster: FakeCluster, spec: RunSpec, chain: Settings, told: Told
) -> None:
    def stopped() -> None:
        cluster.objects[CHAIN]["spec"]["shutdown"] = "Stop"
        says(cluster, CHAIN, phase="Failed", message="Stopped with strategy 'Stop'")

    ended = started(cluster, spec, chain, {20: stopped}).wait(told)

    assert Phase.STOPPED is ended.phase
    assert "Failed: Stopped with strategy 'Stop'" == ended.reason


def test_a_chain_one_of_whose_steps_took_too_long_on_its_node_was_too_late(
    cluster: FakeCluster, spec: RunSpec, chain: Settings, told: Told
) -> None:
    def late() -> None:
        cluster.pod(f"{NAME}-analyze-1", role="step", node="a", phase="Failed",
                    reason="DeadlineExceeded", message="Pod was active too long")  # fmt: skip
        says(cluster, CHAIN, phase="Failed", message="child failed")

    ended = started(cluster, spec, chain, {20: late}).wait(told)

    assert Phase.LATE is ended.phase
    assert f"step {NAME}-analyze-1 on node a failed: DeadlineExceeded" in ended.reason


def test_a_chain_that_is_ended_waits_for_the_run_that_its_step_still_created(
    cluster: FakeCluster, spec: RunSpec, chain: Settings, settings: Settings
) -> None:
    before = set(cluster.objects)
    late = replace(settings, submission="ours")
    outer = started(cluster, spec, chain, {1: lambda: started(cluster, spec, late, {})})
    cluster.pod(f"{NAME}-run-1", role="step")
    cluster.objects[f"{NAMESPACE}/pods/{NAME}-run-1"]["metadata"]["ownerReferences"] = []

    def ends() -> None:
        del cluster.objects[f"{NAMESPACE}/pods/{NAME}-run-1"]

    outer.pause.__self__.happens[3] = ends  # type: ignore[attr-defined]
    assert outer.end()
    assert before == set(cluster.objects)
