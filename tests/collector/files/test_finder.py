"""Files of a crowded folder, found part by part."""

import shutil
from pathlib import Path

import pytest

from lockstep.collector.files import finder
from lockstep.collector.files.finder import MAX_HALFWAY, Finder


@pytest.fixture
def crowded(tmp_path):
    """`crowded(folders, files)`: so many folders below, each with so many files."""

    def make(folders: int, files: int) -> set[Path]:
        paths = {
            tmp_path / f"pod-{pod}" / f"rank-{number}.ring"
            for pod in range(folders)
            for number in range(files)
        }
        for path in paths:
            path.parent.mkdir(exist_ok=True)
            path.touch()
        return paths

    return make


def found(one: Finder, looks: int) -> set[Path]:
    return {path for _ in range(looks) for path in one.look().paths}


@pytest.mark.parametrize("folders", [MAX_HALFWAY, MAX_HALFWAY + 2, 3 * MAX_HALFWAY])
def test_however_many_folders_are_crowded_all_their_files_are_seen(tmp_path, crowded, folders):
    paths = crowded(folders, 150)
    one = Finder(tmp_path, "rank-", ".ring", most=400, most_below=100)

    assert paths == found(one, 2 * folders)


def test_six_folders_beyond_what_is_looked_at_in_one_are_all_seen(tmp_path, crowded):
    paths = crowded(6, 1500)

    assert paths == found(Finder(tmp_path, "rank-", ".ring"), 10)


def test_the_end_of_a_crowded_folder_is_not_the_whole_of_it(tmp_path, crowded):
    crowded(1, 250)
    one = Finder(tmp_path, "rank-", ".ring", most=400, most_below=100)

    assert [False] * 6 == [one.look().whole for _ in range(6)]


def test_a_folder_that_is_gone_keeps_no_other_from_its_turn(tmp_path, crowded, monkeypatch):
    monkeypatch.setattr(finder, "MAX_HALFWAY", 1)
    crowded(1, 500)
    one = Finder(tmp_path, "rank-", ".ring", most=10_000, most_below=100)
    one.look()
    shutil.rmtree(tmp_path / "pod-0")
    for number in range(150):
        path = tmp_path / "other" / f"rank-{number}.ring"
        path.parent.mkdir(exist_ok=True)
        path.touch()

    assert 150 == len(found(one, 3))
