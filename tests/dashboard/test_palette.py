"""Colours that can be read on both grounds, and told apart by people who see two hues."""

import tomllib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from lockstep.dashboard import palette
from lockstep.dashboard.palette import CATEGORICAL, DARK_BACKGROUND, LIGHT_BACKGROUND, SEVERITY
from lockstep.dashboard.shapes import Severity

GRAPHICS, TEXT = 3.0, 4.5
"""WCAG 2.2, success criteria 1.4.11 and 1.4.3, level AA."""
GROUNDS = {"light": LIGHT_BACKGROUND, "dark": DARK_BACKGROUND}
APART = 8.0
"""CIE76 distance; 2.3 is just noticed side by side (Mahy et al. 1994)."""
SIGHT = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}
"""On linear RGB. SOURCE: Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009, severity 1.0."""


def linear(colour: str) -> np.ndarray:
    """sRGB to linear light, IEC 61966-2-1."""
    values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, "contrast ratio"."""
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def lab(light: np.ndarray) -> np.ndarray:
    """Linear RGB to CIE L*a*b* under D65."""
    matrix = np.array([
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ])  # fmt: skip
    scaled = matrix @ np.clip(light, 0, 1) / [0.95047, 1.0, 1.08883]
    bent = np.where(scaled > 216 / 24389, np.cbrt(scaled), (24389 / 27 * scaled + 16) / 116)
    return np.array([116 * bent[1] - 16, 500 * (bent[0] - bent[1]), 200 * (bent[1] - bent[2])])


def apart(one: str, other: str, sight: str) -> float:
    """How different two colours look to somebody."""
    seen = [lab(np.array(SIGHT[sight]) @ linear(colour)) for colour in (one, other)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def test_contrast_is_that_of_black_on_white() -> None:
    assert pytest.approx(21.0) == contrast("#000000", "#ffffff")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_are_seen_on_their_ground(theme: str) -> None:
    faint = [c for c in CATEGORICAL[theme] if contrast(c, GROUNDS[theme]) < GRAPHICS]
    assert [] == faint


@pytest.mark.parametrize("ground", GROUNDS.values())
def test_what_no_theme_changes_is_seen_on_both_grounds(ground: str) -> None:
    assert contrast(palette.SILENT, ground) >= GRAPHICS


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_severities_are_read_as_text_on_their_ground(theme: str) -> None:
    faint = [
        severity
        for severity, shade in SEVERITY.items()
        if contrast(getattr(shade, theme), GROUNDS[theme]) < TEXT
    ]
    assert [] == faint


@pytest.mark.parametrize("sight", list(SIGHT))
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_severities_are_told_apart_by_the_colour_blind(theme: str, sight: str) -> None:
    colours = {severity: getattr(shade, theme) for severity, shade in SEVERITY.items()}
    near = {
        pair: round(apart(colours[pair[0]], colours[pair[1]], sight), 1)
        for pair in combinations(colours, 2)
        if apart(colours[pair[0]], colours[pair[1]], sight) < APART
    }
    assert {} == near


@pytest.mark.parametrize("sight", list(SIGHT))
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_are_told_apart_by_the_colour_blind(theme: str, sight: str) -> None:
    near = {
        pair: round(apart(*pair, sight), 1)
        for pair in combinations(CATEGORICAL[theme], 2)
        if apart(*pair, sight) < APART
    }
    assert {} == near


def test_every_severity_has_its_own_icon_word_mark_and_symbol() -> None:
    assert set(Severity) == set(SEVERITY)
    for word in ("icon", "word", "mark", "symbol"):
        assert len(SEVERITY) == len({getattr(shade, word) for shade in SEVERITY.values()}), word


@pytest.mark.parametrize("scale", ["SEQUENTIAL", "DIVERGING"])
def test_scales_have_ten_colours_as_streamlit_wants(scale: str) -> None:
    assert 10 == len(getattr(palette, scale))


def test_the_sequential_scale_only_grows_lighter() -> None:
    light = [luminance(colour) for colour in palette.SEQUENTIAL]
    assert sorted(light) == light


def test_the_theme_has_the_colours_of_the_palette() -> None:
    path = Path(palette.__file__).parent / "serve" / ".streamlit" / "config.toml"
    theme = tomllib.loads(path.read_text())["theme"]
    assert list(palette.SEQUENTIAL) == theme["chartSequentialColors"]
    assert list(palette.DIVERGING) == theme["chartDivergingColors"]
    for name, ground in GROUNDS.items():
        assert ground == theme[name]["backgroundColor"]
        assert list(CATEGORICAL[name]) == theme[name]["chartCategoricalColors"]
