"""Operations of some steps, as rows of ops.parquet: what each rank did when, and in which group."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lockstep.collector.contract.archive import OPS_FILE
from tests.benchmarks.independent.layout import World
from tests.benchmarks.independent.noise import Noise
from tests.benchmarks.independent.steps import FORWARD, Pass, one_forward_one_backward
from tests.benchmarks.independent.telemetry import Scene
from tests.benchmarks.simulated.arrays import Floats, Ints

MOST_ROWS = 150_000
MOST_STEPS = 300
GROUPS = ("tp", "dp", "pp", "world")


@dataclass(frozen=True)
class Operation:
    """What rows of one kind have in common; -1 is none."""

    name: str
    number: int = 0
    chunk: int = -1
    global_chunk: int = -1
    microbatch: int = -1
    group: str = ""
    size: int = 0
    flags: str = ""
    tag: str = ""


@dataclass
class Trace:
    """Gathers rows of the steps `first` up to `last`; base (steps,) is where each counts from."""

    first: int
    last: int
    base: Floats
    kinds: list[Operation] = field(default_factory=list)
    ranks: list[Ints] = field(default_factory=list)
    steps: list[Ints] = field(default_factory=list)
    begins: list[Floats] = field(default_factory=list)
    ends: list[Floats] = field(default_factory=list)

    def add(self, kind: Operation, ranks: Ints, begin: Floats, end: Floats) -> None:
        """`begin` and `end` are (steps, len(ranks)) seconds since the base."""
        steps = np.arange(self.first, self.last)
        self.kinds.append(kind)
        self.ranks.append(np.tile(ranks, len(steps)))
        self.steps.append(np.repeat(steps, len(ranks)))
        self.begins.append((self.base[:, None] + begin).ravel())
        self.ends.append((self.base[:, None] + end).ravel())

    def add_collections(self, rank: int, begin: Floats, seconds: Floats) -> None:
        """Garbage collections of a rank in those steps that have one; (steps,) each."""
        due = seconds > 0
        self.kinds.append(Operation("gc"))
        self.ranks.append(np.full(int(due.sum()), rank))
        self.steps.append(np.arange(self.first, self.last)[due])
        moments = (self.base + begin)[due]
        self.begins.append(moments)
        self.ends.append(moments + seconds[due])

    def table(self, world: World, step_begin: Floats) -> Any:
        """By rank and time; `step_begin` (steps,) is the earliest of any rank."""
        counts = [len(ranks) for ranks in self.ranks]
        rank, step = np.concatenate(self.ranks), np.concatenate(self.steps)
        begin = np.concatenate(self.begins)
        end = np.maximum(np.concatenate(self.ends), begin)
        order = np.lexsort((begin, rank))
        rank, step, begin, end = rank[order], step[order], begin[order], end[order]
        kind = np.repeat(np.arange(len(self.kinds)), counts)[order]

        def number(name: str, dtype: npt.DTypeLike) -> Any:
            values = np.array([getattr(each, name) for each in self.kinds])
            return pa.array(values[kind].astype(dtype))

        def text(name: str) -> Any:
            values = np.array([getattr(each, name) for each in self.kinds], dtype=object)
            return pa.array(values[kind], pa.string())

        group = np.array([each.group for each in self.kinds])[kind]
        return pa.table(
            {
                "dp_rank": pa.array(world.dp_of[rank].astype(np.int32)),
                "stage": pa.array(world.pp_of[rank].astype(np.int32)),
                "rank": pa.array(rank.astype(np.int32)),
                "step": pa.array(step),
                "optype": text("name"),
                "start_ts": pa.array(begin - step_begin[step - self.first]),
                "duration": pa.array(end - begin),
                "seq_id": number("number", np.int32),
                "mc": number("chunk", np.int32),
                "gmc": number("global_chunk", np.int32),
                "mb_id": number("microbatch", np.int32),
                "tp_rank": pa.array(world.tp_of[rank].astype(np.int32)),
                "group": text("group"),
                "sequence": pa.array(self._sequence(rank, group, world.ranks)),
                "bytes": number("size", np.int64),
                "start_ns": pa.array((begin * 1e9).astype(np.int64)),
                "end_ns": pa.array((end * 1e9).astype(np.int64)),
                "flags": text("flags"),
                "tag": text("tag"),
            }
        )

    def _sequence(self, rank: Ints, group: npt.NDArray[np.str_], ranks: int) -> Ints:
        """(rows,) number of a collective in its group and rank, from the run's begin."""
        sequence = np.zeros(len(rank), np.int64)
        for name in GROUPS:
            rows = np.flatnonzero(group == name)
            if not len(rows):
                continue
            of_rank = rank[rows]
            changes = np.concatenate([[True], of_rank[1:] != of_rank[:-1]])
            place = np.arange(len(rows))
            start = np.maximum.accumulate(np.where(changes, place, 0))
            a_step = round(len(rows) / ranks / (self.last - self.first)) if name != "pp" else 0
            sequence[rows] = place - start + 1 + self.first * a_step
        return sequence


def write_operations(scene: Scene, folder: Path) -> None:
    """As many steps as fit, around the fault; nothing where hardly any do."""
    world, timeline = scene.world, scene.timeline
    window = _window(scene)
    if window is None:
        return
    steps = slice(*window)
    base = np.concatenate([[scene.last_word[0] - timeline.last_word[0]], scene.last_word])[steps]
    trace = Trace(*window, base)
    parts, everybody = timeline.parts, np.arange(world.ranks)

    def of(values: Floats) -> Floats:
        whole = np.broadcast_to(values, (world.steps, *world.grid))
        return whole.reshape(world.steps, world.ranks)[steps]

    begin = timeline.begin[steps]
    loaded = begin + of(parts.data)
    trace.add(Operation("data-load"), everybody, begin, loaded)
    for fault in scene.faults:
        if fault.collected is not None:
            seconds = fault.collected[steps, fault.rank]
            trace.add_collections(fault.rank, loaded[:, fault.rank], seconds)
    if world.sharded:
        _sharded(scene, trace, steps)
    else:
        _staged(scene, trace, steps)
        if world.layout.dp > 1:
            name = _gradient_operation(world, scene.noise)
            kind = Operation(name, group="dp", size=1 << 30)
            trace.add(kind, everybody, of(parts.computed), of(parts.synced))
    synced = of(parts.synced)
    last = timeline.last_word[steps][:, None] + 0 * synced
    if world.has_world_group:
        kind = Operation("optimizer-clip-main-grad", group="world", size=8, tag="clip")
        trace.add(kind, everybody, synced, last)
    after = synced if world.has_world_group else last
    trace.add(Operation("optimizer"), everybody, after, last + of(parts.optimizer))
    pq.write_table(trace.table(world, scene.start[steps].min(1)), folder / OPS_FILE)


def _window(scene: Scene) -> tuple[int, int] | None:
    world, layout = scene.world, scene.world.layout
    a_step = 3 + 2 * world.microbatches * (1 if layout.tp == 1 else 2)
    a_step += 4 * world.microbatches if layout.pp > 1 else 0
    a_step += int(layout.dp > 1) + int(world.has_world_group)
    count = int(min(MOST_ROWS / (a_step * world.ranks), MOST_STEPS, world.steps - 8))
    if count < 12:
        return None
    last = world.steps if scene.stop is None else scene.stop.step
    middle = world.steps // 2
    if scene.faults:
        middle = int(np.average(np.arange(world.steps), weights=scene.faults[0].level + 1e-9))
    first = int(np.clip(middle - count // 2, 4, max(4, last - count)))
    end = min(first + count, last)
    return (first, end) if end - first >= 8 else None


def _gradient_operation(world: World, noise: Noise) -> str:
    whole = noise.length_spread or world.layout.pp == 1
    return "dp-all-reduce" if whole else "grads-reduce-scatter"


def _sharded(scene: Scene, trace: Trace, steps: slice) -> None:
    """Parameters are gathered before forward and in it, gradients scattered after backward."""
    world, parts = scene.world, scene.timeline.parts
    everybody = np.arange(world.ranks)

    def of(values: Floats) -> Floats:
        whole = np.broadcast_to(values, (world.steps, *world.grid))
        return whole.reshape(world.steps, world.ranks)[steps]

    ready = of(parts.together[..., None])
    gather, half = "params-all-gather", 1 << 28
    compute = Operation("forward-compute", 0, 0, 0, 0)
    trace.add(Operation(gather, group="dp", size=half), everybody, of(parts.arrived), ready)
    forward = ready + of(parts.forward * parts.length)
    trace.add(compute, everybody, ready, forward)
    gathered = forward + of(parts.gathered_forward)
    trace.add(Operation(gather, 1, group="dp", size=half), everybody, forward, gathered)
    backward = gathered + of(parts.backward * parts.length)
    trace.add(Operation("backward-compute", 0, 0, 0, 0), everybody, gathered, backward)
    scatter = Operation("grads-reduce-scatter", group="dp", size=half)
    trace.add(scatter, everybody, backward, backward + of(parts.gathered_backward))


def _staged(scene: Scene, trace: Trace, steps: slice) -> None:
    """Every pass of every stage, with what it receives, exchanges and sends."""
    world, parts = scene.world, scene.timeline.parts
    if parts.stage_forward is None or parts.stage_backward is None or parts.hop is None:
        return
    length, passes = scene.noise.length[steps], list[Pass]()
    one_forward_one_backward(
        world.microbatches, parts.stage_forward[steps], parts.stage_backward[steps], length,
        parts.hop[steps], np.ascontiguousarray(parts.together[steps]), passes,
    )  # fmt: skip
    for each in passes:
        for column in range(world.layout.tp):
            _pass(scene, trace, each, column, steps)


def _pass(scene: Scene, trace: Trace, each: Pass, column: int, steps: slice) -> None:
    """Of the ranks of one stage and one column of tensor parallelism."""
    world, parts = scene.world, scene.timeline.parts
    stage, number, name = each.stage, each.microbatch, each.what
    ranks = (stage * world.layout.dp + np.arange(world.layout.dp)) * world.layout.tp + column
    tag = f"c0.m{number}"
    seconds = (parts.forward if name == FORWARD else parts.backward)[steps, stage, :, column]
    own = seconds * scene.noise.length[steps][:, :, number]
    if each.waits:
        kind = Operation(f"{name}-recv", number, 0, stage, group="pp", size=1 << 24, tag=tag)
        trace.add(kind, ranks, each.free, each.begin)
    begin, computed = each.begin, each.begin + own
    if name == FORWARD and number == 0 and not each.waits:
        # A rank's own pause, and its wait for its group, are inside its first pass.
        arrived = parts.arrived[steps, stage, :, column]
        begin = arrived - parts.pause[steps, stage, :, column]
        computed = arrived + own
    wide = world.layout.tp > 1
    kind = Operation(f"{name}-compute", number, 0, stage, number, tag=tag)
    trace.add(kind, ranks, begin, each.end if wide else computed)
    if wide:
        count = number if name == FORWARD else number + world.microbatches
        kind = Operation("tp-all-reduce", count, group="tp", size=1 << 24, tag=tag)
        trace.add(kind, ranks, computed, each.end)
    target = stage + 1 if name == FORWARD else stage - 1
    if parts.hop is not None and 0 <= target < world.layout.pp:
        seconds = parts.hop[steps, min(stage, target)]
        kind = Operation(
            f"{name}-send", number, 0, stage, group="pp", size=1 << 24, flags="overlapped", tag=tag
        )
        trace.add(kind, ranks, each.end, each.end + seconds)
