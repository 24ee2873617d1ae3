"""Rows of collectives, collected one by one, then turned into arrays."""

from array import array
from dataclasses import dataclass, field

import numpy as np

from lockstep.analyzer.shapes.waits import ALONE, Collectives, Communicator, Process

MOST_ROWS = 10_000_000
"""Over all files; a row weighs 80 bytes, and half a kilobyte of text was read for it."""
MOST_COMMUNICATORS = 100_000
INTS = (
    "process", "communicator", "rank", "op", "sequence", "peer", "bytes", "means", "counted",
)  # fmt: skip
FLOATS = ("seconds", "time")
NAMES = ("process", "communicator", "rank", "op", "peer", "means")


@dataclass(slots=True)
class Rows:
    """Collects rows; what they name is numbered as it comes."""

    together: bool = False
    """See Collectives."""
    processes: dict[Process, int] = field(default_factory=dict)
    communicators: dict[Communicator, int] = field(default_factory=dict)
    ops: dict[str, int] = field(default_factory=dict)
    means: dict[str, int] = field(default_factory=dict)
    ints: dict[str, "array[int]"] = field(default_factory=lambda: {n: array("q") for n in INTS})
    floats: dict[str, "array[float]"] = field(
        default_factory=lambda: {n: array("d") for n in FLOATS}
    )

    def __len__(self) -> int:
        return len(self.ints["process"])

    def add(
        self, process: Process, communicator: Communicator, rank: int, op: str, sequence: int,
        payload: int, seconds: float, *, time: float, means: str = "", peer: int = ALONE,
        counted: int | None = None,
    ) -> None:  # fmt: skip
        """One row of `Collectives`."""
        ints, floats = self.ints, self.floats
        ints["process"].append(self.processes.setdefault(process, len(self.processes)))
        ints["communicator"].append(
            self.communicators.setdefault(communicator, len(self.communicators))
        )
        ints["rank"].append(rank)
        ints["op"].append(self.ops.setdefault(op, len(self.ops)))
        ints["sequence"].append(sequence)
        ints["peer"].append(peer)
        ints["counted"].append(sequence if counted is None else counted)
        ints["bytes"].append(payload)
        ints["means"].append(self.means.setdefault(means, len(self.means)))
        floats["seconds"].append(seconds)
        floats["time"].append(time)

    def again(
        self, names: tuple[int, ...], sequence: int, payload: int, seconds: float, time: float
    ) -> None:
        """A row with the names of an earlier one (`last_names`), and other numbers."""
        ints, floats = self.ints, self.floats
        for name, value in zip(NAMES, names, strict=True):
            ints[name].append(value)
        ints["sequence"].append(sequence)
        ints["counted"].append(sequence)
        ints["bytes"].append(payload)
        floats["seconds"].append(seconds)
        floats["time"].append(time)

    def last_names(self) -> tuple[int, ...]:
        """Of the row that was added last: everything that is no number of its own."""
        return tuple(self.ints[name][-1] for name in NAMES)

    def last_numbers(self) -> tuple[int, int, float, float]:
        """Of the same row: sequence, bytes, seconds, time."""
        ints, floats = self.ints, self.floats
        return ints["sequence"][-1], ints["bytes"][-1], floats["seconds"][-1], floats["time"][-1]

    def whole(self) -> Collectives:
        """All of them."""
        ints = {name: np.array(values, np.int64) for name, values in self.ints.items()}
        floats = {name: np.array(values, np.float64) for name, values in self.floats.items()}
        return Collectives(
            ints["process"], ints["communicator"], ints["rank"], ints["op"], ints["sequence"],
            ints["peer"], ints["bytes"], floats["seconds"], floats["time"], ints["means"],
            processes=tuple(self.processes),
            communicators=tuple(self.communicators), ops=tuple(self.ops), counted=ints["counted"],
            together=self.together,
        )  # fmt: skip
