"""What a rank tells of itself: counters of its steps and collectives, ages of its heartbeat."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lockstep.collector.contract.words import PHASES
from tests.benchmarks.foreign import kinds
from tests.benchmarks.foreign.scenario import Scenario
from tests.benchmarks.foreign.scene import Node, Scene, summed
from tests.benchmarks.simulated.arrays import Bools, Floats, Generator, Ints
from tests.benchmarks.simulated.samples import labels

WATCHDOG = 100
"""Seconds after which ranks that wait end themselves, where the run is watched for longer."""
WATCHED_LONG = 150
OPERATIONS = {
    "dp": "dp-all-reduce", "tp": "tp-all-reduce", "world": "world-all-reduce", "pp": "forward-recv",
}  # fmt: skip


@dataclass
class Rank:
    """A rank as it is scraped; (scrapes,) of all of its node.

    Attributes:
        done: Steps by then; attempt and its first step, base, likewise.
        begun: The run has begun; between attempts there is none; gone has ended; stopped comes
            after the stop of the run, since seconds.
        state: Of a rank that is gone.
        waits_in: The group in which it waits for a rank that stopped; None of that rank.
    """

    node: Node
    number: int
    done: Ints
    attempt: Ints
    base: Ints
    begun: Bools
    between: Bools
    gone: Bools
    stopped: Bools
    since: Floats
    state: str
    waits_in: str | None

    @cached_property
    def live(self) -> Bools:
        return self.begun & ~self.gone & ~self.between

    def add(self, metric: str, name: str, values: npt.ArrayLike, there: Bools) -> None:
        """A series, at the scrapes where it is there."""
        at = self.node.times
        told = np.broadcast_to(np.asarray(values, float), at.shape)[there]
        self.node.scene.samples.add(self.node.name, -1, self.number, metric, name, at[there], told)

    def total(self, each: Floats) -> Floats:
        """Sums of (steps, ranks) over the steps of the attempt that are done."""
        sums = summed(each[:, self.number])
        return sums[self.done] - sums[self.base]


def collectives(scenario: Scenario) -> dict[str, int]:
    """Of a step, by group; without groups that have none in any step."""
    layout, communication, habits = scenario.layout, scenario.communication, scenario.habits
    gradients = communication.buckets if communication.overlap else 1
    counts = {
        "dp": gradients + communication.sharded if layout.dp > 1 else 0,
        "pp": 4 * scenario.compute.microbatches if layout.pp > 1 else 0,
        "tp": 64 * scenario.compute.microbatches if layout.tp > 1 else 0,
        "world": int(communication.clip),
    }
    meets = bool(habits.checkpoint_every or habits.eval_every)
    return {
        group: count for group, count in counts.items() if count or (group == "world" and meets)
    }


def tell(node: Node, number: int, step_numbers: Ints) -> None:
    """All series of a rank; `step_numbers` (steps,) as the program counts them."""
    scene, scenario, rng = node.scene, node.scene.scenario, node.scene.rng
    rank = _rank(node, number)
    heartbeat, progress = _ages(rng, rank)
    _watchdog(rng, rank)
    _tell_life(rank)
    _tell_steps(rank, step_numbers)
    counts = collectives(scenario)
    for group, count in counts.items():
        _tell_group(rank, group, count)
    rank.add("train_heartbeat_age_seconds", "", heartbeat, rank.live)
    rank.add("train_progress_age_seconds", "", progress, rank.live)
    metric = "train_open_operation_age_seconds"
    if rank.waits_in is not None:
        name = labels(op=OPERATIONS[rank.waits_in], group=rank.waits_in)
        rank.add(metric, name, np.maximum(0.1, rank.since), rank.live & rank.stopped)
    inside = rank.live & ~rank.stopped & (rng.random(len(node.times)) < 0.2)
    if counts:
        group = next(group for group in ("dp", "tp", "world", "pp") if group in counts)
        ages = rng.uniform(0, 0.3, len(node.times)) * scenario.length.step_seconds
        rank.add(metric, labels(op=OPERATIONS[group], group=group), ages, inside)
    timeline = scene.timeline
    if not scene.lacks(kinds.RUN_QUEUE):
        usual = (node.times - scene.begin).clip(0) * 0.001
        queued = rank.total(timeline.run_queue) + usual
        rank.add("rank_run_queue_seconds_total", "", queued, rank.live)
    throttled = rank.total(timeline.throttled)
    rank.add("rank_cpu_throttled_seconds_total", "", throttled, rank.live)


def _rank(node: Node, number: int) -> Rank:
    scene, times, timeline = node.scene, node.times, node.scene.timeline
    end, start = timeline.end[:, number], timeline.start[:, number]
    count = len(times)
    attempt, base, between = np.zeros(count, int), np.zeros(count, int), np.zeros(count, bool)
    for before, first in enumerate(scene.scenario.habits.attempts):
        if first < timeline.steps:
            later = times >= start[first]
            attempt[later], base[later] = before + 1, first
            between |= (times > end[first - 1] + 2) & ~later
    stopped = np.zeros(count, bool)
    if timeline.stop is not None:
        stopped = times > timeline.finish + 0.5
    return Rank(
        node=node, number=number, done=np.searchsorted(end, times), attempt=attempt, base=base,
        begun=times > scene.begin, between=between, gone=np.zeros(count, bool), stopped=stopped,
        since=np.maximum(0, times - timeline.finish), state="running",
        waits_in=_waits_in(scene, number),
    )  # fmt: skip


def _waits_in(scene: Scene, rank: int) -> str | None:
    layout, stop = scene.scenario.layout, scene.timeline.stop
    if stop is None or rank in stop.ranks:
        return None
    same_replica = layout.dp_of[rank] == layout.dp_of[stop.rank]
    if layout.tp > 1 and same_replica and layout.pp_of[rank] == layout.pp_of[stop.rank]:
        return "tp"
    if layout.pp > 1 and same_replica:
        return "pp"
    return "dp" if layout.dp > 1 else "world"


def _ages(rng: Generator, rank: Rank) -> tuple[Floats, Floats]:
    """(scrapes,) seconds since the last heartbeat and since the last progress."""
    scene, times, timeline = rank.node.scene, rank.node.times, rank.node.scene.timeline
    heartbeat = rng.uniform(0, 1, len(times))
    progress = rng.uniform(0, 0.4, len(times))
    progress = progress * scene.mean_wall[np.minimum(rank.done, timeline.steps - 1)]
    if timeline.stop is not None:
        progress = np.where(rank.stopped, rank.since + 0.2, progress)
        if timeline.stop.kind == "freeze" and rank.number in timeline.stop.ranks:
            heartbeat = np.where(rank.stopped, rank.since + 0.5, heartbeat)
    for number, begin, end in timeline.pauses:
        if number == rank.number:
            during = (times > begin) & (times < end)
            heartbeat = np.where(during, times - begin, heartbeat)
            progress = np.where(during, times - begin, progress)
    return heartbeat, progress


def _watchdog(rng: Generator, rank: Rank) -> None:
    """Who died is gone at once; a watchdog ends those that wait for a rank, after a while."""
    scene, stop = rank.node.scene, rank.node.scene.timeline.stop
    if stop is None:
        return
    if rank.number in stop.ranks:
        if stop.kind in ("crash", "xid79"):
            rank.gone = rank.stopped.copy()
    elif scene.after_stop > WATCHED_LONG and stop.kind in ("crash", "xid79", "hang"):
        late = WATCHDOG + 3 * rng.random()
        rank.gone, rank.state = rank.stopped & (rank.since > late), "failed"


def _tell_life(rank: Rank) -> None:
    node, layout = rank.node, rank.node.scene.scenario.layout
    up = np.where(rank.gone | rank.between, 0.0, 1.0)
    rank.add("rank_up", "", up, rank.begun)
    rank.add("rank_last_state", labels(state=rank.state), 1, rank.begun & rank.gone)
    rank.add("rank_last_state", labels(state="stopped"), 1, rank.between)
    local = int(layout.local[rank.number])
    for attempt in range(int(rank.attempt.max()) + 1):
        there = rank.begun & (rank.attempt == attempt) & ~rank.gone
        name = labels(
            attempt=attempt, cp=0, ep=0, dp=layout.dp_of[rank.number],
            pp=layout.pp_of[rank.number], tp=layout.tp_of[rank.number], local_rank=local,
            node=node.name, pid=9000 + 100 * attempt + local, world_size=layout.ranks,
        )  # fmt: skip
        at = node.times[there]
        node.scene.samples.add(node.name, local, rank.number, "rank_info", name, at, 1)


def _tell_steps(rank: Rank, step_numbers: Ints) -> None:
    scenario, timeline, live = rank.node.scene.scenario, rank.node.scene.timeline, rank.live
    layout, done, base = scenario.layout, rank.done, rank.base
    numbers = np.concatenate([step_numbers, [step_numbers[-1] + 1]])
    after = np.where(done > 0, numbers[np.maximum(done - 1, 0)] + 1, 0)
    begun = numbers[np.minimum(base, timeline.steps)]
    rank.add("train_steps_total", "", np.where(done == base, begun, after), live)
    rank.add("train_known_steps_total", "", done - base, live)
    rank.add("train_own_seconds_total", "", rank.total(timeline.own), live)
    rank.add("train_cpu_seconds_total", "", rank.total(timeline.cpu), live)
    for phase in PHASES:
        seconds = rank.total(timeline.phases[phase])
        rank.add("train_phase_seconds_total", labels(phase=phase), seconds, live)
    tokens = rank.total(timeline.tokens)
    rank.add("train_samples_total", "", np.floor(tokens / 4096), live)
    rank.add("train_tokens_total", "", tokens, live)
    flops = tokens * 4.2e10 / (layout.pp * layout.tp)
    rank.add("train_model_flops_total", "", flops, live)


def _tell_group(rank: Rank, group: str, count: int) -> None:
    """Those that wait for a rank are ahead of it by what it no longer joined."""
    scene, name, done = rank.node.scene, labels(group=group), rank.done - rank.base
    seconds = rank.total(scene.timeline.waits[group])
    rank.add("train_collective_seconds_total", name, seconds, rank.live)
    rank.add("train_collectives_total", name, done * count, rank.live)
    completed = enqueued = done * count
    if (stop := scene.timeline.stop) is not None:
        dp_of = scene.scenario.layout.dp_of
        same_replica = dp_of[rank.number] == dp_of[stop.rank]
        more = 0
        if group in ("tp", "pp"):
            more = count // 3 if same_replica else count
        completed = completed + np.where(rank.stopped, more, 0)
        enqueued = completed + np.where(rank.stopped & (rank.waits_in == group), 1, 0)
    told = rank.begun & ~rank.between
    rank.add("train_completed_sequence", name, completed, told)
    rank.add("train_enqueued_sequence", name, enqueued, told)
