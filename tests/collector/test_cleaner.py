"""The cleaner of rings: what pods left goes by age, and nothing else does."""

import os
from pathlib import Path

import pytest

from lockstep.collector.cleaner import MAX_FOLDERS, clean, main
from lockstep.collector.contract import ring

AGE = 3600.0


def aged(path: Path, machine, seconds: float) -> Path:
    """As if nothing in it had changed for so long."""
    then = machine.clock.wall() - seconds
    for each in (*path.rglob("*"), path):
        os.utime(each, (then, then), follow_symlinks=False)
    return path


def left(machine, name: str, seconds: float = 2 * AGE) -> Path:
    """An empty folder of a pod that is gone."""
    folder = machine.rings / name
    folder.mkdir(parents=True)
    return aged(folder, machine, seconds)


def of_a_rank(machine, image, name: str, heartbeat: float, unchanged: float = 2 * AGE) -> Path:
    """A folder with a ring whose last heartbeat was so many seconds ago."""
    beat = round((machine.clock.monotonic() - heartbeat) * 1e9)
    return aged(machine.ring(image(heartbeat_ns=beat), name).parent, machine, unchanged)


@pytest.fixture(autouse=True)
def late(clock):
    clock.now += 10 * AGE  # the machine has run for longer than any age here


def test_an_empty_folder_goes_once_it_is_old(machine):
    left(machine, "old")
    young = left(machine, "young", AGE / 2)

    assert ["old"] == clean(machine.rings, AGE, machine.clock)
    assert [young] == list(machine.rings.iterdir())


def test_a_ring_stays_while_its_heart_beats_whatever_the_files_time_says(machine, image):
    alive = of_a_rank(machine, image, "alive", heartbeat=1)
    of_a_rank(machine, image, "killed", heartbeat=2 * AGE)

    assert ["killed"] == clean(machine.rings, AGE, machine.clock)
    assert [alive] == list(machine.rings.iterdir())


def test_a_ring_that_was_written_lately_stays_as_evidence(machine, image):
    of_a_rank(machine, image, "killed", heartbeat=2 * AGE, unchanged=AGE / 2)

    assert [] == clean(machine.rings, AGE, machine.clock)


@pytest.mark.parametrize("beat", [-10 * AGE, -2.0])
def test_a_heartbeat_of_the_future_keeps_nothing(machine, image, beat):
    of_a_rank(machine, image, "lies", heartbeat=beat)

    assert ["lies"] == clean(machine.rings, AGE, machine.clock)


def test_what_is_no_ring_goes_by_its_own_age(machine):
    folder = left(machine, "dumps")
    (folder / f"rank-0{ring.FILE_SUFFIX}").write_bytes(b"no ring")
    (folder / "inspector.log").write_text("words")
    aged(folder, machine, 2 * AGE)
    fresh = left(machine, "fresh")
    (fresh / "inspector.log").write_text("words")
    os.utime(fresh / "inspector.log", (machine.clock.wall(),) * 2)
    os.utime(fresh, (machine.clock.wall() - 2 * AGE,) * 2)

    assert ["dumps"] == clean(machine.rings, AGE, machine.clock)


def test_links_are_not_followed_and_files_beside_the_folders_stay(machine, tmp_path: Path):
    other = tmp_path / "of-the-node"
    other.mkdir()
    (other / "kept").write_text("kept")
    folder = left(machine, "pod")
    (folder / "link").symlink_to(other)
    (folder / f"rank-0{ring.FILE_SUFFIX}").symlink_to(other / "kept")
    aged(folder, machine, 2 * AGE)
    (machine.rings / "link").symlink_to(other)
    (machine.rings / "file").write_text("")

    assert ["pod"] == clean(machine.rings, AGE, machine.clock)
    assert "kept" == (other / "kept").read_text()
    assert {"link", "file"} == {each.name for each in machine.rings.iterdir()}


def test_a_look_removes_so_many_and_the_next_one_the_rest(machine):
    for number in range(MAX_FOLDERS + 5):
        left(machine, f"pod-{number}")

    assert MAX_FOLDERS == len(clean(machine.rings, AGE, machine.clock))
    assert 5 == len(clean(machine.rings, AGE, machine.clock))


def test_it_says_what_it_removed(tmp_path: Path, capsys):
    folder = tmp_path / "pod"
    folder.mkdir()
    os.utime(folder, (0, 0))

    assert 0 == main([str(tmp_path), "--once"])
    assert "removed pod: unchanged for 24h\n" == capsys.readouterr().out


@pytest.mark.parametrize(("words", "said"), [
    (["/nowhere", "--age", "10m"], "at least 15m"), (["/nowhere", "--age", "soon"], "--age"),
    ([], "DIR"),
])  # fmt: skip
def test_a_wrong_call_says_what_would_be_right(words: list[str], said: str, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)

    assert 64 == ended.value.code
    assert said in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_said(tmp_path: Path, capsys):
    assert 69 == main([str(tmp_path / "none"), "--once"])
    assert "No such file" in capsys.readouterr().err


def test_a_folder_that_cannot_be_looked_into_stays(machine, monkeypatch):
    inside = left(machine, "pod") / "of-another-user"
    inside.mkdir()
    aged(inside.parent, machine, 2 * AGE)
    listed = os.scandir

    def scandir(path="."):
        if Path(path) == inside:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)

    assert [] == clean(machine.rings, AGE, machine.clock)
    assert inside.is_dir()
