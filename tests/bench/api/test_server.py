"""Who gets in, and what a stranger cannot do: tokens, silence, bytes, the command's end."""

import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs the extra api")

import lockstep
from lockstep.bench.api.access import FILE, bearer
from lockstep.collector.contract.words import ExitCode
from lockstep.collector.exporter import bounded_server as bounded
from lockstep.terminal.output import CommandError
from tests.bench.api.served import TOKEN, Api

PATIENCE_SECONDS = 300.0
"""Until a program of ours begins or ends, on a machine where others work as well."""


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCKSTEP_API_TOKEN", raising=False)
    monkeypatch.delenv("LOCKSTEP_API_TOKEN_FILE", raising=False)


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    made = bearer(None, tmp_path / "place")
    token = (tmp_path / "place" / FILE).read_text().strip()
    again = bearer(None, tmp_path / "place")

    assert stat.S_IMODE((tmp_path / "place" / FILE).stat().st_mode) == 0o600
    assert len(token) >= 32
    assert made is not None
    assert again is not None
    assert made.allows(f"Bearer {token}")
    assert again.allows(f"bearer {token}")
    assert not made.allows(f"Bearer {token}x")
    assert not made.allows(token)


def test_a_token_can_be_replaced_while_it_serves(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    key = bearer(file, None)
    assert key is not None
    file.write_text("new\n")

    assert (key.allows("Bearer old"), key.allows("Bearer new")) == (False, True)
    file.unlink()
    assert not any(key.allows(each) for each in ("Bearer new", "Bearer ", "Bearer", ""))


def test_a_token_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bearer(None, None) is None
    monkeypatch.setenv("LOCKSTEP_API_TOKEN", "of-a-variable")
    by_variable = bearer(None, tmp_path / "unused")
    (tmp_path / "token").write_text("of-a-file")
    monkeypatch.setenv("LOCKSTEP_API_TOKEN_FILE", str(tmp_path / "token"))
    by_file = bearer(None, tmp_path / "unused")

    assert by_variable is not None
    assert by_file is not None
    assert by_variable.allows("Bearer of-a-variable")
    assert by_file.allows("Bearer of-a-file")
    assert not (tmp_path / "unused").exists()
    monkeypatch.delenv("LOCKSTEP_API_TOKEN_FILE")
    monkeypatch.setenv("LOCKSTEP_API_TOKEN", " ")
    with pytest.raises(CommandError, match="LOCKSTEP_API_TOKEN is empty"):
        bearer(None, None)


def test_no_token_stands_in_a_log(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    api.client.runs()
    httpx.get(f"{api.url}/api/v1/runs", headers={"Authorization": "Bearer a-wrong-one"})

    said = "\n".join(each.getMessage() for each in caplog.records if "httpcore" not in each.name)
    assert TOKEN not in said
    assert "a-wrong-one" not in said


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: "])
def test_who_says_nothing_or_never_ends_keeps_no_place(
    api: Api, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(bounded, "HEAD_SECONDS", 0.3)
    with connected(api) as one:
        one.sendall(said)
        assert one.recv(1) == b""
    assert api.client.runs()


def test_who_asks_again_is_held_to_the_same_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "HEAD_SECONDS", 0.5)
    with connected(api) as one:
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
        one.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        began = time.monotonic()
        while one.recv(4096):
            pass
        assert time.monotonic() - began < 20


def test_a_body_that_never_comes_is_given_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "HEAD_SECONDS", 0.5)
    head = f"POST /api/v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    with connected(api) as one:
        one.sendall(f"{head}Content-Length: 10\r\n\r\n{{".encode())
        assert one.recv(4096).startswith(b"HTTP/1.1 408")


def test_a_body_without_end_is_refused(api: Api) -> None:
    def endless() -> object:
        while True:
            yield b"x" * (1 << 20)

    answer: httpx.Response | None = None
    with suppress(httpx.TransportError):  # it was closed before all of that was sent
        answer = httpx.post(f"{api.url}/api/v1/runs", content=endless(), headers=api.headers)  # type: ignore[arg-type]

    assert answer is None or answer.status_code == 413
    assert api.client.runs()


def connected(api: Api) -> socket.socket:
    host, port = api.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def test_the_client_is_no_weight_for_who_imports_us() -> None:
    program = (
        "import sys, lockstep; heavy = {'httpx', 'numpy', 'fastapi', 'torch'};"
        " assert not heavy & sys.modules.keys(); lockstep.Client;"
        " assert not {'numpy', 'fastapi', 'torch'} & sys.modules.keys()"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


@pytest.mark.slow
@pytest.mark.distributed
def test_a_real_run_is_started_followed_stopped_and_deleted(tmp_path: Path) -> None:
    runs, announce = tmp_path / "runs", tmp_path / "address"
    with (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "lockstep", "api", str(runs), "--listen", "127.0.0.1:0",
             "--announce", str(announce)],
            stdin=subprocess.DEVNULL, stdout=err, stderr=err,
        )  # fmt: skip
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while not announce.exists() or not announce.read_text().endswith("\n"):
            assert time.monotonic() < until, (tmp_path / "err").read_text()
            time.sleep(0.05)
        url = f"http://{announce.read_text().strip()}"
        with lockstep.Client(url, token_file=runs / ".api" / FILE) as client:
            whole = client.start(workload="logreg", nodes=2, steps=30)["run"]
            endless = client.start(nodes=2, steps=100_000, name="endless")["run"]
            assert client.run(endless)["state"] == "queued"
            assert client.wait(whole, 240)["state"] == "ended"
            assert client.verdict(whole)["run"] == whole
            assert client.results(whole)
            losses = client.metrics(whole, "loss", rank=0)[0]["points"]
            assert [each["step"] for each in losses] == list(range(30))
            while not has_steps(client, endless):
                assert time.monotonic() < until + 240
                time.sleep(0.5)
            with pytest.raises(lockstep.ApiError, match="stop it first"):
                client.delete(endless)
            client.stop(endless)
            stopped = client.wait(endless, 120)
            assert (stopped["state"], stopped["ended"] is None) == ("stopped", False)
            client.delete(endless)
            client.delete(whole)
            assert client.runs() == []
        assert [each.name for each in runs.iterdir() if each.name != ".api"] == [".starting"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == ExitCode.INTERRUPTED
        said = (tmp_path / "err").read_text()
        assert "Traceback" not in said
        assert (runs / ".api" / FILE).read_text().strip() not in said
        assert processes_of(str(runs)) == []
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_the_server_ends_its_run_which_closes_its_archive(
    tmp_path: Path, number: signal.Signals
) -> None:
    runs, announce = tmp_path / "runs", tmp_path / "address"
    process = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "api", str(runs), "--listen", "127.0.0.1:0",
         "--announce", str(announce)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + PATIENCE_SECONDS
    try:
        while not announce.exists() or not announce.read_text().endswith("\n"):
            assert time.monotonic() < until
            time.sleep(0.05)
        url = f"http://{announce.read_text().strip()}"
        with lockstep.Client(url, token_file=runs / ".api" / FILE) as client:
            client.start(nodes=2, steps=100_000, name="endless")
            while not (runs / "endless" / "run.json").exists():
                assert time.monotonic() < until
                time.sleep(0.1)
        process.send_signal(number)
        if number == signal.SIGINT:
            _, said = process.communicate(timeout=120)
            assert process.returncode == ExitCode.INTERRUPTED
            assert "ended with it: endless" in said
        until = time.monotonic() + PATIENCE_SECONDS
        while processes_of(str(runs)):
            assert time.monotonic() < until
            time.sleep(0.1)
    finally:
        process.kill()
        process.communicate()

    told = json.loads((runs / "endless" / "run.json").read_text())
    assert told["outcome"]["ending"] == "interrupted"


def has_steps(client: lockstep.Client, run: str) -> bool:
    try:
        return "loss" in {each["metric"] for each in client.series(run)}
    except lockstep.ApiError as error:
        assert error.error == "no_archive"  # noqa: PT017 - while it is being started
        return False


def processes_of(word: str) -> list[str]:
    """Command lines that name it."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal() and int(each.name) != os.getpid():
            try:
                line = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            found += [line] if word in line else []
    return found
