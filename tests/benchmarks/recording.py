"""The cost of recording: CPU time added to a step of 20 collectives, bounded and measured.

The additive bound sums what each call costs on its own: 20 collectives, and the futures that tell
when as many buckets as there can be were reduced beside backward (their callbacks run in gloo's
threads; the hand-over of the interpreter is not in it). The paired measurement switches recording
on and off at random from step to step of one real training process; it is honest and noisy.
"""

import os
import random
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from time import thread_time_ns

import numpy as np
import torch
import torch.distributed as dist

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import Phase
from lockstep.workloads.data.prepare import MarkovSource
from lockstep.workloads.measure.heartbeat import HEARTBEAT_SECONDS
from lockstep.workloads.models.configs import TINY
from lockstep.workloads.models.gpt import Gpt, initialize
from lockstep.workloads.parallel.comm import Comm, _note_end
from lockstep.workloads.parallel.data import MOST_BUCKETS
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import GROUP_INDEX, OP_INDEX, RingWriter
from lockstep.workloads.ring_file import Identity

COLLECTIVES = 20
PHASES_USED = (Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.GRAD_SYNC, Phase.OPTIMIZER)
STEP_SECONDS = 0.040
PAIRED_STEPS = 600
GOALS = {"bound_percent_of_40_ms_step": 0.5}
ROUNDS, CALLS = 15, 2000


def main() -> dict[str, float]:
    """Measure both; seconds unless the name says otherwise."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        recorder = StepRecorder(RingWriter(Path(folder) / ring.file_name(0), _identity()))
        costs = _costs(recorder)
        added, low, high, process = _paired(recorder, Path(folder))
    bound = (
        COLLECTIVES * max(costs["collective"], costs["overlapped"])
        + MOST_BUCKETS * costs["told"]
        + len(PHASES_USED) * costs["phase"]
        + costs["step"]
        + costs["heartbeat"] * STEP_SECONDS / HEARTBEAT_SECONDS
    )
    return {
        **{f"{name}_microseconds": cost * 1e6 for name, cost in costs.items()},
        "bound_microseconds_per_step": bound * 1e6,
        "bound_percent_of_40_ms_step": 100 * bound / STEP_SECONDS,
        "paired_added_microseconds_per_step": added * 1e6,
        "paired_interval_low_microseconds": low * 1e6,
        "paired_interval_high_microseconds": high * 1e6,
        "paired_added_percent_of_40_ms_step": 100 * added / STEP_SECONDS,
        "paired_step_cpu_milliseconds": process * 1e3,
    }


def _costs(recorder: StepRecorder) -> dict[str, float]:
    writer = recorder.writer
    op, group, tag = OP_INDEX["dp-all-reduce"], GROUP_INDEX["dp"], writer.tag("grads.0")

    def collective() -> None:
        recorder.waited(writer.end(op, group, writer.begin(op, group), 4096, tag))

    def overlapped() -> None:
        sequence, arrival = writer.enqueue(group)
        since = writer.await_(op, group, sequence)
        recorder.waited(writer.complete(op, group, sequence, arrival, since, 4096, tag, 0))

    def told() -> None:
        future: torch.futures.Future[None] = torch.futures.Future()
        future.then(partial(_note_end, []))
        future.set_result(None)

    def phase() -> None:
        with recorder.phase(Phase.FORWARD):
            pass

    def step() -> None:
        recorder.start_step()
        recorder.end_step(samples=4, tokens=256, flops=1.0, loss=2.0)

    calls: dict[str, Callable[[], None]] = {
        "collective": collective,
        "overlapped": overlapped,
        "told": told,
        "phase": phase,
        "step": step,
        "heartbeat": writer.heartbeat,
    }
    return {name: _cost(call) for name, call in calls.items()}


def _cost(call: Callable[[], None]) -> float:
    """Thread CPU seconds of one call, the loop included: median over rounds."""
    rounds = []
    for _ in range(ROUNDS):
        began = thread_time_ns()
        for _ in range(CALLS):
            call()
        rounds.append((thread_time_ns() - began) / CALLS)
    return float(np.median(rounds)) / 1e9


def _paired(recorder: StepRecorder, folder: Path) -> tuple[float, float, float, float]:
    """(added CPU seconds a step, its 95 % interval, CPU seconds of a step without recording)."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=0, world_size=1)
    group = dist.group.WORLD
    assert group is not None
    comm = Comm(recorder, {"world": group, "dp": group})
    model, source = Gpt(TINY), MarkovSource(TINY.vocabulary, 1)
    initialize(model, 1)
    documents = source.documents(0, 4 * PAIRED_STEPS, TINY.sequence + 1)
    places = [comm.collective("dp-all-reduce", "dp", f"grads.{i}") for i in range(COLLECTIVES)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    bucket = torch.zeros(4096)

    def step(number: int, recorded: bool) -> float:
        def phase(name: Phase) -> object:
            return recorder.phase(name) if recorded else nullcontext()

        def reduce(index: int) -> None:
            if recorded:
                places[index].all_reduce(bucket)
            else:
                dist.all_reduce(bucket, group=group)

        began = thread_time_ns()
        if recorded:
            recorder.start_step()
        with phase(Phase.DATA):  # type: ignore[attr-defined]
            batch = torch.from_numpy(documents[4 * number : 4 * number + 4])
        with phase(Phase.FORWARD):  # type: ignore[attr-defined]
            loss = model.mean_loss(model(batch[:, :-1]), batch[:, 1:])
        with phase(Phase.BACKWARD):  # type: ignore[attr-defined]
            optimizer.zero_grad()
            torch.autograd.backward(loss)
        with phase(Phase.GRAD_SYNC):  # type: ignore[attr-defined]
            for index in range(COLLECTIVES):
                reduce(index)
        with phase(Phase.OPTIMIZER):  # type: ignore[attr-defined]
            optimizer.step()
        if recorded:
            recorder.end_step(samples=4, tokens=256, flops=1.0, loss=loss.item())
        else:
            loss.item()
        return (thread_time_ns() - began) / 1e9

    dice = random.Random(1)
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(PAIRED_STEPS):
        # Pairs in random order: a drift of the machine falls on both sides alike.
        for recorded in dice.sample((True, False), 2):
            times[recorded].append(step(number, recorded))
    dist.destroy_process_group()
    difference = np.array(times[True])[20:] - np.array(times[False])[20:]
    rng = np.random.default_rng(1)
    means = [_trimmed(rng.choice(difference, difference.size)) for _ in range(2000)]
    low, high = np.percentile(means, [2.5, 97.5])
    return _trimmed(difference), float(low), float(high), float(np.median(times[False]))


def _trimmed(values: np.ndarray) -> float:
    """Mean without the largest and smallest tenth."""
    ordered = np.sort(values)
    cut = values.size // 10
    return float(ordered[cut:-cut].mean())


def _identity() -> Identity:
    return Identity(
        "benchmark", "node-0", "", 0, 1, 0, 0, 0, 0, 0, -1, start_wall_ns=0,
        wall_minus_monotonic_ns=0,
    )  # fmt: skip
