"""Texts as they arrive when something went wrong on the way: cut, blanks, order, locale."""

import random
import re
from collections.abc import Callable

BLANK = re.compile(r"[ \t]")
DECIMAL_POINT = re.compile(r"(?<=[0-9])\.(?=[0-9])")
DIGIT = re.compile(r"[0-9]")
LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ARABIC_INDIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")


def mutated(text: str, random: random.Random) -> str:
    """The text after one to three mutations.

    It is cut last, so that no half line gets a new end.
    """
    chosen = random.choices(_MUTATIONS, k=random.randint(1, 3))
    for mutation in sorted(chosen, key=lambda one: one is _cut):
        text = mutation(text, random)
    return text


def _cut(text: str, random: random.Random) -> str:
    """It ends early, as of a writer that died or a buffer that was full."""
    return text[: random.randint(0, len(text))]


def _headless(text: str, random: random.Random) -> str:
    """It begins late, as of a log that was rotated; by whole lines."""
    lines = LINE.findall(text)
    return "".join(lines[random.randint(0, len(lines)) :])


def _doubled_blanks(text: str, random: random.Random) -> str:
    """Several blanks where there was one, at some places."""
    places = [match.start() for match in BLANK.finditer(text)]
    for place in sorted(random.sample(places, min(len(places), 3)), reverse=True):
        text = text[:place] + random.choice((" ", "\t", "  ")) + text[place:]
    return text


def _swapped_lines(text: str, random: random.Random) -> str:
    """Two lines changed places."""
    lines = LINE.findall(text)
    if len(lines) > 1:
        one, other = random.sample(range(len(lines)), 2)
        lines[one], lines[other] = lines[other], lines[one]
    return "".join(lines)


def _lost_line(text: str, random: random.Random) -> str:
    """A line is missing."""
    lines = LINE.findall(text)
    if lines:
        del lines[random.randrange(len(lines))]
    return "".join(lines)


def _windows(text: str, random: random.Random) -> str:
    """Lines end as on Windows, or in the way of old Macs."""
    return text.replace("\n", random.choice(("\r\n", "\r")))


def _decimal_comma(text: str, random: random.Random) -> str:
    """Numbers of a locale with a decimal comma."""
    return DECIMAL_POINT.sub(",", text)


def _foreign_digits(text: str, random: random.Random) -> str:
    """Some digits of another script."""
    places = [match.start() for match in DIGIT.finditer(text)]
    for place in random.sample(places, min(len(places), 3)):
        text = text[:place] + text[place].translate(_ARABIC_INDIC) + text[place + 1 :]
    return text


def _noise(text: str, random: random.Random) -> str:
    """A character that no text has, somewhere."""
    place = random.randint(0, len(text))
    return text[:place] + random.choice(("\0", "\x1b[31m", "\ufffd", "ü", "\u2028")) + text[place:]


_MUTATIONS: tuple[Callable[[str, random.Random], str], ...] = (
    _cut, _headless, _doubled_blanks, _swapped_lines, _lost_line, _windows, _decimal_comma,
    _foreign_digits, _noise,
)  # fmt: skip


def mutated_log(text: str, random: random.Random) -> str:
    """`mutated`, of lines of the kernel: it escapes every character that no text has."""
    chosen = random.choices(
        [one for one in _MUTATIONS if one is not _noise], k=random.randint(1, 3)
    )
    for mutation in sorted(chosen, key=lambda one: one is _cut):
        text = mutation(text, random)
    return text


def mutated_document(text: str, random: random.Random) -> str:
    """`mutated`, of a text in which a line says what the next ones mean.

    Lines change places with their neighbours only, and at most one is lost, moved or spoilt:
    nothing shows that a value stands in another part of the text, or that two losses hide each
    other.
    """
    order = (_headless, _lost_line, _swapped_neighbours, _noise, _foreign_digits)
    others = [one for one in _MUTATIONS if one not in (*order, _swapped_lines)]
    chosen = [*random.choices(others, k=random.randint(0, 2)), random.choice(order)]
    for mutation in sorted(chosen, key=lambda one: one is _cut):
        text = mutation(text, random)
    return text


def _swapped_neighbours(text: str, random: random.Random) -> str:
    """A line and the next one changed places."""
    lines = LINE.findall(text)
    if len(lines) > 1:
        one = random.randrange(len(lines) - 1)
        lines[one], lines[one + 1] = lines[one + 1], lines[one]
    return "".join(lines)
