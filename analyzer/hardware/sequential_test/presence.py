"""What was told in a pass, what could be judged, and what was missing."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.streams import how_often
from lockstep.analyzer.stats.peer_groups import MAJORITY

FloatArray = NDArray[np.float32]


@dataclass(slots=True)
class Presence:
    """Counts over a pass.

    Attributes:
        checks: Checks so far.
        reported: (M, G) checks in which a stream had a value.
        compared: (M, G) checks in which it had enough peers as well.
        judged: (M, G) checks in which it had learned enough as well.
    """

    checks: int
    reported: NDArray[np.int64]
    compared: NDArray[np.int64]
    judged: NDArray[np.int64]

    @classmethod
    def new(cls, metrics: int, gpus: int) -> "Presence":
        """Before the first check."""
        reported, compared, judged = np.zeros((3, metrics, gpus), dtype=np.int64)
        return cls(0, reported, compared, judged)

    def rows(self, chosen: slice) -> "Presence":
        """The counts of some metrics: views."""
        return Presence(
            self.checks, self.reported[chosen], self.compared[chosen], self.judged[chosen]
        )

    def add(self, values: FloatArray, residuals: FloatArray, judged: NDArray[np.bool_]) -> None:
        """Count some checks, (T, M, G) each; `checks` is counted by who sees all metrics."""
        self.reported += how_often(np.isfinite(values))
        self.compared += how_often(np.isfinite(residuals))
        self.judged += how_often(judged)

    @property
    def coverage(self) -> float:
        """Share of all cells that were judged."""
        cells = self.checks * self.judged.size
        return float(self.judged.sum() / cells) if cells else 0.0

    def of_peers(self, stream: tuple[int, int], stratum: NDArray[np.str_]) -> float:
        """Share of a stratum's samples of a metric that were reported."""
        reported = self.reported[stream[0], stratum == stratum[stream[1]]]
        return float(reported.mean() / self.checks) if self.checks else 0.0

    def words(self, stream: tuple[int, int], stratum: NDArray[np.str_]) -> tuple[str, ...]:
        """What of a stream and its peers was missing."""
        peers = self.reported[stream[0], stratum == stratum[stream[1]]]
        silent, own = int((peers == 0).sum()), self.checks - int(self.reported[stream])
        words = [f"{silent} of the {len(peers)} GPUs compared reported nothing"] if silent else []
        if own:
            words.append(f"it reported nothing in {own} of {self.checks} checks")
        return tuple(words)

    def all_words(self, stratum: NDArray[np.str_]) -> tuple[str, ...]:
        """What of the whole fleet was missing."""
        _, code, size = np.unique(stratum, return_inverse=True, return_counts=True)
        alone = (stratum == "") | (size[code] < MAJORITY)
        counts = {
            "reported nothing": (self.reported == 0).all(axis=0),
            "have too few others to be compared with": alone,
            "were not judged in some checks, because half or more of their peers were silent": (
                (self.reported > self.compared).any(axis=0) & ~alone
            ),
            "are still learning what is normal": (self.compared > self.judged).any(axis=0),
        }
        total = self.reported.shape[1]
        return tuple(
            f"{int(which.sum())} of {total} GPUs {what}"
            for what, which in counts.items()
            if which.any()
        )
