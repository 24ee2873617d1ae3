"""CPU of our tensor parallel against torch's DTensor and against half of one rank's work.

Two ranks, the same weights and tokens, forward and backward; the three take turns in random order
in one run. Figures are the least process CPU time of all rounds, gloo's threads included: what else
runs on the machine only adds to it.
"""

import json
import os
import random
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import loss_parallel

from lockstep.collector.contract import ring
from lockstep.workloads.models.configs import GptConfig, Style
from lockstep.workloads.models.gpt import Gpt, initialize
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.parallel.tensor import TensorParallel
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.ring_file import Identity
from tests.benchmarks.plain_gpt import copied, mean_loss, parallelized

RANKS = 2
BATCH, SEQUENCE, VOCABULARY, LAYERS = 8, 64, 512, 4
SIZES = {32: 40, 256: 24, 512: 10}
"""Hidden size to rounds."""
GOALS = {
    **{f"h{hidden}_own_over_dtensor": 1.0 for hidden in SIZES},
    **{f"h{hidden}_own_over_half_of_serial": 1.3 for hidden in SIZES if hidden >= 256},
}


def main() -> dict[str, float]:
    """Milliseconds a step, and ratios."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        children = []
        for rank in range(RANKS):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    found = _rank(rank, Path(folder))
                    (Path(folder) / f"answer-{rank}").write_text(json.dumps(found))
                    code = 0
                except BaseException:  # noqa: BLE001 - the parent only sees that it failed
                    traceback.print_exc()
                finally:
                    os._exit(code)
            children.append(pid)
        failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
        if failed:
            raise RuntimeError(f"{len(failed)} of {RANKS} ranks failed")
        answers = [json.loads((Path(folder) / f"answer-{r}").read_text()) for r in range(RANKS)]
    return {name: float(np.mean([one[name] for one in answers])) for name in answers[0]}


def _rank(rank: int, folder: Path) -> dict[str, float]:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=RANKS
    )
    recorder = StepRecorder(RingWriter(folder / ring.file_name(rank), _identity(rank)))
    recorder.start_step()
    figures: dict[str, float] = {}
    for hidden, rounds in SIZES.items():
        steps = _steps(hidden, rank, recorder)
        _agree(steps)
        cpu = _taking_turns(steps, rounds)
        figures |= {f"h{hidden}_{name}_milliseconds": 1e3 * value for name, value in cpu.items()}
        figures[f"h{hidden}_own_over_dtensor"] = cpu["own"] / cpu["dtensor"]
        figures[f"h{hidden}_own_over_half_of_serial"] = cpu["own"] / (cpu["serial"] / RANKS)
    dist.destroy_process_group()
    return figures


def _steps(hidden: int, rank: int, recorder: StepRecorder) -> dict[str, Callable[[], float]]:
    """One forward and backward of each kind; they return the loss."""
    heads = 4 if hidden < 256 else hidden // 64
    config = GptConfig(
        "bench", Style.GPT3, LAYERS, hidden, heads, heads, 4 * hidden, VOCABULARY, SEQUENCE
    )
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    comm = Comm(recorder, {"tp": mesh.get_group("tp")})
    parallel = TensorParallel(RANKS, rank, sequence=False, comm=comm)
    own, whole = Gpt(config, parallel), Gpt(config)
    initialize(own, 1, parallel)
    initialize(whole, 1)
    theirs = parallelized(copied(whole), mesh)
    dice = torch.Generator().manual_seed(1)
    tokens = torch.randint(VOCABULARY, (BATCH, SEQUENCE + 1), generator=dice)
    ids, targets = tokens[:, :-1], tokens[:, 1:].contiguous()

    def ours(model: Gpt) -> float:
        model.zero_grad()
        loss = model.mean_loss(model(ids), targets)
        torch.autograd.backward(loss)
        return loss.item()

    def dtensor() -> float:
        theirs.zero_grad()
        with loss_parallel():
            loss = mean_loss(theirs(ids), targets)
            torch.autograd.backward(loss)
        found = loss.detach()
        return float(found.full_tensor() if isinstance(found, DTensor) else found)

    return {"own": lambda: ours(own), "dtensor": dtensor, "serial": lambda: ours(whole)}


def _agree(steps: dict[str, Callable[[], float]]) -> None:
    losses = {name: step() for name, step in steps.items()}
    if max(losses.values()) - min(losses.values()) > 1e-4:
        raise AssertionError(f"not the same model: {losses}")


def _taking_turns(steps: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    dice = random.Random(1)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name in dice.sample(list(steps), len(steps)):
            dist.barrier()
            began = process_time()
            steps[name]()
            times[name].append(process_time() - began)
    return {name: min(values) for name, values in times.items()}


def _identity(rank: int) -> Identity:
    return Identity(
        "benchmark", "node-0", "", rank, RANKS, rank, 0, 0, 0, rank, -1, start_wall_ns=0,
        wall_minus_monotonic_ns=0,
    )  # fmt: skip
