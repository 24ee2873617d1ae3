"""Random numbers by name, so that parts of a run draw without disturbing each other."""

import numpy as np

from tests.benchmarks.simulated.arrays import Generator

FNV_OFFSET, FNV_PRIME = 2166136261, 16777619


def stream(*words: str | int) -> Generator:
    """The generator of these words, always the same."""
    return np.random.default_rng([abs(code_of(word)) % 2**32 for word in words])


def code_of(word: str | int) -> int:
    """32 bits of a text (FNV-1a); of a number itself."""
    if isinstance(word, int):
        return word
    code = FNV_OFFSET
    for byte in word.encode():
        code = (code ^ byte) * FNV_PRIME % 2**32
    return code
