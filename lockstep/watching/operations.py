"""The operations of a finding's steps, fetched from the collectors before they are overwritten."""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from urllib.parse import quote, urlsplit, urlunsplit

import requests

from analyzer.readers.bounded_session import session
from analyzer.readers.prometheus.access import Access, access
from analyzer.readers.prometheus.connection import authentication
from collector.contract.bounded_http import Allowance, TooLargeError, TooLateError, allowed
from collector.recorder.follow import Follower
from collector.recorder.parts import Row
from collector.recorder.rows import AnswerError, RankAnswer, rank_answers

SECONDS = 5.0
"""For all collectors together."""
CONNECT_SECONDS = 2.0
MAX_BYTES = 64 << 20
"""Of all collectors together, 2 MB a rank; Python needs three times as much while it reads them."""
AT_ONCE = 8
"""Collectors that are asked at the same time; who comes first has the bytes."""
TOO_MUCH = "all answers together are too large"
SERVICE = "collector"
"""Credentials: LOCKSTEP_COLLECTOR_TOKEN, or LOCKSTEP_COLLECTOR_USER and _PASSWORD."""


@dataclass(frozen=True, slots=True)
class Operations:
    """What the collectors gave.

    Attributes:
        steps, ops: Rows of contract.archive.STEPS and OPS.
        silent: Address -> why it gave nothing.
        asked: How many were asked.
    """

    steps: Sequence[Row] = ()
    ops: Sequence[Row] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    asked: int = 0


class _Budget:
    """Bytes that all answers together may have; used by several threads."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = threading.Lock()

    def spend(self, size: int) -> None:
        """Take a part of an answer in, or raise TooLargeError."""
        with self._lock:
            if size > self._left:
                raise TooLargeError(TOO_MUCH)
            self._left -= size

    def give_back(self, size: int) -> None:
        """Of an answer that was given up."""
        with self._lock:
            self._left += size


class _Share(Allowance):
    """Of one collector: what is left for all."""

    def __init__(self, seconds: float, budget: _Budget) -> None:
        super().__init__(seconds, MAX_BYTES)
        self._budget = budget
        self._spent = 0

    def spend(self, size: int) -> None:
        """Of the common budget."""
        self._budget.spend(size)
        self._spent += size

    def give_up(self) -> None:
        """The answer is of no use: others may have its bytes."""
        self._budget.give_back(self._spent)


def fetch(
    pages: Sequence[str],
    run: str,
    from_step: int,
    seconds: float = SECONDS,
    most: int = MAX_BYTES,
) -> Operations:
    """Ask some collectors at a time, until the deadline; never raises for what one does.

    Args:
        pages: Addresses of their pages, as Prometheus scrapes them, the most important first.
        run: The run's id.
        from_step: The first step that is wanted.
        seconds: For all.
        most: Bytes of all answers together.
    """
    query = f"run={quote(run, safe='')}&from_step={max(0, from_step)}"
    due = monotonic() + seconds
    budget = _Budget(most)
    given: dict[str, list[RankAnswer]] = {}
    silent = dict.fromkeys(pages, "it did not answer in time")
    todo = deque(silent)

    def ask() -> None:
        while monotonic() < due:
            try:
                page = todo.popleft()
            except IndexError:
                return
            try:
                given[page] = _ask(page, query, run, due, budget)
            except _NothingError as error:
                silent[page] = str(error)

    # Daemons: who has not answered by then is not waited for, not even at the end of the program.
    count = min(AT_ONCE, len(silent))
    threads = [threading.Thread(target=ask, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, due - monotonic()))
    todo.clear()
    in_time = dict(given)
    answers = [answer for page in in_time for answer in in_time[page]]
    steps, ops = Follower().take(answers, 0, 0.0, last=True) if answers else ([], [])
    why = {page: words for page, words in dict(silent).items() if page not in in_time}
    return Operations(steps, ops, why, len(silent))


class _NothingError(Exception):
    """A collector gave nothing; the message says why."""


def _ask(page: str, query: str, run: str, due: float, budget: _Budget) -> list[RankAnswer]:
    """The ranks of one collector."""
    share = _Share(due - monotonic(), budget)
    try:
        return _answered(page, query, run, share)
    except BaseException:
        share.give_up()
        raise


def _answered(page: str, query: str, run: str, share: _Share) -> list[RankAnswer]:
    try:
        where = _collector(page)
        with allowed(share), session() as asking:
            response = asking.get(
                f"{where.url}/ops?{query}", auth=authentication(where),
                timeout=(CONNECT_SECONDS, share.seconds()), allow_redirects=False,
            )  # fmt: skip
        if response.status_code == requests.codes.not_found:
            raise _NothingError("it has no rank of this run any more")
        if response.status_code != requests.codes.ok:
            raise _NothingError(f"it answers {response.status_code}")
        return rank_answers(response.content, run)
    except AnswerError:
        raise _NothingError("its answer is not as agreed") from None
    except TooLargeError:
        raise _NothingError(TOO_MUCH) from None
    except TooLateError:
        raise _NothingError("its answer takes too long") from None
    except (requests.RequestException, OSError, ValueError) as error:
        raise _NothingError(f"it cannot be asked ({type(error).__name__})") from None


def _collector(page: str) -> Access:
    """Where a collector is, by the address of its page."""
    parts = urlsplit(page)
    path = parts.path.rstrip("/").removesuffix("/metrics")
    return access(urlunsplit((parts.scheme, parts.netloc, path, "", "")), service=SERVICE)
