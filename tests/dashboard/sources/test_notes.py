"""What people wrote of a run, beside its archive."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.dashboard.sources import notes
from lockstep.dashboard.sources.notes import FILE, Note, Notes

FIRST = Note(1.0, "alice", "the fan of node-3 was changed")


def test_notes_and_tags_are_kept_beside_the_archive(tmp_path: Path) -> None:
    notes.noted(tmp_path, FIRST)
    notes.tagged(tmp_path, ["baseline", "fan", "baseline"])
    assert Notes(("baseline", "fan"), (FIRST,)) == notes.read(tmp_path)
    assert [FILE] == [each.name for each in tmp_path.iterdir()]


def test_those_of_a_finding_lie_in_the_folder_of_its_run(tmp_path: Path) -> None:
    finding = tmp_path / "run" / "finding"
    finding.mkdir(parents=True)
    (finding / "finding.json").write_text("{}")
    notes.noted(finding, FIRST)
    assert (tmp_path / "run" / FILE).exists()
    assert (FIRST,) == notes.read(finding).notes


def test_a_note_can_be_taken_away(tmp_path: Path) -> None:
    notes.noted(tmp_path, FIRST)
    notes.noted(tmp_path, Note(2.0, "bob", "no"))
    notes.withdrawn(tmp_path, FIRST)
    assert ["no"] == [each.text for each in notes.read(tmp_path).notes]


def test_what_is_no_tag_is_none(tmp_path: Path) -> None:
    notes.tagged(tmp_path, ["fine", "<script>", "a b", "", "x" * 41, "-dash"])
    assert ("fine",) == notes.read(tmp_path).tags


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(notes.UnwritableError, match="cannot be kept"):
        notes.noted(tmp_path / "gone", FIRST)


def test_two_hundred_notes_are_enough(tmp_path: Path) -> None:
    told = [{"at": 1.0, "by": "a", "text": "x"}] * notes.MOST_NOTES
    (tmp_path / FILE).write_text(json.dumps({"notes": told}))
    with pytest.raises(notes.UnwritableError, match="take one away"):
        notes.noted(tmp_path, FIRST)


@settings(max_examples=30)
@given(text=st.one_of(st.text(), st.from_type(object).map(repr), st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda some: st.lists(some) | st.dictionaries(st.sampled_from(["tags", "notes", "at"]), some),
).map(json.dumps)))  # fmt: skip
def test_whatever_lies_there_is_read_without_a_traceback(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / FILE).write_bytes(text.encode("utf-8", "surrogatepass"))
    found = notes.read(folder)
    assert len(found.tags) <= notes.MOST_TAGS


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(json.dumps({"tags": ["secret"]}))
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    assert () == notes.read(tmp_path).tags


@pytest.mark.parametrize("character", ["\u8a18", "\U0001f525", "\x01"])
def test_all_that_is_allowed_is_read_again(tmp_path: Path, character: str) -> None:
    full = Note(1.7e9 + 0.123456, character * notes.LONGEST_NAME, character * notes.LONGEST_NOTE)
    notes._change(tmp_path, lambda _: Notes(notes=(full,) * notes.MOST_NOTES))
    notes.tagged(tmp_path, ["\u8a18" * 40])
    assert notes.MOST_NOTES == len(notes.read(tmp_path).notes)


@pytest.mark.parametrize("torn", ['{"notes": [{"at": 1.0, "by"', "[]", "", "link"])
def test_a_file_that_does_not_read_is_not_written_over(tmp_path: Path, torn: str) -> None:
    if torn == "link":
        (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / FILE).write_text(torn)
    with pytest.raises(notes.UnwritableError, match="does not read"):
        notes.noted(tmp_path, FIRST)
    assert (tmp_path / FILE).is_symlink() or torn == (tmp_path / FILE).read_text()


def test_a_moment_that_no_calendar_has_is_no_note(tmp_path: Path) -> None:
    told = [{"at": at, "by": "a", "text": "x"} for at in (1e18, -1.0, 5.0)]
    (tmp_path / FILE).write_text(json.dumps({"notes": told}))
    assert [5.0] == [each.at for each in notes.read(tmp_path).notes]
