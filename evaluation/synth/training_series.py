"""How ranks stand in their collectives, and what is seen of one that froze or died.

Who waits where follows from the layout: tensor-parallel peers in their layer, the rest of the
pipeline for its activations, and the other replicas for the gradients.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Cause, RankState
from lockstep.evaluation.synth.fleet import Fault, SyntheticFleet
from lockstep.evaluation.synth.scrapes import BEGIN, About, Block, Scrapes
from lockstep.evaluation.synth.times import Times, stage_of

# Series of training: counters that rise with each step, and ranks that stand still.

TOKENS = 8192.0
SAMPLES = 2.0
FLOPS_A_TOKEN = 6.0 * 1e9
"""6 x parameters of the rank's share (Kaplan et al., arXiv 2001.08361)."""
COLLECTIVES = {"dp": 10, "tp": 96, "pp": 16}
"""Of a rank in a step, by group."""
LOSS_FIRST, LOSS_LAST = 10.0, 3.0


def training_blocks(
    fleet: SyntheticFleet, times: Times, seen: Scrapes, dice: np.random.Generator
) -> list[Block]:
    """What a rank's ring tells; series about a stop are in `stop_series`."""
    done = seen.rank_done
    rank = np.arange(fleet.world)

    def counter(a_step: FloatGrid) -> FloatGrid:
        risen = np.concatenate([np.zeros((1, fleet.world)), np.cumsum(a_step, axis=0)])
        found: FloatGrid = risen[done, rank]
        return found

    tokens = TOKENS * times.work
    steps = len(times.wall)
    loss = LOSS_LAST + (LOSS_FIRST - LOSS_LAST) * np.exp(-3.0 * done / max(steps, 1))
    timed = np.where(np.isin(rank, fleet.untimed), 0.0, 1.0)
    told: list[tuple[str, str, FloatGrid]] = [
        (metrics.TRAIN_STEPS.name, "", done.astype(float)),
        (metrics.TRAIN_OWN.name, "", counter(times.own * timed)),
        (metrics.TRAIN_KNOWN_STEPS.name, "", done.astype(float) * timed),
        (metrics.TRAIN_CPU.name, "", counter(times.cpu)),
        (metrics.TRAIN_TOKENS.name, "", counter(tokens)),
        (metrics.TRAIN_SAMPLES.name, "", counter(np.full(tokens.shape, SAMPLES))),
        (metrics.TRAIN_FLOPS.name, "", counter(FLOPS_A_TOKEN * tokens)),
        (metrics.TRAIN_LOSS.name, "", loss),
        *((metrics.TRAIN_PHASE.name, f'phase="{phase}"', counter(seconds))
          for phase, seconds in times.by_phase.items()),
        *((metrics.TRAIN_COLLECTIVE.name, f'group="{group}"', counter(seconds))
          for group, seconds in times.by_group.items()),
        *((metrics.TRAIN_COLLECTIVES.name, f'group="{group}"',
           COLLECTIVES[group] * done.astype(float)) for group in times.by_group),
    ]  # fmt: skip
    info = [
        Block(metrics.RANK_INFO.name, _who(fleet, each), About.RANK,
              np.where(rank == each, 1.0, np.nan)[None, :])
        for each in rank.tolist()
    ]  # fmt: skip
    return [Block(metric, labels, About.RANK, values) for metric, labels, values in told] + info


def _who(fleet: SyntheticFleet, rank: int) -> str:
    return (
        f'attempt="0",cp="0",dp="{rank // fleet.tp % fleet.dp}",ep="0",local_rank="{rank % 8}",'
        f'node="node-{rank // 8}",pid="{1000 + rank}",pp="{int(stage_of(fleet)[rank])}",'
        f'tp="{rank % fleet.tp}",world_size="{fleet.world}"'
    )


WAITS = {"tp": "tp-all-reduce", "pp": "forward-recv", "dp": "dp-all-reduce"}
BEAT_SECONDS = 1.0
INTO_STEP = 0.3
"""Of a usual step, until the rank stops."""
KEPT = (
    metrics.RANK_UP.name, metrics.RANK_LAST_STATE.name, metrics.RANK_INFO.name,
    metrics.TRAIN_ENQUEUED.name, metrics.TRAIN_COMPLETED.name,
)  # fmt: skip
"""Of a rank that is gone (docs/method/collecting.md)."""


def stop_blocks(
    fleet: SyntheticFleet, groups: list[str], strengths: tuple[FloatGrid, ...], seen: Scrapes,
    dice: np.random.Generator,
) -> list[Block]:  # fmt: skip
    """Sequences, heartbeats, progress, open operations and whether the process is there."""
    fault = waited_for = next((each for each in fleet.faults if each.stops), None)
    time = seen.rank_time
    usual, moment = _usual(fleet, seen), _moment(fleet, seen)
    still = (time >= moment) & (fault is not None)
    since = np.full(time.shape, moment)
    up = np.ones(time.shape)
    beat = dice.uniform(0.0, BEAT_SECONDS, time.shape)
    progress = dice.uniform(0.0, usual, time.shape)
    progress = np.where(still, time - moment, progress)
    if fault is not None:
        gone = still[:, fault.place]
        if fault.cause is Cause.CRASH:
            up[gone, fault.place] = 0.0
            beat[gone, fault.place] = progress[gone, fault.place] = np.nan
        else:
            beat[gone, fault.place] = time[gone, fault.place] - moment
    for paused, strong in zip(fleet.faults, strengths, strict=False):
        if paused.stops_for_a_while and fault is None:
            stands = _stand_still(paused, strong, seen, since)
            still |= stands
            progress = np.where(stands, time - since, progress)
            mine = stands[:, paused.place]
            beat[mine, paused.place] = progress[mine, paused.place]
            waited_for = paused
    told: list[tuple[str, str, FloatGrid]] = [
        (metrics.RANK_UP.name, "", up),
        (
            metrics.RANK_LAST_STATE.name,
            f'state="{RankState.RUNNING}"',
            np.where(up > 0.0, np.nan, 1.0),
        ),
        (metrics.TRAIN_HEARTBEAT_AGE.name, "", beat),
        (metrics.TRAIN_PROGRESS_AGE.name, "", progress),
    ]
    for group in groups:
        sequence = COLLECTIVES[group] * seen.rank_done.astype(float)
        waits = still & _waits(fleet, waited_for, group)
        told += [
            (metrics.TRAIN_ENQUEUED.name, f'group="{group}"', sequence + waits),
            (metrics.TRAIN_COMPLETED.name, f'group="{group}"', sequence),
            (metrics.TRAIN_OPEN_OP_AGE.name, f'group="{group}",op="{WAITS[group]}"',
             np.where(waits, time - since, np.nan)),
        ]  # fmt: skip
    return [Block(metric, labels, About.RANK, values) for metric, labels, values in told]


def _stand_still(
    fault: Fault, strong: FloatGrid, seen: Scrapes, since: FloatGrid
) -> NDArray[np.bool_]:
    """(T, R) whether the run stands, because a process is stopped; `since` gets the begin."""
    stands = np.zeros(seen.rank_time.shape, dtype=bool)
    for step in np.flatnonzero(strong > 0).tolist():
        begun = float(seen.end[step - 1]) if step else BEGIN
        inside = (seen.rank_time >= begun) & (seen.rank_time < seen.end[step])
        since[inside] = begun
        stands |= inside
    return stands


def without_the_dead(fleet: SyntheticFleet, blocks: list[Block], seen: Scrapes) -> list[Block]:
    """The exporter keeps of a rank that is gone what is evidence, and nothing that is stale."""
    fault = next((each for each in fleet.faults if each.cause is Cause.CRASH), None)
    if fault is None:
        return blocks
    gone = np.zeros(seen.rank_time.shape, dtype=bool)
    gone[:, fault.place] = seen.rank_time[:, fault.place] >= _moment(fleet, seen)
    return [
        each
        if each.about is not About.RANK or each.metric in KEPT
        else replace(each, values=np.where(gone, np.nan, each.values))
        for each in blocks
    ]


def _usual(fleet: SyntheticFleet, seen: Scrapes) -> float:
    return float(np.median(np.diff(seen.end))) if len(seen.end) > 1 else fleet.step_seconds


def _moment(fleet: SyntheticFleet, seen: Scrapes) -> float:
    """When a rank stops: inside the step after the last one."""
    begun = BEGIN if not len(seen.end) else float(seen.end[-1])
    return begun + INTO_STEP * _usual(fleet, seen)


def _waits(fleet: SyntheticFleet, fault: Fault | None, group: str) -> NDArray[np.bool_]:
    """(R,) who waits in a collective of a kind once a rank has stopped."""
    rank = np.arange(fleet.world)
    if fault is None:
        return np.zeros(fleet.world, dtype=bool)
    replica, stage = rank // fleet.tp % fleet.dp, rank // (fleet.tp * fleet.dp)
    same = replica == replica[fault.place]
    found = {
        "tp": same & (stage == stage[fault.place]) & (rank != fault.place),
        "pp": same & (stage != stage[fault.place]),
        "dp": ~same,
    }[group]
    return np.asarray(found)
