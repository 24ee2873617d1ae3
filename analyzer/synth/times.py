"""The times of every step and rank: what each does itself, and what it waits for the others.

A synchronous step ends for all when the slowest is through: the latest rank waits least.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from analyzer.run import FloatGrid
from analyzer.synth.benign import Normal, normal
from analyzer.synth.fleet import GPUS_PER_NODE, NETWORK, STOPS, Fault, Shape, SyntheticFleet
from analyzer.synth.variant import VARIANTS, Noise, Variant
from analyzer.synth.where import phases, rhythm
from collector.contract.words import PHASES, Cause, Phase

FREEDOM = 4
"""Degrees of freedom of the heavy-tailed family: the fewest whose kurtosis is not defined."""
GAMMA_SHAPE = 2.0
RANGE_SHAPE = 4.0
WHISKERS = 2.4
"""Upper whisker (third quartile and 1.5 times the quartiles' distance) of a half-normal, in scales:
as a box plot has the range of a cluster's parts."""


def noise(dice: np.random.Generator, made: Noise, steps: int, world: int) -> FloatGrid:
    """(S, R) logarithm of own time over its usual value.

    First-order autoregressive around a part that all ranks share, and rare stalls.
    """
    shape = (steps, world)
    if made.body == "student":
        body = dice.standard_t(FREEDOM, shape) * np.sqrt((FREEDOM - 2) / FREEDOM)
    else:
        body = dice.standard_normal(shape)
    # The innovation is smaller by what memory adds, so that the scale is that of a step.
    fresh = body * made.rank * np.sqrt(1.0 - made.memory**2)
    own: FloatGrid = lfilter([1.0], [1.0, -made.memory], fresh, axis=0)
    own = own + made.common * dice.standard_normal((steps, 1))
    stalled = dice.random(shape) < made.spike
    own[stalled] += dice.gamma(made.spike_shape, made.spike_scale, int(stalled.sum()))
    return own


def spread(dice: np.random.Generator, variant: Variant, world: int) -> FloatGrid:
    """(R,) how much slower than the best part each is, as a ratio above 0."""
    drawn_range = dice.gamma(RANGE_SHAPE, variant.spread_range / RANGE_SHAPE)
    scale = min(drawn_range, variant.spread_most) / WHISKERS
    if variant.spread_scale is not None:
        scale = variant.spread_scale
    if variant.spread == "gamma":
        # The same standard deviation as the half-normal's, with a longer tail.
        deviation = scale * np.sqrt(1.0 - 2.0 / np.pi)
        drawn = dice.gamma(GAMMA_SHAPE, deviation / np.sqrt(GAMMA_SHAPE), world)
    else:
        drawn = np.abs(dice.standard_normal(world)) * scale
    cut: FloatGrid = np.minimum(drawn, variant.spread_most)
    return cut


OWN_SHARE = 0.85
"""Of a step in which nothing is wrong; the rest is transfers."""
USUAL: dict[Phase, float] = {
    Phase.DATA: 0.02, Phase.FORWARD: 0.30, Phase.BACKWARD: 0.60, Phase.GRAD_SYNC: 0.03,
    Phase.OPTIMIZER: 0.04, Phase.OTHER: 0.01,
}  # fmt: skip
"""Share of own time."""
COMPUTES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
MICRO_BATCHES = 4
"""For each stage; the bubble of a 1F1B pipeline is (stages - 1) / micro-batches of its work."""
TRANSFER_NOISE = 0.05
FORWARD_SHARE = 1 / 3
"""Of the waiting inside a pipeline or a tensor-parallel layer; the rest is in backward."""
WARMUP = (4.0, 2.5, 1.5)
"""Own time of the first steps: compiling, and caches that are cold."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of every step and rank.

    Attributes:
        wall: (S,) of the step, the same for all.
        own: (S, R) outside collectives.
        own_by_phase: Phase -> (S, R) of it.
        by_phase: Phase -> (S, R) wall time, with the waiting that falls into it; sums to `wall`.
        by_group: Group -> (S, R) in collectives.
        cpu: (S, R) of the training thread.
        work: (S, R) tokens over the usual.
        tags: (S,) words of contract STEP_TAGS.
        strengths: (S,) of each fault.
        effects: Of each fault, the factor that it really had.
        spread: (R,) natural slowness of the part.
    """

    wall: FloatGrid
    own: FloatGrid
    own_by_phase: dict[Phase, FloatGrid]
    by_phase: dict[Phase, FloatGrid]
    by_group: dict[str, FloatGrid]
    cpu: FloatGrid
    work: FloatGrid
    tags: NDArray[np.str_]
    strengths: tuple[FloatGrid, ...]
    effects: tuple[float | None, ...]
    spread: FloatGrid


def times(fleet: SyntheticFleet, dice: np.random.Generator) -> Times:
    """The steps that complete: after a rank stopped, none do."""
    stops = [fault.from_step for fault in fleet.faults if fault.cause in STOPS]
    count = min([fleet.steps, *stops])
    variant = VARIANTS[fleet.variant]
    parts = spread(dice, variant, fleet.world)
    usual = normal(fleet, count, dice)
    own = _usual(fleet, usual, parts)
    bump = np.exp(noise(dice, variant.noise, count, fleet.world))
    bump[: len(WARMUP)] *= np.array(WARMUP[:count])[:, None]
    strengths = tuple(strength(fault, count) for fault in fleet.faults)
    base: FloatGrid = np.sum(list(own.values()), axis=0)
    extra = np.zeros((count, fleet.world))
    for fault, strong in zip(fleet.faults, strengths, strict=True):
        if fault.cause in STOPS or fault.cause in NETWORK:
            continue
        added = (fault.factor - 1.0) * strong * rhythm(fault, count, dice)
        for phase, share in phases(fault, fleet).items():
            for rank in ranks_of(fault):
                own[phase][:, rank] += share * added * base[:, rank]
        for rank in ranks_of(fault):
            extra[:, rank] += added * base[:, rank]
    effects = tuple(_effect(fault, base, extra, s)
                    for fault, s in zip(fleet.faults, strengths, strict=True))  # fmt: skip
    own = {phase: seconds * bump for phase, seconds in own.items()}
    for phase, seconds in usual.pauses.items():
        own[phase] = own[phase] + seconds
    return _synchronous(fleet, dice, own, usual, strengths, effects, parts)


def ranks_of(fault: Fault) -> range:
    """Whom a fault is about."""
    if not fault.of_node:
        return range(fault.place, fault.place + 1)
    first = fault.place // GPUS_PER_NODE * GPUS_PER_NODE
    return range(first, first + GPUS_PER_NODE)


def stage_of(fleet: SyntheticFleet) -> NDArray[np.int64]:
    """(R,) of each rank: rank = (pp x DP + dp) x TP + tp (docs/method/case.md)."""
    return np.arange(fleet.world) // (fleet.tp * fleet.dp)


def _usual(fleet: SyntheticFleet, usual: Normal, parts: FloatGrid) -> dict[Phase, FloatGrid]:
    seconds = fleet.step_seconds * OWN_SHARE / (1.0 + _bubble(fleet))
    shape = usual.work.shape
    made: dict[Phase, FloatGrid] = {}
    for phase in PHASES:
        own = np.full(shape, USUAL.get(phase, 0.0) * seconds)
        if phase in COMPUTES:
            own = own * usual.work * usual.slower * (1.0 + parts)
        made[phase] = own
    return made


def _bubble(fleet: SyntheticFleet) -> float:
    return (fleet.pp - 1) / (MICRO_BATCHES * fleet.pp)


def _effect(fault: Fault, base: FloatGrid, extra: FloatGrid, strong: FloatGrid) -> float | None:
    inside = strong > 0
    if fault.cause in STOPS or fault.cause in NETWORK or not inside.any():
        return None
    ranks = np.array(ranks_of(fault))
    return float(1.0 + extra[inside][:, ranks].sum() / base[inside][:, ranks].sum())


def _synchronous(
    fleet: SyntheticFleet, dice: np.random.Generator, own: dict[Phase, FloatGrid], usual: Normal,
    strengths: tuple[FloatGrid, ...], effects: tuple[float | None, ...], parts: FloatGrid,
) -> Times:  # fmt: skip
    total: FloatGrid = np.sum(list(own.values()), axis=0)
    count = len(total)
    slowest = total.max(axis=1)
    transfer = fleet.step_seconds * (1.0 - OWN_SHARE)
    transfers = transfer * np.exp(TRANSFER_NOISE * dice.standard_normal(count))
    for fault, strong in zip(fleet.faults, strengths, strict=True):
        if fault.cause in NETWORK:
            transfers = transfers + (fault.factor - 1.0) * strong * fleet.step_seconds
    computing = np.sum([own[phase] for phase in COMPUTES], axis=0).max(axis=1)
    bubble = _bubble(fleet) * computing
    wall = slowest + bubble + transfers
    # The latest of a tensor-parallel group holds up its peers in every layer.
    grouped = total.reshape(count, -1, fleet.tp)
    tp_wait = (grouped.max(axis=2, keepdims=True) - grouped).reshape(total.shape)
    pp_wait = np.broadcast_to(bubble[:, None], total.shape)
    rest = wall[:, None] - total - tp_wait - pp_wait
    by_phase = dict(own)
    inner = tp_wait + pp_wait
    by_phase[Phase.FORWARD] = own[Phase.FORWARD] + FORWARD_SHARE * inner
    by_phase[Phase.BACKWARD] = own[Phase.BACKWARD] + (1.0 - FORWARD_SHARE) * inner
    by_phase[Phase.GRAD_SYNC] = own[Phase.GRAD_SYNC] + rest
    by_group = {"dp": rest}
    if fleet.tp > 1:
        by_group["tp"] = tp_wait
    if fleet.pp > 1:
        by_group["pp"] = pp_wait
    return Times(wall, total, own, by_phase, by_group, _cpu(fleet, own, dice), usual.work,
                 usual.tags, strengths, effects, parts)  # fmt: skip


def _cpu(
    fleet: SyntheticFleet, own: dict[Phase, FloatGrid], dice: np.random.Generator
) -> FloatGrid:
    """Launching kernels takes the thread as long whatever the GPU does; garbage is all its own."""
    launching = 0.25 * fleet.step_seconds
    used = launching * np.exp(0.03 * dice.standard_normal(own[Phase.OTHER].shape))
    spinning = 0.5 * own[Phase.DATA]
    collected = own[Phase.OTHER] if _collects(fleet) else 0.0
    made: FloatGrid = used + spinning + collected
    return made


def _collects(fleet: SyntheticFleet) -> bool:
    return any(fault.cause is Cause.GC for fault in fleet.faults)


RAMP_SHARE = 0.25
"""Of the fault's steps, until a ramp is at its full height."""


def strength(fault: Fault, steps: int) -> FloatGrid:
    """(S,) 0 outside the fault's steps."""
    stop = steps if fault.to_step is None else min(fault.to_step, steps)
    made = np.zeros(steps)
    if stop <= fault.from_step:
        return made
    made[fault.from_step : stop] = 1.0
    if fault.shape is Shape.RAMP:
        width = max(int(RAMP_SHARE * (stop - fault.from_step)), 1)
        made[fault.from_step : fault.from_step + width] = np.linspace(1 / width, 1.0, width)
    return made
