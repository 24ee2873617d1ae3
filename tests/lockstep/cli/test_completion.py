"""`--install-completion` and `--show-completion`: the scripts of shells, and their answers."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import shellingham  # type: ignore[import-untyped]

from lockstep.cli.completion import SHELLS, VARIABLE
from lockstep.collector.contract.words import ExitCode

FILES = {
    "bash": ".bash_completions/lockstep.sh",
    "zsh": ".zfunc/_lockstep",
    "fish": ".config/fish/completions/lockstep.fish",
}
ASKED = {  # what a shell's script sets for `lockstep ana`, and what it makes of the answer
    "bash": ({"COMP_WORDS": "lockstep ana", "COMP_CWORD": "1"}, "analyze"),
    "zsh": ({"_TYPER_COMPLETE_ARGS": "lockstep ana"}, '"analyze":"Name the culprit'),
    "fish": (
        {"_TYPER_COMPLETE_ARGS": "lockstep ana", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        "analyze\tName the culprit",
    ),
}


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """`inside("zsh")`: called by that shell, at home in tmp_path."""

    def inside(shell: str) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr(shellingham, "detect_shell", lambda: (shell, f"/bin/{shell}"))

    return inside


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_shown_and_installed(
    lockstep: Callable[..., Any], inside: Callable[[str], None], shell: str, tmp_path: Path
) -> None:
    inside(shell)
    shown, installed = lockstep("--show-completion"), lockstep("--install-completion")

    assert (shown.code, installed.code) == (ExitCode.OK, ExitCode.OK)
    assert f"{VARIABLE}=complete_{shell}" in shown.out
    assert shown.out.strip() == (tmp_path / FILES[shell]).read_text().strip()
    assert installed.out == ""
    assert FILES[shell] in installed.err


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_gets_its_answer(shell: str) -> None:
    words, wanted = ASKED[shell]
    environment = {**os.environ, **words, VARIABLE: f"complete_{shell}"}
    answer = subprocess.run(
        [sys.executable, "-m", "lockstep"], env=environment, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip

    assert answer.returncode == 0
    assert wanted in answer.stdout
    assert answer.stderr == ""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "wanted"),
    [("ana", "analyze"), ("run --ranks-per", "--ranks-per-node"), ("score fa", "faults")],
)
def test_bash_completes_with_the_script(
    lockstep: Callable[..., Any], inside: Callable[[str], None], tmp_path: Path, words: str,
    wanted: str,
) -> None:  # fmt: skip
    inside("bash")
    script = lockstep("--show-completion").out
    program = tmp_path / "lockstep"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m lockstep "$@"\n')
    program.chmod(0o755)
    ask = (
        f"COMP_WORDS=(lockstep {words}); COMP_CWORD={len(words.split())};"
        f' _lockstep_completion {program}; echo "${{COMPREPLY[@]}}"'
    )
    answer = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, timeout=60
    )

    assert answer.stdout.split() == [wanted]


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
def test_another_shell_is_told_which_are_known(
    lockstep: Callable[..., Any], inside: Callable[[str], None], option: str
) -> None:
    inside("dash")
    answer = lockstep(option)

    assert answer.code == ExitCode.USAGE
    assert "bash, zsh, fish, and this is dash" in answer.err


def test_the_users_shell_counts_where_none_called(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> tuple[str, str]:
        raise shellingham.ShellDetectionFailure

    monkeypatch.setattr(shellingham, "detect_shell", unknown)
    monkeypatch.setenv("SHELL", "/usr/bin/fish")

    assert "complete_fish" in lockstep("--show-completion").out


def test_a_home_that_cannot_be_written_is_said(
    lockstep: Callable[..., Any], inside: Callable[[str], None], tmp_path: Path
) -> None:
    inside("fish")
    (tmp_path / ".config").write_text("a file")
    answer = lockstep("--install-completion")

    assert answer.code == ExitCode.UNREACHABLE
    assert "cannot be installed" in answer.err
