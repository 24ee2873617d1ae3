"""A fault drawn from a seed: kind, place, onset and size, among what this machine can do."""

import random

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.kinds import BUILT, STOP_KINDS
from lockstep.workloads.faults.link import LINK_KINDS
from lockstep.workloads.faults.plan import DEFAULT_XID, Fault
from lockstep.workloads.faults.settings import FaultError, Words
from lockstep.workloads.warmup import FIRST_FAULTY_STEP

RANDOM_FACTORS = (1.2, 2.0)


def draw(spec: str, world: int, steps: int, available: dict[FaultKind, str]) -> Fault:
    """The fault of `random@SEED`; the pool is kept with it.

    Faults of links are left out: they put every node into a network namespace, which a run has or
    has not from its start.

    Raises:
        FaultError: The seed is no number, or the run is too short.
    """
    words = Words("fault", FaultError, spec, "")
    seed = words.whole("seed", spec.removeprefix("random@"))
    if steps <= 2 * FIRST_FAULTY_STEP:
        raise words.wrong(f"{steps} steps are too few to draw from; over {2 * FIRST_FAULTY_STEP}")
    pool = tuple(kind for kind in BUILT if kind not in LINK_KINDS and not available[kind])
    dice = random.Random(seed)  # noqa: S311 - a seeded plan, not a secret
    kind = dice.choice(pool)
    rank = dice.randrange(world)
    begin = dice.randint(max(FIRST_FAULTY_STEP, steps // 4), steps // 2)
    low, high = RANDOM_FACTORS
    factor = None if kind in STOP_KINDS else round(dice.uniform(low, high), 2)
    xid = DEFAULT_XID if kind is FaultKind.XID else None
    return Fault(kind, rank, None, factor, begin, steps, "constant", spec, tuple(pool), xid=xid)
