"""What a rank tells of itself: counters of its steps and collectives, ages of its heartbeat."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tests.benchmarks.independent.faults import VISIBLE, Stop
from tests.benchmarks.independent.layout import World
from tests.benchmarks.independent.telemetry import Scene
from tests.benchmarks.simulated.arrays import Bools, Floats, Generator
from tests.benchmarks.simulated.samples import Samples

GROUPS = ("tp", "pp", "dp", "world")
"""In the order in which a step comes to them."""
STARTUP = 0.1
"""Seconds until a rank that began is on the page."""


def collectives(world: World, rank: int) -> dict[str, int]:
    """Of a step, by group, in the order of `GROUPS`; without groups that have none."""
    _, dp, tp = world.grid
    neighbours = (world.pp_of[rank] > 0) + (world.pp_of[rank] < world.layout.pp - 1)
    counts = {
        "tp": 2 * world.microbatches if tp > 1 else 0,
        "pp": 2 * world.microbatches * int(neighbours),
        "dp": 8 if world.sharded else int(dp > 1),
        "world": int(world.has_world_group),
    }
    return {group: count for group, count in counts.items() if count}


def tell(rng: Generator, scene: Scene, rank: int, samples: Samples) -> None:
    """All series of a rank, from its first step to its end."""
    world, stop = scene.world, scene.stop
    node, gpu = scene.names[world.node[rank]], int(world.local[rank])
    every = scene.times[world.node[rank]]
    stops = stop is not None and rank in stop.ranks
    gone = stops and stop is not None and stop.of_death
    finish = float(scene.end[-1, rank]) if stop is None else scene.finish
    started = every > scene.start[0, rank] + STARTUP
    times = every[started & (every < finish) & ((every < scene.stopped) if gone else True)]
    last = world.steps if stop is None else stop.step
    done = np.minimum(np.searchsorted(scene.end[:, rank], times, side="right"), last)

    def add(metric: str, labels: str, values: npt.ArrayLike, at: Floats = times) -> None:
        samples.add(node, gpu, rank, metric, labels, at, values)

    def total(seconds: Floats) -> Floats:
        """Over the steps that are done; of (steps,)."""
        summed: Floats = np.concatenate([[0], np.cumsum(seconds)])[done]
        return summed

    add(
        "rank_info",
        f'attempt="0",cp="0",dp="{world.dp_of[rank]}",ep="0",local_rank="{gpu}",node="{node}",'
        f'pid="{4000 + rank}",pp="{world.pp_of[rank]}",tp="{world.tp_of[rank]}",'
        f'world_size="{world.ranks}"',
        1,
    )
    up = np.where(started, 1.0, np.nan)
    over = every >= (scene.stopped if gone else finish)
    up[over] = 0
    add("rank_up", "", up, every)
    add("rank_last_state", f'state="{_last_state(stop, stops)}"', 1, every[over])
    timeline = scene.timeline
    add("train_steps_total", "", done)
    add("train_known_steps_total", "", done)
    add("train_own_seconds_total", "", total(timeline.own[:, rank]))
    add("train_cpu_seconds_total", "", total(scene.cpu[:, rank]))
    for phase, seconds in timeline.phases.items():
        spent = np.maximum(seconds[:, rank], 0)
        add("train_phase_seconds_total", f'phase="{phase}"', total(spent))
    after_stop = times > scene.stopped
    counts = collectives(world, rank)
    waits_in = None
    if stop is not None and not stops:
        waits_in = _waits_in(world, stop, rank, counts)
    for group, count in counts.items():
        labels = f'group="{group}"'
        add("train_collective_seconds_total", labels, total(timeline.waits[group][:, rank]))
        completed = done * count
        enqueued = completed
        if waits_in == group:
            enqueued = completed + after_stop
        elif waits_in is not None and GROUPS.index(group) < GROUPS.index(waits_in):
            completed = enqueued = completed + after_stop * count
        add("train_collectives_total", labels, completed)
        add("train_completed_sequence", labels, completed)
        add("train_enqueued_sequence", labels, enqueued)
        if group == waits_in:
            then = times[after_stop]
            name = f'{labels},op="{_open_operation(world, group)}"'
            add("train_open_operation_age_seconds", name, then - scene.stopped, then)
    heartbeat, progress = _ages(rng, scene, rank, times, after_stop)
    add("train_heartbeat_age_seconds", "", heartbeat)
    add("train_progress_age_seconds", "", progress)
    queued = np.cumsum(rng.exponential(0.002, world.steps) * min(world.step_seconds, 3))
    for fault in scene.faults:
        if fault.run_queue is not None and fault.member[rank]:
            waited = fault.run_queue[:, rank] * world.step_seconds * 0.8
            queued = queued + np.cumsum(waited * VISIBLE[fault.telemetry])
    add("rank_run_queue_seconds_total", "", np.concatenate([[0], queued])[done])
    add("rank_cpu_throttled_seconds_total", "", 0)
    telling = scene.tells_work[rank]
    batch = np.full(world.steps, float(world.microbatches * telling))
    add("train_samples_total", "", total(batch))
    add("train_tokens_total", "", total(scene.tokens[:, rank] * telling))
    add("train_model_flops_total", "", total(scene.flops[:, rank]))
    if world.pp_of[rank] == world.layout.pp - 1:
        ever = done > 0
        loss = scene.loss[np.maximum(done - 1, 0), rank][ever]
        add("train_loss", "", loss, times[ever])


def _last_state(stop: Stop | None, stops: bool) -> str:
    if stop is None:
        return "finished"
    if stops:
        return "running"
    return "stopped" if stop.step % 2 else "peer_lost"


def _waits_in(world: World, stop: Stop, rank: int, counts: Mapping[str, int]) -> str:
    """The group in which a rank waits for those that stopped."""
    lost = np.array(stop.ranks)
    stage, replica = world.pp_of[rank], world.dp_of[rank]
    if (
        world.layout.tp > 1
        and ((world.pp_of[lost] == stage) & (world.dp_of[lost] == replica)).any()
    ):
        return "tp"
    if world.layout.pp > 1 and (world.dp_of[lost] == replica).any():
        return "pp"
    if world.layout.dp > 1 and (world.pp_of[lost] == stage).any():
        return "dp"
    return "world" if "world" in counts else list(counts)[-1]


def _open_operation(world: World, group: str) -> str:
    return {
        "tp": "tp-all-reduce",
        "dp": "params-all-gather" if world.sharded else "dp-all-reduce",
        "pp": "forward-recv",
        "world": "optimizer-clip-main-grad",
    }[group]


def _ages(
    rng: Generator, scene: Scene, rank: int, times: Floats, after_stop: Bools
) -> tuple[Floats, Floats]:
    """Seconds since the last heartbeat and since the last progress."""
    world, count = scene.world, len(times)
    heartbeat = rng.uniform(0, 1.0, count)
    progress = rng.uniform(0, 0.05, count)
    longer = rng.random(count) < 0.3
    longest = 0.4 * min(world.step_seconds, 2)
    progress = progress + np.where(longer, rng.uniform(0, longest, count), 0)
    since_stop = times - scene.stopped
    if scene.stop is not None:
        progress = np.where(after_stop, since_stop, progress)
        if scene.stop.kind == "hang" and rank in scene.stop.ranks:
            heartbeat = np.where(after_stop, since_stop, heartbeat)
    pause = scene.timeline.parts.pause.reshape(world.steps, world.ranks)
    for fault in scene.faults:
        if not fault.member[rank]:
            continue
        for step, seconds in fault.frozen.items():
            begin = scene.start[step, rank] + scene.timeline.phases["data"][step, rank]
            during = (times > begin) & (times < begin + seconds)
            heartbeat = np.where(during, times - begin, heartbeat)
            progress = np.where(during, times - begin, progress)
        if fault.kind in ("ecc", "xidstall"):
            for step in fault.events:
                begin = scene.start[step, rank]
                during = (times > begin) & (times < begin + pause[step, rank])
                progress = np.where(during, times - begin, progress)
    return heartbeat, progress
