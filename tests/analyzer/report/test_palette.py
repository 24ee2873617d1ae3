"""Colours can be told apart by everyone: 3:1 for graphics, 4.5:1 for text (WCAG 2)."""

import re
from importlib.resources import files

import pytest

from lockstep.analyzer.report.page import COLOURS

CSS = (files("lockstep.analyzer.report") / "page.css").read_text("utf-8")
BLOCKS = re.findall(r":root \{([^}]+)\}", CSS)
THEMES = [dict(re.findall(r"--(\w+): (#[0-9a-f]+)", block)) for block in BLOCKS]


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = digits if len(digits) == 6 else "".join(2 * each for each in digits)
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark", "print"])
def test_lines_and_bars_reach_3_to_1_on_every_paper(theme: dict[str, str]) -> None:
    assert all(contrast(colour, theme["paper"]) >= 3.0 for colour in COLOURS.values())


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark", "print"])
def test_text_reaches_4_5_to_1_on_paper_and_panels(theme: dict[str, str]) -> None:
    for name in ("ink", "soft", "bad", "good", "note", "other"):
        for ground in ("paper", "panel"):
            assert contrast(theme[name], theme[ground]) >= 4.5, (name, ground)
