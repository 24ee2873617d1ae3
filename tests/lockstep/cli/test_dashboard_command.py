"""`lockstep dashboard`: its words, and its server as a process that leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from lockstep.cli import dashboard
from lockstep.cli.dashboard import Asked
from lockstep.collector.config import Address
from lockstep.terminal.output import CommandError

SECRETS = """
[auth]
redirect_uri = "http://127.0.0.1:8501/oauth2callback"
cookie_secret = "a-secret"
client_id = "lockstep"
client_secret = "another-secret"
server_metadata_url = "https://login.example/.well-known/openid-configuration"
"""
LOOPBACK = Address("127.0.0.1", 8501)
EVERYWHERE = Address("0.0.0.0", 8501)
SECONDS = 60.0


def refused(ask: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(CommandError) as caught:
        ask()
    return caught.value.code, caught.value.sentence


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.toml"
    path.write_text(SECRETS)
    path.chmod(0o600)
    return path


def test_an_archive_and_a_folder_of_archives_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    assert {"kind": "folder", "path": str(tmp_path)} == dashboard.source_of(Asked(tmp_path))
    archive = tmp_path / "run"
    assert {"kind": "archive", "path": str(archive)} == dashboard.source_of(Asked(archive))


def test_without_a_source_the_folder_runs_is_taken_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert {} == dashboard.source_of(Asked())
    (tmp_path / "runs").mkdir()
    assert {"kind": "folder", "path": str(tmp_path / "runs")} == dashboard.source_of(Asked())


def test_findings_may_come_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = tmp_path / "findings"
    found = dashboard.source_of(Asked(prometheus="http://host:9090", findings=later))
    assert str(later) == found["findings"]
    assert "is not there yet" in capsys.readouterr().err


def test_an_alertmanager_goes_with_a_login(secrets: Path) -> None:
    code, said = refused(
        lambda: dashboard.settings_of(Asked(alertmanager="http://am:9093"), LOOPBACK)
    )
    assert 64 == code
    assert "--login" in said
    pytest.importorskip("authlib", reason="authlib, for a login, is not installed")
    asked = Asked(alertmanager="http://am:9093/", login=secrets)
    assert "http://am:9093" == dashboard.settings_of(asked, EVERYWHERE).alertmanager


def test_notes_are_written_without_a_login_on_loopback_only() -> None:
    assert dashboard.settings_of(Asked(), LOOPBACK).local
    assert not dashboard.settings_of(Asked(), EVERYWHERE).local


def test_a_prometheus_is_a_source(tmp_path: Path) -> None:
    asked = Asked(prometheus="http://host:9090/", findings=tmp_path)
    expected = {"kind": "prometheus", "url": "http://host:9090", "findings": str(tmp_path)}
    assert expected == dashboard.source_of(asked)


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        (Asked(Path("/nowhere")), 65, "/nowhere is not a folder"),
        (Asked(Path("/"), prometheus="http://h"), 64, "DIR and --prometheus are two sources"),
        (Asked(prometheus="host:9090"), 64, "is no address"),
        (Asked(prometheus="http://me:secret@h"), 64, "holds credentials"),
        (Asked(findings=Path("/")), 64, "--findings goes with --prometheus"),
    ],
)
def test_a_wrong_source_is_a_sentence(asked: Asked, code: int, words: str) -> None:
    found, sentence = refused(lambda: dashboard.source_of(asked))
    assert code == found
    assert words in sentence
    assert "secret" not in sentence


def test_grafana_is_where_alerts_have_it_unless_it_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCKSTEP_GRAFANA_URL", "http://alerts/d")
    assert "http://alerts/d" == dashboard.settings_of(Asked(), LOOPBACK).grafana
    assert "http://g" == dashboard.settings_of(Asked(grafana="http://g/"), LOOPBACK).grafana
    monkeypatch.setenv("LOCKSTEP_GRAFANA_URL", "grafana")
    code, sentence = refused(lambda: dashboard.settings_of(Asked(), LOOPBACK))
    assert (64, "LOCKSTEP_GRAFANA_URL is 'grafana'") == (code, sentence.partition(";")[0])


def test_strangers_start_no_runs(tmp_path: Path) -> None:
    asked = Asked(runs=tmp_path / "runs")
    code, sentence = refused(lambda: dashboard.settings_of(asked, EVERYWHERE))
    assert (64, True) == (code, "everybody who reaches 0.0.0.0 could start runs" in sentence)
    assert tmp_path / "runs" == dashboard.settings_of(asked, LOOPBACK).runs


def test_a_login_lets_runs_be_started_from_elsewhere(
    tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "find_spec", lambda _: object())
    settings = dashboard.settings_of(Asked(runs=tmp_path, login=secrets), EVERYWHERE)
    assert (tmp_path, True) == (settings.runs, settings.login)


@pytest.mark.parametrize(
    ("change", "mode", "words"),
    [
        (("", ""), 0o640, "others can read it"),
        (("cookie_secret", "cookie"), 0o600, "has no cookie_secret in [auth]"),
        (("[auth]", "[other]"), 0o600, "has no redirect_uri, cookie_secret"),
        (('"a-secret"', '"a-secret'), 0o600, "is not TOML"),
    ],
)
def test_a_wrong_file_of_secrets_is_a_sentence_without_them(
    secrets: Path, change: tuple[str, str], mode: int, words: str
) -> None:
    secrets.write_text(SECRETS.replace(*change) if change[0] else SECRETS)
    secrets.chmod(mode)
    code, sentence = refused(lambda: dashboard.check_login(secrets))
    assert 65 == code
    assert words in sentence
    assert "a-secret" not in sentence


def test_a_login_without_authlib_says_what_to_install(
    secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "find_spec", lambda _: None)
    code, sentence = refused(lambda: dashboard.check_login(secrets))
    assert 69 == code
    assert "pip install 'streamlit[auth]'" in sentence


def test_without_streamlit_the_command_says_what_to_install(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "find_spec", lambda _: None)
    answer = lockstep("dashboard")
    assert 69 == answer.code
    assert "pip install '.[dashboard]'" in answer.err


def test_a_port_that_is_taken_is_a_sentence(lockstep: Callable[..., Any], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        answer = lockstep("dashboard", tmp_path, "--listen", listen)
    assert 69 == answer.code
    assert f"{listen} cannot be listened on" in answer.err


@pytest.mark.parametrize("listen", ["8501", "127.0.0.1:x", "127.0.0.1:99999"])
def test_a_mistyped_address_is_usage(
    lockstep: Callable[..., Any], tmp_path: Path, listen: str
) -> None:
    assert 64 == lockstep("dashboard", tmp_path, "--listen", listen).code


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The command over an empty folder, and its address."""
    announced = tmp_path / "address"
    command = [sys.executable, "-m", "lockstep", "dashboard", str(tmp_path), "--listen",
               "127.0.0.1:0", "--announce", str(announced)]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + SECONDS
        while not (announced.exists() and announced.read_text().endswith("\n")):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.05)
        try:
            yield process, announced.read_text().strip()
        finally:
            process.kill()


def is_gone(address: str) -> bool:
    """Whether nobody listens there any more, soon."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            socket.create_connection((host, int(port)), timeout=1.0).close()
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
def test_a_signal_ends_the_server_with_the_command(
    started: tuple["subprocess.Popen[str]", str], number: signal.Signals, code: int
) -> None:
    process, address = started
    with urlopen(f"http://{address}/_stcore/health", timeout=10.0) as answer:
        assert b"ok" == answer.read()
    os.kill(process.pid, number)
    assert code == process.wait(SECONDS)
    assert is_gone(address)
    if code != -9:
        told = process.stderr.read()
        assert f"http://{address}" in told
        assert "Traceback" not in told
