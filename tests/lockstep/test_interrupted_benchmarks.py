"""Ctrl-C in a benchmark: 130, no traceback, and what was measured until then."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from lockstep.collector.contract.words import ExitCode
from tests.benchmarks import __main__ as program
from tests.benchmarks import kills
from tests.benchmarks.interrupted import InterruptedEarlyError
from tests.benchmarks.kill_cases import CaseInterruptedError, Killed, drawn

ROOT = Path(__file__).parents[2]


def test_what_was_measured_until_then_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def main() -> dict[str, float]:
        raise InterruptedEarlyError({"cases": 7.0})

    monkeypatch.setitem(program.BENCHMARKS, "slow", "takes hours")
    monkeypatch.setitem(sys.modules, "tests.benchmarks.slow", SimpleNamespace(main=main))
    code = program.main(["slow"])
    said = capsys.readouterr().out.splitlines()

    assert code == ExitCode.INTERRUPTED
    assert said[1] == "  interrupted; until then:"
    assert said[-1].split() == ["cases", "7"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, CaseInterruptedError])
def test_kills_counts_the_cases_that_were_done_and_starts_no_more(
    error: type[BaseException],
) -> None:
    begun: list[int] = []

    def one(index: int) -> kills.Case:
        begun.append(index)
        if index == 3:
            raise error
        if index > 3:
            time.sleep(0.02)  # on a busy machine all were done before the others had a turn
        return Killed(drawn(index, 0), killed=True, run="r", step=1, code=0), {}

    before = threading.active_count()  # of whatever ran in this process earlier
    with pytest.raises(InterruptedEarlyError) as interrupted:
        kills._all(one, 1000, 1)

    assert interrupted.value.figures == {"cases": 3.0, "killed": 3.0}
    assert len(begun) < 1000
    assert threading.active_count() < before + 10


def test_ctrl_c_in_any_benchmark_is_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks", "help_speed"], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell may ignore it
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith("help_speed: ")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == ExitCode.INTERRUPTED
    assert "Traceback" not in errors
