"""Two that write one folder: one does, the other is told, and nothing of the first is touched."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from time import monotonic, sleep

import pytest

from lockstep.analyzer.read.archive.load import load_archive
from lockstep.collector.contract.archive import RUN_FILE, STEPS_FILE
from lockstep.collector.contract.words import ExitCode
from lockstep.runs import claim
from tests.attack.bounds import times

PATIENCE = 120.0
# Waits for the file, takes the folder, says who it is in it, and holds it for a moment.
CONTENDER = """
import sys, time
from pathlib import Path
from lockstep.runs import claim
from lockstep.terminal.output import CommandError
out, go, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
print("ready", flush=True)
while not go.exists():
    time.sleep(0.0005)
try:
    with claim.claim_new_folder(out):
        (out / "written").open("x").write(name)
        time.sleep(0.3)
        assert (out / "written").read_text() == name
except CommandError as error:
    print(error.sentence, file=sys.stderr)
    sys.exit(error.code)
"""

HOLDER = """
import sys, time
from pathlib import Path
from lockstep.runs import claim
with claim.claim_new_folder(Path(sys.argv[1])):
    time.sleep(60)
"""


def started(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(out: Path, *words: str) -> "subprocess.Popen[str]":
    return started(
        "-m", "lockstep", "run", "allreduce", "--nodes", "2", "--steps", "20", "--sizes", "1K:1K:1",
        "--out", str(out), *words,
    )  # fmt: skip


def left(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir())


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.parametrize("there", [False, True])
def test_of_many_that_take_one_folder_at_once_one_has_it(tmp_path: Path, there: bool) -> None:
    for attempt in range(times(2)):
        out, go = tmp_path / f"out-{attempt}" / "a", tmp_path / f"go-{attempt}"
        if there:
            out.mkdir(parents=True)
        many = [started("-c", CONTENDER, str(out), str(go), str(index)) for index in range(6)]
        for each in many:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        go.touch()
        said = [each.communicate(timeout=PATIENCE)[1] for each in many]
        codes = Counter(each.returncode for each in many)

        assert {ExitCode.OK: 1, ExitCode.USAGE: 5} == codes, said
        winner = [each.returncode for each in many].index(ExitCode.OK)
        assert str(winner) == (out / "written").read_text()
        assert ["written"] == left(out)
        for sentence in filter(None, said):
            assert 1 == len(sentence.splitlines())
            assert str(out) in sentence


@pytest.mark.distributed
@pytest.mark.slow
def test_of_two_runs_with_one_out_one_runs_and_is_whole(tmp_path: Path) -> None:
    for attempt in range(times(1)):
        out = tmp_path / f"out-{attempt}"
        two = [run(out), run(out)]
        said = [each.communicate(timeout=PATIENCE) for each in two]
        codes = [each.returncode for each in two]

        assert [ExitCode.OK, ExitCode.USAGE] == sorted(codes), said
        won, lost = said[codes.index(ExitCode.OK)], said[codes.index(ExitCode.USAGE)]
        assert "" == lost[0]
        assert 1 == lost[1].count("lockstep: "), lost
        told = json.loads((out / RUN_FILE).read_text())
        assert told["run"] in won[0]
        assert "finished" == told["outcome"]["ending"]
        assert {told["run"]} == {load_archive(out).meta["run"]}
        assert claim.FILE not in left(out)


@pytest.mark.distributed
@pytest.mark.slow
def test_a_run_that_comes_late_leaves_the_first_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = run(out, "--steps", "150")
    try:
        until = monotonic() + PATIENCE
        while not list((out / STEPS_FILE).glob("*.parquet")):
            assert first.poll() is None, first.communicate()
            assert monotonic() < until
            sleep(0.05)
        of_first = json.loads((out / RUN_FILE).read_text())["run"]
        late = run(out)
        _, sentence = late.communicate(timeout=PATIENCE)

        assert ExitCode.USAGE == late.returncode
        assert "is not an empty folder" in sentence
        assert of_first == json.loads((out / RUN_FILE).read_text())["run"]
        assert 0 == first.wait(PATIENCE), first.communicate()
        assert "finished" == json.loads((out / RUN_FILE).read_text())["outcome"]["ending"]
    finally:
        first.kill()
        first.communicate()


def test_what_a_killed_writer_left_is_no_obstacle(tmp_path: Path) -> None:
    out = tmp_path / "out"
    killed = started("-c", HOLDER, str(out))
    try:
        until = monotonic() + PATIENCE
        while not (out / claim.FILE).exists():
            assert killed.poll() is None, killed.communicate()
            assert monotonic() < until
            sleep(0.01)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()

    assert [claim.FILE] == left(out)
    with claim.claim_new_folder(out):
        (out / "mine").touch()
    assert ["mine"] == left(out)


def test_two_scores_do_not_remove_each_others_archives(tmp_path: Path) -> None:
    from lockstep.evaluation.trials import WRITER_FILE

    with claim.claim_folder(tmp_path, WRITER_FILE):
        second = started(
            "-m", "lockstep", "score", "real", "--runs", "1", "--out", str(tmp_path)
        )  # fmt: skip
        out, sentence = second.communicate(timeout=PATIENCE)

    assert (ExitCode.USAGE, "") == (second.returncode, out)
    assert f"process {os.getpid()} on" in sentence
    assert [] == left(tmp_path)
