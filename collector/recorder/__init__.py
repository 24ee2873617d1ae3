"""The recorder: scrapes the pages of all nodes into a run archive when there is no Prometheus."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from collector.clock import Clock
from collector.contract import archive as layout
from collector.recorder.fetch import FetchError, Target
from collector.recorder.follow import Follower
from collector.recorder.parts import PartWriter, Row, arrow_schema
from collector.recorder.rows import (
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
        self._thread = threading.Thread(target=self._loop, name="recorder", daemon=True)

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
        steps, ops = self._follower.take(answers, from_step, self._clock.monotonic(), last=last)
        self._steps.add(steps)
        self._ops.add(ops)

    def _scrape(self, node: str) -> list[Row]:
        now = self._clock.wall()

        def parse(body: bytes | None) -> list[Row]:
            page = (body or b"").decode()
            return [up_row(now, node, up=True), *sample_rows(page, now, node, self._run)]

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
