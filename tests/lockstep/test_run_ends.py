"""How a run ends: by a crash, a signal, an error, or a disk that is gone; nothing of it stays.

How long anything takes is not what these judge, unlike some in test_run.py.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.lockstep.test_run import CGROUPS, SHORT, WHY_NO_QUOTA, command, run

pytestmark = [pytest.mark.distributed, pytest.mark.slow]
SHARED_MEMORY = Path("/dev/shm/lockstep")
PATIENCE_SECONDS = 240.0


def children_of(pid: int) -> set[int]:
    """Every process below `pid`, at any depth."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found, frontier = set(), {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier} - found
        found |= frontier
    return found


def left_behind(pids: set[int], run_name: str) -> list[str]:
    """What is still there of a run: processes, rings, cgroups."""
    alive = [f"process {pid}" for pid in pids if Path(f"/proc/{pid}").exists()]
    rings = [str(SHARED_MEMORY / run_name)] if (SHARED_MEMORY / run_name).exists() else []
    groups = [str(root / run_name) for root in CGROUPS if (root / run_name).exists()]
    return alive + rings + groups


def wait_until_nothing_is_left(pids: set[int], run_name: str) -> list[str]:
    deadline = time.monotonic() + 60
    while (left := left_behind(pids, run_name)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A run that trains right now, in its own session, with a quota on one rank where possible."""
    archive = tmp_path / "archive"
    # With a quota where there may be one: its cgroup must go as well.
    fault = () if WHY_NO_QUOTA else ("--fault", "cpu-quota:rank=1,from=12")
    process = subprocess.Popen(
        command("gpt", "--nodes", "2", "--steps", "4000", *fault, "--out", str(archive)),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any((archive / "steps.parquet").glob("part-*.parquet")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield process, archive
    if process.poll() is None:
        process.kill()
        process.wait()


def test_an_injected_crash_is_a_successful_run_that_names_its_rank(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    done = run("gpt", *SHORT, "--fault", "crash:rank=1", "--out", str(archive), "-o", "json")
    answer = json.loads(done.stdout)

    assert 0 == done.returncode
    assert ("crash", [1], "killed by SIGKILL") == tuple(
        answer[key] for key in ("ending", "ranks", "reason")
    )
    *_, verdict, following = done.stderr.splitlines()
    assert verdict.startswith("verdict Rank 1 ")
    assert f"next    lockstep analyze {archive}" == following


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_ended_launcher_leaves_nothing_but_a_readable_archive(
    started: tuple[subprocess.Popen[bytes], Path], number: signal.Signals
) -> None:
    process, archive = started
    run_name = json.loads((archive / "run.json").read_text())["run"]
    pids = children_of(process.pid)
    assert len(pids) >= 5  # two ranks, two collectors, the janitor
    process.send_signal(number)
    code = process.wait(timeout=240)

    assert [] == wait_until_nothing_is_left(pids, run_name)
    assert (-signal.SIGKILL if number == signal.SIGKILL else 130) == code
    for table in ("ranks.parquet", "steps.parquet", "ops.parquet", "samples.parquet"):
        assert ds.dataset(archive / table).count_rows() > 0


def test_a_rank_that_fails_by_itself_is_named_and_is_a_failure(
    started: tuple[subprocess.Popen[bytes], Path],
) -> None:
    process, archive = started
    run_name = json.loads((archive / "run.json").read_text())["run"]
    pids = children_of(process.pid)
    ranks = [pid for pid in pids if _maps_ring(pid, "rank-1.ring")]
    os.kill(ranks[0], signal.SIGKILL)
    code = process.wait(timeout=240)
    outcome = json.loads((archive / "run.json").read_text())["outcome"]

    assert 70 == code
    exits = outcome.pop("exits")
    outcome.pop("raised")  # survivors may say that they lost it
    assert {"ending": "crash", "ranks": [1], "reason": "killed by SIGKILL"} == outcome
    assert (1, -9) == (exits[0]["rank"], exits[0]["code"])
    assert [] == wait_until_nothing_is_left(pids, run_name)


def _maps_ring(pid: int, name: str) -> bool:
    try:
        return name in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def test_a_rank_that_raises_says_why_in_its_log(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    broken = textwrap.dedent("""
        import sys
        from lockstep.workloads.loop import train
        def fail(job):
            raise RuntimeError("the weights are missing")
        train.run_rank = fail
        from lockstep.app import main
        sys.exit(main())
    """)
    done = subprocess.run(
        [sys.executable, "-c", broken, "run", "gpt", *SHORT, "--out", str(archive)],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip

    assert 70 == done.returncode
    assert "the weights are missing" in done.stderr
    assert "RuntimeError" in (archive / "logs" / "rank-0.log").read_text()


def test_an_archive_that_cannot_be_written_is_named_and_nothing_stays(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    process = subprocess.Popen(
        command("gpt", *SHORT, "--out", str(archive)),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (archive / "steps.parquet").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    run_name = json.loads((archive / "run.json").read_text())["run"]
    # Root may write anywhere, so take the folder away instead of the right to write.
    archive.rename(tmp_path / "moved")
    (tmp_path / "archive").write_text("in the way")
    _, errors = process.communicate(timeout=240)

    assert 70 == process.returncode
    assert str(archive) in errors
    assert "bug" not in errors
    assert [] == wait_until_nothing_is_left(set(), run_name)
