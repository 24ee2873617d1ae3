"""Synthetic images of ten classes whose best possible accuracy is known.

Each class is a pattern of stripes (a channel, a direction, a period) of one strength, with a phase
that nobody knows. All ten patterns are in every image as Gaussian noise. The patterns are
orthogonal, so to tell the class is to receive one of M orthogonal signals without their phase,
which has a closed answer (Proakis, Digital Communications, "noncoherent detection of orthogonal
signals"). Stripes are seen by convolutions and survive shifts, mirrors and an average over places.
"""

from math import comb, exp
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lockstep.workloads.data.cifar import TRAINING_FILES, VALIDATION_FILES, write

PERIODS = (8, 4)
"""Pixels; both divide the side of every image, or the patterns would not be orthogonal."""
PATTERNS = tuple(
    (channel, period, across) for period in PERIODS for across in (0, 1) for channel in range(3)
)[:10]
"""(channel, period, whether the stripes follow each other from left to right) of each class."""
CLASSES = len(PATTERNS)
STRENGTH = 50.0
"""Of the class's pattern, in levels of 256."""
NOISE = 10.0
"""Standard deviation of the sine's and the cosine's strength of each pattern, in levels."""
MIDDLE = 127.5
BLOCK = 500
"""Images that are made at once."""
PURPOSE = 12
"""Part of the seed: these draws are nobody else's (images.py)."""
MARK = "SYNTHETIC"
"""A file beside them, so that nobody takes them for CIFAR-10."""


def best_accuracy(strength: float = STRENGTH, noise: float = NOISE) -> float:
    """The greatest accuracy that any classifier can have.

    1 - sum over k of (-1)^(k+1) C(M-1, k) / (k+1) exp(-k/(k+1) · strength² / 2 noise²).
    """
    ratio = (strength / noise) ** 2 / 2
    wrong = 0.0
    for k in range(1, CLASSES):
        sign = 1 if k % 2 else -1
        wrong += sign * comb(CLASSES - 1, k) / (k + 1) * exp(-k / (k + 1) * ratio)
    return 1 - wrong


def made(
    count: int, side: int, dice: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(labels, pixels (count, 3, side, side)) of new images."""
    labels = dice.integers(0, CLASSES, count)
    parts = dice.normal(0, NOISE, (2, count, CLASSES))
    strengths = parts[0] + 1j * parts[1]
    phases = dice.uniform(0, 2 * np.pi, count)
    strengths[np.arange(count), labels] += STRENGTH * np.exp(1j * phases)
    pixels = np.full((count, 3, side, side), MIDDLE, dtype=np.float32)
    for number, (channel, period, across) in enumerate(PATTERNS):
        turns = np.exp(2j * np.pi * np.arange(side) / period)
        wave = (strengths[:, number, None] * turns).real.astype(np.float32)
        pixels[:, channel] += wave[:, None, :] if across else wave[:, :, None]
    return labels.astype(np.uint8), np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def strengths(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """How strong each pattern is in images (count, 3, side, side): (count, CLASSES), in levels.

    The strongest is the best guess at the class.
    """
    side = pixels.shape[-1]
    amplitudes = []
    for channel, period, across in PATTERNS:
        line = pixels[:, channel].mean(axis=1 if across else 2, dtype=np.float64)
        turns = np.exp(-2j * np.pi * np.arange(side) / period)
        amplitudes.append(np.abs(line @ turns) * 2 / side)
    return np.stack(amplitudes, axis=1)


def write_folder(folder: Path, training: int, validation: int, side: int, seed: int) -> None:
    """Write images in CIFAR-10's files, with the mark beside them.

    Args:
        training: Images to learn from, divided over the five files.

    Raises:
        OSError: They cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text(
        f"Synthetic stripes, not CIFAR-10. No classifier is right more often than"
        f" {best_accuracy():.4f}.\n"
    )
    each = -(-training // len(TRAINING_FILES))
    counts = dict.fromkeys(TRAINING_FILES, each) | dict.fromkeys(VALIDATION_FILES, validation)
    for number, (name, count) in enumerate(counts.items()):
        blocks = []
        for first in range(0, count, BLOCK):
            dice = np.random.default_rng([seed, PURPOSE, number, first])
            blocks.append(made(min(BLOCK, count - first), side, dice))
        labels, pixels = (np.concatenate(part) for part in zip(*blocks, strict=True))
        write(folder / name, labels, pixels)
