"""Seconds from `helm install` to a collector on 4 hollow nodes, upgrade, rollback, uninstall.

The API server, its controllers and scheduler are real; a hollow node runs no container.
"""

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from tests.cluster.control_plane import control_plane, missing
from tests.cluster.release import COLLECTORS, NAME, VALUES, Release, until

NODES = 4
GOALS = {
    "install to a collector Running on each of 4 hollow nodes (s)": 30.0,
    "objects left after uninstall": 0.0,
}


def main() -> dict[str, float]:
    """The figures.

    Raises:
        SystemExit: There is no control plane here.
    """
    if reason := missing():
        raise SystemExit(reason)
    warnings.filterwarnings("ignore", "Unverified HTTPS request")
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder), NODES) as plane:
        release = Release(plane)
        release.define_custom_resources()
        return _measured(release)


def _measured(release: Release) -> dict[str, float]:
    everywhere = dict.fromkeys(release.nodes, "Running")

    def runs() -> bool:
        return everywhere == release.phases("collector", COLLECTORS)

    figures = {"helm install alone (s)": _seconds(lambda: release.install(VALUES))}
    figures["install to a collector Running on each of 4 hollow nodes (s)"] = figures[
        "helm install alone (s)"
    ] + until(runs)
    other = {**VALUES, "collector": {**VALUES["collector"], "sources": ["procfs"]}}
    figures["upgrade (s)"] = _seconds(lambda: release.upgrade(other))
    figures["rollback (s)"] = _seconds(lambda: release.helm.rollback(NAME, version=1, timeout=60))
    figures["kB of a release's Secret"] = release.secret_bytes() / 1000
    uninstall = _seconds(release.uninstall)
    nothing_left = until(lambda: [] == release.left())
    figures["uninstall until nothing is there (s)"] = uninstall + nothing_left
    figures["objects left after uninstall"] = float(len(release.left()))
    return figures


def _seconds(what: Callable[[], object]) -> float:
    begun = time.monotonic()
    what()
    return time.monotonic() - begun
