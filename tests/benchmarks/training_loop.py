"""Thread CPU time of the whole loop against plain torch on the same work, on one and two ranks.

Same weights, tokens, AdamW, clipping and schedule; plain torch has none of the groups, phases,
records, devices and tags. Each step is taken by both, in random order, in one process.
"""

import json
import os
import random
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from lockstep.collector.contract import ring
from lockstep.workloads.data.loader import Loader
from lockstep.workloads.data.prepare import prepared
from lockstep.workloads.loop.loop import Loop
from lockstep.workloads.loop.rank import RankJob, accelerator
from lockstep.workloads.models.configs import CONFIGS, GptConfig, Style
from lockstep.workloads.models.gpt_setup import ModelParts
from lockstep.workloads.models.optimizer import BETAS, CLIP, WEIGHT_DECAY
from lockstep.workloads.parallel import mesh
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.ring_file import Identity
from lockstep.workloads.spec import Layout, RunSpec, Training
from tests.benchmarks.plain_gpt import PlainGpt, copied, mean_loss

NANOGPT = GptConfig("nanogpt-cpu", Style.GPT3, 4, 128, 4, 4, 512, 64, 64)
"""nanoGPT's recipe for a CPU: 4 layers of 4 heads, 128 wide, 64 tokens, batches of 12."""
BATCH = 12
STEPS, SETTLING = 160, 20
RESAMPLES = 2000
RANKS = (1, 2)
GOALS = {f"added_percent_on_{ranks}": 3.0 for ranks in RANKS}


@dataclass(frozen=True)
class Plain:
    """nanoGPT's loop: forward, backward, all-reduce, clip, AdamW."""

    model: PlainGpt
    adam: torch.optim.AdamW
    parts: ModelParts
    loader: Loader[Any]
    ranks: int

    def step(self, number: int) -> float:
        """One step; returns the loss."""
        batch = torch.from_numpy(self.loader.next())
        loss = mean_loss(self.model(batch[:, :-1]), batch[:, 1:])
        self.adam.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        if self.ranks > 1:
            gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
            flat = _flatten_dense_tensors(gradients)  # type: ignore[no-untyped-call]
            dist.all_reduce(flat)
            flat.div_(self.ranks)
            summed = _unflatten_dense_tensors(flat, gradients)  # type: ignore[no-untyped-call]
            torch._foreach_copy_(gradients, list(summed))
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP, foreach=True)
        for group in self.adam.param_groups:
            group["lr"] = self.parts.optimizer._rate(number)
        self.adam.step()
        return loss.item()


def main() -> dict[str, float]:
    """Thread CPU milliseconds a step, and what ours adds in percent of plain torch."""
    figures: dict[str, float] = {}
    for ranks in RANKS:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
            pairs = _run(ranks, Path(name))
        ours, plain = pairs[:, 0], pairs[:, 1]
        added = 100 * (_trimmed(ours - plain) / _trimmed(plain))
        low, high = _interval(ours, plain)
        figures |= {
            f"plain_milliseconds_on_{ranks}": 1e3 * _trimmed(plain),
            f"added_percent_on_{ranks}": added,
            f"added_percent_low_on_{ranks}": low,
            f"added_percent_high_on_{ranks}": high,
        }
    return figures


def _run(ranks: int, folder: Path) -> np.ndarray:
    """(steps · ranks, 2) thread CPU seconds of ours and of plain torch."""
    CONFIGS[NANOGPT.name] = NANOGPT
    training = Training(model=NANOGPT.name, micro_batch=BATCH)
    spec = RunSpec("run", "gpt", Layout(1, ranks, ranks), STEPS, 1, training, pace=False)
    dataset = prepared(spec, folder)
    children = []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                found = _rank(spec, rank, folder, dataset)
                (folder / f"answer-{rank}").write_text(json.dumps(found))
                code = 0
            except BaseException:  # noqa: BLE001 - the parent only sees that it failed
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(pid)
    failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
    if failed:
        raise RuntimeError(f"{len(failed)} of {ranks} ranks failed")
    answers = [json.loads((folder / f"answer-{rank}").read_text()) for rank in range(ranks)]
    return np.concatenate([np.array(one) for one in answers])


def _rank(spec: RunSpec, rank: int, folder: Path, dataset: Path) -> list[tuple[float, float]]:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the loop's log lines
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    world = spec.layout.world
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world
    )
    recorder = StepRecorder(RingWriter(folder / ring.file_name(rank), _identity(rank, world)))
    groups = mesh.build(spec.layout)
    job = RankJob(spec, rank, folder, f"file://{folder}/rendezvous", dataset, folder, 2, 0)
    where = accelerator(spec, rank)
    loop = Loop(job, where, recorder, Comm(recorder, groups.groups), groups, None)
    parts = loop._parts
    assert isinstance(parts, ModelParts)
    model = copied(parts.chunks[0])
    adam = torch.optim.AdamW(
        model.parameters(), lr=1.0, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True
    )
    plain = Plain(model, adam, parts, Loader(parts.batch, 0), world)
    loader = Loader(parts.batch, 0)
    pairs = _paired(lambda step: loop._step(step, step, loader), plain.step)
    for one in (loader, plain.loader):
        one.close()
    _agree(parts, model)
    dist.destroy_process_group()
    return pairs[SETTLING:]


def _paired(
    ours: Callable[[int], object], plain: Callable[[int], object]
) -> list[tuple[float, float]]:
    dice = random.Random(1)
    pairs = []
    for step in range(STEPS):
        taken = [0.0, 0.0]
        for which in dice.sample((0, 1), 2):
            began = thread_time()
            (ours, plain)[which](step)
            taken[which] = thread_time() - began
        pairs.append((taken[0], taken[1]))
    return pairs


def _agree(parts: ModelParts, plain: PlainGpt) -> None:
    """After all steps both have learned the same: it was the same work."""
    ids = torch.from_numpy(parts.batch(STEPS))
    with torch.no_grad():
        mine = parts.chunks[0].mean_loss(parts.chunks[0](ids[:, :-1]), ids[:, 1:]).item()
        theirs = mean_loss(plain(ids[:, :-1]), ids[:, 1:]).item()
    if abs(mine - theirs) > 1e-2 * theirs:
        raise AssertionError(f"not the same work: losses {mine} and {theirs}")


def _interval(ours: np.ndarray, plain: np.ndarray) -> tuple[float, float]:
    """95 % bootstrap interval of what ours adds, percent."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(RESAMPLES):
        take = rng.integers(0, ours.size, ours.size)
        found.append(_trimmed(ours[take] - plain[take]) / _trimmed(plain[take]))
    low, high = np.percentile(found, [2.5, 97.5])
    return 100 * float(low), 100 * float(high)


def _trimmed(values: np.ndarray) -> float:
    """Mean without the largest and smallest tenth."""
    ordered = np.sort(values)
    cut = values.size // 10
    return float(ordered[cut:-cut].mean())


def _identity(rank: int, world: int) -> Identity:
    return Identity(
        "benchmark", "node-0", "", rank, world, rank, 0, rank, 0, 0, -1, start_wall_ns=0,
        wall_minus_monotonic_ns=0,
    )  # fmt: skip
