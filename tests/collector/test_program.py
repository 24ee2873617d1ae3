"""The collector as a process: flags, exit codes, signals."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from lockstep.collector.__main__ import main


def start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lockstep.collector", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def announced(path: Path) -> str:
    for _ in range(3000):
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
        with urllib.request.urlopen(url, timeout=60) as response:
            page = response.read().decode()
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=240)

    assert 'hostname="node-7"' in page
    assert process.returncode == 0
    assert b"Traceback" not in errors


def test_it_ends_with_its_parent(tmp_path):
    where = tmp_path / "address"
    script = (
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-m', 'lockstep.collector',\n"
        "  '--die-with-parent', str(os.getpid()),\n"
        f"  '--listen', '127.0.0.1:0', '--announce', {str(where)!r}])\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    address = announced(where)
    host, _, port = address.rpartition(":")
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()

    for _ in range(1500):
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return
        time.sleep(0.02)
    pytest.fail("the collector outlived its parent")


def test_it_does_not_start_for_a_parent_that_has_ended(tmp_path):
    somebody_else = subprocess.Popen([sys.executable, "-c", ""])
    somebody_else.wait()
    where = tmp_path / "address"
    done = subprocess.run(
        [sys.executable, "-m", "lockstep.collector", "--listen", "127.0.0.1:0",
         "--announce", str(where), "--die-with-parent", str(somebody_else.pid)],
        timeout=240,
    )  # fmt: skip

    assert done.returncode == 0
    assert not where.exists()


def test_one_page_goes_to_stdout(capsys, machine):
    machine.host()
    paths = ["--proc", str(machine.proc), "--sys", str(machine.sys)]

    before = set(threading.enumerate())
    code = main(["--once", "--lockstep-dir", str(machine.rings), *paths])

    assert code == 0
    for thread in set(threading.enumerate()) - before:  # they would go on to read
        thread.join(60)
        assert not thread.is_alive()
    assert 'lockstep_node_info{hostname="gpu-07"' in capsys.readouterr().out


def test_counters_outlive_a_restart(tmp_path):
    def once() -> str:
        where = tmp_path / "address"
        process = start(
            *("--listen", "127.0.0.1:0", "--announce", str(where), "--lockstep-dir", str(tmp_path)),
            *("--state-dir", str(tmp_path / "state")),
        )
        try:
            announced(where)
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=240)
        where.unlink()
        assert process.returncode == 0
        return errors.decode()

    once()
    file = tmp_path / "state/counters.json"
    assert file.read_text().startswith('{"schema_version":2')
    file.write_text("torn")

    assert "is not a state file" in once()
    assert file.read_text().startswith('{"schema_version":2')


@pytest.mark.root
def test_it_runs_as_nobody(tmp_path):
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("needs root and setpriv to become nobody")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    command = [
        *(setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"),
        *(sys.executable, "-m", "lockstep.collector", "--listen", f"127.0.0.1:{address[1]}"),
        *("--lockstep-dir", str(tmp_path)),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        page = ""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                base = f"http://127.0.0.1:{address[1]}"
                # 503 until every source has answered once: a page before that lacks some.
                urllib.request.urlopen(f"{base}/readyz", timeout=60).close()
                with urllib.request.urlopen(f"{base}/metrics", timeout=60) as response:
                    page = response.read().decode()
                break
            except OSError:
                time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=240)

    assert 'lockstep_source_up{source="procfs"} 1' in page
    assert 'lockstep_source_up{source="own_process"} 1' in page
    assert (0, False) == (process.returncode, b"Traceback" in errors)


def test_it_says_what_each_source_sees_and_why_not(capsys, machine):
    machine.host()
    (machine.sys / "class/thermal/thermal_zone0/temp").unlink()
    (machine.proc / "diskstats").write_text("nothing like a disk\n")
    paths = ["--proc", str(machine.proc), "--sys", str(machine.sys)]

    code = main(["--check", "--lockstep-dir", str(machine.rings), *paths])

    lines = {line.split()[0]: line.split(maxsplit=2)[1:] for line in
             capsys.readouterr().out.splitlines()}  # fmt: skip
    assert code == 0
    assert ("ok", "partly", "failing", "absent") == tuple(
        lines[name][0] for name in ("procfs", "thermal", "diskstats", "cgroup_tree")
    )
    assert "no cpu controller under" in lines["cgroup_tree"][1]
    assert "is not a disk" in lines["diskstats"][1]


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
        ["--unheard-of"],
        ["--fast-period", "soon"],
    ],
)
def test_a_bad_setting_is_exit_64(arguments, capfd):
    assert main(arguments) == 64
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("text", [None, "[collector\n"])
def test_a_configuration_file_that_cannot_be_read_is_bad_input(tmp_path, text):
    file = tmp_path / "collector.toml"
    if text is not None:
        file.write_text(text)

    assert main(["--config", str(file)]) == 65


def test_a_web_config_file_that_is_missing_is_bad_input():
    assert main(["--web-config-file", "/does/not/exist"]) == 65


def test_an_unknown_key_is_misuse(tmp_path):
    file = tmp_path / "collector.toml"
    file.write_text("[collector]\nttll = 3\n")

    assert main(["--config", str(file)]) == 64
