"""Each part of starting, of a real program into which known delays were put.

Four ranks of a torch program: one comes late to the rendezvous, another is slow to load, and all
compile with a slow backend. The truth is not the ledger's: the program writes down, by
its own clock what it slept, and where; what its imports, the meeting itself and torch took besides
is measured by the same program. The goal: every part within 1 % of wall times ranks.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

RANKS = 4
LATE, LOAD, COMPILE = 6.0, 5.0, 3.0
"""Seconds: rank 1 comes so much later, rank 2 loads so much longer, each rank compiles so long."""
PROGRAM = f"""
import json, os, sys, time
begun = time.time()
import torch, torch.distributed as dist
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
marks = {{"slept_late": 0.0, "slept_loading": 0.0, "compiled": 0.0}}
def sleep(what, seconds):
    before = time.time()
    time.sleep(seconds)
    marks[what] += time.time() - before
def backend(graph, inputs):
    sleep("compiled", {COMPILE})
    return graph.forward
if rank == 1:
    sleep("slept_late", {LATE})
marks["ready"] = time.time()
dist.init_process_group("gloo")
marks["met"] = time.time()
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if rank == 2:
    sleep("slept_loading", {LOAD})
import torch._dynamo
fast = torch.compile(model, backend=backend)
before = time.time()
fast(torch.ones(4, 8))
marks["whole_compilation"] = time.time() - before
import lockstep
recorder = lockstep.recorder()
dist.barrier()
marks["first"] = time.time()
marks["begun"] = begun
for step in recorder.steps(range(120)):
    optimizer.zero_grad()
    fast(torch.ones(4, 8)).sum().backward()
    for one in model.parameters():
        dist.all_reduce(one.grad)
    time.sleep(0.05)
    optimizer.step()
with open(os.path.join(sys.argv[1], f"{{rank}}.json"), "w") as file:
    json.dump(marks, file)
dist.destroy_process_group()
"""
GOALS = {f"{name}_off_percent": 1.0 for name in ("program", "rendezvous", "load", "compile")} | {
    "unknown_percent": 1.0
}


def main() -> dict[str, float]:
    """How far each part is from what the program says of itself, in percent of wall times ranks."""
    with tempfile.TemporaryDirectory() as folder:
        return _measured(Path(folder))


def _measured(folder: Path) -> dict[str, float]:
    program, out = folder / "program.py", folder / "run"
    program.write_text(PROGRAM)
    subprocess.run(
        [sys.executable, "-m", "lockstep", "run", "--exec", "--nodes", "2", "--ranks-per-node", "2",
         "--no-verdict", "--out", str(out), "--", sys.executable, str(program), str(folder)],
        check=True, stdout=subprocess.DEVNULL, timeout=900,
    )  # fmt: skip
    (run,) = json.loads(subprocess.run(
        [sys.executable, "-m", "lockstep", "ledger", str(out), "-o", "json"],
        check=True, capture_output=True, text=True,
    ).stdout)["runs"]  # fmt: skip
    told = [row["starting"] for row in run["by_rank"]]
    truth = [_truth(json.loads((folder / f"{rank}.json").read_text())) for rank in range(RANKS)]
    off = {}
    for part in ("program", "rendezvous", "load", "compile"):
        told_seconds = sum(each[part] for each in told)
        true_seconds = sum(each[part] for each in truth)
        off[f"{part}_off_percent"] = 100 * abs(told_seconds - true_seconds) / run["rank_seconds"]
        sys.stdout.write(f"  {part:12} told {told_seconds:8.2f}  truth {true_seconds:8.2f}\n")
    waited = [each["rendezvous"] for rank, each in enumerate(told) if rank != 1]
    sys.stdout.write(f"  waited for the late rank ({LATE:g} s late): "
                     f"{', '.join(f'{each:.2f}' for each in waited)} s\n")  # fmt: skip
    sys.stdout.flush()
    unknown = sum(each["unknown"] for each in told)
    return off | {"unknown_percent": 100 * unknown / run["rank_seconds"]}


def _truth(marks: dict[str, float]) -> dict[str, float]:
    return {
        "program": marks["ready"] - marks["begun"],
        "rendezvous": marks["met"] - marks["ready"],
        "compile": marks["whole_compilation"],
        "load": marks["first"] - marks["met"] - marks["whole_compilation"],
    }
