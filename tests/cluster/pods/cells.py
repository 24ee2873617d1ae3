"""A benchmark whose cells are MPIJobs in pods."""

import subprocess
import sys
from pathlib import Path

from tests.cluster.pods.real_nodes import REGISTRY, RealNodes

SPEC = """
[bench]
name = "pods"
launcher = "kubernetes"
timeout = 600
options = {{device = "cpu", kubeconfig = "{kubeconfig}", steps = 60, device-seconds = 0.1}}
[workloads.gpt]
[matrix]
nodes = [2]
images = ["{registry}/lockstep-workloads:0.2.0"]
settings = [{{}}, {{fault = "compute:rank=1,factor=2,from=20"}}]
"""


class Benchmark:
    """`lockstep bench run` of two cells, healthy and with a slow rank; it begins at once.

    Attributes:
        folder: Its results.
    """

    def __init__(self, nodes: RealNodes, folder: Path) -> None:
        file = folder / "pods.toml"
        file.write_text(SPEC.format(kubeconfig=nodes.kubeconfig, registry=REGISTRY))
        self.folder = file.with_suffix("")
        self._words = (sys.executable, "-m", "lockstep", "bench", "run", str(file), "--out",
                       str(self.folder))  # fmt: skip
        self._running = self._begun()

    def ended(self) -> str:
        """What it said on standard error; it ended well."""
        _, said = self._running.communicate(timeout=900)
        assert 0 == self._running.returncode, said
        return said

    def again(self) -> str:
        """The same command once more, to its end."""
        self._running = self._begun()
        return self.ended()

    def stop(self) -> None:
        """End it if it runs still."""
        if self._running.poll() is None:
            self._running.terminate()
        self._running.communicate(timeout=180)

    def _begun(self) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        return subprocess.Popen(self._words, stdout=pipe, stderr=pipe, text=True)
