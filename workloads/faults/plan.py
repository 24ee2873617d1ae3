"""The fault plan: SPEC strings to faults.

Grammar (docs/reference/command-line.md):
`KIND:rank=R|node=N[,factor=F][,from=STEP][,to=STEP][,shape=S]` or `random@SEED`; `shape=periodic`
takes `period=STEPS` and `duty=RATIO`, xid `xid=NUMBER`, link kinds `peer=NODE` and what link.py
says.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from lockstep.collector.contract.words import FAULT_CAUSES, FaultKind
from lockstep.collector.contract.xid import XIDS, describe
from lockstep.collector.contract.xid_catalogue.shape import Bucket
from lockstep.workloads.faults.kinds import BUILT, STOP_KINDS
from lockstep.workloads.faults.link import (
    LINK_KINDS,
    LINK_SETTINGS,
    LinkError,
    LinkSetting,
    parse_link,
)
from lockstep.workloads.faults.settings import FaultError, Words
from lockstep.workloads.recording import FIRST_FAULTY_STEP

# The strength of a fault in each of its steps.
#
# Strength 0 is healthy, 1 the whole factor: in a step of strength s a fault of factor F makes the
# rank's own time 1 + (F - 1) s times as long.

TRANSIENT_STEPS = 20
"""Length of a burst whose end is not given."""
PERIOD_STEPS = 20
"""Of a periodic fault, from one beginning to the next."""
DUTY = 0.5
"""Share of a period in which it is in force."""


class Shape(StrEnum):
    """How a fault goes on."""

    CONSTANT = "constant"
    TRANSIENT = "transient"
    PERIODIC = "periodic"
    RAMP = "ramp"


SHAPES: tuple[str, ...] = tuple(Shape)


def steps_in_force(period: int, duty: float) -> int:
    """Steps of each period in which a periodic fault is in force; at least one is not."""
    return min(period - 1, max(1, round(duty * period)))


def strength(
    shape: str, from_step: int, to_step: int, step: int, period: int | None, duty: float | None
) -> float:
    """How much of a fault is in force in a step, 0 to 1.

    Constant and transient: all of it from `from_step` to before `to_step`. Periodic: all of it in
    the first part of each period. Ramp: linear from just above nothing to all in the last step.
    """
    if not from_step <= step < to_step:
        return 0.0
    if shape == Shape.PERIODIC:
        assert period is not None
        assert duty is not None
        return float((step - from_step) % period < steps_in_force(period, duty))
    if shape == Shape.RAMP:
        return (step - from_step + 1) / (to_step - from_step)
    return 1.0


DEFAULT_FACTOR = 1.5
MOST_FACTOR = 10.0
DEFAULT_XID = 121
"""Corrected errors on the link between CPU and GPU: work goes on, slower."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault on one rank, or on all ranks of a node.

    `factor` is the culprit's own time per step during the fault over before, in a step where all
    of it is in force; None where the kind stops the rank altogether, or where `link` sizes it.
    `from_step` is inclusive, `to_step` exclusive.

    Attributes:
        period: Steps of a period, where the shape is periodic.
        duty: Share of each period in which it is in force.
        xid: The driver's number of the error, where the kind is xid.
        peer: The node at the other end of a faulty link; None = all of them.
        link: What happens to packets; None = `factor` decides.
        pool: What a random one was drawn from.
    """

    kind: FaultKind
    rank: int | None
    node: int | None
    factor: float | None
    from_step: int
    to_step: int
    shape: str = "constant"
    spec: str = ""
    pool: tuple[str, ...] = ()
    period: int | None = None
    duty: float | None = None
    xid: int | None = None
    peer: int | None = None
    link: LinkSetting | None = None

    @property
    def cause(self) -> str:
        """The cause a verdict should name."""
        return FAULT_CAUSES[self.kind].value

    @property
    def stops(self) -> FaultKind | None:
        """How it stops its ranks for good: `crash`, `freeze`, or None where it slows them."""
        if self.kind in STOP_KINDS:
            return self.kind
        fatal = (
            self.kind is FaultKind.XID and self.xid is not None and ends_the_application(self.xid)
        )
        return FaultKind.CRASH if fatal else None

    def ranks(self, ranks_per_node: int) -> range:
        """The ranks it is injected into."""
        if self.rank is not None:
            return range(self.rank, self.rank + 1)
        assert self.node is not None
        return range(self.node * ranks_per_node, (self.node + 1) * ranks_per_node)

    def strength(self, step: int) -> float:
        """How much of it is in force in a step, 0 to 1."""
        return strength(self.shape, self.from_step, self.to_step, step, self.period, self.duty)

    @property
    def factor_mean(self) -> float | None:
        """Mean factor over the steps in which it is in force."""
        if self.factor is None:
            return None
        strengths = [self.strength(step) for step in range(self.from_step, self.to_step)]
        in_force = [each for each in strengths if each > 0.0]
        return 1.0 + (self.factor - 1.0) * sum(in_force) / len(in_force)


def ends_the_application(xid: int) -> bool:
    """Whether the process that uses the GPU dies of an XID.

    By the immediate action of NVIDIA's XID catalogue (collector.contract.xid): it lives on where
    nothing is to be done, and where the GPU's state is only reported (154).
    """
    return describe(xid).bucket not in (Bucket.IGNORE, Bucket.XID_154)


def parse(
    spec: str, *, nodes: int, ranks_per_node: int, steps: int, available: dict[FaultKind, str]
) -> Fault:
    """A SPEC string as a Fault.

    Args:
        available: Kind -> empty, or the reason why this machine cannot inject it.

    Raises:
        FaultError: With the part that is wrong and what would be right.
    """
    if spec.startswith("random@"):
        return draw(spec, nodes * ranks_per_node, steps, available)
    kind_word, _, rest = spec.partition(":")
    if kind_word not in BUILT:
        kinds = ", ".join(BUILT)
        raise FaultError(f"fault {spec!r}: unknown kind {kind_word!r}; one of {kinds}")
    kind = FaultKind(kind_word)
    if available[kind]:
        raise FaultError(f"fault {spec!r}: {available[kind]}")
    words = Words("fault", FaultError, spec, rest)
    rank = words.number_below("rank", nodes * ranks_per_node)
    node = words.number_below("node", nodes)
    if (rank is None) == (node is None):
        raise words.wrong("give exactly one of rank=R and node=N")
    peer, link = _link(kind, words, rank, node, nodes)
    xid = _xid(kind, words)
    stops = kind in STOP_KINDS or (xid is not None and ends_the_application(xid))
    name = f"XID {xid}" if kind is FaultKind.XID else kind.value
    shape, period, duty = _shape(words, name if stops else None)
    begin, end = _span(words, steps, shape, name if stops else None)
    if period is not None and end - begin < period:
        raise words.wrong(f"steps {begin} to {end} are less than one period of {period} steps")
    factor = _factor(words, name if stops else None, link)
    words.close()
    return Fault(
        kind, rank, node, factor, begin, end, shape, spec,
        period=period, duty=duty, xid=xid, peer=peer, link=link,
    )  # fmt: skip


def _link(
    kind: FaultKind, words: Words, rank: int | None, node: int | None, nodes: int
) -> tuple[int | None, LinkSetting | None]:
    if kind not in LINK_KINDS:
        return None, None
    if rank is not None:
        raise words.wrong("a link belongs to a node: give node=N")
    peer = words.number_below("peer", nodes)
    if peer is not None and peer == node:
        raise words.wrong(f"peer={peer} is the node itself; give another one")
    try:
        return peer, parse_link(kind, words.words(LINK_SETTINGS))
    except LinkError as error:
        raise words.wrong(str(error)) from error


def _xid(kind: FaultKind, words: Words) -> int | None:
    if kind is not FaultKind.XID:
        return None
    xid = words.integer("xid")
    if xid is not None and xid not in XIDS:
        raise words.wrong(f"there is no XID {xid}; the catalogue has {min(XIDS)} to {max(XIDS)}")
    return DEFAULT_XID if xid is None else xid


def _shape(words: Words, stopping: str | None) -> tuple[str, int | None, float | None]:
    """Shape, period and duty."""
    shape = words.word("shape")
    if shape is not None and shape not in SHAPES:
        raise words.wrong(f"shape {shape!r} is not one of {', '.join(SHAPES)}")
    shape = Shape.CONSTANT.value if shape is None else shape
    if stopping is not None and shape != Shape.CONSTANT:
        raise words.wrong(f"{stopping} stops the rank for good and takes no shape={shape}")
    if shape != Shape.PERIODIC:
        return shape, None, None
    period, duty = words.integer("period"), words.number("duty")
    period, duty = PERIOD_STEPS if period is None else period, DUTY if duty is None else duty
    if period < 2:
        raise words.wrong(f"period={period} is too short; at least 2 steps")
    if not 0.0 < duty < 1.0:
        raise words.wrong(f"duty={duty:g} is not a ratio between 0 and 1")
    return shape, period, duty


def _span(words: Words, steps: int, shape: str, stopping: str | None) -> tuple[int, int]:
    """First step, and the one after the last."""
    begin, end = words.integer("from"), words.integer("to")
    if stopping is not None and end is not None:
        raise words.wrong(f"{stopping} stops the rank for good and takes no to=STEP")
    begin = steps // 3 if begin is None else begin
    if end is None:
        end = min(steps, begin + TRANSIENT_STEPS) if shape == Shape.TRANSIENT else steps
    if not FIRST_FAULTY_STEP <= begin < end <= steps:
        raise words.wrong(
            f"steps {begin} to {end} must lie inside {FIRST_FAULTY_STEP} to {steps}, from before"
            " to: the steps before show the healthy speed"
        )
    return begin, end


def _factor(words: Words, stopping: str | None, link: LinkSetting | None) -> float | None:
    if stopping is None and link is None:
        return words.factor(DEFAULT_FACTOR, MOST_FACTOR)
    if words.word("factor") is not None:
        raise words.wrong(
            "give a factor, or the link's own settings, not both"
            if stopping is None
            else f"{stopping} stops the rank and takes no factor"
        )
    return None


# `random@SEED`: kind, rank, onset and size are drawn from the seed, among the available kinds.

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


def check_links(faults: Sequence[Fault], nodes: int) -> None:
    """Check all faults of a run together; those of other kinds are not looked at.

    Raises:
        LinkError: There is no link, or two faults want the same one in the same steps.
    """
    linked = [fault for fault in faults if fault.kind in LINK_KINDS]
    if linked and nodes < 2:
        raise LinkError(
            f"fault {linked[0].spec!r}: one node has no link to another; give --nodes 2 or more"
        )
    for one, other in combinations(linked, 2):
        overlap = one.from_step < other.to_step and other.from_step < one.to_step
        same = one.peer == other.peer or one.peer is None or other.peer is None
        if one.node == other.node and overlap and same:
            raise LinkError(
                f"faults {one.spec!r} and {other.spec!r} disturb the same link in the same steps;"
                " give other steps, or other peers"
            )
