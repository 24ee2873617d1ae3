"""Queries to a Prometheus and their answers as arrays; what goes wrong becomes trouble."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lockstep.analyzer.read.prometheus.access import RequestError, SourceError, TooMuchError, access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.collector.contract import bounded_json
from lockstep.dashboard.shapes import Floats
from lockstep.dashboard.sources.grid import Grid
from lockstep.dashboard.trouble import Kind, TroubleError

ANSWER_SECONDS = 20.0
"""For a whole answer: nobody waits longer for a page."""
CLOCK_SECONDS = 60.0
"""So long the difference of both clocks is taken to stay."""
MOST_WARNINGS = 8
STATUS = re.compile(r"answers (\d{3})")
Row = tuple[Mapping[str, str], float]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Course:
    """One series on a grid.

    Attributes:
        labels: Its labels.
        values: (T,) at the grid's times; NaN = nothing there.
    """

    labels: Mapping[str, str]
    values: Floats


class Asking:
    """Asks one Prometheus, from any thread.

    Args:
        url: Of it.
        environment: Holds the credentials; None = the process'.

    Raises:
        TroubleError: That is no address.
    """

    def __init__(self, url: str, environment: Mapping[str, str] | None) -> None:
        try:
            self._access = access(url, environment)
        except RequestError as error:
            raise TroubleError(
                Kind.NO_SOURCE, f"{error}.", "lockstep dashboard --prometheus http://HOST:9090"
            ) from error
        self.url = self._access.url
        self._own = threading.local()
        self._ahead = (-CLOCK_SECONDS, 0.0)
        self._warnings: dict[str, None] = {}

    @property
    def connection(self) -> Connection:
        """Of this thread: a session of requests belongs to one."""
        if not hasattr(self._own, "connection"):
            self._own.connection = Connection(self._access, ANSWER_SECONDS, warned=self._warned)
        connection: Connection = self._own.connection
        return connection

    @property
    def warnings(self) -> tuple[str, ...]:
        """That an answer was not whole, in Prometheus' words; the last few."""
        return tuple(self._warnings)

    def now(self) -> float:
        """Unix seconds on Prometheus' clock."""
        here = time.monotonic()
        asked, difference = self._ahead
        if here - asked >= CLOCK_SECONDS:
            difference = self.call(lambda: self.connection.now()) - here
            self._ahead = here, difference
        return here + difference

    def instant(self, query: str, at: float) -> list[Row]:
        """Labels and value of each series at one moment; NaN and infinities are left out."""

        def ask() -> bytes:
            words = {"query": self.connection.counted(query, at), "time": f"{at:.3f}"}
            return self.connection.body("query", words)

        body = self.call(ask)
        try:
            tree = bounded_json.loads(body)
            rows = [
                (result["metric"], float(result["value"][1])) for result in tree["data"]["result"]
            ]
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise self._foreign() from error
        return [(labels, value) for labels, value in rows if np.isfinite(value)]

    def over(self, query: str, grid: Grid) -> list[Course]:
        """Each series of a query at the moments of a grid."""
        response = self.call(lambda: self.connection.over(query, grid.start, grid.end, grid.step))
        count = len(grid.times)
        courses = []
        for series in response:
            values = np.full(count, np.nan)
            place = np.rint((series.times / 1000 - grid.start) / grid.step).astype(np.int64)
            inside = (place >= 0) & (place < count) & np.isfinite(series.values)
            values[place[inside]] = series.values[inside]
            courses.append(Course(series.labels, values))
        return courses

    def scrapes(self, selector: str, at: float) -> Floats:
        """(N,) unix seconds of the samples of one series in a range, as they were scraped."""
        series = self.call(lambda: self.connection.samples(selector, at))
        return series[0].times / 1000 if series else np.empty(0)

    def call(self, ask: Callable[[], T]) -> T:
        """What a call says, its errors as trouble."""
        try:
            return ask()
        except TooMuchError as error:
            raise TroubleError(
                Kind.UNREACHABLE, _sentence(error), "Choose a shorter range, or try again."
            ) from error
        except SourceError as error:
            raise _trouble(_sentence(error)) from error

    def _warned(self, said: str) -> None:
        self._warnings[f"Prometheus says: {said}"] = None
        while len(self._warnings) > MOST_WARNINGS:
            self._warnings.pop(next(iter(self._warnings)))

    def _foreign(self) -> TroubleError:
        return _trouble(f"{self.url}: an answer is no whole JSON of Prometheus' HTTP API.")


def _sentence(error: SourceError) -> str:
    """With its end: some of them are questions."""
    words = str(error)
    return words if words.endswith(("?", ".")) else f"{words}."


def _trouble(sentence: str) -> TroubleError:
    status = STATUS.search(sentence)
    if status is None and ("cannot be reached" in sentence or "in time" in sentence):
        return TroubleError(
            Kind.UNREACHABLE, sentence, "Start it, or give another address with --prometheus."
        )
    if status is not None and status[1] in ("401", "403", "407"):
        return TroubleError(
            Kind.REFUSED, sentence,
            "Set LOCKSTEP_PROMETHEUS_TOKEN, or LOCKSTEP_PROMETHEUS_USER and"
            " LOCKSTEP_PROMETHEUS_PASSWORD, and start the dashboard again.",
        )  # fmt: skip
    if status is not None and not status[1].startswith("3"):
        return TroubleError(Kind.REFUSED, sentence, "Try again, or look at its log.")
    return TroubleError(
        Kind.UNREADABLE, sentence, "Give the address of a Prometheus with --prometheus."
    )
