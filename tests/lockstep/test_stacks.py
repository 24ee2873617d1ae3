"""`lockstep dump --stacks` on real programs that hang: who is blamed, at which line, unharmed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lockstep.analyzer.hangs.stacks import sentence
from lockstep.analyzer.hangs.verdict import judge
from lockstep.collector.contract.words import ExitCode
from lockstep.collector.on_demand.process import children, status
from lockstep.runs.hang_dumps import read_folder
from lockstep.watch.hangs.stacks import added
from lockstep.workloads.launch.joining import reachable

PROGRAM = Path(__file__).with_name("stacks_program.py")
WORLD = 3
"""Of two without the dump of one, the dumps alone name nobody."""
PATIENCE = 150.0
BAD_STEP = 5
"""In which rank 1 hangs: see the program."""
PROC = Path("/proc")

pytestmark = pytest.mark.distributed


@contextmanager
def running(folder: Path, fault: str) -> Iterator[list[subprocess.Popen[bytes]]]:
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
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "LOCKSTEP_STACK_SIGNAL": "USR2",
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


@pytest.fixture(scope="module")
def hanging(tmp_path_factory):
    """Fault -> (folder, ranks) of a program that hangs by it; one for all tests that look at it.

    It offers its stacks on a signal as well; without need nobody asks for them in that way.
    """
    started = {}
    with ExitStack() as ending:

        def of(fault: str):
            if fault not in started:
                folder = tmp_path_factory.mktemp(fault)
                ranks = ending.enter_context(running(folder, fault))
                # Before, a rank that has only just begun is late, and another is not there yet.
                reached(folder, 0, BAD_STEP - 1)
                started[fault] = folder, ranks
            return started[fault]

        yield of


def line_of(fault: str) -> int:
    lines = PROGRAM.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# line: {fault}"))


def steps(folder: Path, rank: int) -> int:
    try:
        return int((folder / f"step-{rank}").read_text() or -1)
    except OSError:
        return -1


def reached(folder: Path, rank: int, step: int) -> None:
    """Wait until this rank has done that step."""
    until = time.monotonic() + PATIENCE
    while steps(folder, rank) < step:
        assert time.monotonic() < until
        time.sleep(0.05)


def hung(lockstep, rings: Path, out: Path, *words: str):
    """What is told of the hang of these ranks, once the dumps show it."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        answer = lockstep(
            "dump", "stuck-1", "--dir", rings, "--out", out, "--stacks", *words,
            "--stack-timeout", "60", "--timeout", "2", "-o", "json",
        )  # fmt: skip
        if answer.code == ExitCode.OK:
            again = lockstep("hang", out, "--limit", "1", "--json")
            tree = json.loads(again.out)
            if tree["culprits"]:
                return tree, (out / "stacks.json").read_text()
        time.sleep(0.5)
    raise AssertionError("no hang was told in time")


def asked(tree) -> dict[int, dict[str, Any]]:
    """What is told of each rank that was asked for its stacks.

    All of them, or, once they have waited for so long that the dumps alone name who is missing,
    that one and a peer: which of the two is a matter of seconds here.
    """
    told = {one["rank"]: one for one in tree["stacks"]["ranks"]}
    assert set(told) in ({0, 1}, {0, 1, 2})
    return told


@pytest.mark.sweep(sample=2)
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
    lockstep, hanging, tmp_path, fault, line, function, kind, words
):
    folder, ranks = hanging(fault)
    tree, _ = hung(lockstep, folder / "rings", tmp_path)
    state = status(PROC, ranks[1].pid).state
    alive = [rank.poll() for rank in ranks]

    assert [1] == [one["rank"] for one in tree["culprits"]]
    assert kind in (None, tree["kind"])
    told = asked(tree)
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


def test_a_worker_of_the_data_loader_is_seen_at_its_line(lockstep, hanging, tmp_path):
    tree, _ = hung(lockstep, hanging("workers")[0] / "rings", tmp_path)

    assert ([1], "data-loader") == ([one["rank"] for one in tree["culprits"]], tree["kind"])
    assert (
        f"of it in `read_record` (stacks_program.py:{line_of('loader')})"
        in (tree["stacks"]["sentence"])
    )


def test_native_frames_are_read_where_they_are_asked_for(lockstep, hanging, tmp_path):
    tree, text = hung(lockstep, hanging("gil")[0] / "rings", tmp_path, "--native")

    told = asked(tree)
    assert {True} == {one["native"] for one in told.values()}
    assert "sleep" in {
        frame["function"]
        for one in json.loads(text)["ranks"]
        if one["rank"] == 1
        for thread in one["threads"]
        for frame in thread["frames"]
        if frame["native"]
    }
    assert "call_extension" == told[1]["blamed_line"]["function"]


@pytest.mark.parametrize("words", [(), ("--native",)])
def test_a_program_that_is_well_goes_on_and_nothing_is_left(lockstep, tmp_path, words):
    with running(tmp_path, "none") as ranks:
        reached(tmp_path, 0, 10)
        for _ in range(2):
            before = steps(tmp_path, 0)
            answer = lockstep(
                "dump", "stuck-1", "--dir", tmp_path / "rings", "--stacks", *words,
                "--stack-timeout", "60", "-o", "json",
            )  # fmt: skip
            assert ExitCode.OK == answer.code
            assert {"py-spy"} == {
                one["reader"] for one in json.loads(answer.out)["verdict"]["stacks"]["ranks"]
            }
            reached(tmp_path, 0, before + 10)
        assert [None] * WORLD == [rank.poll() for rank in ranks]
    left = [
        child
        for child in children(PROC, os.getpid())
        if b"py-spy" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]

    assert [] == left
    assert [] == list((tmp_path / "rings").rglob("dump-*"))


def test_a_collector_that_allows_it_tells_watch_where_the_blamed_rank_stands(
    lockstep, hanging, tmp_path
):
    address = f"127.0.0.1:{reachable.free_port()}"
    rings, folder = hanging("loader")[0] / "rings", tmp_path / "sent"
    command = [
        sys.executable, "-m", "lockstep", "collect", "--listen", address, "--stacks", "python",
        "--sources", "rank_ring", "--lockstep-dir", str(rings),
        "--announce", str(tmp_path / "address"),
    ]  # fmt: skip
    collector = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        hung(lockstep, rings, folder)
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
    lockstep, hanging, tmp_path, monkeypatch
):
    from lockstep.collector.on_demand import py_spy

    monkeypatch.setattr(py_spy, "program", lambda: None)
    folder, ranks = hanging("loader")
    tree, _ = hung(lockstep, folder / "rings", tmp_path)
    alive = [rank.poll() for rank in ranks]

    told = asked(tree)
    assert {"faulthandler"} == {one["reader"] for one in told.values()}
    assert ("read_record", line_of("loader")) == tuple(
        told[1]["blamed_line"][name] for name in ("function", "line")
    )
    assert [None] * WORLD == alive
