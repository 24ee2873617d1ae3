"""The pairwise probe among 8 emulated nodes with a real bad link, a bad node, and none.

Links are those of network namespaces and veth devices (real packets, emulated faults; needs root).
A run is `lockstep run allreduce --nodes 8 --probe --fault ...`; what the probe names is compared
with what was injected.
"""

import json
import subprocess
import sys
import tempfile
from math import log2
from pathlib import Path
from typing import Any

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.network.capabilities import why_not

NODES, STEPS = 8, 15
RUN_SECONDS = 300
FAULTS: dict[str, tuple[str | None, list[list[str]]]] = {
    "healthy": (None, []),
    "late_link": ("link-delay:node=2,peer=5,delay=5ms", [["node-2", "node-5"]]),
    "narrow_link": ("link-bandwidth:node=1,peer=6,rate=200mbit", [["node-1", "node-6"]]),
    "late_node": ("link-delay:node=3,delay=5ms", [["node-3"]]),
}
"""Figure to fault and what must be named."""
MOST_ROUNDS = 2 * log2(NODES)
GOALS = {
    f"{name}_{figure}": goal
    for name in FAULTS
    for figure, goal in (("wrong", 0.0), ("rounds", MOST_ROUNDS))
}


def main() -> dict[str, float]:
    """Of each network: rounds, and whether anything else than the fault was named."""
    for kind in (FaultKind.LINK_DELAY, FaultKind.LINK_BANDWIDTH):
        if reason := why_not(kind):
            raise RuntimeError(reason)
    figures: dict[str, float] = {}
    for name, (fault, wanted) in FAULTS.items():
        probe = probed(fault)
        named = [one["nodes"] for one in probe["finding"]["culprits"]]
        sys.stderr.write(f"  {name}: {probe['finding']['text']}\n")
        figures[f"{name}_wrong"] = float(named != wanted)
        figures[f"{name}_rounds"] = float(probe["rounds"])
    return figures


def probed(fault: str | None) -> dict[str, Any]:
    """What the probe of a run found, from its results.json."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "archive"
        words = [
            sys.executable, "-m", "lockstep", "run", "allreduce", "--no-verdict",
            "--nodes", str(NODES), "--steps", str(STEPS), "--sizes", "1K:64K:2", "--probe",
            "--out", str(out),
        ]  # fmt: skip
        if fault is not None:
            words += ["--fault", f"{fault},from=10"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_SECONDS)
        if done.returncode:
            raise RuntimeError(f"the run ended with {done.returncode}: {done.stderr[-500:]}")
        found: dict[str, Any] = json.loads((out / "results.json").read_text())["probe"]
        return found
