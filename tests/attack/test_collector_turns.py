"""Those who guess passwords, or ask for operations and take none: what others notice of them."""

import base64
import contextlib
import http.client
import itertools
import threading
import time
from collections.abc import Iterator

import bcrypt
import pytest

from lockstep.collector.contract import ring
from lockstep.collector.recorder.recorder import BusyError, Target
from tests.attack.collector_program import Collector, request, running
from tests.collector.conftest import RingImage

pytestmark = pytest.mark.distributed

USERS = 4
GUESSERS = 24
RUN = "gpt-1"
PATIENCE_SECONDS = 180.0


def header(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def status(collector: Collector, source: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(*collector.address, 30, (source, 0))
    try:
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


@contextlib.contextmanager
def guessed(collector: Collector, addresses: int) -> Iterator[None]:
    """Many passwords at once from so many addresses, each another."""
    over, words = threading.Event(), itertools.count()

    def guess(number: int) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                source = f"127.0.1.{1 + number % addresses}"
                status(collector, source, header("user-0", f"guess-{next(words)}"))

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(GUESSERS)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("addresses", [2, 5])
def test_guesses_do_not_keep_a_scraper_out_that_has_not_logged_in_yet(tmp_path, addresses):
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(10)).decode()
    web = tmp_path / "web.yml"
    users = "".join(f"  user-{number}: {hashed}\n" for number in range(USERS))
    web.write_text(f"basic_auth_users:\n{users}")
    (tmp_path / "rings").mkdir()
    with (
        running(tmp_path / "rings", "--web-config-file", str(web)) as collector,
        guessed(collector, addresses),
    ):
        told = [
            status(collector, "127.0.0.9", header(f"user-{number}", "secret"))
            for number in range(USERS)
        ]

    assert [200] * USERS == told


def asked(target: Target) -> bytes:
    """As the recorder does, which asks again where it is told to; a busy machine answers late."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return target.get(f"/ops?run={RUN}", PATIENCE_SECONDS)
        except BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def test_who_asks_for_operations_and_takes_none_costs_the_recorder_none(tmp_path):
    rings = tmp_path / "rings"
    rings.mkdir()
    (rings / ring.file_name(0)).write_bytes(RingImage(run=RUN).training(3000).bytes())
    with running(rings) as collector, contextlib.ExitStack() as kept:
        for _ in range(12):
            one = kept.enter_context(collector.connect())
            one.sendall(request(f"/ops?run={RUN}") * 40)
        time.sleep(1)
        target = Target("http://{}:{}".format(*collector.address))
        answers = [asked(target) for _ in range(5)]
        target.close()

    assert all(answers)
