"""How much memory an answer takes, about."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

SMALL = 64
"""Bytes of anything else."""


def size(answer: Any) -> int:
    """Bytes, those of arrays, frames and texts counted."""
    if isinstance(answer, np.ndarray):
        return SMALL + answer.nbytes
    if isinstance(answer, pd.DataFrame):
        return SMALL + int(answer.memory_usage(index=True, deep=True).sum())
    if isinstance(answer, str | bytes):
        return SMALL + len(answer)
    if isinstance(answer, Mapping):
        return SMALL + sum(size(key) + size(value) for key, value in answer.items())
    if isinstance(answer, tuple | list):
        return SMALL + sum(map(size, answer))
    if is_dataclass(answer):
        return SMALL + sum(size(getattr(answer, field.name)) for field in fields(answer))
    return SMALL
