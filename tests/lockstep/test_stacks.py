"""`lockstep dump --stacks` on real programs that hang: who is blamed, at which line, unharmed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analyzer.hang.standing import sentence
from analyzer.hang.verdict import judge
from collector.contract.words import ExitCode
from collector.stacks.process import children, status
from lockstep.hang_dumps import read_folder
from lockstep.watching.stacks import added
from workloads.joining import reachable

PROGRAM = Path(__file__).with_name("stacks_program.py")
WORLD = 3
"""Of two without the dump of one, the dumps alone name nobody."""
PATIENCE = 150.0
PROC = Path("/proc")

pytestmark = pytest.mark.distributed


@contextmanager
def running(folder: Path, fault: str, **more: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    port = str(reachable.free_port())
    rings = folder / "rings"
    rings.mkdir()
    for name in ("record", "state"):
        os.mkfifo(folder / name)
    # Somebody holds the other end of the checkpoint, and never reads.
    reader = os.open(folder / "state", os.O_RDONLY | os.O_NONBLOCK)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), fault, str(folder)],
            env={
                **os.environ, "OMP_NUM_THREADS": "1", "LOCKSTEP_DIR": str(rings),
                "LOCKSTEP_RUN": "stuck-1", "RANK": str(rank), "WORLD_SIZE": str(WORLD),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **more,
            },
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for rank in range(WORLD)
    ]  # fmt: skip
    try:
        yield ranks
    finally:
        os.close(reader)
        for rank in ranks:
            os.killpg(rank.pid, signal.SIGKILL)
        for rank in ranks:
            rank.wait()


def line_of(fault: str) -> int:
    lines = PROGRAM.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# line: {fault}"))


def steps(folder: Path, rank: int) -> int:
    try:
        return int((folder / f"step-{rank}").read_text() or -1)
    except OSError:
        return -1


def hung(lockstep, folder: Path, *words: str):
    """What is told of the hang, once the dumps show it."""
    out = folder / "sent"
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        answer = lockstep(
            "dump", "stuck-1", "--dir", folder / "rings", "--out", out, "--stacks", *words,
            "--stack-timeout", "60", "--timeout", "2", "-o", "json",
        )  # fmt: skip
        if answer.code == ExitCode.OK:
            again = lockstep("hang", out, "--limit", "1", "--json")
            tree = json.loads(again.out)
            if tree["culprits"]:
                return tree, (folder / "sent" / "stacks.json").read_text()
        time.sleep(0.5)
    raise AssertionError("no hang was told in time")


@pytest.mark.parametrize(
    ("fault", "line", "function", "kind", "words"),
    [
        ("loader", "loader", "read_record", "data-loader", "stands in `read_record`"),
        ("gil", "gil", "call_extension", None, "holding the GIL"),
        ("checkpoint", "checkpoint", "save_state", "checkpoint-storage", "in `save_state`"),
        ("stopped", "stopped", "stop", "host-stopped", "is stopped (state T) in `stop`"),
    ],
)
def test_the_blamed_line_is_the_one_that_hangs(
    lockstep, tmp_path, fault, line, function, kind, words
):
    with running(tmp_path, fault) as ranks:
        tree, _ = hung(lockstep, tmp_path)
        state = status(PROC, ranks[1].pid).state
        alive = [rank.poll() for rank in ranks]

    assert [1] == [one["rank"] for one in tree["culprits"]]
    assert kind in (None, tree["kind"])
    told = tree["stacks"]["ranks"]
    assert [0, 1, 2] == [one["rank"] for one in told]
    assert (function, line_of(line)) == tuple(
        told[1]["blamed_line"][name] for name in ("function", "line")
    )
    sentence = tree["stacks"]["sentence"]
    assert re.match(
        r"Rank 1 .*stacks_program\.py:\d+\).*, while rank 0 waits in all_reduce", sentence
    )
    assert words in sentence
    assert [None] * WORLD == alive
    assert fault != "stopped" or state == "T"


def test_a_worker_of_the_data_loader_is_seen_at_its_line(lockstep, tmp_path):
    with running(tmp_path, "workers"):
        tree, _ = hung(lockstep, tmp_path)

    assert ([1], "data-loader") == ([one["rank"] for one in tree["culprits"]], tree["kind"])
    assert (
        f"of it in `read_record` (stacks_program.py:{line_of('loader')})"
        in (tree["stacks"]["sentence"])
    )


def test_native_frames_are_read_where_they_are_asked_for(lockstep, tmp_path):
    with running(tmp_path, "gil"):
        tree, text = hung(lockstep, tmp_path, "--native")

    assert [True] * WORLD == [one["native"] for one in tree["stacks"]["ranks"]]
    assert "sleep" in {
        frame["function"]
        for thread in json.loads(text)["ranks"][1]["threads"]
        for frame in thread["frames"]
        if frame["native"]
    }
    assert "call_extension" == tree["stacks"]["ranks"][1]["blamed_line"]["function"]


@pytest.mark.parametrize("words", [(), ("--native",)])
def test_a_program_that_is_well_goes_on_and_nothing_is_left(lockstep, tmp_path, words):
    with running(tmp_path, "none") as ranks:
        until = time.monotonic() + PATIENCE
        while steps(tmp_path, 0) < 10 and time.monotonic() < until:
            time.sleep(0.05)
        for _ in range(5):
            before = steps(tmp_path, 0)
            answer = lockstep(
                "dump", "stuck-1", "--dir", tmp_path / "rings", "--stacks", *words,
                "--stack-timeout", "60", "-o", "json",
            )  # fmt: skip
            assert ExitCode.OK == answer.code
            assert {"py-spy"} == {
                one["reader"] for one in json.loads(answer.out)["verdict"]["stacks"]["ranks"]
            }
            until = time.monotonic() + PATIENCE
            while steps(tmp_path, 0) < before + 10 and time.monotonic() < until:
                time.sleep(0.05)
            assert steps(tmp_path, 0) >= before + 10
        assert [None] * WORLD == [rank.poll() for rank in ranks]
    left = [
        child
        for child in children(PROC, os.getpid())
        if b"py-spy" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]

    assert [] == left
    assert [] == list((tmp_path / "rings").rglob("dump-*"))


def test_a_collector_that_allows_it_tells_watch_where_the_blamed_rank_stands(lockstep, tmp_path):
    address = f"127.0.0.1:{reachable.free_port()}"
    with running(tmp_path, "loader"):
        command = [
            sys.executable, "-m", "lockstep", "collect", "--listen", address, "--stacks", "python",
            "--sources", "rank_ring", "--lockstep-dir", str(tmp_path / "rings"),
            "--announce", str(tmp_path / "address"),
        ]  # fmt: skip
        collector = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            hung(lockstep, tmp_path)
            folder = tmp_path / "sent"
            (folder / "stacks.json").unlink()
            before = judge(read_folder(folder)[0][1], 1.0)
            until = time.monotonic() + PATIENCE
            while not (tmp_path / "address").exists() and time.monotonic() < until:
                time.sleep(0.1)
            page = f"http://{address}/metrics"
            verdict = added([page], "stuck-1", folder, before, range(WORLD), seconds=60.0)
        finally:
            collector.terminate()
            collector.wait()

    assert [1] == [one.rank for one in before.origins]
    assert () == before.merged.dumps.stacks
    assert sentence(verdict).startswith(
        f"Rank 1 stands in `read_record` (stacks_program.py:{line_of('loader')}), while rank 0"
    )
    assert (folder / "stacks.json").exists()


def test_without_py_spy_a_program_that_offers_it_answers_and_goes_on(
    lockstep, tmp_path, monkeypatch
):
    from collector.stacks import py_spy

    monkeypatch.setattr(py_spy, "program", lambda: None)
    with running(tmp_path, "loader", LOCKSTEP_STACK_SIGNAL="USR2") as ranks:
        tree, _ = hung(lockstep, tmp_path)
        alive = [rank.poll() for rank in ranks]

    assert ["faulthandler"] * WORLD == [one["reader"] for one in tree["stacks"]["ranks"]]
    assert ("read_record", line_of("loader")) == tuple(
        tree["stacks"]["ranks"][1]["blamed_line"][name] for name in ("function", "line")
    )
    assert [None] * WORLD == alive
