"""The recorder: scrapes the pages of all nodes into a run archive when there is no Prometheus."""

import http.client
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

from lockstep.collector.clock import Clock
from lockstep.collector.contract import archive as layout
from lockstep.collector.contract import threads
from lockstep.collector.contract.bounded_http import (
    CHUNK,
    Allowance,
    BoundedHTTPConnection,
    ExceededError,
    allowed,
)
from lockstep.collector.recorder.follow import Follower
from lockstep.collector.recorder.parts import PartWriter, Row, arrow_schema
from lockstep.collector.recorder.rows import (
    AnswerError,
    RankAnswer,
    rank_answers,
    sample_rows,
    up_row,
)

__all__ = ["Recorder", "RecorderError", "arrow_schema"]

LOG = logging.getLogger(__name__)

T = TypeVar("T")


class RecorderError(Exception):
    """The archive could not be written whole; the message says what and why."""


class Recorder:
    """Records one run from the collectors of its nodes.

    Args:
        targets: Node name -> "http://host:port" of its collector.
        archive: The run's folder; the three tables become folders in it.
        run: Only this run's ranks are recorded.
        period: Seconds between two scrapes; an answer may take 0.9 of it.
        settle: Seconds that `stop` waits before the last scrape: a collector's period and a bit,
            so that the last page shows how the ranks ended.

    Attributes:
        errors: Failed fetches and writes so far.
        gpus: Of each rank that told its GPU's uuid, that and the number by which its node's page
            has this GPU; None where no page has.
        places: (dp, pp, tp) of each rank, as its ring told last.
    """

    def __init__(
        self,
        targets: Mapping[str, str],
        archive: Path,
        run: str,
        clock: Clock,
        period: float = 1.0,
        settle: float = 0.6,
    ) -> None:
        import prometheus_client.parser  # noqa: F401 - now, and not in the middle of the run

        self.errors = 0
        self.places: dict[int, tuple[int, int, int]] = {}
        self._uuids: dict[int, tuple[str, str]] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._targets = {node: Target(url) for node, url in targets.items()}
        self._run = run
        self._clock = clock
        self._period = period
        self._settle = settle
        self._follower = Follower()
        self._samples = PartWriter(archive / layout.SAMPLES_FILE, layout.SAMPLES)
        self._steps = PartWriter(archive / layout.STEPS_FILE, layout.STEPS)
        self._ops = PartWriter(archive / layout.OPS_FILE, layout.OPS)
        self._logged: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(max(1, len(self._targets)), "recorder")
        self._thread = threads.loop("recorder", self._loop, self._stop)

    def start(self) -> None:
        """Start recording."""
        self._thread.start()

    def stop(self) -> None:
        """Record what is still there (the rings must not be removed before), close all parts.

        Raises:
            RecorderError: The last parts could not be written.
        """
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._round()
        self._clock.sleep(self._settle)
        self._round(last=True)
        self._pool.shutdown()
        for target in self._targets.values():
            target.close()
        failures = self._close_parts(last=True)
        if failures:
            raise RecorderError(f"the archive is incomplete: {'; '.join(failures)}")

    @property
    def gpus(self) -> dict[int, tuple[int | None, str]]:
        """See the class."""
        names = self._uuids.items()
        return {rank: (self._numbers.get((node, uuid)), uuid) for rank, (node, uuid) in names}

    @property
    def lost_steps(self) -> int:
        """Steps that the rings had overwritten before they were recorded, summed over ranks."""
        return self._follower.lost_steps

    def _loop(self) -> None:
        due = self._clock.monotonic()
        part_due = due + layout.PART_SECONDS
        while not self._stop.is_set():
            self._round()
            now = self._clock.monotonic()
            if now >= part_due:
                self._close_parts()
                part_due = now + layout.PART_SECONDS
            due = max(due + self._period, now)
            self._stop.wait(due - now)

    def _round(self, *, last: bool = False) -> None:
        """One scrape and one fetch of operations from every node."""
        from_step = self._follower.from_step

        def visit(node: str) -> tuple[list[Row], list[RankAnswer]]:
            return self._scrape(node), self._fetch(node, from_step)

        answers: list[RankAnswer] = []
        for rows, ranks in self._pool.map(visit, self._targets):
            self._samples.add(rows)
            answers += ranks
        self.places |= {answer.rank: (answer.dp, answer.pp, answer.tp) for answer in answers}
        self._uuids |= {
            answer.rank: (answer.node, answer.uuid) for answer in answers if answer.uuid
        }
        steps, ops = self._follower.take(answers, from_step, self._clock.monotonic(), last=last)
        self._steps.add(steps)
        self._ops.add(ops)

    def _scrape(self, node: str) -> list[Row]:
        now = self._clock.wall()

        def parse(body: bytes | None) -> list[Row]:
            page = (body or b"").decode()
            rows = sample_rows(page, now, node, self._run, self._numbers)
            return [up_row(now, node, up=True), *rows]

        return self._ask(node, "/metrics", parse) or [up_row(now, node, up=False)]

    def _fetch(self, node: str, from_step: int) -> list[RankAnswer]:
        def parse(body: bytes | None) -> list[RankAnswer]:
            return [] if body is None else rank_answers(body, self._run)

        path = f"/ops?run={quote(self._run, safe='')}&from_step={from_step}"
        return self._ask(node, path, parse) or []

    def _ask(self, node: str, path: str, parse: Callable[[bytes | None], T]) -> T | None:
        """The parsed answer, or None when there was none (counted, logged once a target)."""
        try:
            return parse(self._targets[node].get(path, 0.9 * self._period))
        except (FetchError, AnswerError, UnicodeDecodeError) as error:
            self._count(node, f"node {node} did not answer as it should: {error}")
            return None

    def _close_parts(self, *, last: bool = False) -> list[str]:
        failures: list[str] = []
        for writer in (self._samples, self._steps, self._ops):
            try:
                writer.close_part(even_if_empty=last and writer.empty)
            except OSError as error:
                failures.append(str(error))
                self._count("archive", f"a part of the archive cannot be written: {error}")
        return failures

    def _count(self, what: str, message: str) -> None:
        with self._lock:
            self.errors += 1
            first = what not in self._logged
            self._logged.add(what)
        if first:
            LOG.warning("%s (counted from now on, not logged again)", message)


MAX_BYTES = 64 * 1024 * 1024
AGAIN_SECONDS = (0.05, 0.1, 0.2)
"""After an answer that it is busy a collector is asked again, each time so much later."""


class FetchError(Exception):
    """A target did not answer, in time, whole and with 200."""


class BusyError(FetchError):
    """A target answered with 503: it can be asked again."""


class Target:
    """A collector's address, `http://host:port`; used by one thread at a time.

    Raises:
        FetchError: The address is not of that form.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.port is None:
            raise FetchError(f"{url} is not a collector's address; it must be http://HOST:PORT")
        self.url = url
        self._host, self._port = parts.hostname, parts.port
        self._connection: BoundedHTTPConnection | None = None

    def get(self, path: str, timeout: float) -> bytes | None:
        """The body of a 200; None for a 404. Who is busy is asked again.

        Args:
            path: With its query.
            timeout: Seconds for all of it, a slow answer in small pieces included.

        Raises:
            FetchError: Anything else.
        """
        end = time.monotonic() + timeout
        try:
            with allowed(Allowance(timeout, MAX_BYTES)):
                for seconds in AGAIN_SECONDS:
                    try:
                        return self._get_anew(path)
                    except BusyError:
                        if time.monotonic() + seconds >= end:
                            raise
                        time.sleep(seconds)
                return self._get_anew(path)
        except FetchError:
            self.close()
            raise
        except ExceededError as error:
            self.close()
            raise FetchError(f"{self.url}: the answer takes too long or is too large") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise FetchError(f"{self.url}{path.partition('?')[0]}: {error!r}") from error

    def close(self) -> None:
        """Give the connection up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _get_anew(self, path: str) -> bytes | None:
        if self._connection is not None:
            try:
                return self._get(path)
            except ConnectionError:  # the collector gave the idle connection up
                self.close()
        return self._get(path)

    def _get(self, path: str) -> bytes | None:
        if self._connection is None:
            self._connection = BoundedHTTPConnection(self._host, self._port)
        self._connection.request("GET", path)
        with self._connection.getresponse() as response:
            body = b"".join(iter(lambda: response.read1(CHUNK), b""))
            if response.length:  # read1 does not complain about half a body
                raise FetchError(f"{self.url}: the answer ends {response.length} bytes early")
        if response.status == http.client.NOT_FOUND:
            return None
        if response.status != http.client.OK:
            error = BusyError if response.status == http.client.SERVICE_UNAVAILABLE else FetchError
            raise error(f"{self.url} answers {response.status} {response.reason}")
        return body
