"""A seed -> a fleet that is not tidy, as `synth.draw` has the tidy ones.

Every difficulty is drawn by itself; those that are about some causes only are drawn where these
have their turn. With one difficulty alone, only the causes that it is about take turns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.draw import (
    CONTRADICTED,
    FORMS,
    FROM,
    MISSING,
    OF_GPU,
    PAIR,
    PAIRED,
    RUN_SECONDS,
    SOFTWARE_FACTOR,
    STEP_SECONDS,
    TRANSIENT_SHARE,
    TURNS,
    benign_of,
    defects_of,
)
from lockstep.evaluation.synth.fleet import (
    GPUS_PER_NODE,
    LAYOUTS,
    NETWORK,
    PAUSE,
    SHARE,
    SLOW_WRITE,
    STOPS,
    SUITS,
    TEMPORAL,
    TOLD_BY,
    Benign,
    Difficulty,
    Fault,
    Resolution,
    Shape,
    Source,
    SyntheticFleet,
    Telling,
)
from lockstep.evaluation.synth.times import in_tensor_group, ranks_of

SIZES = {8: 0.08, 16: 0.22, 32: 0.32, 64: 0.25, 128: 0.10, 256: 0.03}
"""GPUs -> how often: most runs are of two to eight nodes."""
PARALLEL = ((1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (4, 2), (1, 4), (8, 2), (8, 4))
"""(tp, pp)."""
SUITED_SHARE = 0.5
"""Of runs whose cause a difficulty is about."""
FACTOR = (1.03, 2.5)
"""Also what is too little to be found for certain; scores tell those of 1.10 and more apart."""
FROM_START = 0.12
SHAPES = {Shape.CONSTANT: 0.6, Shape.RAMP: 0.2, Shape.TRANSIENT: 0.2}
LAG_SECONDS, RAMP_SECONDS = (-240.0, 600.0), (120.0, 600.0)
LAG_MOST, RAMP_MOST = 0.5, 0.3
"""Of the time that a fault lasts: what comes after it is over is no symptom of it."""
LOGGED = ("down", "uncorrected")
"""Forms that an XID tells as well."""
EVENTS = (*STOPS, Cause.XID, Cause.NVLINK)
"""What has a moment, which a run that began with it does not show."""
FAINT = (0.1, 0.5)
PAUSE_SECONDS = (15.0, 90.0)
WRITTEN = (2.0, 10.0)
"""Usual steps by which a slow writer lengthens a checkpoint."""
DECOYS = ((Cause.ECC, "corrected"), (Cause.PCIE, "replays"), (Cause.NVLINK, "errors"),
          (Cause.LINK, "errors"), (Cause.HOST_CPU, "contention"),
          (Cause.SOFTWARE, "driver"))  # fmt: skip
DECOYS_MOST, BUSY = 3, 1.15
"""What a busy host that costs nothing pretends to cost."""
OF_NODES = frozenset(
    {Difficulty.WHOLE_NODE, Difficulty.CORRELATED, Difficulty.CLOCKS, Difficulty.SOURCES}
)
"""With one node they would be about all ranks alike, and nothing would tell."""
LACKS = 0.35
"""Of nodes, one or two sources each."""


def hard(
    seed: int, *, injected: bool, variant: str = "usual", only: Sequence[Difficulty] | None = None
) -> SyntheticFleet:
    """The hard fleet of a seed.

    Args:
        seed: Its turn among the faults, and all dice.
        injected: With a fault, or healthy.
        variant: Name in VARIANTS.
        only: These difficulties and no others; None = drawn.
    """
    dice = np.random.default_rng([seed, injected, variant == "usual", len(Difficulty)])
    turns = _turns(only)
    turn = turns[seed % len(turns)]
    causes = _causes(turn, dice) if injected else ()
    chosen = _drawn(causes, dice) if only is None else tuple(only)
    several = turn in (*NETWORK, Cause.SOFTWARE, PAIR) or bool(OF_NODES.intersection(chosen))
    dp, pp, tp = _layout(chosen, several, dice)
    world = dp * pp * tp
    step_seconds = float(np.exp(dice.uniform(*np.log(STEP_SECONDS))))
    steps = int(RUN_SECONDS[min(each for each in RUN_SECONDS if each >= world)] / step_seconds)
    benign = set(benign_of(injected, dice))
    if Difficulty.WRITER in chosen:
        benign.add(Benign.CHECKPOINT)
    nodes = world // GPUS_PER_NODE
    lacking = _lacking(nodes, dice) if Difficulty.SOURCES in chosen else ()
    fleet = SyntheticFleet(
        dp=dp, pp=pp, tp=tp, steps=steps, step_seconds=step_seconds,
        resolution=Resolution.STEP if dice.random() < 0.5 else Resolution.SCRAPE,
        benign=tuple(each for each in Benign if each in benign),
        defects=defects_of(nodes, dice), variant=variant, seed=seed * 2 + injected,
        difficulties=chosen, lacking=lacking,
    )  # fmt: skip
    places = _places(fleet, len(causes), dice)
    telling = Telling(turn) if turn in (MISSING, CONTRADICTED) and injected else Telling.TRUE
    faults = tuple(
        _fault(cause, place, fleet, telling, dice)
        for cause, place in zip(causes, places, strict=True)
    )
    decoys = tuple(_decoys(fleet, faults, dice)) if Difficulty.DECOYS in chosen else ()
    return replace(fleet, faults=faults, decoys=decoys, lacking=_fair(fleet, faults))


def _places(fleet: SyntheticFleet, count: int, dice: np.random.Generator) -> list[int]:
    """Ranks, on nodes of their own where faults may be of whole nodes."""
    if not fleet.has(Difficulty.WHOLE_NODE):
        return [int(rank) for rank in dice.choice(fleet.world, count, replace=False)]
    nodes = dice.choice(fleet.nodes, count, replace=False)
    return [int(n) * GPUS_PER_NODE + int(dice.integers(GPUS_PER_NODE)) for n in nodes]


def _fair(fleet: SyntheticFleet, faults: Sequence[Fault]) -> tuple[tuple[int, Source], ...]:
    """What nodes lack, but never all that tells a place; where a cause is untold, its XID is, too.

    Nobody's own time is longer by a fault of the network or of a tensor-parallel group.
    """
    lacking = set(fleet.lacking)
    for fault in faults:
        where = fault.place // GPUS_PER_NODE, TOLD_BY.get(fault.cause)
        if fault.cause in NETWORK or in_tensor_group(fault, fleet):
            lacking.discard(where)
        elif where in lacking and fault.form in LOGGED:
            lacking.add((where[0], Source.XID))
    return tuple(sorted(lacking))


def _turns(only: Sequence[Difficulty] | None) -> tuple[str, ...]:
    about = [set(SUITS[each]) for each in only or () if each in SUITS]
    if not about:
        return TURNS
    both = set.intersection(*about) or set.union(*about)
    return tuple(cause.value for cause in FORMS if cause in both)


def _causes(turn: str, dice: np.random.Generator) -> tuple[Cause, ...]:
    if turn == PAIR:
        return tuple(PAIRED[int(c)] for c in dice.choice(len(PAIRED), 2, replace=False))
    if turn in (MISSING, CONTRADICTED):
        return (OF_GPU[int(dice.integers(len(OF_GPU)))],)
    return (Cause(turn),)


def _drawn(causes: Sequence[Cause], dice: np.random.Generator) -> tuple[Difficulty, ...]:
    found = []
    for each in Difficulty:
        about = SUITS.get(each)
        share = SHARE if about is None else SUITED_SHARE * any(c in about for c in causes)
        if dice.random() < share:
            found.append(each)
    for rivals in (LAYOUTS, TEMPORAL):
        both = [each for each in found if each in rivals]
        if len(both) > 1:
            found.remove(both[int(dice.integers(len(both)))])
    if Difficulty.WHOLE_STAGE in found and Difficulty.UNEVEN in found:
        found.remove(Difficulty.UNEVEN)  # one replica has nobody to be uneven with
    return tuple(found)


def _layout(
    chosen: Sequence[Difficulty], several: bool, dice: np.random.Generator
) -> tuple[int, int, int]:
    """(dp, pp, tp)."""
    if Difficulty.WHOLE_STAGE in chosen:
        return 1, int(dice.integers(2, 9)), GPUS_PER_NODE
    if Difficulty.SMALL_DP in chosen:
        made = [
            (dp, pp, tp)
            for dp in (1, 2, 3) for tp in (2, 4, 8) for pp in (1, 2, 4)
            if dp * pp * tp % GPUS_PER_NODE == 0 and (not several or dp * pp * tp > GPUS_PER_NODE)
            and (pp > 1 or Difficulty.PIPELINE_WAITS not in chosen)
            and (dp > 1 or Difficulty.UNEVEN not in chosen)
        ]  # fmt: skip
        return made[int(dice.integers(len(made)))]
    sizes = [size for size in SIZES if size > GPUS_PER_NODE or not several]
    shares = np.array([SIZES[size] for size in sizes])
    world = int(dice.choice(sizes, p=shares / shares.sum()))
    layered, piped = Difficulty.TENSOR_GROUP in chosen, Difficulty.PIPELINE_WAITS in chosen
    fit = [
        (tp, pp) for tp, pp in PARALLEL
        if world // (tp * pp) >= 2 and world % (tp * pp) == 0
        and (tp > 1 or not layered) and (pp > 1 or not piped)
    ] or [(2, 2)]  # fmt: skip
    tp, pp = fit[int(dice.integers(len(fit)))]
    return world // (tp * pp), pp, tp


def _fault(
    cause: Cause, index: int, fleet: SyntheticFleet, telling: Telling, dice: np.random.Generator
) -> Fault:
    chosen, steps = fleet.difficulties, fleet.steps

    def about(difficulty: Difficulty) -> bool:
        return difficulty in chosen and cause in SUITS.get(difficulty, (cause,))

    factor = float(np.exp(dice.uniform(*np.log(FACTOR))))
    form = str(dice.choice(FORMS[cause]))
    shape = Shape(dice.choice([*SHAPES], p=[*SHAPES.values()]))
    begin, until = int(steps * dice.uniform(*FROM)), None
    if about(Difficulty.BURSTS):
        shape = Shape.BURSTS
        form = PAUSE if cause is Cause.FREEZE else form
    elif about(Difficulty.PERIODIC):
        shape = Shape.PERIODIC
    elif shape is Shape.CONSTANT and dice.random() < FROM_START and cause not in EVENTS:
        begin = 0
    if cause is Cause.SOFTWARE:
        begin, shape = 0, Shape.CONSTANT
        factor = float(np.exp(dice.uniform(*np.log(SOFTWARE_FACTOR))))
    if form == PAUSE:
        factor = 1.0 + dice.uniform(*PAUSE_SECONDS) / fleet.step_seconds
    elif cause in STOPS:
        factor, shape = float("nan"), Shape.CONSTANT
    if about(Difficulty.WRITER):
        form, shape, factor = SLOW_WRITE, Shape.CONSTANT, 1.0 + dice.uniform(*WRITTEN)
        begin = int(steps * dice.uniform(0.0, FROM[0]))
    if shape is Shape.TRANSIENT:
        until = begin + int(steps * dice.uniform(*TRANSIENT_SHARE))
    lasts = ((until or steps) - begin) * fleet.step_seconds
    lag = min(float(dice.uniform(*LAG_SECONDS)), LAG_MOST * lasts)
    ramp = min(float(dice.uniform(*RAMP_SECONDS)), RAMP_MOST * lasts)
    fault = Fault(
        cause, form, index, factor, begin, until, shape, telling,
        whole_node=about(Difficulty.WHOLE_NODE),
        lag_seconds=lag if about(Difficulty.LATE) else 0.0,
        ramp_seconds=ramp if about(Difficulty.RAMPING) else 0.0,
        faint=float(dice.uniform(*FAINT)) if about(Difficulty.FAINT) else 1.0,
    )  # fmt: skip
    untold = (index // GPUS_PER_NODE, TOLD_BY.get(cause)) in fleet.lacking
    if untold and telling is Telling.TRUE and cause not in NETWORK:
        return fault if in_tensor_group(fault, fleet) else replace(fault, telling=Telling.PARTLY)
    return fault


def _decoys(
    fleet: SyntheticFleet, faults: Sequence[Fault], dice: np.random.Generator
) -> Iterator[Fault]:
    """Each on a GPU that has no fault; a decoy of a node on a node that has none, if there is.

    Another driver is anywhere: updates reach nodes one by one, the slow one as likely as any.
    """
    guilty = {fault.place // GPUS_PER_NODE for fault in faults}
    ill = {rank for fault in faults for rank in ranks_of(fault)}
    places = [rank for rank in range(fleet.world) if rank not in ill]
    elsewhere = [rank for rank in places if rank // GPUS_PER_NODE not in guilty]
    for _ in range(int(dice.integers(1, DECOYS_MOST + 1))):
        cause, form = DECOYS[int(dice.integers(len(DECOYS)))]
        of_node = cause in (*NETWORK, Cause.HOST_CPU)
        where = elsewhere if of_node else places
        if cause is Cause.SOFTWARE:
            where = [*range(fleet.world)]
        if not where:
            continue
        place = int(dice.choice(where))
        begin = 0 if cause is Cause.SOFTWARE else int(fleet.steps * dice.uniform(0.0, 0.7))
        factor = BUSY if cause is Cause.HOST_CPU else 1.0
        yield Fault(cause, form, place, factor, begin, faint=float(dice.uniform(*FAINT)))


def _lacking(nodes: int, dice: np.random.Generator) -> tuple[tuple[int, Source], ...]:
    sources = list(Source)
    some = np.flatnonzero(dice.random(nodes) < LACKS).tolist() or [int(dice.integers(nodes))]
    return tuple(
        (node, sources[int(each)])
        for node in some
        for each in dice.choice(len(sources), int(dice.integers(1, 3)), replace=False)
    )
