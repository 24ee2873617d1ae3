"""A seed -> a fleet: which size, layout, fault, disturbance and defect it has.

Faults take turns over the seeds, so that every kind is met as often; the rest is drawn.
"""

import numpy as np

from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import (
    GPUS_PER_NODE,
    NETWORK,
    STOPS,
    Benign,
    Defect,
    Fault,
    Resolution,
    Shape,
    SyntheticFleet,
    Telling,
)

SIZES = {8: 0.50, 16: 0.30, 32: 0.14, 64: 0.05, 128: 0.008, 512: 0.002}
"""GPUs -> how often. Most jobs are small; 512 is what a full Run is practical for."""
PARALLEL = ((1, 1), (1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 4), (8, 1))
"""(tp, pp), as often as they stand here."""
STEP_SECONDS = (1.0, 5.0)
RUN_SECONDS = {8: 1800.0, 16: 1500.0, 32: 1500.0, 64: 1200.0, 128: 1200.0, 512: 900.0}
"""Shorter where a run has more ranks, for the sake of memory."""
FACTOR = (1.10, 2.0)
SOFTWARE_FACTOR = (1.10, 1.5)
FROM = (0.25, 0.6)
"""Share of the run at which a fault begins; a stop as well."""
SHAPES = {Shape.CONSTANT: 0.7, Shape.RAMP: 0.15, Shape.TRANSIENT: 0.15}
TRANSIENT_SHARE = (0.2, 0.35)
BENIGN_SHARE = 0.25
UNIFORM_SHARE = 0.1
DEFECT_SHARE = 0.4
DRAWN = tuple(each for each in Defect if each not in (Defect.UNTIMED, Defect.PARTLY_UNTIMED))
"""Without timed waits nobody can be named: a score of that is one of its own."""
FORMS: dict[Cause, tuple[str, ...]] = {
    Cause.THERMAL: ("hw", "sw"),
    Cause.POWER: ("cap", "limit", "brake"),
    Cause.SLOW_GPU: ("plain",),
    Cause.ECC: ("corrected", "uncorrected"),
    Cause.XID: ("38", "62", "119", "120"),
    Cause.PCIE: ("narrow", "old", "replays"),
    Cause.NVLINK: ("down", "errors"),
    Cause.LINK: ("rate", "errors", "flap"),
    Cause.CONGESTION: ("incast",),
    Cause.HOST_CPU: ("quota", "contention"),
    Cause.DATA: ("loader",),
    Cause.GC: ("heap",),
    Cause.CHECKPOINT: ("writer",),
    Cause.SOFTWARE: ("driver",),
    Cause.FREEZE: ("stop",),
    Cause.CRASH: ("exit",),
}
MISSING, CONTRADICTED, PAIR = "missing", "contradicted", "pair"
TURNS: tuple[str, ...] = (*(cause.value for cause in FORMS), MISSING, CONTRADICTED, PAIR, PAIR)
OF_GPU = (Cause.THERMAL, Cause.POWER, Cause.SLOW_GPU)
"""Those that only the GPU's telemetry tells apart."""
PAIRED = tuple(c for c in FORMS if c not in (*NETWORK, *STOPS, Cause.SOFTWARE))


def drawn(seed: int, *, injected: bool, variant: str = "usual") -> SyntheticFleet:
    """The fleet of a seed.

    Args:
        seed: Its turn among the faults, and all dice.
        injected: With a fault, or healthy.
        variant: Name in VARIANTS.
    """
    dice = np.random.default_rng([seed, injected, variant == "usual"])
    turn = TURNS[seed % len(TURNS)]
    least = 2 * GPUS_PER_NODE if injected and turn in (*NETWORK, Cause.SOFTWARE, PAIR) else 0
    sizes = [size for size in SIZES if size >= least]
    shares = np.array([SIZES[size] for size in sizes])
    world = int(dice.choice(sizes, p=shares / shares.sum()))
    tp, pp = PARALLEL[int(dice.integers(len(PARALLEL)))]
    while world // (tp * pp) < 2:
        tp, pp = PARALLEL[int(dice.integers(len(PARALLEL)))]
    step_seconds = float(np.exp(dice.uniform(*np.log(STEP_SECONDS))))
    steps = int(RUN_SECONDS[world] / step_seconds)
    defects = defects_of(world // GPUS_PER_NODE, dice)
    return SyntheticFleet(
        dp=world // (tp * pp), pp=pp, tp=tp, steps=steps, step_seconds=step_seconds,
        resolution=Resolution.STEP if dice.random() < 0.5 else Resolution.SCRAPE,
        faults=_faults(turn, world, steps, dice) if injected else (),
        benign=benign_of(injected, dice),
        defects=defects,
        variant=variant,
        seed=seed * 2 + injected,
    )  # fmt: skip


def _faults(turn: str, world: int, steps: int, dice: np.random.Generator) -> tuple[Fault, ...]:
    if turn == PAIR:
        causes = dice.choice(len(PAIRED), 2, replace=False)
        places = dice.choice(world, 2, replace=False)
        return tuple(
            _fault(PAIRED[int(cause)], int(place), steps, dice, Shape.CONSTANT)
            for cause, place in zip(causes, places, strict=True)
        )
    place = int(dice.integers(world))
    shape = Shape(dice.choice([*SHAPES], p=[*SHAPES.values()]))
    if turn in (MISSING, CONTRADICTED):
        cause = OF_GPU[int(dice.integers(len(OF_GPU)))]
        return (_fault(cause, place, steps, dice, Shape.CONSTANT, Telling(turn)),)
    return (_fault(Cause(turn), place, steps, dice, shape),)


def _fault(
    cause: Cause, index: int, steps: int, dice: np.random.Generator, shape: Shape,
    telling: Telling = Telling.TRUE,
) -> Fault:  # fmt: skip
    bounds = SOFTWARE_FACTOR if cause is Cause.SOFTWARE else FACTOR
    factor = float(np.exp(dice.uniform(*np.log(bounds))))
    begin, until = int(steps * dice.uniform(*FROM)), None
    if cause in STOPS:
        factor, shape = float("nan"), Shape.CONSTANT
    if cause is Cause.SOFTWARE:
        # A driver is changed between two runs.
        begin, shape = 0, Shape.CONSTANT
    if shape is Shape.TRANSIENT:
        until = begin + int(steps * dice.uniform(*TRANSIENT_SHARE))
    forms = FORMS[cause]
    form = forms[int(dice.integers(len(forms)))]
    return Fault(cause, form, index, factor, begin, until, shape, telling)


def benign_of(injected: bool, dice: np.random.Generator) -> tuple[Benign, ...]:
    """What is normal of a run."""
    shares = dict.fromkeys(Benign, BENIGN_SHARE)
    # All ranks slower is a finding of its own; in an injected run it would be a second truth.
    shares[Benign.UNIFORM] = 0.0 if injected else UNIFORM_SHARE
    return tuple(each for each, share in shares.items() if dice.random() < share)


def defects_of(nodes: int, dice: np.random.Generator) -> tuple[Defect, ...]:
    """What the telemetry of a run lacks."""
    if dice.random() >= DEFECT_SHARE:
        return ()
    possible = [each for each in DRAWN if nodes > 1 or each not in (Defect.SOURCE, Defect.SILENT)]
    return (possible[int(dice.integers(len(possible)))],)
