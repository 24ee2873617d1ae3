"""The collector as a process: flags, exit codes, signals."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from collector.__main__ import main


def start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "collector", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def announced(path: Path) -> str:
    for _ in range(500):
        if path.exists():
            return path.read_text().strip()
        time.sleep(0.02)
    raise AssertionError("the collector did not start")


def test_it_announces_serves_and_ends_on_sigterm(tmp_path):
    where = tmp_path / "address"
    process = start(
        *("--listen", "127.0.0.1:0", "--node", "node-7", "--announce", str(where)),
        *("--lockstep-dir", str(tmp_path)),
    )
    try:
        url = f"http://{announced(where)}/metrics"
        with urllib.request.urlopen(url, timeout=5) as response:
            page = response.read().decode()
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=10)

    assert 'hostname="node-7"' in page
    assert process.returncode == 0
    assert b"Traceback" not in errors


def test_it_ends_with_its_parent(tmp_path):
    where = tmp_path / "address"
    script = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-m', 'collector', '--die-with-parent',\n"
        f"  '--listen', '127.0.0.1:0', '--announce', {str(where)!r}])\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    address = announced(where)
    host, _, port = address.rpartition(":")
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()

    for _ in range(250):
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return
        time.sleep(0.02)
    pytest.fail("the collector outlived its parent")


def test_one_page_goes_to_stdout(capsys, machine):
    machine.host()
    paths = ["--proc", str(machine.proc), "--sys", str(machine.sys)]

    code = main(["--once", "--lockstep-dir", str(machine.rings), *paths])

    assert code == 0
    assert 'lockstep_node_info{hostname="gpu-07"' in capsys.readouterr().out


def test_a_busy_port_is_exit_69_and_one_sentence(caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        code = main(["--listen", f"127.0.0.1:{port}"])

    assert code == 69
    assert [record.message for record in caplog.records] == [
        f"port {port} on 127.0.0.1 is in use; choose another with --listen"
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--listen", "nowhere"],
        ["--config", "/does/not/exist"],
        ["--unheard-of"],
    ],
)
def test_a_bad_setting_is_exit_64(arguments, capfd):
    assert main(arguments) == 64
    assert "Traceback" not in capfd.readouterr().err
