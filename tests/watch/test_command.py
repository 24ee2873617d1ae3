"""`lockstep watch` from outside: exit codes, signals, words."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from lockstep.analyzer.read.prometheus.access import access
from lockstep.runs.claim import claim_folder
from lockstep.watch.program import STATE_FILE
from lockstep.watch.settings import Settings
from tests.watch.over_http import over_http


@pytest.fixture
def url(prometheus) -> Iterator[str]:
    """Of a server that other processes can ask, too."""

    with over_http(prometheus) as address:
        yield address


def test_one_cycle_without_a_prometheus_is_source_unreachable(lockstep, tmp_path):
    found = lockstep("watch", "--prometheus", "http://127.0.0.1:9", "--once")

    assert 69 == found.code
    assert "cannot be reached" in found.err
    assert "Traceback" not in found.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prometheus", "localhost"], "is no address"),
        (["--prometheus", "http://x", "--interval", "0"], "is not from 0.2 to 3600 seconds"),
        (["--prometheus", "http://x", "--false-alarms", "0"], "is not above 0"),
        (["--prometheus", "http://x", "--listen", "x"], "it must be HOST:PORT"),
        (["--prometheus", "http://x", "--interval", "nan"], "is not from 0.2 to 3600 seconds"),
    ],
)
def test_a_setting_that_cannot_be_is_usage(words, said, lockstep):
    found = lockstep("watch", *words)

    assert 64 == found.code
    assert said in found.err


def test_a_baseline_that_is_no_archive_is_bad_input(lockstep, tmp_path):
    found = lockstep("watch", "--prometheus", "http://x", "--baseline", str(tmp_path))

    assert 65 == found.code


def test_one_cycle_over_a_healthy_run_exits_as_analyze_does(url, lockstep):
    found = lockstep("watch", "--prometheus", url, "--once")

    assert (0, "gpt-1: Healthy") == (found.code, found.out[:14])


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_in_a_second_with_its_state_saved(number, code, url, tmp_path):
    address, state = tmp_path / "address", tmp_path / "state"
    command = [
        sys.executable, "-m", "lockstep", "watch", "--prometheus", url, "--interval", "0.5",
        "--listen", "127.0.0.1:0", "--announce", str(address), "--state", str(state),
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 120.0
            while not (state / "memory.json").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(number)
            begin = time.monotonic()
            assert code == process.wait(240)
            seconds = time.monotonic() - begin
        finally:
            process.kill()
        told = process.stderr.read()
    assert "Traceback" not in told
    assert seconds < 10.0  # a second on an idle machine
    assert "lockstep watch memory 1" == json.loads((state / "memory.json").read_text())["format"]


@pytest.mark.parametrize("words", [(), ("--once",)])
def test_a_second_watch_on_one_state_is_refused_in_a_sentence(words, lockstep, tmp_path):
    state = tmp_path / "state"
    with claim_folder(state, STATE_FILE, "--state", locks=True):
        found = lockstep(
            "watch", "--prometheus", "http://127.0.0.1:9", "--listen", "127.0.0.1:0",
            "--state", str(state), *words,
        )  # fmt: skip

    assert 64 == found.code
    assert f"--state {state} is being written by process {os.getpid()} on" in found.err
    assert 1 == len(found.err.strip().splitlines())
    assert [] == list(state.iterdir())


def test_a_state_of_a_watch_that_was_killed_is_taken(lockstep, tmp_path):
    (tmp_path / STATE_FILE).write_text("process 1 on a-pod-that-is-gone")
    found = lockstep(
        "watch", "--prometheus", "http://127.0.0.1:9", "--once", "--state", str(tmp_path)
    )

    assert 69 == found.code
    assert "cannot be reached" in found.err


# How long is long enough, at each interval.


@pytest.mark.parametrize(("interval", "close"), [(0.2, 120.0), (1.0, 120.0), (15.0, 300.0)])
def test_a_finding_is_over_after_twenty_cycles_and_never_before_two_minutes(interval, close):
    settings = Settings(access("http://127.0.0.1:9090", {}), None, None, interval)

    assert close == settings.pace.close
