"""Taking a folder: what is allowed, what is refused, what is left."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.contract.words import ExitCode
from lockstep.runs import claim
from lockstep.terminal.output import CommandError


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_that_is_not_there_or_empty_is_taken_and_given_back(
    tmp_path: Path, there: bool
) -> None:
    out = tmp_path / "a" / "b"
    if there:
        out.mkdir(parents=True)
    with claim.claim_new_folder(out):
        assert [claim.FILE] == names(out)
        assert f"process {os.getpid()} on " in (out / claim.FILE).read_text()
        (out / "run.json").touch()

    assert ["run.json"] == names(out)


def test_what_was_made_and_stayed_empty_goes_again(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), claim.claim_new_folder(tmp_path / "a" / "b"):
        raise RuntimeError

    assert [] == names(tmp_path)


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    with claim.claim_new_folder(tmp_path):
        pass

    assert [] == names(tmp_path)


def test_a_second_one_is_told_who_has_it(tmp_path: Path) -> None:
    with claim.claim_new_folder(tmp_path):
        with pytest.raises(CommandError) as caught, claim.claim_new_folder(tmp_path):
            raise AssertionError
        assert [claim.FILE] == names(tmp_path)

    assert ExitCode.USAGE == caught.value.code
    assert f"process {os.getpid()} on " in caught.value.sentence


@pytest.mark.parametrize("kind", ["file", "full", "dangling"])
def test_what_is_no_empty_folder_is_refused_and_stays(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("precious")
    elif kind == "dangling":
        out.symlink_to(tmp_path / "nowhere" / "else")
    else:
        out.mkdir()
        (out / "precious").touch()
    with pytest.raises(CommandError) as caught, claim.claim_new_folder(out):
        raise AssertionError

    assert caught.value.code in (ExitCode.USAGE, ExitCode.UNREACHABLE)
    assert ["out"] == names(tmp_path)
    assert kind != "full" or ["precious"] == names(out)


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / claim.FILE).symlink_to(victim)
    with pytest.raises(CommandError), claim.claim_new_folder(out):
        raise AssertionError

    assert "precious" == victim.read_text()


def test_without_locks_whoever_made_the_file_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(fcntl, "flock", flock)
    with (
        claim.claim_new_folder(tmp_path),
        pytest.raises(CommandError, match=f"or remove {tmp_path / claim.FILE} if that is gone"),
        claim.claim_new_folder(tmp_path),
    ):
        raise AssertionError
    with claim.claim_new_folder(tmp_path):
        pass

    assert [] == names(tmp_path)
