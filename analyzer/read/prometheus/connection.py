"""One connection to a Prometheus: prometheus-api-client's session and retries, bounded answers."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any, Self, TypeVar

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.util import Retry

from lockstep.analyzer.read.bounded_session import BoundedAdapter, session
from lockstep.analyzer.read.prometheus.access import Access, SourceError, TooMuchError
from lockstep.analyzer.read.prometheus.answers import (
    Series,
    decode,
    plausible,
    range_of,
    refusal,
    shape,
    warning,
    without_nan,
)
from lockstep.analyzer.read.prometheus.promql import ahead, with_matchers
from lockstep.analyzer.read.prometheus.questions import LOOK_BACK, NEWEST, SCRAPES
from lockstep.analyzer.read.prometheus.replicas import Choice, choice, replica_labels
from lockstep.analyzer.read.prometheus.servers import FRESH, Server, seconds, server
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.bounded_http import Allowance, TooLargeError, TooLateError, allowed
from lockstep.collector.contract.metric_rows.ranges import CLOCK, Range
from lockstep.collector.contract.metrics import BUILD_INFO

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
"""For a whole answer; a slow one in small pieces included."""
MAX_BYTES = 128 << 20
"""Of samples, which become arrays: five times an answer of ranges.MOST_IN_ANSWER."""
SMALL_BYTES = 32 << 20
"""Of everything that becomes objects: `rank_info` of 50,000 ranks."""
MOST_VALUES = 2_000_000
"""Commas and brackets of that: each may become an object of some 70 bytes."""
SCRAPE_URL = "__scrape_url__"
AGAIN = (429, 502, 503, 504)
"""What a server says that may say otherwise in a moment; RFC 9110."""

SAME_REPLICAS_SECONDS = 60.0
"""So long the replicas that report stay the same ones."""

T = TypeVar("T")


class Connection:
    """Asks one Prometheus.

    Args:
        access: Where, and how to get in.
        seconds: For a whole answer.
        pause: Seconds before the second try; each one after takes twice as long.
        whole: Refuse answers that the server itself calls incomplete (answers.warning).
        until: On the monotonic clock, when the last answer must be there.
        warned: Is called where the server itself calls an answer incomplete.

    Of series that come twice, from replicas of the server (replicas), one is asked, unless a method
    is asked for every one.

    Every method raises SourceError, a TooMuchError where less might be had.
    """

    def __init__(
        self,
        access: Access,
        seconds: float = ANSWER_SECONDS,
        pause: float = 0.3,
        whole: bool = False,
        until: float = math.inf,
        warned: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.url = access.url
        self.replica_labels = access.replica_labels
        self._choices: dict[int, Choice] = {}
        self._time: Any = None
        self._refuses_parts = whole
        self._warned = warned
        self._seconds = seconds
        self._until = until
        self._auth = authentication(access)
        # An answer that takes too long once does so again, and Retry-After may be hours.
        retry = Retry(
            connect=2, read=False, status=2, other=0, redirect=0, status_forcelist=AGAIN,
            backoff_factor=pause, raise_on_status=False, respect_retry_after_header=False,
            allowed_methods=("GET", "POST"),
        )  # fmt: skip
        self._session = session(retry)
        self._session.hooks["response"].append(self._look)
        self._client = PrometheusConnect(
            url=self.url, session=self._session, auth=self._auth,
            timeout=(CONNECT_SECONDS, seconds),
        )  # fmt: skip
        self._session.mount(self.url, BoundedAdapter(max_retries=retry))  # in place of its own

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """What is asked meanwhile must be answered within so many seconds, all together."""
        until = self._until
        self._until = min(until, monotonic() + seconds)
        try:
            yield
        finally:
            self._until = until

    def now(self) -> float:
        """Unix seconds on Prometheus' clock, which dates all samples."""

        def ask() -> float:
            self._time = self._client.custom_query("time()", FRESH)
            found = seconds(self._time)
            if not CLOCK.low <= found <= CLOCK.high:
                raise ValueError(f"no clock shows {found:g}")
            return found

        return self._small(ask)

    def server(self) -> Server:
        """Who answers."""
        self.now()

        def ask() -> Mapping[str, Any]:
            tree = bounded_json.loads(self._whole("status/buildinfo", {}, "GET"))
            return dict(tree["data"])

        try:
            return server(self._small(ask), self._time)
        except SourceError:  # it has no such page
            return server({}, self._time)

    def _manners(self) -> Server:
        """How it answers, which `time()` alone shows."""
        if self._time is None:
            self.now()
        return server({}, self._time)

    def labels(self, name: str, match: str, start: float, end: float) -> list[str]:
        """The values that a label has in series of a selector."""
        params = {"match[]": match, "start": f"{start:.3f}", "end": f"{end:.3f}"}
        values = self._small(lambda: self._client.get_label_values(name, params))
        return [str(value) for value in values]

    def replicas(self, time: float) -> Choice:
        """Whose series count around a moment."""
        about = int(time // SAME_REPLICAS_SECONDS)
        if about not in self._choices:
            self._choices = {about: self._choice(time)}
        return self._choices[about]

    def _choice(self, time: float) -> Choice:
        match = {"match[]": BUILD_INFO.name, "start": f"{time - LOOK_BACK:.3f}",
                 "end": f"{time:.3f}"}  # fmt: skip
        try:
            names = self._small(lambda: self._client.get_label_names(match))
        except SourceError:  # it cannot be asked for labels, or the next question says what it is
            return Choice()
        labels = replica_labels(names, self.replica_labels)
        if not labels:
            return Choice()
        newest, scrapes = (self.instant(query, time, every=True) for query in (NEWEST, SCRAPES))
        return choice(newest, scrapes, labels)

    def counted(self, query: str, time: float) -> str:
        """The query, of the series that count around a moment."""
        return with_matchers(query, self.replicas(time).matchers)

    def instant(
        self, query: str, time: float, *, every: bool = False, within: Range | None = None
    ) -> list[tuple[Mapping[str, str], float]]:
        """Labels and value of each series of a query's answer at one moment.

        Args:
            query: In PromQL.
            time: Unix seconds.
            every: Also those of replicas that do not count.
            within: What its values can be; None = what the metric can that the series are called.
        """
        params = {"time": f"{time:.3f}", **FRESH}
        asked = query if every else self.counted(query, time)

        def ask() -> list[tuple[Mapping[str, str], float]]:
            answer = self._client.custom_query(asked, params)
            told = [(dict(one["metric"]), float(one["value"][1])) for one in answer]
            return [
                (labels, value) for labels, value in told
                if (within or range_of(labels)).holds(value)
            ]  # fmt: skip

        return self._small(ask)

    def over(
        self, query: str, start: float, end: float, step: float, *, every: bool = False,
        within: Range | None = None,
    ) -> list[Series]:  # fmt: skip
        """Each series of a query at `start`, a step later, and so on until `end`.

        What its values can be is given as to `instant`.
        """
        asked = query if every else self.counted(query, end)
        if back := self._manners().held_back:
            asked = ahead(asked, back)
        words = {"query": asked, "start": f"{start - back:.3f}", "end": f"{end - back:.3f}",
                 "step": f"{step:.3f}"}  # fmt: skip
        told = decode(self.body("query_range", words), self.url)
        found = [plausible(one, within) for one in told]
        later = round(back * 1000)
        return [Series(one.labels, one.times + later, one.values) for one in found]

    def samples(self, ranged: str, time: float) -> list[Series]:
        """Series as they were scraped, of a range selector (`up[5m]`) that ends at a moment.

        Of every replica: replicas.merged makes one of them.
        """
        told = decode(self.body("query", {"query": ranged, "time": f"{time:.3f}"}), self.url)
        found = [plausible(one) for one in told]
        return [without_nan(one) for one in found] if self._manners().marks_ends else found

    def body(self, path: str, words: Mapping[str, str]) -> bytes:
        """The bytes of an answer to `/api/v1/<path>`."""
        return self._asked(lambda: self._whole(path, words), MAX_BYTES)

    def _whole(self, path: str, words: Mapping[str, str], method: str = "POST") -> bytes:
        asked = {**words, **FRESH}
        response = self._session.request(
            method, f"{self.url}/api/v1/{path}", auth=self._auth, stream=True,
            params=asked if method == "GET" else None, data=None if method == "GET" else asked,
            timeout=(CONNECT_SECONDS, self._seconds),
        )  # fmt: skip
        return self._checked(response.content)

    def _small(self, ask: Callable[[], T]) -> T:
        try:
            return self._asked(ask, SMALL_BYTES)
        except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise SourceError(shape(self.url)) from error

    def _asked(self, ask: Callable[[], T], most: int) -> T:
        try:
            with allowed(Allowance(min(self._seconds, self._until - monotonic()), most)):
                return ask()
        except TooLargeError as error:
            raise TooMuchError(
                f"{self.url}: an answer has more than the {most >> 20} MiB that are read"
            ) from error
        except TooLateError as error:
            raise TooMuchError(f"{self.url} did not answer in time; is it up?") from error
        except requests.exceptions.JSONDecodeError as error:
            raise SourceError(shape(self.url)) from error
        except requests.exceptions.SSLError as error:
            raise SourceError(
                f"{self.url} has a certificate that is not trusted here;"
                " REQUESTS_CA_BUNDLE=FILE names the authority"
            ) from error
        except requests.exceptions.ChunkedEncodingError as error:
            raise SourceError(f"{self.url}: an answer ends too early; try again") from error
        except (requests.RequestException, PrometheusApiClientException, OSError) as error:
            if isinstance(error, requests.Timeout):
                raise TooMuchError(f"{self.url} did not answer in time; is it up?") from error
            raise SourceError(
                f"{self.url} cannot be reached; is that the address, and is it up?"
            ) from error
        except ValueError as error:  # a number that is none
            raise SourceError(shape(self.url)) from error

    def targets(self) -> list[Mapping[str, str]]:
        """Labels of each active target, with the address that is scraped as `__scrape_url__`."""

        def ask() -> list[Mapping[str, str]]:
            words = {"state": "active"}
            body = bounded_json.loads(self._countable(self._whole("targets", words, "GET")))
            active = body["data"]["activeTargets"]
            return [{**one["labels"], SCRAPE_URL: str(one["scrapeUrl"])} for one in active]

        return self._small(ask)

    def _checked(self, body: bytes) -> bytes:
        if said := warning(body):
            if self._refuses_parts:
                raise SourceError(f"{self.url} answers only in part: {said}")
            self._warned(said)
        return body

    def _countable(self, body: bytes) -> bytes:
        if sum(map(body.count, b"[{,")) > MOST_VALUES:
            raise TooMuchError(f"{self.url}: an answer has more than {MOST_VALUES} values")
        return body

    def _look(self, response: requests.Response, **asked: Any) -> None:
        """Ends every request that did not succeed, the library's as well as ours."""
        if response.status_code != requests.codes.ok:
            raise refusal(self.url, response.status_code, response.headers, response.content)
        if not asked.get("stream"):
            self._countable(self._checked(response.content))


class _Bearer(AuthBase):
    """As an `auth` and not as a header: a .netrc would replace the header."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def authentication(access: Access) -> AuthBase | None:
    """How requests says who asks; a token goes before user and password."""
    if access.token is not None:
        return _Bearer(access.token)
    if access.user is not None:
        return HTTPBasicAuth(access.user.encode(), (access.password or "").encode())
    return None
