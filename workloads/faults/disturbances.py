"""What slows a run by design: nobody is to blame, and no verdict may name a culprit for it.

Grammar: `KIND[:NAME=VALUE,...]`. `eval`, `checkpoint` and `gc` happen on all ranks in the same
step, every so many steps, and are tagged; the others change the work of emulated devices.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from lockstep.workloads.faults.settings import DisturbanceError, Words
from lockstep.workloads.recording import WARMUP_STEPS

MOST_FACTOR = 5.0


class Kind(StrEnum):
    """What a run does by design."""

    EVAL = "eval"
    CHECKPOINT = "checkpoint"
    GC = "gc"
    UNIFORM = "uniform"
    SEQUENCES = "sequences"
    STAGE = "stage"
    WARMUP = "warmup"


KINDS: tuple[str, ...] = tuple(Kind)
PERIODIC = (Kind.EVAL, Kind.CHECKPOINT, Kind.GC)
"""Tagged steps that come every so often."""
_DEFAULT_FACTORS: dict[Kind, float] = {
    Kind.EVAL: 3.0, Kind.GC: 1.5, Kind.UNIFORM: 1.5, Kind.SEQUENCES: 2.0, Kind.STAGE: 1.5,
    Kind.WARMUP: 2.0,
}  # fmt: skip
_DEFAULT_EVERY: dict[Kind, int] = {
    Kind.EVAL: 25, Kind.CHECKPOINT: 25, Kind.GC: 25, Kind.SEQUENCES: 8,
}  # fmt: skip
WARMUP_END = 30


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One of them.

    Attributes:
        factor: A disturbed step's own time over an ordinary one's; of `sequences` a long
            micro-batch's, of `stage` the last stage's, of `warmup` the first step's. None where
            the kind has none.
        from_step: First step, inclusive.
        to_step: Exclusive.
        every: Steps between two; of `sequences` one micro-batch in so many is long. None where the
            kind has none.
        replica: Whose sequences are long; None = each replica's in turn, as drawn from the seed.
    """

    kind: Kind
    factor: float | None
    from_step: int
    to_step: int
    every: int | None
    replica: int | None
    spec: str = ""


def parse_disturbance(spec: str, *, dp: int, pp: int, steps: int, pace: bool) -> Disturbance:
    """A SPEC string as a Disturbance.

    Raises:
        DisturbanceError: With the part that is wrong and what would be right.
    """
    word, _, rest = spec.partition(":")
    if word not in KINDS:
        raise DisturbanceError(
            f"disturbance {spec!r}: unknown kind {word!r}; one of {', '.join(KINDS)}"
        )
    kind = Kind(word)
    words = Words("disturbance", DisturbanceError, spec, rest)
    if kind not in PERIODIC and not pace:
        raise words.wrong(f"{kind} needs emulated devices: leave out --pace off")
    if kind is Kind.STAGE and pp == 1:
        raise words.wrong("a heavy last stage needs a pipeline: give --pp 2 or more")
    factor = None
    if kind in _DEFAULT_FACTORS:
        factor = words.factor(_DEFAULT_FACTORS[kind], MOST_FACTOR)
    every = None
    if kind in _DEFAULT_EVERY:
        every = words.integer("every")
        every = _DEFAULT_EVERY[kind] if every is None else every
        if every < 2:
            raise words.wrong(f"every={every} is too often; at least 2")
    replica = words.number_below("replica", dp) if kind is Kind.SEQUENCES else None
    begin, end = words.integer("from"), words.integer("to")
    begin = 0 if begin is None else begin
    if end is None:
        end = min(WARMUP_END, steps) if kind is Kind.WARMUP else steps
    if not begin < end <= steps:
        raise words.wrong(f"steps {begin} to {end} must lie inside 0 to {steps}, from before to")
    words.close()
    return Disturbance(kind, factor, begin, end, every, replica, spec)


class Disturber:
    """What a run's disturbances mean for one rank.

    Args:
        replica: The rank's place among the replicas.
        stage: Its pipeline stage.
        seed: The run's; ranks of a replica draw the same.
    """

    def __init__(
        self, disturbances: tuple[Disturbance, ...], *, replica: int, stage: int, stages: int,
        seed: int,
    ) -> None:  # fmt: skip
        self._all = disturbances
        self._replica = replica
        self._is_last = stage == stages - 1
        self._seed = seed

    def due(self, kind: Kind, step: int) -> Disturbance | None:
        """The disturbance of a periodic kind that comes at the end of a step, if one does."""
        for disturbance in self._in_force(kind, step):
            assert disturbance.every is not None
            if (step + 1) % disturbance.every == 0:
                return disturbance
        return None

    def work(self, step: int) -> float:
        """The device's work in a step over that of an ordinary one."""
        work = 1.0
        for kind in (Kind.UNIFORM, Kind.STAGE, Kind.WARMUP):
            for disturbance in self._in_force(kind, step):
                work *= self._factor(disturbance, step)
        return work

    def weight(self, step: int) -> Callable[[int], float]:
        """The same for each micro-batch of the step, by its place."""
        drawn = self._in_force(Kind.SEQUENCES, step)

        def weight(index: int) -> float:
            factor = 1.0
            for disturbance in drawn:
                if disturbance.replica in (None, self._replica) and self._is_long(
                    disturbance, step, index
                ):
                    assert disturbance.factor is not None
                    factor *= disturbance.factor
            return factor

        return weight

    def _in_force(self, kind: Kind, step: int) -> list[Disturbance]:
        return [d for d in self._all if d.kind is kind and d.from_step <= step < d.to_step]

    def _factor(self, each: Disturbance, step: int) -> float:
        assert each.factor is not None
        if each.kind is Kind.STAGE:
            return each.factor if self._is_last else 1.0
        if each.kind is Kind.WARMUP:  # from the factor down to 1, as caches fill
            begin = max(each.from_step, WARMUP_STEPS)
            left = (each.to_step - step) / max(1, each.to_step - begin)
            return 1.0 + (each.factor - 1.0) * min(1.0, left)
        return each.factor

    def _is_long(self, each: Disturbance, step: int, index: int) -> bool:
        """One micro-batch in `every`; the same on all ranks of a replica."""
        assert each.every is not None
        mixed = _mixed(_mixed(_mixed(self._seed, self._replica), step), index)
        return mixed % each.every == 0


def _mixed(state: int, value: int) -> int:
    """splitmix64's finalizer (Steele, Lea and Flood 2014) over both: no order is seen in it."""
    mixed = (state * 0x9E3779B97F4A7C15 + value + 1) & 0xFFFFFFFFFFFFFFFF
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return mixed ^ (mixed >> 31)
