"""`lockstep top` in a real terminal: it is left as it was, however it ends."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

pytest.importorskip("textual", reason="textual (the extra top) is not installed")

from tests.lockstep.top.looks import page
from tests.lockstep.top.test_pages import Nodes

pytestmark = pytest.mark.distributed

PATIENCE = 60.0


@pytest.mark.parametrize(
    ("leave", "code"),
    [(b"q", 0), (b"\x03", 130), (signal.SIGTERM, 130), (signal.SIGHUP, 130), (signal.SIGINT, 130)],
    ids=["q", "ctrl-c", "sigterm", "sighup", "sigint"],
)
def test_the_terminal_is_as_it_was(leave: bytes | signal.Signals, code: int):
    nodes = Nodes()
    nodes.texts = {"0": page(0, {0: 0.05, 1: 0.05})}
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(side)
    program = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "top", nodes.url(0)], stdin=side, stdout=side,
        stderr=side, start_new_session=True, env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    try:
        out = read_until(main, b"node-0")
        if isinstance(leave, bytes):
            os.write(main, leave)
        else:
            program.send_signal(leave)
        out += read_until(main, b"\x1b[?1049l")  # out of the alternate screen
        if b"\x1b[?25h" not in out:  # it may come in a write of its own
            out += read_until(main, b"\x1b[?25h")
        assert program.wait(PATIENCE) == code
        assert termios.tcgetattr(side) == before
        assert b"\x1b[?25h" in out  # the cursor is there again
        assert b"Traceback" not in out
    finally:
        program.kill()
        program.wait()
        nodes.close()
        os.close(main)
        os.close(side)


def read_until(descriptor: int, words: bytes) -> bytes:
    found = b""
    end = time.monotonic() + PATIENCE
    while words not in found and time.monotonic() < end:
        if select.select([descriptor], [], [], 0.2)[0]:
            found += os.read(descriptor, 1 << 16)
    assert words in found
    return found
