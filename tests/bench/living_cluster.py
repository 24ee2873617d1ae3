"""`lockstep run` against a cluster in memory that lives by the clock: a bench starts it as its own.

Kueue lets go what it holds back after a while, operators create pods, the cluster keeps the limits
that manifests give, and Argo's first step launches the run of a chain. The first attempt on two
nodes goes on for ever; any other ends by itself. The last line of the answer has what is left.

By words: an image MISSING cannot be pulled, a claim FULL has no room, with a claim AWAY the API is
gone when something is to be deleted, and with KILLED the launcher is, once the run is there.
"""

import itertools
import json
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from lockstep.runs import on_cluster
from lockstep.terminal.output import Progress
from lockstep.workloads.launch.kubernetes import cluster_run
from lockstep.workloads.launch.kubernetes.cluster import UnreachableError
from lockstep.workloads.launch.kubernetes.cluster_run import ClusterRun
from lockstep.workloads.launch.kubernetes.conditions import Phase
from lockstep.workloads.launch.kubernetes.settings import JOB, MPIJOB, WORKFLOW, Kind, Settings
from lockstep.workloads.launch.kubernetes.submission import submission
from lockstep.workloads.spec import Layout, RunSpec
from tests.cluster.controllers import at, kueue
from tests.workloads.launch.kubernetes.conftest import NAMESPACE, RUN, FakeCluster, claim, node

NAME = RUN.lower()
LASTS_SECONDS = 0.2
QUEUED_SECONDS = {1: 1.5, 2: 0.3}
"""By nodes: where there is one, for longer than tests let a run take."""
MISSING, FULL, AWAY, KILLED = "r/missing:1", "full", "away", "killed"
NO_ROOM = "the archive /runs/x cannot be written: [Errno 28] No space left on device"


class LivingCluster(FakeCluster):
    """See above.

    Attributes:
        lasts: Seconds for which ranks run.
        held: Since when Kueue holds a run back; else when its pods began.
    """

    def __init__(self, spec: RunSpec, settings: Settings, lasts: float) -> None:
        super().__init__({
            NAMESPACE: {"metadata": {"name": "lockstep-runs"}},
            f"{NAMESPACE}/persistentvolumeclaims/{settings.claim}": claim(),
            **{each.group_path: {"resources": [{"name": each.plural}]}
               for each in (MPIJOB, JOB, WORKFLOW)},
            **{f"/api/v1/nodes/{name}": node(name) for name in "ab"},
        })  # fmt: skip
        self.spec, self.settings, self.lasts = spec, settings, lasts
        self.held = self.began = 0.0
        self.lock = threading.RLock()
        self.before = set(self.objects)

    def read(self, path: str, **query: str) -> dict[str, Any]:
        with self.lock:
            for each in (MPIJOB, JOB):
                if job := self.objects.get(each.path("lockstep-runs", NAME)):
                    self.turn(each.path("lockstep-runs", NAME), job)
            return super().read(path, **query)

    def create(self, path: str, manifest: Any) -> dict[str, Any]:
        with self.lock:
            made = super().create(path, manifest)
            self.held = self.began = time.monotonic()
        if manifest["kind"] == "Workflow":
            self.pod(f"{NAME}-run", role="step", node="a")
            threading.Thread(target=self.chain, daemon=True).start()
        return made

    def delete(self, path: str, uid: str = "") -> None:
        if self.settings.claim == AWAY:
            raise UnreachableError("the API server x does not answer: refused")
        with self.lock:
            super().delete(path, uid)

    def turn(self, path: str, job: dict[str, Any]) -> None:
        """What its operator and Kueue do next."""
        now, mpi = time.monotonic(), job["kind"] == "MPIJob"
        if kueue.is_suspended(job):
            if now - self.held >= QUEUED_SECONDS[self.spec.layout.nodes]:
                self.objects[path] = kueue.suspended(job, False)
            return
        if not any("-worker-" in each for each in self.objects):
            self.began = now
            waiting = {"reason": "ImagePullBackOff", "message": "not found"}
            bad = {"phase": "Pending", "containerStatuses": [
                {"image": MISSING, "state": {"waiting": waiting}}]}  # fmt: skip
            for index in range(self.spec.layout.nodes):
                self.pod(f"{NAME}-worker-{index}", node="ab"[index],
                         **(bad if self.settings.image == MISSING else {}))  # fmt: skip
            if mpi and self.settings.image != MISSING:
                self.pod(f"{NAME}-launcher-x", role="launcher", node="a")
            return
        if self.settings.claim == KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.settings.claim == FULL:
            self.says(f"{NAME}-worker-0", f"lockstep: {NO_ROOM}")
            job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
            return
        most = at(job, "spec.runPolicy.activeDeadlineSeconds" if mpi
                  else "spec.activeDeadlineSeconds")  # fmt: skip
        if now - self.began >= min(self.lasts, most):
            late = self.lasts > most
            kind = "Failed" if late else ("Succeeded" if mpi else "Complete")
            why = "DeadlineExceeded" if late else ""
            job["status"] = {"conditions": [{"type": kind, "status": "True", "reason": why}]}

    def says(self, pod: str, log: str) -> None:
        """The log of a pod, which goes with it."""
        self.objects[f"{NAMESPACE}/pods/{pod}/log"] = {"log": log, "metadata": {
            "uid": "log", "ownerReferences": [{"uid": pod}]}}  # fmt: skip

    def chain(self) -> None:
        """The first step of a Workflow, which outlives its pod by no look."""
        inner = Settings(
            self.settings.image, submission=self.settings.submission, step=True,
            timeout=self.settings.timeout, queue=self.settings.queue, kind=self.settings.kind,
        )  # fmt: skip
        run = ClusterRun(self, submission(self.spec, inner, ["true"]), RUN, inner)
        run.create()
        ended = run.wait(lambda stage, words: None)
        run.end()
        with self.lock:
            whole = self.objects.get(WORKFLOW.path("lockstep-runs", NAME))
            if whole is None:
                return
            finished = ended.phase is Phase.SUCCEEDED
            said = {"run": RUN, "ending": on_cluster.ENDINGS.get(ended.phase, "failed")}
            log = f"lockstep: {ended.reason}\n" + json.dumps(said, separators=(",", ":"))
            self.says(f"{NAME}-run", log)
            whole["status"] = {
                "phase": "Succeeded" if finished else "Failed",
                "message": "step run",
            }


def main() -> int:
    words = sys.argv[1:]
    given = dict(itertools.pairwise(words))
    cluster_run.POLL_SECONDS, cluster_run.GONE_SECONDS = 0.02, 2.0
    nodes, out = int(given["--nodes"]), Path(given["--out"])
    spec = RunSpec(RUN, "gpt", Layout(nodes, 1, nodes), 20, 0, device="cpu", pace=False)
    settings = Settings(
        given["--image"], "r/lockstep-watch:1", claim=given.get("--claim", "lockstep-runs"),
        submission="ours", timeout=float(given["--timeout"]),
        chain=given["--launcher"] == "argo", kind=Kind(given.get("--kind", "mpijob")),
        queue=given.get("--queue", ""),
    )  # fmt: skip
    begun = out.parent / "begun"
    endless = nodes == 2 and not begun.exists()
    begun.touch()
    cluster = LivingCluster(spec, settings, math.inf if endless else LASTS_SECONDS)
    answer = on_cluster.run(cluster, spec, settings, out, Progress(0.0))
    sys.stderr.write(f"lockstep: {answer.failure}\n" if answer.failure else "")
    left = sorted(set(cluster.objects) - cluster.before)
    sys.stdout.write(json.dumps({**answer.tree, "there": left}, separators=(",", ":")) + "\n")
    return answer.code


if __name__ == "__main__":
    sys.exit(main())
