"""Reports are written by processes of their own: the most urgent first, and nothing is left."""

import os
import threading
import time
from pathlib import Path

import pytest

from lockstep.watch.archive import reports
from lockstep.watch.archive.reports import Reports, Urgency, WriterProcess

SECONDS = 60.0


class Writing:
    """Writes nothing, after it was let; keeps what was asked."""

    def __init__(self) -> None:
        self.folders: list[str] = []
        self.let = threading.Event()
        self.why = ""

    def write(self, folder: Path) -> str:
        self.folders.append(folder.name)
        self.let.wait(SECONDS)
        return self.why

    def idle(self) -> None:
        pass

    def end(self) -> None:
        self.let.set()


def test_pages_come_first_and_what_waits_is_written_once() -> None:
    writing = Writing()
    queue = Reports(lambda: writing, processes=1)
    told: list[str] = []
    queue.want(Path("record"), Urgency.RECORD)
    queue.want(Path("later"), Urgency.LATER)
    queue.want(Path("page"), Urgency.PAGE, told.append)
    queue.want(Path("page"), Urgency.LATER, told.append)
    queue.want(Path("later"), Urgency.LATER)
    writing.let.set()
    queue.start()

    assert queue.wait(SECONDS)
    queue.stop()
    assert ["page", "record", "later"] == writing.folders
    assert ["", ""] == told
    assert ({"written": 3}, 0) == (queue.counts, queue.waiting)


def test_what_is_wanted_while_it_is_written_is_written_again_and_not_twice_at_once() -> None:
    writing = Writing()
    queue = Reports(lambda: writing, processes=2)
    queue.start()
    queue.want(Path("one"), Urgency.PAGE)
    while not writing.folders:
        time.sleep(0.01)
    queue.want(Path("one"), Urgency.LATER)
    time.sleep(0.05)
    before = list(writing.folders)
    writing.let.set()

    assert queue.wait(SECONDS)
    queue.stop()
    assert (["one"], ["one", "one"]) == (before, writing.folders)


def test_what_failed_is_tried_again_a_few_times_and_said_once(caplog) -> None:
    writing = Writing()
    writing.why = "No space left on device"
    writing.let.set()
    told: list[str] = []
    queue = Reports(lambda: writing, processes=1, pause=0.0)
    queue.start()
    queue.want(Path("one"), Urgency.PAGE, told.append)

    until = time.monotonic() + SECONDS
    while queue.waiting and time.monotonic() < until:
        time.sleep(0.01)
    queue.stop()
    assert ["No space left on device"] == told
    assert "No space left on device" == queue.trouble(Path("one"))
    assert reports.TRIES == len(writing.folders) == queue.counts["failed"]
    assert "the report of one was not written: No space left on device" in caplog.text


def test_a_try_that_failed_before_one_that_succeeds_is_told_to_nobody() -> None:
    class Later(Writing):
        def write(self, folder: Path) -> str:
            super().write(folder)
            return "" if len(self.folders) > 1 else "it is too early"

    writing = Later()
    writing.let.set()
    told: list[str] = []
    queue = Reports(lambda: writing, processes=1, pause=0.0)
    queue.start()
    queue.want(Path("one"), Urgency.PAGE, told.append)

    until = time.monotonic() + SECONDS
    while queue.waiting and time.monotonic() < until:
        time.sleep(0.01)
    queue.stop()
    assert [""] == told
    assert ({"written": 1, "failed": 1}, "") == (queue.counts, queue.trouble(Path("one")))


def test_who_wanted_a_report_that_failed_hears_of_the_one_that_is_wanted_meanwhile() -> None:
    writing = Writing()
    writing.why = "No space left on device"
    told: list[str] = []
    queue = Reports(lambda: writing, processes=1, pause=0.0)
    queue.start()
    queue.want(Path("one"), Urgency.PAGE, told.append)
    until = time.monotonic() + SECONDS
    while not writing.folders and time.monotonic() < until:
        time.sleep(0.01)
    queue.want(Path("one"), Urgency.LATER, told.append)
    writing.let.set()
    while queue.waiting and time.monotonic() < until:
        time.sleep(0.01)
    queue.stop()

    assert 2 * [writing.why] == told


def is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture
def stuck(monkeypatch, tmp_path) -> Path:
    """Processes that note their number in this file, and answer nothing."""
    (tmp_path / "worker.py").write_text(
        "import os, sys, time\n"
        f"open({str(tmp_path / 'noted')!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "time.sleep(600)\n"
    )
    begin = reports.subprocess.Popen

    def start(words: list[str], **named: object) -> object:
        return begin([words[0], str(tmp_path / "worker.py")], **named)  # type: ignore[call-overload]

    monkeypatch.setattr(reports.subprocess, "Popen", start)
    return tmp_path / "noted"


def noted(path: Path, count: int) -> list[int]:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        lines = path.read_text().split() if path.exists() else []
        if len(lines) >= count:
            return [int(line) for line in lines]
        time.sleep(0.02)
    raise AssertionError("no process began")


def test_a_process_that_takes_too_long_is_killed(stuck, tmp_path) -> None:
    writer = WriterProcess(deadline=1.0)

    assert "it took longer than 1 s" == writer.write(tmp_path)
    assert all(is_gone(one) for one in noted(stuck, 1))


def test_the_end_leaves_no_process_behind(stuck, tmp_path) -> None:
    queue = Reports(processes=2)
    queue.start()
    for number in range(5):
        queue.want(tmp_path / str(number), Urgency.PAGE)
    processes = noted(stuck, 2)
    begin = time.monotonic()
    queue.stop()

    assert all(is_gone(one) for one in processes)
    assert 2 == len(noted(stuck, 2))
    assert time.monotonic() - begin < 5.0


def test_a_process_of_its_own_says_what_is_wrong_and_goes_on(tmp_path) -> None:
    writer = WriterProcess()
    first, second = (writer.write(tmp_path / name) for name in ("no", "none"))
    child = writer._child
    writer.end()
    writer.idle()

    assert "no" in first
    assert "none" in second
    assert child is not None
    assert is_gone(child.pid)
