"""The glossary points to what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs/reference/glossary.md"
PLACE = re.compile(r"`((?:analyzer|collector|deploy|lockstep|workloads)/[\w/.-]+)`(?: `(\w+)`)?")


def test_every_place_in_the_glossary_is_there_and_has_what_is_named() -> None:
    places = PLACE.findall(GLOSSARY.read_text(encoding="utf-8"))

    assert len(places) > 50
    for path, name in places:
        assert (ROOT / path).exists(), path
        if name:
            assert f"class {name}" in (ROOT / path).read_text(encoding="utf-8"), (path, name)


def test_no_term_has_two_rows() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    terms = [row for row in rows if row not in ("term", "---")]

    assert len(terms) == len(set(terms))
