"""Every command held wrong: one sentence, its code, and no traceback."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lockstep.app import COMMANDS
from lockstep.collector.contract.words import ExitCode

NAMES = [command.__name__ for command in COMMANDS]
USAGE, BAD, AWAY = ExitCode.USAGE, ExitCode.BAD_INPUT, ExitCode.UNREACHABLE
NOBODY = "http://127.0.0.1:9"
"""The discard service, which nobody runs."""
CALLS: list[tuple[str, int, str]] = [
    # missing
    ("run", USAGE, "name what to run: gpt"),
    ("analyze", USAGE, "give the archive DIR of a run"),
    ("cluster", USAGE, "cluster needs DIR"),
    ("cluster {archive}", USAGE, "two runs or more"),
    ("report", USAGE, "report needs DIR"),
    ("ledger", USAGE, "give archives DIR"),
    ("ledger {archive} --prometheus {nobody} --run x", USAGE, "give archives DIR"),
    ("ledger --prometheus {nobody}", USAGE, "--prometheus needs --run ID"),
    ("ledger {archive} --since 1h", USAGE, "--since goes with --prometheus URL"),
    ("ledger {archive} --nodes 3", USAGE, "--nodes goes with --faults FILE"),
    ("ledger {archive} --gpu-hour-price inf", USAGE, "--gpu-hour-price is inf"),
    ("ledger --faults {file} --days nan", USAGE, "--days is"),
    ("ledger --faults {file}", BAD, "file"),
    ("ledger --faults {nowhere}", BAD, "nowhere cannot be read"),
    ("ledger --prometheus {nobody} --run x", AWAY, "127.0.0.1:9"),
    ("top http://h:1 --prometheus {nobody}", USAGE, "are two sources; give one"),
    ("top --run x", USAGE, "--run goes with --prometheus URL"),
    ("top nonsense", USAGE, "'nonsense' is no address of a page"),
    ("top --period 0", USAGE, "--period is '0'; it must be a number from 1 to 3600"),
    ("top {nobody}", USAGE, "this is no terminal; --once prints one screen"),
    ("top --once {nobody}", AWAY, "the collector at http://127.0.0.1:9 does not answer"),
    ("top --once --prometheus {nobody}", AWAY, "127.0.0.1:9"),
    ("top --once --prometheus nonsense", USAGE, "nonsense"),
    ("watch", USAGE, "watch needs --prometheus"),
    ("score", USAGE, "score needs KIND: real, faults or synth"),
    ("dump", USAGE, "dump needs RUN"),
    ("run gpt --nodes", USAGE, "--nodes needs a value"),
    ("watch --once --prometheus", USAGE, "--prometheus needs a value"),
    # of another type, or out of bounds
    ("run gpt --nodes four", USAGE, "--nodes is 'four'; it must be a whole number"),
    ("run gpt --nodes 1.5", USAGE, "--nodes is '1.5'; it must be a whole number"),
    ("run gpt --nodes 0", USAGE, "nodes is 0; it must be at least 1"),
    ("run gpt --learning-rate fast", USAGE, "--learning-rate is 'fast'; it must be a number"),
    ("run gpt --device gpu", USAGE, "--device is 'gpu'; it must be auto, cpu or cuda"),
    ("run gpt -o xml", USAGE, "--output is 'xml'; it must be table, json or jsonl"),
    ("run chess", USAGE, "chess"),
    ("run gpt --fault heat", USAGE, "heat"),
    ("demo --seed x", USAGE, "--seed is 'x'; it must be a whole number"),
    ("collect --fast-period soon", USAGE, "--fast-period is 'soon'; it must be seconds"),
    ("collect --die-with-parent x", USAGE, "'x' is no process id"),
    ("analyze {archive} --gpu-hour-price free", USAGE, "is 'free'; it must be a number, 0 or more"),
    ("analyze {archive} --gpu-hour-price -1", USAGE, "is '-1'; it must be a number, 0 or more"),
    ("analyze {archive} --no-write=3", USAGE, "--no-write takes no value"),
    ("analyze {archive} --until now", USAGE, "--until goes with --prometheus URL"),
    ("analyze {archive} --timeline t.json --steps 9", USAGE, "it must be FIRST:END"),
    ("cluster {archive} {archive} -o yaml", USAGE, "it must be table, json or jsonl"),
    ("report {archive} --format pdf", USAGE, "'pdf' is not one of html, md, json"),
    ("dashboard {archive} --listen here", USAGE, "--listen is 'here'"),
    ("watch --prometheus {nobody} --interval often", USAGE, "--interval is 'often'"),
    ("nodes --mode dance --once", USAGE, "dance"),
    ("nodes --interval x", USAGE, "--interval is 'x'; it must be a number"),
    ("score dreams", USAGE, "KIND is 'dreams'; it must be real, faults or synth"),
    ("score synth --runs 0", USAGE, "--runs is '0'; it must be a whole number, 1 or more"),
    ("score real --device-noise 3", USAGE, "it must be a number from 0 to 0.5"),
    ("dump a/b", USAGE, "'a/b' is no name of a run"),
    ("dump gpt-1 --native", USAGE, "--native is about stacks: give --stacks, too"),
    ("dump gpt-1 --stacks --stack-timeout 0", USAGE, "--stack-timeout"),
    ("collect --once --stacks all", USAGE, "it must be one of off, python, native"),
    ("dump x --timeout nan", USAGE, "--timeout is 'nan'; it must be a number from 0.1 to 60"),
    ("rules --out a --check b", USAGE, "--out and --check exclude each other"),
    ("doctor -o xml", USAGE, "it must be table, json or jsonl"),
    ("doctor --raw {archive} --clean", USAGE, "--clean and --raw look at different things"),
    ("doctor --cluster --clean", USAGE, "--clean and --cluster look at different things"),
    ("doctor --wait 5", USAGE, "--wait go with --cluster"),
    ("doctor --cluster --wait nan", USAGE, "--wait is nan"),
    ("doctor --cluster --kubeconfig {nowhere}", BAD, "cannot be used"),
    ("doctor --raw {nowhere}", BAD, "nowhere cannot be read"),
    ("doctor --raw {file}", BAD, "is no bundle"),
    ("doctor --raw {empty}", BAD, "MANIFEST.json"),
    ("doctor --raw {archive}", BAD, "MANIFEST.json"),
    ("capture --log {nowhere}", BAD, "nowhere is no file"),
    ("capture --share --out {file}", USAGE, "is there already"),
    # not what it should be
    *[(f"{command} {{{what}}}{more}", BAD, what)
      for command, more in (
          ("analyze", ""), ("report", ""), ("cluster", " {archive}"), ("ledger", ""))
      for what in ("nowhere", "file", "empty", "torn", "unreadable")],
    ("dashboard {nowhere}", BAD, "is not a folder"),
    ("dashboard {archive} --runs {empty} --api http://h", USAGE, "two ways to start runs"),
    ("dashboard {archive} --api ftp://h", USAGE, "no address of an API"),
    ("api {empty} --listen here", USAGE, "--listen is 'here'"),
    ("api {empty} --listen 0.0.0.0:0", USAGE, "would be sent in clear; give --tls-certificate"),
    ("api {empty} --tls-key {file}", USAGE, "go together"),
    ("api {empty} --listen 127.0.0.1:0 --tls-key {file} --tls-certificate {file}", AWAY, "TLS"),
    ("api {empty} --token-file {nowhere}", BAD, "nowhere is empty or not there"),
    ("api {file}", AWAY, "file cannot be used"),
    ("dashboard {file}", BAD, "is not a folder"),
    ("dashboard {archive} --login {torn_toml}", BAD, "is not TOML"),
    ("analyze {archive} --topology {torn_toml}", BAD, "torn.toml"),
    ("analyze --trace {file}", BAD, "file"),
    ("collect --config {torn_toml}", BAD, "torn.toml"),
    ("collect --once --config {nowhere}", BAD, "nowhere"),
    ("collect --web-config-file {torn_yaml} --listen 127.0.0.1:0", BAD, "torn.yaml"),
    ("run gpt --launcher mpirun --hostfile {nowhere}", BAD, "nowhere"),
    ("run gpt --resume {empty}", BAD, "empty"),
    ("run gpt --data {file}", BAD, "file"),
    ("run gpt --launcher kubernetes --image r/i:1 --kubeconfig {torn_yaml}", BAD, "torn.yaml"),
    ("nodes --once --kubeconfig {nowhere}", BAD, "nowhere"),
    ("run gpt --out {file}", USAGE, "is not an empty folder"),
    ("run gpt --out {archive}", USAGE, "is not an empty folder"),
    ("demo --out {file}", USAGE, "is not an empty folder"),
    ("report {archive} --baseline {empty}", BAD, "empty"),
    ("rules --check {nowhere}", BAD, "cannot be read"),
    ("rules --out {file}", BAD, "cannot be written"),
    ("score synth --runs 1 --out {file}", BAD, "file"),
    # nobody answers
    ("analyze --prometheus {nobody} --run x", AWAY, "127.0.0.1:9"),
    ("analyze --prometheus {nobody} --gpus n:0", AWAY, "127.0.0.1:9"),
    ("watch --once --prometheus {nobody}", AWAY, "127.0.0.1:9"),
    ("dump no-such-run", AWAY, "no rank of run no-such-run"),
    ("analyze --prometheus localhost --run x", USAGE, "localhost"),
    ("watch --once --prometheus nonsense", USAGE, "nonsense"),
]  # fmt: skip


@pytest.fixture
def things(tmp_path: Path) -> dict[str, str]:
    """Files and folders that are not what a command wants, and an archive that is one."""
    places = {name: tmp_path / name for name in ("nowhere", "file", "empty", "torn", "unreadable")}
    places["file"].write_text("this is no archive\n")
    for name in ("empty", "torn", "unreadable"):
        places[name].mkdir()
    (places["torn"] / "run.json").write_text('{"schema_version": 1,')
    (places["unreadable"] / "run.json").symlink_to("run.json")  # for root as well
    places["torn_toml"], places["torn_yaml"] = tmp_path / "torn.toml", tmp_path / "torn.yaml"
    places["torn_toml"].write_text("a = [")
    places["torn_yaml"].write_text("a: [")
    places["archive"] = tmp_path / "archive"
    places["archive"].mkdir()
    (places["archive"] / "run.json").write_text(json.dumps({"schema_version": 1, "run": "r"}))
    return {**{name: str(path) for name, path in places.items()}, "nobody": NOBODY}


@dataclass(frozen=True, slots=True)
class Told:
    """As the fixture `lockstep` answers, of a process of its own."""

    code: int
    out: str
    err: str


def outside(*words: str, environment: dict[str, str] | None = None, **streams: Any) -> Told:
    """`lockstep` as the shell would run it."""
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", *words], env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL, text=True, timeout=100,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )  # fmt: skip
    return Told(done.returncode, done.stdout or "", done.stderr)


def wrong(answer: Any, code: int, words: str) -> None:
    assert answer.code == code, answer.err
    assert answer.out == ""
    last = (answer.err.splitlines() or [""])[-1]
    assert words in last
    assert last.startswith(("lockstep: ", "collector: "))
    assert "Traceback" not in answer.err
    assert "This is a bug" not in answer.err
    assert "Value error" not in answer.err
    assert "Input should" not in answer.err


@pytest.mark.parametrize(("call", "code", "words"), CALLS, ids=[call for call, _, _ in CALLS])
def test_a_wrong_call_is_one_sentence_and_its_code(
    lockstep: Callable[..., Any], things: dict[str, str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path, call: str, code: int, words: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    arguments = call.format_map(things).split()
    # What the collector says goes to a log, whose handler is pytest's in this process.
    wrong(outside(*arguments) if arguments[0] == "collect" else lockstep(*arguments), code, words)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (["analyze", ""], "DIR"),
        (["cluster", "a", ""], "DIR"),
        (["run", "gpt", "--out", ""], "--out"),
        (["rules", "--out="], "--out"),
        (["report", "--out", "", "a"], "--out"),
        (["watch", "--prometheus", NOBODY, "--baseline", ""], "--baseline"),
    ],
)
def test_an_empty_path_is_not_the_current_folder(
    lockstep: Callable[..., Any], call: list[str], named: str
) -> None:
    wrong(lockstep(*call), USAGE, f"lockstep: {named} is empty; it must be a path")


@pytest.mark.parametrize("command", NAMES)
def test_an_unknown_option_is_named(lockstep: Callable[..., Any], command: str) -> None:
    wrong(lockstep(command, "--colour"), USAGE, f"{command} has no option --colour")


@pytest.mark.parametrize(
    "command", [name for name in NAMES if name not in ("run", "cluster", "ledger", "top")]
)
def test_a_word_too_many_is_named(lockstep: Callable[..., Any], command: str) -> None:
    needed = ["--prometheus", NOBODY] if command == "watch" else []
    wrong(lockstep(command, *needed, "real", "more"), USAGE, "leave out")


def test_a_variable_of_the_environment_is_checked(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_DEBUG", "maybe")
    wrong(lockstep("doctor"), USAGE, "--debug is 'maybe'; it must be true or false")


PRINTING = ("run --help", "rules", "collect --once", "collect --check", "--show-completion")


@pytest.mark.parametrize("call", PRINTING)
def test_a_reader_of_stdout_that_went_away_is_no_error(call: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    answer = outside(*call.split(), stdout=writing, environment={"SHELL": "/bin/bash"})
    os.close(writing)

    assert (answer.code, "Traceback" in answer.err) == (ExitCode.OK, False)
    assert "bug" not in answer.err


@pytest.mark.parametrize("call", ["run --help", "rules", "--version"])
def test_a_full_disk_is_said(call: str) -> None:
    with open("/dev/full", "w") as full:
        answer = outside(*call.split(), stdout=full)

    assert answer.code == AWAY
    assert answer.err == "lockstep: stdout cannot be written: No space left on device\n"


@pytest.mark.parametrize("environment", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}])
def test_a_plain_locale_is_spoken_to_plainly(environment: dict[str, str]) -> None:
    told = outside("run", "--help", environment=environment)
    refused = outside("analyze", "größe", environment=environment)

    assert (told.code, told.err) == (ExitCode.OK, "")
    assert refused.code == BAD
    assert "is not a folder" in refused.err


def test_closed_streams_are_no_error() -> None:
    program = f"{sys.executable} -m lockstep"
    call = f"{program} demo --seed x 2>&-; echo $?; {program} --version >&-; echo $?"
    answer = subprocess.run(["sh", "-c", call], capture_output=True, text=True, timeout=100)

    assert answer.stdout.split() == [str(int(USAGE)), "0"]
    assert answer.stderr == ""
