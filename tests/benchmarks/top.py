"""CPU of `lockstep top` in a terminal of 80x24, from its first screen on; the goal is 1 %.

Over pages of nodes with 8 GPUs and some 2,400 series each, that a process of its own serves; and
over a Prometheus that scrapes 64 nodes each second.
"""

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.analyzer.rules.recording_rules.fleet import Fleet
from tests.lockstep.servers import Pages, Servers
from tests.lockstep.top.looks import page
from tests.lockstep.top.test_pages import Nodes

SECONDS = 60.0
COUNTS = (1, 8, 32)
GOALS = {
    **{f"pages_{count}_percent_of_a_core": 1.0 for count in COUNTS},
    "prometheus_64_percent_of_a_core": 1.0,
}
RANKS = 8
OTHERS = 2100
"""Series of a page that top does not read."""


def main() -> dict[str, float]:
    """Percent of a core over SECONDS, and seconds of a core until the first screen."""
    figures: dict[str, float] = {}
    for count in COUNTS:
        with nodes(count) as urls:
            figures |= _named(f"pages_{count}", measured(urls))
    if shutil.which("prometheus") is not None:
        with prometheus() as url:
            figures |= _named("prometheus_64", measured(["--prometheus", url]))
    return figures


def _named(name: str, found: tuple[float, float]) -> dict[str, float]:
    return {f"{name}_percent_of_a_core": found[0], f"{name}_start_cpu_seconds": found[1]}


@contextmanager
def nodes(count: int) -> Iterator[list[str]]:
    """Pages whose counters go on, from another process than the one that is measured."""
    made = Nodes()
    begun = time.monotonic()
    rest = "\n".join(f'lockstep_rdma_hw_counters_total{{device="mlx5_{index % 8}",port="1",'
                     f'kind="k{index}"}} {index}' for index in range(OTHERS))  # fmt: skip
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(0.5):
            steps = round((time.monotonic() - begun) * 10)
            for node in range(count):
                own = {node * RANKS + index: 0.05 for index in range(RANKS)}
                made.texts[str(node)] = page(node, own, steps, world=count * RANKS, more=rest)

    thread = threading.Thread(target=go_on)
    thread.start()
    while len(made.texts) < count:
        time.sleep(0.05)
    try:
        yield [made.url(node) for node in range(count)]
    finally:
        ended.set()
        thread.join()
        made.close()


@contextmanager
def prometheus() -> Iterator[str]:
    """A Prometheus that has scraped 64 nodes for a while."""
    fleet = Fleet(dp=64, tp=1, slow=5, factor=1.5, scrapes=400)
    with TemporaryDirectory() as folder:
        pages = Pages(fleet)
        servers = Servers(Path(folder), pages)
        try:
            url = servers.prometheus("one", range(fleet.dp))
            time.sleep(15)
            yield url
        finally:
            servers.close()
            pages.close()


def measured(words: list[str]) -> tuple[float, float]:
    """Percent of a core once it shows something, and the seconds of a core before."""
    main_end, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    program = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "top", *words], stdin=side, stdout=side, stderr=side,
        start_new_session=True, env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    seen = threading.Event()

    def drain() -> None:
        found = b""
        while True:
            try:
                found = found[-100_000:] + os.read(main_end, 1 << 16)
            except OSError:
                return
            if b"every" in found:
                seen.set()

    threading.Thread(target=drain, daemon=True).start()
    try:
        if not seen.wait(60):
            raise AssertionError("it shows nothing")
        time.sleep(5.0)  # the second look, which is sooner than the others
        start, begun = cpu(program.pid), time.monotonic()
        time.sleep(SECONDS)
        used = cpu(program.pid) - start
        return 100 * used / (time.monotonic() - begun), start
    finally:
        program.terminate()
        program.wait(30)
        os.close(side)
        os.close(main_end)


def cpu(pid: int) -> float:
    """Seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
