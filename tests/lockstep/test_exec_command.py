"""`lockstep run --exec` as a user sees it: what is refused, what it exits with, what it leaves."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from lockstep.analyzer.read.archive.load import load_archive
from lockstep.collector.contract.words import ExitCode

SHARED_MEMORY = Path("/dev/shm/lockstep")
TRAINS = """
import time
for step in range(8):
    print(f"step {step} loss {1 / (step + 1):.3f}", flush=True)
    time.sleep(0.2)
"""
STAGED = """
import os, time, lockstep
for step in lockstep.recorder(dp=0, pp=int(os.environ["RANK"])).steps(range(8)):
    time.sleep(0.2)
"""
FAILS = "import os, sys; sys.exit('no such dataset') if os.environ['RANK'] == '1' else print('hi')"
SLEEPS = "import time; time.sleep(8)"


def shell(*command: str, out: Path, options: tuple[str, ...] = ()) -> list[str]:
    ours = ("run", "--exec", "--nodes", "2", "--out", str(out), *options)
    return [sys.executable, "-m", "lockstep", *ours, "--", *command]


def run(
    program: str, out: Path, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    command = shell(sys.executable, "-c", program, out=out, options=options)
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def commanded(word: str) -> set[int]:
    """Processes with this word on their command line."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if any(word.encode() in each for each in words):
            found.add(int(entry.name))
    return found


def sleepers(seconds: str) -> list[Path]:
    """Processes that are `sleep SECONDS` themselves, and not what started it."""
    line = f"sleep\0{seconds}\0".encode()
    return [
        Path(f"/proc/{pid}")
        for pid in commanded(seconds)
        if (told := Path(f"/proc/{pid}/cmdline")).exists() and told.read_bytes() == line
    ]


def eventually(happens: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not happens() and time.monotonic() < deadline:
        time.sleep(0.1)
    return happens()


@pytest.mark.distributed
@pytest.mark.slow
def test_a_program_with_steps_in_its_log_leaves_an_archive_that_says_so(tmp_path: Path) -> None:
    out = tmp_path / "archive"
    done = run(TRAINS, out)
    told = json.loads((out / "run.json").read_text())
    table = ds.dataset(out / "steps.parquet").to_table().to_pandas()

    assert ExitCode.OK == done.returncode, done.stderr
    assert {"0": "by the log", "1": "by the log"} == told["means"]
    assert told["own_time_known"] is False
    assert {(step, rank) for step in range(7) for rank in range(2)} == set(
        zip(table["step"], table["rank"], strict=True)
    )


@pytest.mark.distributed
@pytest.mark.slow
def test_the_place_of_a_rank_is_what_its_program_says(tmp_path: Path) -> None:
    out = tmp_path / "archive"
    run(STAGED, out)
    ranks = load_archive(out).ranks
    layout = json.loads((out / "run.json").read_text())["layout"]

    assert [(0, 0, True), (0, 1, True)] == [(one.dp, one.pp, one.external) for one in ranks]
    assert (1, 2, 1) == (layout["dp"], layout["pp"], layout["tp"])


@pytest.mark.distributed
@pytest.mark.slow
def test_the_layout_of_a_program_is_known_though_its_launcher_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "archive"
    command = shell(sys.executable, "-c", STAGED.replace("range(8)", "range(800)"), out=out)
    launcher = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def known() -> bool:
        told = out / "run.json"
        return told.exists() and 2 == json.loads(told.read_text())["layout"]["pp"]

    try:
        assert eventually(known)
    finally:
        launcher.kill()
        launcher.wait()
    ranks = ds.dataset(out / "ranks.parquet").to_table().to_pandas()

    assert [(0, 0), (0, 1)] == [*zip(ranks["dp"], ranks["pp"], strict=True)]


@pytest.mark.distributed
@pytest.mark.slow
def test_a_program_of_which_no_step_was_seen_is_watched_on_and_told_so(tmp_path: Path) -> None:
    done = run(SLEEPS, tmp_path / "archive", ("--hang-timeout", "2"))

    assert ExitCode.OK == done.returncode
    assert re.search(r"no step was seen for \d+ s", done.stderr)
    assert "no step was seen of the command on any of its 2 ranks" in done.stdout.splitlines()[-1]


@pytest.mark.distributed
@pytest.mark.slow
def test_a_rank_that_fails_is_named_with_the_last_line_of_its_log(tmp_path: Path) -> None:
    done = run(FAILS, tmp_path / "archive")

    assert ExitCode.INTERNAL == done.returncode
    assert "rank 1 on node-1 failed" in done.stderr
    assert "exited with code 1: no such dataset" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def sleeping(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A run of a command that sleeps, in a process group of its own."""
    out = tmp_path / "archive"
    process = subprocess.Popen(
        shell("sleep", "17320", out=out),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    yield process, out
    if process.poll() is None:
        process.kill()
        process.wait()


@pytest.mark.distributed
@pytest.mark.slow
def test_ctrl_c_leaves_nothing_but_an_archive_that_can_be_read(
    sleeping: tuple[subprocess.Popen[bytes], Path],
) -> None:
    process, out = sleeping
    assert eventually(lambda: len(sleepers("17320")) == 2)
    os.killpg(process.pid, signal.SIGINT)
    code = process.wait(timeout=240)
    told = json.loads((out / "run.json").read_text())

    assert ExitCode.INTERRUPTED == code
    assert "interrupted" == told["outcome"]["ending"]
    assert eventually(lambda: not commanded("17320"))
    assert not (SHARED_MEMORY / told["run"]).exists()


TIMED = """
import time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    time.sleep(0.02)
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_program_keeps_its_own_times_and_it_is_said_what_was_seen(
    tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "archive"
    process = subprocess.Popen(
        shell(sys.executable, "-c", TIMED, out=out),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert eventually(lambda: any((out / "steps.parquet").glob("part-*.parquet")))
        process.send_signal(number)
        said, _ = process.communicate(timeout=240)
    finally:
        process.kill()
    told, run = json.loads((out / "run.json").read_text()), load_archive(out)

    assert {"0": "by torch's optimizer", "1": "by torch's optimizer"} == told["means"]
    assert told["own_time_known"] is True
    # The first step is not known, and one that came late.
    assert run.windows["own_seconds"].notna().mean() >= 0.8
    assert (None if number is signal.SIGKILL else "interrupted") == (
        told["outcome"] and told["outcome"]["ending"]
    )
    if number is not signal.SIGKILL:
        assert re.search(r"steps +\d+ to \d+ of 2 ranks are recorded, by torch's optimizer", said)
        assert "no step was seen" not in said


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--fault", "thermal:rank=1"), "--fault is for"),
        (("--disturb", "gc"), "--disturb is for"),
        (("--launcher", "local"), "--launcher is for"),
        (("--goal", "full"), "--goal is for"),
        (("--network", "auto"), "--network is for"),
        (("--device", "auto"), "--device is for"),
        (("--steps", "250"), "--steps is for"),
        (("--seed", "0"), "--seed is for"),
        (("--resume", "x"), "--resume is for"),
        (("--job", "job.json"), "--job is for"),
        (("--model", "tiny", "--pp", "2"), "--pp and --model are for"),
    ],
)
def test_an_option_of_our_own_workloads_is_refused(
    lockstep: Callable[..., Any], options: tuple[str, ...], named: str
) -> None:
    answer = lockstep("run", "--exec", *options, "--", "true")

    assert (ExitCode.USAGE, "") == (answer.code, answer.out)
    assert f"lockstep: {named} our own workloads, not for --exec; leave " in answer.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--exec",), "--exec needs a command after --, as: -- python train.py"),
        ((), "name what to run: gpt, resnet, logreg, allreduce; or --exec -- COMMAND"),
        (("--exec", "--hang-timeout", "nan", "--", "true"), "must be at least 1 second"),
        (("--exec", "--hang-timeout", "0", "--", "true"), "must be at least 1 second"),
        (("python", "train.py"), "lockstep run --exec -- python train.py"),
    ],
)
def test_a_wrong_command_line_is_told_what_would_be_right(
    lockstep: Callable[..., Any], arguments: tuple[str, ...], sentence: str
) -> None:
    answer = lockstep("run", *arguments)

    assert ExitCode.USAGE == answer.code
    assert sentence in answer.err
