"""What ails a simulated GPU in a step."""

from dataclasses import dataclass

from lockstep.collector.contract.words import FaultKind


@dataclass(frozen=True, slots=True)
class Trouble:
    """The faults that a step was lived through with.

    Attributes:
        kinds: Those in force that a GPU can tell of.
        factor: By how much the device is slower now, >= 1.
        heating: Cooling has failed, whether or not the clock has fallen yet.
        xids: Errors that the driver logs now.
    """

    kinds: frozenset[FaultKind] = frozenset()
    factor: float = 1.0
    heating: bool = False
    xids: tuple[int, ...] = ()


NONE = Trouble()
