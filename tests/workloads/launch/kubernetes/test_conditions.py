"""Conditions decide how a run ended, and pods say which of them failed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.launch.kubernetes import conditions
from lockstep.workloads.launch.kubernetes.conditions import Phase, Pod


def told(*true: str, message: str = "", **status: Any) -> dict[str, Any]:
    ended = [{"type": each, "status": "True", "reason": "R", "message": message} for each in true]
    created = {"type": "Created", "status": "True"}
    return {"status": {"conditions": [created, *ended], **status}}


def container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "ranks", "image": "r/i:1", "state": state}]}


def pod(**status: Any) -> Pod:
    metadata = {"name": "run-worker-1", "labels": {"lockstep.example/role": "worker"}}
    return conditions.pod({"metadata": metadata, "spec": {"nodeName": "gpu-7"}, "status": status})


def test_conditions_decide_and_replica_statuses_do_not() -> None:
    # kubeflow/mpi-operator, issue 552: active and failed at once.
    confused = {"replicaStatuses": {"Launcher": {"active": 1, "failed": 1}}}

    assert None is conditions.ended(told("Running", **confused))
    assert (Phase.SUCCEEDED, "") == conditions.ended(told("Running", "Succeeded", **confused))
    assert (Phase.FAILED, "R: it broke") == conditions.ended(told("Failed", message="it broke"))


@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        (told("Complete"), Phase.SUCCEEDED),
        (told("Complete", "Failed"), Phase.FAILED),
        ({"status": {"phase": "Succeeded"}}, Phase.SUCCEEDED),
        ({"status": {"phase": "Error", "message": "m"}}, Phase.FAILED),
        ({"status": {"phase": "Running"}}, None),
        ({}, None),
    ],
)
def test_jobs_and_workflows_end_as_their_api_says(
    whole: dict[str, Any], expected: Phase | None
) -> None:
    ended = conditions.ended(whole)

    assert expected == (None if ended is None else ended[0])


def test_a_pod_tells_when_it_was_placed_and_when_it_ran() -> None:
    placed = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:05Z",
    }
    ran = container(terminated={"exitCode": 0, "startedAt": "2026-01-01T00:00:25Z"})
    told = pod(conditions=[placed], **ran)
    again = pod(conditions=[{**placed, "status": "False"}],
                containerStatuses=[{**ran["containerStatuses"][0], "restartCount": 1}])  # fmt: skip

    assert ("2026-01-01T00:00:05Z", "2026-01-01T00:00:25Z") == (told.placed, told.ran)
    # Of a container that was started again its first start is not told any more.
    assert ("", "") == (again.placed, again.ran)


def test_a_failed_worker_is_named_with_its_node_and_its_code() -> None:
    killed = pod(phase="Failed", **container(terminated={"exitCode": 137, "reason": "OOMKilled"}))
    evicted = pod(phase="Failed", reason="Evicted", message="The node was low on memory.")

    assert "worker run-worker-1 on node gpu-7 ended with code 137 (OOMKilled)" == (
        conditions.trouble([killed])
    )
    assert "failed: Evicted: The node was low on memory." == evicted.failed
    assert "" == conditions.trouble([pod(phase="Running", **container(running={}))])


def test_a_container_that_is_not_the_ranks_is_named() -> None:
    state = {"terminated": {"exitCode": 1, "reason": "Error"}}
    failed = pod(phase="Failed", initContainerStatuses=[{"name": "rings", "state": state}])

    assert "ended with code 1 in its container rings" == failed.failed


def beside(**collector: Any) -> dict[str, Any]:
    return {"containerStatuses": [
        {"name": "ranks", "state": {"running": {}}}, {"name": "collector", "state": collector},
    ]}  # fmt: skip


def test_a_dead_collector_is_noted_and_is_not_the_ranks_death() -> None:
    killed = pod(
        phase="Running", **beside(terminated={"exitCode": 137, "reason": "OOMKilled"})
    )  # fmt: skip

    assert ("", "") == (killed.failed, conditions.trouble([killed]))
    assert (
        "the collector of run-worker-1 on node gpu-7 ended with code 137 (OOMKilled): what it saw"
        " ends there"
    ) == killed.noted
    assert "" == pod(phase="Running", **beside(running={})).noted


def test_a_collector_that_never_starts_is_not_hopeless_for_the_ranks() -> None:
    assert not pod(phase="Running", **beside(waiting={"reason": "CreateContainerError"})).hopeless


def test_a_pod_that_failed_by_its_collector_alone_says_so() -> None:
    one = pod(phase="Failed", **beside(terminated={"exitCode": 1, "reason": "Error"}))

    assert "failed: its collector ended with code 1" == one.failed


def test_the_collector_of_a_pod_that_ends_is_not_missed() -> None:
    ended = {"terminated": {"exitCode": 143}}
    deleted = {
        "metadata": {"name": "w", "deletionTimestamp": "2026"},
        "status": {"phase": "Running", **beside(**ended)},
    }

    assert "" == conditions.pod(deleted).noted
    assert "" == pod(phase="Succeeded", **beside(**ended)).noted


def test_an_image_that_cannot_be_pulled_is_hopeless_and_says_which() -> None:
    first = pod(phase="Pending", **container(waiting={"reason": "ErrImagePull"}))
    again = pod(
        phase="Pending", **container(waiting={"reason": "ImagePullBackOff", "message": "no such"})
    )

    assert not first.hopeless
    assert again.hopeless
    assert "r/i:1: ImagePullBackOff: no such" == again.waits_for


def test_a_pod_without_room_waits_and_says_why() -> None:
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4"}
    waiting = pod(phase="Pending", conditions=[why])

    assert (False, "Unschedulable: 0/4") == (waiting.hopeless, waiting.waits_for)
    assert "Unschedulable: 0/4 (and 1 more)" == conditions.waits([waiting, waiting])


def test_a_worker_that_vanished_is_told() -> None:
    running = pod(phase="Running")

    assert [running] == conditions.gone({running.name: running}, [])
    assert [] == conditions.gone({running.name: running}, [running])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@given(phase=st.text(max_size=8), reason=st.text(max_size=400), message=JSON)
def test_words_of_a_pod_are_short_and_in_one_line(phase: str, reason: str, message: Any) -> None:
    one = pod(phase=phase, **container(waiting={"reason": reason, "message": message}))

    assert "\n" not in one.waits_for
    assert len(one.waits_for) <= 400
