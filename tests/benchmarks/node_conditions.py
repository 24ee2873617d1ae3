"""How long from a decision to conditions, annotation and event on a real Kubernetes API.

One finding after the other, with four hollow nodes, all on the loopback. The API server runs
without waiting for its disk. From `decide` to the answer of the last request; what watch and the
list of nodes take is not in it. Then a hundred nodes in one cycle, and the memory of who acts.
"""

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from lockstep.watch.kubernetes import view
from lockstep.watch.kubernetes.applying import Result, carried_out
from lockstep.watch.kubernetes.client import Cluster
from lockstep.watch.kubernetes.decide import decide
from lockstep.watch.kubernetes.shapes import Fault, Settings, State, WatchState, Write
from tests.cluster.asking import Api
from tests.cluster.control_plane import control_plane, missing

TRIALS = 200
MANY = 100
CROWD = 500
SETTINGS = Settings(same=2.0)
GOALS = {"p50_seconds": 0.05, "p99_seconds": 0.25, "hundred_nodes_seconds": 5.0,
         "rss_500_nodes_mib": 80.0}  # fmt: skip
MEMORY = """\
import resource, sys
from lockstep.watch.kubernetes import view
from lockstep.watch.kubernetes.client import Cluster
from lockstep.watch.kubernetes import program
from pathlib import Path
cluster = Cluster(Path(sys.argv[1]))
for _ in range(5):
    nodes = view.touchable(cluster.nodes(), selected=False)
print(len(nodes), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def main() -> dict[str, float]:
    if reason := missing():
        raise SystemExit(f"the benchmark needs a control plane: {reason}")
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder)) as plane:
        api = Api(plane.url, plane.tokens["admin"], plane.kubeconfig())
        cluster = Cluster(api.kubeconfig)
        figures = _one_by_one(cluster)
        with ExitStack() as stack:
            for number in range(CROWD - len(plane.nodes)):
                stack.enter_context(api.node(f"many-{number}"))
            figures["hundred_nodes_seconds"] = _hundred(cluster)
            count, resident = subprocess.run(
                [sys.executable, "-c", MEMORY, str(api.kubeconfig)],
                check=True, capture_output=True, text=True,
            ).stdout.split()  # fmt: skip
            assert int(count) == CROWD
            figures["rss_500_nodes_mib"] = float(resident)
    return figures


def _one_by_one(cluster: Cluster) -> dict[str, float]:
    """A new finding on one of the nodes each time: an event and a patch."""
    seconds, now = [], time.time()
    for trial in range(TRIALS):
        nodes = view.touchable(cluster.nodes(), selected=False)
        fault = Fault(f"xid-{trial % 8}", "xid", gpu=str(trial % 8))
        name = nodes[trial % len(nodes)].name
        now += 2000.0  # what was told before is over
        told = WatchState(now, 1.0, True, {node.name: now for node in nodes}, {name: (fault,)})
        state = State(gone={(n.uid, one): 0.0 for n in nodes for one in n.faults})
        begin = time.perf_counter()
        decision = decide(nodes, told, state, now, SETTINGS)
        first = next(one for one in decision.actions if one.node.name == name)
        _write(cluster, first, now)
        seconds.append(time.perf_counter() - begin)
        for other in decision.actions:
            if other is not first:
                _write(cluster, other, now)
    return {
        "p50_seconds": float(np.percentile(seconds, 50)),
        "p99_seconds": float(np.percentile(seconds, 99)),
        "max_seconds": max(seconds),
        "trials": TRIALS,
    }


def _hundred(cluster: Cluster) -> float:
    """A finding on each of a hundred of the nodes at once, as far as the breaker allows."""
    nodes = view.touchable(cluster.nodes(), selected=False)[:MANY]
    now = time.time() + 10_000_000.0
    faults = {node.name: (Fault("ecc-x", "ecc", gpu="0"),) for node in nodes}
    told = WatchState(now, 1.0, True, {node.name: now for node in nodes}, faults)
    begin = time.perf_counter()
    for one in decide(nodes, told, State(), now, SETTINGS).actions:
        _write(cluster, one, now)
    return time.perf_counter() - begin


def _write(cluster: Cluster, action: object, now: float) -> None:
    assert isinstance(action, Write)
    result, why = carried_out(cluster, action, now, lambda attempt: None, selected=False)
    assert result is Result.DONE, why
