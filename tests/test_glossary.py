"""The glossary points to what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs/reference/glossary.md"
ROOM = re.compile(r"\| `([\w/-]+)` \|$", re.MULTILINE)


def test_every_room_in_the_glossary_is_a_folder() -> None:
    rooms = ROOM.findall(GLOSSARY.read_text(encoding="utf-8"))

    assert len(rooms) > 50
    assert [] == [room for room in rooms if not (ROOT / room).is_dir()]


def test_no_term_has_two_rows() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    terms = [row for row in rows if row not in ("term", "---")]

    assert len(terms) == len(set(terms))
