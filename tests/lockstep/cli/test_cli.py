"""The command line as a whole: help, misuse, failures, and what they exit with."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from lockstep import app as cli
from lockstep.app import COMMANDS
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output

HEAVY = ("torch", "pandas", "pyarrow", "matplotlib", "numpy", "jinja2", "prometheus_client", "rich")


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=240)


def test_help_names_every_command_and_every_exit_code(lockstep: Callable[..., Any]) -> None:
    answer = lockstep("--help")

    assert answer.code == ExitCode.OK
    for command in COMMANDS:
        assert f"\n  {command.__name__} " in answer.out
    codes = [value for name, value in vars(ExitCode).items() if name.isupper()]
    assert all(str(code) in answer.out for code in codes)


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from lockstep.app import main; main(['--help']);"
        f"sys.exit(' '.join(set({HEAVY!r}) & set(sys.modules)))"
    )
    answer = shell("-c", program)

    assert answer.stderr.strip() == ""


@pytest.mark.parametrize("command", [command.__name__ for command in COMMANDS])
def test_every_command_has_help(lockstep: Callable[..., Any], command: str) -> None:
    answer = lockstep(command, "--help")

    assert answer.code == ExitCode.OK
    assert answer.out.startswith(f"Usage: lockstep {command}")


def test_the_version_is_the_distributions(lockstep: Callable[..., Any]) -> None:
    assert f"lockstep {version('lockstep-monitor')}\n" == lockstep("--version").out


def test_no_command_shows_the_help_and_is_misuse(lockstep: Callable[..., Any]) -> None:
    answer = lockstep()

    assert answer.code == ExitCode.USAGE
    assert answer.out == ""
    assert answer.err.startswith("Usage:")


def test_an_unknown_command_names_the_nearest(lockstep: Callable[..., Any]) -> None:
    answer = lockstep("analyse", "runs/x")

    assert answer.code == ExitCode.USAGE
    assert "'analyse'" in answer.err
    assert "did you mean 'analyze'?" in answer.err


def test_an_unknown_option_names_the_nearest(lockstep: Callable[..., Any]) -> None:
    answer = lockstep("analyze", "--no-writ", "runs/x")

    assert answer.code == ExitCode.USAGE
    assert "--no-write" in answer.err


def test_a_missing_argument_is_named(lockstep: Callable[..., Any]) -> None:
    answer = lockstep("analyze")

    assert answer.code == ExitCode.USAGE
    assert "DIR" in answer.err


def failing(error: BaseException) -> tuple[Callable[[], int], ...]:
    def broken() -> int:
        raise error

    return (broken,)


def test_an_unexpected_error_is_one_sentence_and_called_a_bug(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "COMMANDS", failing(ValueError("the moon\nis full")))
    answer = lockstep("broken")

    assert answer.code == ExitCode.INTERNAL
    assert len(answer.err.splitlines()) == 1
    assert "ValueError: the moon" in answer.err
    assert "bug" in answer.err
    assert "--debug" in answer.err


def test_debug_shows_the_traceback(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "COMMANDS", failing(ValueError("the moon")))

    assert "Traceback" in lockstep("--debug", "broken").err


def test_ctrl_c_exits_130(lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "COMMANDS", failing(KeyboardInterrupt()))
    answer = lockstep("broken")

    assert answer.code == ExitCode.INTERRUPTED
    assert "Traceback" not in answer.err


def test_ctrl_c_exits_130_also_where_a_library_makes_an_error_of_it(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> int:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("multiarray failed to import") from None
        return 0

    monkeypatch.setattr(cli, "COMMANDS", (broken,))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        answer = lockstep("broken")
    finally:
        signal.signal(signal.SIGINT, handler)

    assert (answer.code, answer.err) == (ExitCode.INTERRUPTED, "")


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.2, 0.4, 0.8])
def test_ctrl_c_at_any_moment_is_no_traceback(tmp_path: Path, seconds: float) -> None:
    (tmp_path / "run.json").write_text('{"schema_version": 1, "run": "r"}')
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "lockstep", "analyze", str(tmp_path)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell may ignore it
    )  # fmt: skip
    assert process.stderr is not None
    said = process.stderr.readline()
    while "lockstep.collector.contract" not in said and said:
        said = process.stderr.readline()  # Python itself starts without us
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=100)

    assert process.returncode in (ExitCode.INTERRUPTED, ExitCode.UNKNOWN)
    assert "Traceback" not in errors
    assert "bug" not in errors


def test_a_library_that_is_not_installed_is_named_with_its_cure(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ModuleNotFoundError("No module named 'torch'", name="torch")
    monkeypatch.setattr(cli, "COMMANDS", failing(error))
    answer = lockstep("broken")

    assert answer.code == ExitCode.UNREACHABLE
    assert "torch is not installed" in answer.err
    assert "pip install" in answer.err


def test_a_failure_carries_its_code_and_sentence(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "COMMANDS", failing(output.CommandError(65, "it is torn")))
    answer = lockstep("broken")

    assert answer.code == ExitCode.BAD_INPUT
    assert answer.err == "lockstep: it is torn\n"


def test_a_reader_that_went_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    answer = subprocess.run(
        [sys.executable, "-m", "lockstep", "--version"], stdout=writing, stderr=subprocess.PIPE,
        text=True, timeout=240,
    )  # fmt: skip
    os.close(writing)

    assert answer.stderr == ""
    assert answer.returncode == ExitCode.OK


def test_a_socket_that_broke_is_not_taken_for_a_reader_that_went_away(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "COMMANDS", failing(BrokenPipeError(32, "Broken pipe")))
    answer = lockstep("broken")

    assert answer.code == ExitCode.INTERNAL
    assert answer.err.startswith("lockstep: BrokenPipeError: [Errno 32] Broken pipe. This is a bug")


def test_the_program_exits_with_the_commands_code() -> None:
    assert shell("-m", "lockstep", "nonsense").returncode == ExitCode.USAGE
