"""`lockstep run` against a cluster in memory: a program that a bench starts as its own command.

The run ends at once; the Job that measures it says a row, as a pod beside the archive would.
First argument: what the measuring pod says; then how its Job ends.
"""

import json
import sys
from pathlib import Path
from typing import Any

from lockstep.runs import on_cluster
from lockstep.terminal.output import Progress
from lockstep.workloads.launch.kubernetes import cluster_run, workflow
from lockstep.workloads.launch.kubernetes.settings import Settings
from lockstep.workloads.spec import Layout, RunSpec
from tests.workloads.launch.kubernetes.conftest import NAMESPACE, RUN, FakeCluster, claim, node

NAME = RUN.lower()
DIGEST = f"sha256:{'a' * 64}"
JOBS = "/apis/batch/v1/namespaces/lockstep-runs/jobs"


class Cluster(FakeCluster):
    def __init__(self, said: str, condition: str) -> None:
        super().__init__({
            NAMESPACE: {"metadata": {"name": "lockstep-runs"}},
            f"{NAMESPACE}/persistentvolumeclaims/lockstep-runs": claim(),
            "/apis/kubeflow.org/v2beta1": {"resources": [{"name": "mpijobs"}]},
            "/apis/batch/v1": {"resources": [{"name": "jobs"}]},
            **{f"/api/v1/nodes/{name}": node(name) for name in "ab"},
        })  # fmt: skip
        self.said, self.condition = said, condition

    def create(self, path: str, manifest: Any) -> dict[str, Any]:
        made = super().create(path, manifest)
        name = manifest.get("metadata", {}).get("name", "")
        if manifest["kind"] == "MPIJob":
            ended = {"type": "Succeeded", "status": "True"}
            self.objects[f"{path}/{name}"]["status"] = {"conditions": [ended]}
            status = [{"name": "ranks", "imageID": f"r/lockstep-workloads@{DIGEST}"}]
            for index, where in enumerate("ab"):
                self.pod(f"{NAME}-worker-{index}", node=where, containerStatuses=status)
        if manifest["kind"] == "Job":
            ended = {"type": self.condition, "status": "True", "message": "it failed"}
            self.objects[f"{path}/{name}"]["status"] = {"conditions": [ended]}
            pod = f"{name}-x"
            self.pod(pod, role="step")
            owner = [{"uid": made["metadata"]["uid"]}]
            self.objects[f"{NAMESPACE}/pods/{pod}"]["metadata"]["ownerReferences"] = owner
            self.objects[f"{NAMESPACE}/pods/{pod}/log"] = {"log": self.said, "metadata": {
                "uid": "log", "ownerReferences": [{"uid": pod}]}}  # fmt: skip
        return made


def main() -> int:
    said, condition, *words = sys.argv[1:]
    if "run" not in words[:1]:
        return 0
    cluster_run.POLL_SECONDS = workflow._POLL_SECONDS = 0.01
    cluster_run.GONE_SECONDS = 1.0
    cluster = Cluster(said, condition)
    before = set(cluster.objects)
    spec = RunSpec(RUN, "gpt", Layout(2, 1, 2), 20, 0, device="cpu", pace=False)
    settings = Settings("r/i:1", "r/lockstep-watch:1", measured="--measure" in words)
    out = Path(words[words.index("--out") + 1])
    answer = on_cluster.run(cluster, spec, settings, out, Progress())
    left = sorted(set(cluster.objects) - before)
    sys.stdout.write(json.dumps({**answer.tree, "there": left}, separators=(",", ":")) + "\n")
    return answer.code


if __name__ == "__main__":
    sys.exit(main())
