"""What difficulties do to times, clocks, numbers and scrapes; each with dice of its own.

So one of these that is taken away leaves the others as they were.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.evaluation.synth.fleet import GPUS_PER_NODE, Difficulty, Fault, SyntheticFleet

TAIL_FREEDOM, TAIL_SCALE = 3.0, 0.02
"""Student's t: the fewest degrees of freedom with a variance; scale of the logarithm."""
STALLS, STALL_SHAPE, STALL_SCALE, STALL_MOST = 0.01, 1.5, 0.1, 3.0
"""Share of steps with a stall, and its Pareto (Lomax) distribution as logarithm; cut at 20 times a
step. Tails of cluster services have a shape between 1 and 2 (Dean and Barroso, CACM 2013)."""
RANK_DRIFT, RUN_DRIFT, RUN_PERIODS = 0.015, 0.05, (0.5, 2.0)
"""Of a rank's level by the end, and of the run's, which swings so often while it lasts."""
NODE_SCALE, NODE_MEMORY = 0.03, 0.95
"""Of what the ranks of a node share, and its correlation from step to step."""
LENGTH_SCALE, LENGTH_ALWAYS, LENGTH_POWER = 0.20, 0.08, 1.25
"""Logarithm of a replica's tokens, in a step and always; compute is tokens to this power, between
linear layers (1) and attention (2)."""
CLOCK_SECONDS = 90.0
JITTER_SECONDS = 4.0
FAILED, OUTAGE_SECONDS = 0.1, (60.0, 240.0)
BURST_STEPS, CALM_STEPS = (4, 15), (15, 50)
PERIOD_STEPS, DUTY = (16, 80), (0.2, 0.5)
PAUSES_STEPS = (40, 150)


def dice_of(fleet: SyntheticFleet, difficulty: Difficulty) -> np.random.Generator:
    """Nobody else's."""
    return np.random.default_rng([fleet.seed, 1 + list(Difficulty).index(difficulty)])


def more_noise(fleet: SyntheticFleet, steps: int) -> FloatGrid:
    """(S, R) logarithm of own time, beside the usual noise."""
    made = np.zeros((steps, fleet.world))
    if fleet.has(Difficulty.HEAVY_TAILS):
        dice = dice_of(fleet, Difficulty.HEAVY_TAILS)
        # No further than a stall: the exponent of one draw in millions would be days.
        tails = TAIL_SCALE * dice.standard_t(TAIL_FREEDOM, made.shape)
        made += np.clip(tails, -STALL_MOST, STALL_MOST)
        stalled = dice.random(made.shape) < STALLS
        size = STALL_SCALE * dice.pareto(STALL_SHAPE, int(stalled.sum()))
        made[stalled] += np.minimum(size, STALL_MOST)
    if fleet.has(Difficulty.DRIFT):
        dice = dice_of(fleet, Difficulty.DRIFT)
        walked = np.cumsum(dice.standard_normal(made.shape), axis=0)
        made += RANK_DRIFT * walked / np.sqrt(max(steps, 1))
        turns = dice.uniform(*RUN_PERIODS) * np.arange(steps) / max(steps, 1) + dice.random()
        made += (RUN_DRIFT * np.sin(2.0 * np.pi * turns))[:, None]
    if fleet.has(Difficulty.CORRELATED):
        dice = dice_of(fleet, Difficulty.CORRELATED)
        fresh = NODE_SCALE * np.sqrt(1.0 - NODE_MEMORY**2)
        shared = fresh * dice.standard_normal((steps, fleet.nodes))
        shared = lfilter([1.0], [1.0, -NODE_MEMORY], shared, axis=0)
        made += np.repeat(shared, GPUS_PER_NODE, axis=1)
    return made


def lengths(fleet: SyntheticFleet, steps: int) -> FloatGrid:
    """(S, R) tokens over the usual, the same for all ranks of a replica."""
    dice = dice_of(fleet, Difficulty.UNEVEN)
    always = LENGTH_ALWAYS * dice.standard_normal(fleet.dp)
    drawn = np.exp(always + LENGTH_SCALE * dice.standard_normal((steps, fleet.dp)))
    made: FloatGrid = drawn[:, np.arange(fleet.world) // fleet.tp % fleet.dp]
    return made


def bursts(fault: Fault, steps: int) -> NDArray[np.bool_]:
    """(S,) while it is there; a pause lasts one step each time."""
    dice = np.random.default_rng([fault.place, fault.from_step])
    made = np.zeros(steps, dtype=bool)
    at = fault.from_step
    while at < steps:
        long = 1 if fault.stops_for_a_while else int(dice.integers(*BURST_STEPS))
        made[at : at + long] = True
        apart = PAUSES_STEPS if fault.stops_for_a_while else CALM_STEPS
        at += long + int(dice.integers(*apart))
    return made


def rounds(fault: Fault, steps: int) -> NDArray[np.bool_]:
    """(S,) while it is there, once in each period."""
    dice = np.random.default_rng([fault.place, fault.from_step])
    period, duty = int(dice.integers(*PERIOD_STEPS)), dice.uniform(*DUTY)
    step = np.arange(steps) - fault.from_step
    made: NDArray[np.bool_] = (step >= 0) & (step % period < max(duty * period, 1.0))
    return made


def clock_errors(fleet: SyntheticFleet) -> FloatGrid:
    """(N,) seconds that each node's clock is ahead."""
    if not fleet.has(Difficulty.CLOCKS):
        return np.zeros(fleet.nodes)
    return dice_of(fleet, Difficulty.CLOCKS).uniform(-CLOCK_SECONDS, CLOCK_SECONDS, fleet.nodes)


def driver_numbers(fleet: SyntheticFleet) -> NDArray[np.int64]:
    """(R,) the index of each rank's GPU as its driver numbers them."""
    made = np.arange(fleet.world) % GPUS_PER_NODE
    if fleet.has(Difficulty.GPU_NUMBERS):
        dice = dice_of(fleet, Difficulty.GPU_NUMBERS)
        made = dice.permuted(made.reshape(fleet.nodes, -1), axis=1).ravel()
    return made


def lateness(fleet: SyntheticFleet, shape: tuple[int, ...]) -> FloatGrid:
    """(T, N) seconds by which scrapes are late."""
    if not fleet.has(Difficulty.SCRAPES):
        return np.zeros(shape)
    return np.abs(JITTER_SECONDS * dice_of(fleet, Difficulty.SCRAPES).standard_normal(shape))


def failed_scrapes(
    fleet: SyntheticFleet, time: FloatGrid, node: NDArray[np.int64], span: tuple[float, float]
) -> NDArray[np.bool_]:
    """(K,) whether the scrape of each sample failed; of a node all of one moment or none.

    Each node has dice of its own, so that a run that is made in parts is the same run.
    """
    failed = np.zeros(len(time), dtype=bool)
    if not fleet.has(Difficulty.SCRAPES):
        return failed
    for each in np.unique(node).tolist():
        dice = np.random.default_rng([fleet.seed, 1 + len(Difficulty), each])
        mine = node == each
        moments, which = np.unique(time[mine], return_inverse=True)
        since = dice.uniform(*span)
        away = (moments >= since) & (moments < since + dice.uniform(*OUTAGE_SECONDS))
        failed[mine] = ((dice.random(len(moments)) < FAILED) | away)[which]
    return failed
