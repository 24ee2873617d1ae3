"""The chart on a real API server: hollow nodes run no container, all else is real."""

import time
from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.release import COLLECTORS, NAME, VALUES, Release, until
from tests.deploy.chart.chart import key
from tests.machine import slowness

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    # The certificate of the control plane is its own.
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
GOAL_SECONDS = 30.0


@pytest.fixture
def release(cluster: ControlPlane) -> Iterator[Release]:
    found = Release(cluster)
    found.define_custom_resources()
    yield found
    found.uninstall()
    found.forget_custom_resources()


def test_a_release_from_install_to_nothing_left(release: Release) -> None:
    everywhere = dict.fromkeys(release.nodes, "Running")

    def runs_everywhere(component: str) -> bool:
        return everywhere == release.phases(component, COLLECTORS)

    with slowness() as machine:
        begun = time.monotonic()
        release.install(VALUES)
        until(lambda: runs_everywhere("collector"))
        took = time.monotonic() - begun
    assert took <= GOAL_SECONDS * machine.factor
    until(lambda: runs_everywhere("tuning"))
    for component in ("dashboard", "nodes"):
        until(lambda one=component: ["Running"] == list(release.phases(one).values()))
    assert 1 == len(release.phases("watch"))  # a hollow node has no subPath to mount
    assert [] == [key(each) for each in release.manifests() if release.read(each) is None]
    assert release.secret_bytes() < 1 << 20
    assert "kubernetes.io/metadata.name=monitoring" in release.notes  # of 1.20
    assert {"annotations": {}, "spec": {}} == release.lease()
    led = release.lead()
    assert "me" == led["spec"]["holderIdentity"]

    # Collectors get another argument, and one part goes.
    changed = {
        **VALUES,
        "nodeTuning": {},
        "collector": {**VALUES["collector"], "sources": ["procfs"]},
    }
    release.upgrade(changed)
    [daemons] = [each for each in release.manifests() if each["kind"] == "DaemonSet"]
    assert "--sources=procfs" in str(release.read(daemons))
    until(lambda: {} == release.phases("tuning", COLLECTORS))
    until(lambda: runs_everywhere("collector"))
    assert led == release.lease()

    release.helm.rollback(NAME, version=1, timeout=300)
    assert "--sources=procfs" not in str(release.read(daemons))
    until(lambda: runs_everywhere("tuning"))
    assert led == release.lease()
    assert [1, 2, 3] == sorted(one["revision"] for one in release.helm.history(NAME))

    manifests = release.manifests()
    release.uninstall()
    until(lambda: [] == release.left())  # namespaces end last
    assert [] == [key(each) for each in manifests if release.read(each) is not None]
