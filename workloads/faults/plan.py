"""The fault plan: SPEC strings to faults, and faults drawn from a seed.

Grammar (DESIGN 3.2): `KIND:rank=R|node=N[,factor=F][,from=STEP][,to=STEP][,shape=S]` or
`random@SEED`.
"""

import random
from dataclasses import dataclass

from collector.contract.words import FAULT_CAUSES, FaultKind
from workloads.warmup import FIRST_FAULTY_STEP

DEVICE_KINDS = (FaultKind.COMPUTE, FaultKind.THERMAL, FaultKind.POWER)
STOP_KINDS = (FaultKind.FREEZE, FaultKind.CRASH)
SHAPES = ("constant",)
BUILT: tuple[FaultKind, ...] = (
    FaultKind.COMPUTE,
    FaultKind.DATA,
    FaultKind.CPU_QUOTA,
    FaultKind.FREEZE,
    FaultKind.CRASH,
    FaultKind.THERMAL,
    FaultKind.POWER,
)
"""Kinds this version can inject."""

DEFAULT_FACTOR = 1.5
RANDOM_FACTORS = (1.2, 2.0)


class FaultError(ValueError):
    """A fault SPEC is wrong or cannot be injected here."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault on one rank, or on all ranks of a node.

    `factor` is the culprit's own time per step during the fault over before; None where the kind
    stops the rank altogether. `from_step` is inclusive, `to_step` exclusive.
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

    @property
    def cause(self) -> str:
        """The cause a verdict should name."""
        return FAULT_CAUSES[self.kind].value

    def ranks(self, ranks_per_node: int) -> range:
        """The ranks it is injected into."""
        if self.rank is not None:
            return range(self.rank, self.rank + 1)
        assert self.node is not None
        return range(self.node * ranks_per_node, (self.node + 1) * ranks_per_node)


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
        return _draw(spec, nodes * ranks_per_node, steps, available)
    kind_word, colon, rest = spec.partition(":")
    kinds = ", ".join(BUILT)
    if kind_word not in BUILT:
        raise FaultError(f"fault {spec!r}: unknown kind {kind_word!r}; one of {kinds}")
    kind = FaultKind(kind_word)
    if available[kind]:
        raise FaultError(f"fault {spec!r}: {available[kind]}")
    settings = _settings(spec, rest if colon else "")
    rank = _integer(spec, "rank", settings.pop("rank", None))
    node = _integer(spec, "node", settings.pop("node", None))
    if (rank is None) == (node is None):
        raise FaultError(f"fault {spec!r}: give exactly one of rank=R and node=N")
    _in_range(spec, "rank", rank, nodes * ranks_per_node)
    _in_range(spec, "node", node, nodes)
    begin = _integer(spec, "from", settings.pop("from", None))
    end = _integer(spec, "to", settings.pop("to", None))
    if kind in STOP_KINDS and end is not None:
        raise FaultError(f"fault {spec!r}: {kind} stops the rank for good and takes no to=STEP")
    begin = steps // 3 if begin is None else begin
    end = steps if end is None else end
    if not FIRST_FAULTY_STEP <= begin < end <= steps:
        raise FaultError(
            f"fault {spec!r}: steps {begin} to {end} must lie inside {FIRST_FAULTY_STEP} to"
            f" {steps}, from before to: the steps before show the healthy speed"
        )
    shape = settings.pop("shape", "constant")
    if shape not in SHAPES:
        raise FaultError(f"fault {spec!r}: shape {shape!r} is not one of {', '.join(SHAPES)}")
    factor = _factor(spec, kind, settings.pop("factor", None))
    if settings:
        raise FaultError(
            f"fault {spec!r}: unknown setting {next(iter(settings))!r};"
            " one of rank, node, factor, from, to, shape"
        )
    return Fault(kind, rank, node, factor, begin, end, shape, spec)


def _settings(spec: str, text: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise FaultError(f"fault {spec!r}: {part!r} is not NAME=VALUE")
        if name in settings:
            raise FaultError(f"fault {spec!r}: {name} is given twice")
        settings[name] = value
    return settings


def _integer(spec: str, name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise FaultError(f"fault {spec!r}: {name}={text} is not a whole number from 0")
    return int(text)


def _in_range(spec: str, name: str, value: int | None, count: int) -> None:
    if value is not None and value >= count:
        raise FaultError(
            f"fault {spec!r}: there is no {name} {value}; {name}s are 0 to {count - 1}"
        )


def _factor(spec: str, kind: FaultKind, text: str | None) -> float | None:
    if kind in STOP_KINDS:
        if text is not None:
            raise FaultError(f"fault {spec!r}: {kind} stops the rank and takes no factor")
        return None
    try:
        factor = DEFAULT_FACTOR if text is None else float(text)
    except ValueError:
        raise FaultError(f"fault {spec!r}: factor={text} is not a number") from None
    if not 1.0 < factor <= 10.0:
        raise FaultError(f"fault {spec!r}: factor {factor:g} must be above 1 and at most 10")
    return factor


def _draw(spec: str, world: int, steps: int, available: dict[FaultKind, str]) -> Fault:
    """Kind, place, onset and size from the seed, among what this machine can do."""
    seed = _integer(spec, "seed", spec.removeprefix("random@"))
    assert seed is not None
    if steps <= 2 * FIRST_FAULTY_STEP:
        raise FaultError(
            f"fault {spec!r}: {steps} steps are too few to draw from; over {2 * FIRST_FAULTY_STEP}"
        )
    pool = tuple(kind for kind in BUILT if not available[kind])
    dice = random.Random(seed)  # noqa: S311 - a seeded plan, not a secret
    kind = dice.choice(pool)
    rank = dice.randrange(world)
    begin = dice.randint(max(FIRST_FAULTY_STEP, steps // 4), steps // 2)
    low, high = RANDOM_FACTORS
    factor = None if kind in STOP_KINDS else round(dice.uniform(low, high), 2)
    return Fault(kind, rank, None, factor, begin, steps, "constant", spec, tuple(pool))
