"""A token source that needs attention: the second half of each document repeats the first.

Without attention, or with wrong positions, nothing of the second half can be predicted.
"""

import numpy as np
from numpy.typing import NDArray


class CopySource:
    """Documents of uniformly random tokens and their repetition."""

    name = "copy"
    sequences_per_document = 1
    """A sample is a document, or its second half could not be seen to repeat the first."""

    def __init__(self, vocabulary: int, seed: int) -> None:
        self._vocabulary = vocabulary
        self._seed = seed

    @property
    def entropy_rate_nats(self) -> float:
        """Ln V / 2: the first half cannot be guessed, the second can be known."""
        return float(np.log(self._vocabulary) / 2)

    def documents(self, first: int, count: int, length: int) -> NDArray[np.int64]:
        """Token ids, (count, length); length is even."""
        dice = np.random.default_rng([self._seed, 2, first])
        half = dice.integers(0, self._vocabulary, size=(count, length // 2))
        return np.concatenate((half, half), axis=1)
