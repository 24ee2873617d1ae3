"""Values that contradict a cluster: `lockstep doctor --cluster` and `helm test` say the sentence.

On a real API server with its controllers and its scheduler; what only a kubelet or a registry says,
the tests say in their place, in Kubernetes' own words (more in tests/lockstep/doctor).
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from helm_python import HelmError

from tests.cluster.control_plane import ControlPlane
from tests.cluster.release import COLLECTORS, NAMESPACE, RUNS, VALUES, Release, until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
ACCOUNT = f"{NAMESPACE}:lockstep-test"
Told = dict[str, str]


@pytest.fixture
def release(cluster: ControlPlane) -> Iterator[Release]:
    found = Release(cluster)
    found.define_custom_resources()
    yield found
    found.uninstall()
    found.delete_test()
    until(lambda: [] == found.left(), 120.0)
    found.forget_custom_resources()


@pytest.fixture
def asked(cluster: ControlPlane, lockstep: Callable[..., SimpleNamespace]) -> Callable[..., Any]:
    """`asked()` -> (exit code, {part: sentence}), by default with the rights of `helm test`."""

    def ask(who: str = ACCOUNT, wait: int = 0) -> tuple[int, Told]:
        answer = lockstep(
            "doctor", "--cluster", "--kubeconfig", str(cluster.kubeconfig(who)), "-o", "json",
            "--wait", str(wait), *(f"--namespace={each}" for each in (NAMESPACE, COLLECTORS, RUNS)),
        )  # fmt: skip
        parts = json.loads(answer.out)["parts"]
        return answer.code, {one["name"].rpartition("/")[2]: one["found"] for one in parts}

    return ask


def changed(**parts: Mapping[str, Any]) -> dict[str, Any]:
    return {**VALUES, **{name: {**VALUES.get(name, {}), **told} for name, told in parts.items()}}


def eventually(asked: Callable[[], tuple[int, Told]], part: str, words: str) -> Told:
    """Events come a moment later."""
    deadline = time.monotonic() + 30
    while True:
        code, told = asked()
        if words in told.get(part, ""):
            assert 1 == code
            return told
        assert time.monotonic() < deadline, told
        time.sleep(0.5)


def test_values_that_contradict_the_cluster_are_told_by_helm_test_as_well(
    release: Release, asked: Callable[..., Any]
) -> None:
    # No claim, no runtime class, no node that is chosen, and a registry that refuses.
    release.install(
        changed(
            watch={"persistence": {"enabled": True, "existingClaim": "nobodys"}},
            collector={"nvml": {"enabled": True, "runtimeClassName": "nowhere"}},
            nodes={"nodeSelector": {"disk": "none"}},
        )
    )
    until(lambda: bool(release.phases("dashboard")))
    [pages] = [each for each in release.phases_by_name() if each.startswith("lockstep-dashboard-")]
    waiting = {"reason": "ImagePullBackOff", "message": "unexpected status: 401 Unauthorized"}
    release.said_of(pages, {"containerStatuses": [{
        "name": "dashboard", "image": "lockstep-dashboard:0.1.0", "imageID": "", "ready": False,
        "restartCount": 0, "state": {"waiting": waiting},
    }]})  # fmt: skip

    def admin() -> tuple[int, Told]:
        return asked("admin")  # the test's own account has its rights only while it runs

    eventually(admin, "lockstep-watch", "there is no claim nobodys in namespace of-the-chart")
    eventually(admin, "lockstep-collector", "the cluster has no runtime class nowhere")
    eventually(admin, "lockstep-dashboard", "the registry refuses image lockstep-dashboard:0.1.0")
    told = eventually(admin, "lockstep-nodes", "no node is chosen by nodes.nodeSelector")
    code, without = asked()
    assert 1 == code
    assert "may not list" in without[f"namespace {NAMESPACE}"]
    heard: list[tuple[int, Told]] = []

    def says() -> int:
        heard.append(asked())
        return heard[-1][0]

    with pytest.raises(HelmError):
        release.test(says)

    [(code, by_helm)] = heard
    parts = [f"lockstep-{each}" for each in ("watch", "collector", "dashboard", "nodes")]
    assert (1, [told[each] for each in parts]) == (code, [by_helm[each] for each in parts])
    # The pod that failed stays for its log, and nothing else of the test.
    assert "lockstep-test" in release.phases_by_name()
    assert not [each for each in release.left() if "Role" in each and "lockstep-test" in each]
