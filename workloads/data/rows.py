"""Rows of row_files.py as a rank takes them, and the order in which a run sees them."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from lockstep.workloads.data.row_files import about, mapped


class Rows:
    """The rows of a split, mapped into memory.

    Attributes:
        features: Numbers of a row.

    Raises:
        DataError: A file is missing or has another size than the index says.
    """

    def __init__(self, folder: Path, split: str) -> None:
        index = about(folder)
        self.features: int = index["features"]
        count, width = index["rows"][split], index["width"]
        self._numbers = mapped(folder / f"{split}.f32", np.dtype(np.float32), (count, width))
        self._labels = mapped(folder / f"{split}.labels", np.dtype(np.int8), (count,))
        self._basis: torch.Tensor | None = None
        if index["basis"]:
            basis = mapped(folder / "basis.f32", np.dtype(np.float32), (width, self.features))
            self._basis = torch.from_numpy(np.array(basis))

    def __len__(self) -> int:
        """Rows of the split."""
        return len(self._labels)

    def take(self, numbers: NDArray[np.int64] | slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows (n, features) and labels (n,), 0 or 1, by their numbers; float32."""
        found = torch.from_numpy(np.array(self._numbers[numbers]))
        if self._basis is not None:
            # numpy would take every core for it, and ranks share them
            found = found @ self._basis
        return found, torch.from_numpy(self._labels[numbers].astype(np.float32))


class Draws:
    """The order in which a run sees rows: every epoch each once, shuffled by (seed, epoch).

    It does not know the layout of ranks: any number of them trains on the same batches. A batch
    may end one epoch and begin the next, so no row is left out.
    """

    def __init__(self, rows: int, seed: int) -> None:
        self._rows = rows
        self._seed = seed
        self._epochs: dict[int, NDArray[np.int64]] = {}

    def numbers(self, first: int, count: int) -> NDArray[np.int64]:
        """Numbers of the rows that come `first` and after, counted from the start of the run."""
        parts: list[NDArray[np.int64]] = []
        while count > 0:
            epoch, place = divmod(first, self._rows)
            part = self._order(epoch)[place : place + count]
            parts.append(part)
            first, count = first + part.size, count - part.size
        return np.concatenate(parts)

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if epoch not in self._epochs:
            dice = np.random.default_rng([self._seed, epoch])
            kept = {epoch - 1: self._epochs[epoch - 1]} if epoch - 1 in self._epochs else {}
            self._epochs = {**kept, epoch: dice.permutation(self._rows)}
        return self._epochs[epoch]
