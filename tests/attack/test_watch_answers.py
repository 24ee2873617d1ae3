"""A real `lockstep watch` over a Prometheus whose answers do not end, drip, or are packed.

Before there were bounds one endless answer took 3.98 GB, and one byte a second held a cycle for
112 s while health said alive.
"""

import time
import zlib

import pytest

from tests.attack.watch_program import watching
from tests.hostile_server import HEAD, drops, endless, serving

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(300)]

MOST_BYTES = 600 << 20
"""It has 2 GiB; 150 MB of this are its libraries, and an answer has 32 MiB and is decoded once."""
_packing = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
# After a full flush nothing refers to what was before: so the second piece may follow for ever.
PACKED, MORE_PACKED = (
    _packing.compress(b"a" * (1 << 20)) + _packing.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
)
ANSWERS = {
    "endless": lambda: endless(HEAD + b'\r\n{"status":"success","data":{"result":["', b"a"),
    "endless values": lambda: endless(HEAD + b'\r\n{"data":{"result":[[]', b",[]"),
    "endless headers": lambda: endless(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
    "packed": lambda: endless(HEAD + b"Content-Encoding: gzip\r\n\r\n" + PACKED, MORE_PACKED),
    "an endless error": lambda: endless(b"HTTP/1.1 500 No\r\n\r\n", b"<html>"),
}


def failures(page: str) -> float:
    [line] = [
        line for line in page.splitlines()
        if line.startswith("lockstep_analyzer_query_failures_total ")
    ]  # fmt: skip
    return float(line.split()[1])


def test_no_answer_takes_much_memory_and_every_one_is_a_counted_failure(tmp_path):
    came = []

    def answer(request: bytes):
        came.append(request)
        return list(ANSWERS.values())[len(came) % len(ANSWERS)]()

    with serving(answer) as url, watching(url, tmp_path) as watch:
        watch.until(lambda page: failures(page) >= len(ANSWERS))
        most, (status, said) = watch.resident(), watch.ask("/-/healthy")
        log = watch.log()

    assert most < MOST_BYTES
    assert (200, "alive") == (status, said.strip())
    assert "than the 32 MiB that are read; findings stay as they are" in log
    assert "Traceback" not in log


def test_while_an_answer_drips_the_page_answers_and_a_signal_ends_it(tmp_path):
    with (
        serving(lambda _: drops(HEAD + b"Content-Length: 9999\r\n\r\n" + b"a" * 9999, 0.5)) as url,
        watching(url, tmp_path) as watch,
    ):
        time.sleep(1.0)
        page = watch.ask("/metrics")[1]
        watch.process.terminate()
        began = time.monotonic()
        assert 0 == watch.process.wait(240)
        seconds = time.monotonic() - began

    assert "lockstep_analyzer_cycles_total 1" in page
    assert seconds < 15.0  # the answer would take an hour
