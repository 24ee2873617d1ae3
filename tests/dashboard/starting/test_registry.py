"""One run at a time, whoever starts it; its stages, its stop, its end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.starting import process, registry
from lockstep.dashboard.starting.plan import Plan
from lockstep.dashboard.starting.process import Job, Stage
from lockstep.dashboard.starting.progress import headline, lines, progress
from lockstep.dashboard.starting.registry import FILE, PLACE, BusyError, Registry
from lockstep.dashboard.starting.world import environment

ROOT = Path(__file__).parents[3]


def _plan(folder: Path, name: str, *, follow: bool = False) -> Plan:
    out = folder / name
    return Plan(name, out, ("run", "gpt", "--out", str(out)), follow)


def _until(holds: object, seconds: float = 60.0) -> None:
    """Wait for what another process does; there is no event across processes."""
    end = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def _trains(job: Job) -> bool:
    return progress(lines(job.snapshot().log)).stage == "training"


def test_a_run_is_followed_by_its_analysis_and_its_report(runs: Registry, tmp_path: Path) -> None:
    job = runs.start(_plan(tmp_path, "gpt-1", follow=True))

    assert job.wait(60)
    shown = job.snapshot()
    assert (Stage.OVER, 0, False, "") == (shown.stage, shown.code, shown.stopped, shown.trouble)
    assert (f"analyze {tmp_path / 'gpt-1'}", f"report {tmp_path / 'gpt-1'}") == tuple(
        line for line in lines(shown.log) if line.startswith(("analyze", "report"))
    )
    assert Severity.OK == headline(shown, progress(lines(shown.log)))[1]


@pytest.mark.parametrize("follow", [True, False])
def test_a_run_is_analyzed_once_or_not_at_all(runs: Registry, tmp_path: Path, follow: bool) -> None:
    job = runs.start(_plan(tmp_path, "gpt-1", follow=follow))

    assert job.wait(60)
    said = [line.partition(" ")[0] for line in lines(job.snapshot().log)]
    assert (["analyze", "report"] if follow else []) == said[2:]
    assert "verdict" not in job.snapshot().command


def test_a_failed_run_says_its_code_and_nothing_follows_it(runs: Registry, tmp_path: Path) -> None:
    job = runs.start(_plan(tmp_path, "fail-1", follow=True))

    assert job.wait(60)
    text, severity = headline(job.snapshot(), progress(()))
    assert "fail-1 failed with code 70" in text
    assert Severity.CRITICAL == severity
    assert "lockstep: rank 1 failed" == lines(job.snapshot().log)[-1]


def test_of_two_browsers_that_start_at_once_exactly_one_starts(
    runs: Registry, tmp_path: Path
) -> None:
    barrier, told = threading.Barrier(8), []

    def click(number: int) -> None:
        barrier.wait()
        try:
            told.append(runs.start(_plan(tmp_path, f"wait-{number}")))
        except BusyError as error:
            told.append(error)

    threads = [threading.Thread(target=click, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    jobs = [each for each in told if isinstance(each, Job)]
    assert 1 == len(jobs)
    assert all("One run at a time: wait-" in str(each) for each in told if each not in jobs)
    _until(lambda: _trains(jobs[0]))
    assert 1 == sum(each.name.startswith("wait-") for each in tmp_path.iterdir())


def test_another_dashboard_is_told_who_runs(runs: Registry, tmp_path: Path) -> None:
    runs.start(_plan(tmp_path, "wait-1"))
    code = (
        "import sys; from pathlib import Path\n"
        "from lockstep.dashboard.starting.registry import take, HeldError\n"
        "try: take(Path(sys.argv[1]), 'b')\n"
        "except HeldError as error: print(error)"
    )

    said = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment(), capture_output=True,
        check=True, text=True,
    ).stdout  # fmt: skip

    assert f"wait-1 of another dashboard, process {os.getpid()},\n" == said


def test_stop_lets_the_run_close_its_archive(runs: Registry, tmp_path: Path) -> None:
    job = runs.start(_plan(tmp_path, "wait-1", follow=True))
    _until(lambda: _trains(job))

    job.stop()
    job.stop()

    assert job.wait(60)
    shown = job.snapshot()
    assert (130, True) == (shown.code, shown.stopped)
    assert (tmp_path / "wait-1" / "closed").exists()
    assert "wait-1 was stopped" in headline(shown, progress(()))[0]
    assert not any(line.startswith("analyze") for line in lines(shown.log))


def test_stop_insists_where_a_run_does_not_listen(
    runs: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PATIENCE", ((signal.SIGINT, 0.1), (signal.SIGKILL, 5.0)))
    job = runs.start(_plan(tmp_path, "deaf-1"))
    _until(lambda: _trains(job))

    job.stop()

    assert job.wait(60)
    assert -signal.SIGKILL == job.snapshot().code
    assert "had to be killed" in headline(job.snapshot(), progress(()))[0]


def test_after_a_run_was_killed_another_one_starts(runs: Registry, tmp_path: Path) -> None:
    job = runs.start(_plan(tmp_path, "wait-1"))
    _until(lambda: _trains(job))
    assert job._process is not None
    os.kill(job._process.pid, signal.SIGKILL)
    assert job.wait(60)
    assert "killed by signal 9" in headline(job.snapshot(), progress(()))[0]

    again = runs.start(_plan(tmp_path, "gpt-1"))

    assert again.wait(60)
    assert 0 == again.snapshot().code


def test_a_lock_that_a_dead_dashboard_left_holds_nobody_up(runs: Registry, tmp_path: Path) -> None:
    (tmp_path / PLACE).mkdir()
    (tmp_path / PLACE / FILE).write_text(json.dumps({"pid": 1, "name": "old"}))

    assert runs.start(_plan(tmp_path, "gpt-1")).wait(20)


def test_a_folder_that_is_there_is_never_written_into(runs: Registry, tmp_path: Path) -> None:
    plan = _plan(tmp_path, "gpt-1")
    (tmp_path / "gpt-1").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(BusyError, match="gpt-1 is there already"):
        runs.start(plan)

    assert runs.start(replace(plan, name="gpt-2", out=tmp_path / "gpt-2")).wait(20)


def test_a_linked_lock_is_not_followed(runs: Registry, tmp_path: Path) -> None:
    (tmp_path / PLACE).mkdir()
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / PLACE / FILE).symlink_to(precious)

    with pytest.raises(OSError, match="symbolic links"):
        runs.start(_plan(tmp_path, "gpt-1"))

    assert "mine" == precious.read_text()


def test_a_program_that_cannot_be_started_is_a_sentence(
    runs: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))

    job = runs.start(_plan(tmp_path, "gpt-1"))

    assert job.wait(60)
    assert (
        "gpt-1 was not started. A process could not be started: No such file"
        in (headline(job.snapshot(), progress(()))[0])
    )


def test_every_page_of_a_process_sees_the_same_runs(tmp_path: Path) -> None:
    assert registry.of(tmp_path) is registry.of(tmp_path / "." / "")


def test_a_run_ends_with_its_dashboard(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from lockstep.dashboard.starting import process, registry\n"
        "from lockstep.dashboard.starting.plan import Plan\n"
        "process.PROGRAM = (sys.executable, sys.argv[2])\n"
        "folder = Path(sys.argv[1])\n"
        "plan = Plan('wait-1', folder / 'wait-1', ('run', '--out', str(folder / 'wait-1')), True)\n"
        "job = registry.of(folder).start(plan)\n"
        "while b'training' not in job.snapshot().log: time.sleep(0.02)\n"
        "print(job._process.pid, flush=True); time.sleep(60)"
    )
    fake = str(Path(__file__).with_name("fake_program.py"))
    dashboard = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), fake], env=environment(), text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert dashboard.stdout is not None
    run = int(dashboard.stdout.readline())

    dashboard.kill()
    dashboard.wait()
    dashboard.stdout.close()

    # The kernel tells the run at once.
    _until(lambda: not Path(f"/proc/{run}/fd").exists() or not os.path.exists(f"/proc/{run}/exe"))
