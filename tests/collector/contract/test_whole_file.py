"""A file that is written appears whole, or what was there stays."""

import os
import stat

import pytest

from lockstep.collector.contract.whole_file import replacing, write_whole


@pytest.mark.parametrize("content", ["ä\nb\n", "ä\nb\n".encode(), ["ä\n", "b\n"]])
def test_a_file_takes_the_place_of_what_was_there(tmp_path, content):
    path = tmp_path / "file"
    path.write_text("before")

    assert write_whole(path, content, sync=True) == path

    assert path.read_text() == "ä\nb\n"
    assert [path] == list(tmp_path.iterdir())


def test_while_it_is_written_and_when_that_fails_readers_see_the_old_one(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")

    def half() -> None:
        with replacing(path) as file:
            file.write(b"half")
            assert path.read_text() == "before"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()

    assert path.read_text() == "before"
    assert [path] == list(tmp_path.iterdir())


def test_permissions_are_those_that_are_asked_for_or_what_the_umask_leaves(tmp_path):
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "public", "")
        write_whole(tmp_path / "secret", "", mode=0o600)
        write_whole(tmp_path / "as_usual", "", mode=None)
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"public": 0o644, "secret": 0o600, "as_usual": 0o600}


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    (tmp_path / "file").symlink_to(elsewhere)

    write_whole(tmp_path / "file", "new")

    assert elsewhere.read_text() == "untouched"
    assert not (tmp_path / "file").is_symlink()
