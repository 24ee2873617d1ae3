"""The times of every step and rank: what each does itself, and what it waits for the others.

A synchronous step ends for all when the slowest is through: the latest rank waits least.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract.words import PHASES, Cause, Phase
from lockstep.evaluation.synth.excess import TAGS, Normal, normal, phases, rhythm, stopped_in
from lockstep.evaluation.synth.fleet import (
    GPUS_PER_NODE,
    NETWORK,
    SLOW_WRITE,
    Benign,
    Difficulty,
    Fault,
    Shape,
    SyntheticFleet,
)
from lockstep.evaluation.synth.untidy import LENGTH_POWER, bursts, lengths, more_noise, rounds
from lockstep.evaluation.synth.variant import VARIANTS, Noise, Variant

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
        strengths: (S,) of each fault, and then of each decoy.
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
    stops = [fault.from_step for fault in fleet.faults if fault.stops]
    count = min([fleet.steps, *stops])
    variant = VARIANTS[fleet.variant]
    parts = spread(dice, variant, fleet.world)
    usual = _with_lengths(fleet, normal(fleet, count, dice))
    own = _usual(fleet, usual, parts)
    bump = np.exp(noise(dice, variant.noise, count, fleet.world) + more_noise(fleet, count))
    bump[: len(WARMUP)] *= np.array(WARMUP[:count])[:, None]
    strengths = tuple(strength(each, count, usual.tags) for each in (*fleet.faults, *fleet.decoys))
    base: FloatGrid = np.sum(list(own.values()), axis=0)
    extra, exchanged = np.zeros((count, fleet.world)), np.zeros((count, fleet.world))
    for fault, strong in zip(fleet.faults, strengths, strict=False):
        if fault.stops or fault.cause in NETWORK:
            continue
        added = (fault.factor - 1.0) * strong * rhythm(fault, count, dice)
        if in_tensor_group(fault, fleet):
            first = fault.place // fleet.tp * fleet.tp
            exchanged[:, first : first + fleet.tp] += (added * base[:, fault.place])[:, None]
            extra[:, fault.place] += added * base[:, fault.place]
            continue
        where: Mapping[Phase, float | FloatGrid] = phases(fault, fleet)
        if fault.stops_for_a_while:
            where = stopped_in(own, fault.place, np.random.default_rng([fleet.seed, fault.place]))
        for phase, share in where.items():
            for rank in ranks_of(fault):
                own[phase][:, rank] += share * added * base[:, rank]
        for rank in ranks_of(fault):
            extra[:, rank] += added * base[:, rank]
    effects = tuple(_effect(fault, base, extra, s)
                    for fault, s in zip(fleet.faults, strengths, strict=False))  # fmt: skip
    own = {phase: seconds * bump for phase, seconds in own.items()}
    for phase, seconds in usual.pauses.items():
        own[phase] = own[phase] + seconds
    return _synchronous(fleet, dice, own, usual, strengths, effects, parts, exchanged * bump)


def _with_lengths(fleet: SyntheticFleet, usual: Normal) -> Normal:
    if not fleet.has(Difficulty.UNEVEN):
        return usual
    tokens = lengths(fleet, len(usual.work))
    slower = usual.slower * tokens ** (LENGTH_POWER - 1.0)
    return replace(usual, work=usual.work * tokens, slower=slower)


def in_tensor_group(fault: Fault, fleet: SyntheticFleet) -> bool:
    """Whether what it lengthens is an exchange of its tensor-parallel group, nobody's own time."""
    return fault.cause is Cause.NVLINK and fleet.tp > 1 and fleet.has(Difficulty.TENSOR_GROUP)


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
    if fault.stops or fault.cause in NETWORK or not inside.any():
        return None
    ranks = np.array(ranks_of(fault))
    return float(1.0 + extra[inside][:, ranks].sum() / base[inside][:, ranks].sum())


def _synchronous(
    fleet: SyntheticFleet, dice: np.random.Generator, own: dict[Phase, FloatGrid], usual: Normal,
    strengths: tuple[FloatGrid, ...], effects: tuple[float | None, ...], parts: FloatGrid,
    exchanged: FloatGrid,
) -> Times:  # fmt: skip
    total: FloatGrid = np.sum(list(own.values()), axis=0)
    count = len(total)
    busy = total + exchanged
    slowest = busy.max(axis=1)
    transfer = fleet.step_seconds * (1.0 - OWN_SHARE)
    transfers = transfer * np.exp(TRANSFER_NOISE * dice.standard_normal(count))
    for fault, strong in zip(fleet.faults, strengths, strict=False):
        if fault.cause in NETWORK:
            transfers = transfers + (fault.factor - 1.0) * strong * fleet.step_seconds
    computing = np.sum([own[phase] for phase in COMPUTES], axis=0).max(axis=1)
    bubble = _bubble(fleet) * computing
    wall = slowest + bubble + transfers
    # The latest of a tensor-parallel group holds up its peers in every layer.
    grouped = busy.reshape(count, -1, fleet.tp)
    latest = grouped.max(axis=2, keepdims=True)
    tp_wait = (latest - grouped).reshape(total.shape) + exchanged
    pp_wait = np.broadcast_to(bubble[:, None], total.shape)
    if fleet.has(Difficulty.PIPELINE_WAITS) or fleet.dp == 1:
        pp_wait = pp_wait + _for_stages(fleet, latest, total.shape)
    rest = wall[:, None] - total - tp_wait - pp_wait
    inner = tp_wait + pp_wait
    by_group = {"dp": rest}
    if fleet.tp > 1:
        by_group["tp"] = tp_wait
    if fleet.pp > 1:
        by_group["pp"] = pp_wait
    if fleet.dp == 1:
        # Nobody to exchange gradients with: what is left is the pipeline's, or the layers'.
        del by_group["dp"]
        alone = "pp" if fleet.pp > 1 else "tp"
        by_group[alone] = by_group[alone] + rest
        if alone == "tp":
            by_group["tp"] = by_group["tp"] + pp_wait
        inner, rest = inner + rest, np.zeros_like(rest)
    by_phase = dict(own)
    by_phase[Phase.FORWARD] = own[Phase.FORWARD] + FORWARD_SHARE * inner
    by_phase[Phase.BACKWARD] = own[Phase.BACKWARD] + (1.0 - FORWARD_SHARE) * inner
    by_phase[Phase.GRAD_SYNC] = own[Phase.GRAD_SYNC] + rest
    return Times(wall, total, own, by_phase, by_group, _cpu(fleet, own, dice), usual.work,
                 usual.tags, strengths, effects, parts)  # fmt: skip


def _for_stages(fleet: SyntheticFleet, latest: FloatGrid, shape: tuple[int, ...]) -> FloatGrid:
    """(S, R) waits for the slowest stage of one's replica, beside the bubble.

    `latest` is (S, R / TP, 1): when each tensor-parallel group is through.
    """
    stages = latest.reshape(len(latest), fleet.pp, fleet.dp)
    waits = stages.max(axis=1, keepdims=True) - stages
    made: FloatGrid = np.repeat(waits.reshape(len(latest), -1), fleet.tp, axis=1).reshape(shape)
    return made


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


def strength(fault: Fault, steps: int, tags: NDArray[np.str_]) -> FloatGrid:
    """(S,) 0 outside the fault's steps."""
    stop = steps if fault.to_step is None else min(fault.to_step, steps)
    made = np.zeros(steps)
    if stop <= fault.from_step:
        return made
    made[fault.from_step : stop] = 1.0
    if fault.shape is Shape.RAMP:
        width = max(int(RAMP_SHARE * (stop - fault.from_step)), 1)
        made[fault.from_step : fault.from_step + width] = np.linspace(1 / width, 1.0, width)
    elif fault.shape is Shape.BURSTS:
        made *= bursts(fault, steps)
    elif fault.shape is Shape.PERIODIC:
        made *= rounds(fault, steps)
    if fault.form == SLOW_WRITE:
        made *= tags == TAGS[Benign.CHECKPOINT]
    return made
