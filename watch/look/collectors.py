"""Asks the collectors of a run at once, within seconds and bytes; and fetches operations."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import requests

from lockstep.analyzer.read.bounded_session import session
from lockstep.analyzer.read.prometheus.access import Access, access
from lockstep.analyzer.read.prometheus.connection import authentication
from lockstep.collector.contract import threads
from lockstep.collector.contract.bounded_http import Allowance, TooLargeError, TooLateError, allowed
from lockstep.collector.recorder.follow import Follower
from lockstep.collector.recorder.parts import Row
from lockstep.collector.recorder.rows import AnswerError, rank_answers
from lockstep.terminal.output import bug

CONNECT_SECONDS = 2.0
TOO_MUCH = "all answers together are too large"
NOT_HERE = b"no rank of this run"
"""How the collector's 404 begins that knows the question (lockstep.collector.exporter.server)."""
SERVICE = "collector"
"""Credentials: LOCKSTEP_COLLECTOR_TOKEN, or LOCKSTEP_COLLECTOR_USER and _PASSWORD."""

T = TypeVar("T")


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

    def __init__(self, seconds: float, most: int, budget: _Budget) -> None:
        super().__init__(seconds, most)
        self._budget = budget
        self._spent = 0

    def spend(self, size: int) -> None:
        """Of the common budget."""
        self._budget.spend(size)
        self._spent += size

    def give_up(self) -> None:
        """The answer is of no use: others may have its bytes."""
        self._budget.give_back(self._spent)


def ask(
    pages: Sequence[str],
    question: str,
    read: Callable[[bytes], T],
    seconds: float,
    most: int,
    at_once: int,
) -> tuple[dict[str, T], dict[str, str]]:
    """Ask some collectors at a time, until the deadline; never raises for what one does.

    Args:
        pages: Addresses of their pages, as Prometheus scrapes them, the most important first.
        question: Path and query.
        read: What becomes of an answer; raises AnswerError where it is not as agreed.
        seconds: For all.
        most: Bytes of all answers together; who comes first has them.
        at_once: Collectors that are asked at the same time.

    Returns:
        Address -> what it gave, and address -> why it gave nothing; by the order of `pages`.
    """
    due = monotonic() + seconds
    budget = _Budget(most)
    given: dict[str, T] = {}
    silent = dict.fromkeys(pages, "it did not answer in time")
    todo = deque(silent)

    def work() -> None:
        while monotonic() < due:
            try:
                page = todo.popleft()
            except IndexError:
                return
            try:
                given[page] = _ask(page, question, read, due, most, budget)
            except _NothingError as error:
                silent[page] = str(error)
            except Exception as error:  # noqa: BLE001 - one answer must not end the others
                silent[page] = "its answer could not be read"
                bug(f"the answer of {page} could not be read", error)

    # Daemons: who has not answered by then is not waited for, not even at the end of the program.
    count = min(at_once, len(silent))
    workers = [threads.task("collectors", work) for _ in range(count)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join(max(0.0, due - monotonic()))
    todo.clear()
    in_time = dict(given)
    why = {page: words for page, words in dict(silent).items() if page not in in_time}
    return in_time, why


class _NothingError(Exception):
    """A collector gave nothing; the message says why."""


def _ask(
    page: str, question: str, read: Callable[[bytes], T], due: float, most: int, budget: _Budget
) -> T:
    share = _Share(due - monotonic(), most, budget)
    try:
        return _answered(page, question, read, share)
    except BaseException:
        share.give_up()
        raise


def _answered(page: str, question: str, read: Callable[[bytes], T], share: _Share) -> T:
    try:
        where = _collector(page)
        with allowed(share), session() as asking:
            response = asking.get(
                f"{where.url}{question}", auth=authentication(where),
                timeout=(CONNECT_SECONDS, share.seconds()), allow_redirects=False,
            )  # fmt: skip
        if response.status_code == requests.codes.not_found:
            path = question.partition("?")[0]
            if response.content and NOT_HERE not in response.content:
                raise _NothingError(f"it has no {path}, as collectors of older versions")
            raise _NothingError("it has no rank of this run any more")
        if response.status_code != requests.codes.ok:
            raise _NothingError(f"it answers {response.status_code}")
        return read(response.content)
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


# Operations of a finding's steps are fetched from the collectors before they are overwritten.

SECONDS = 5.0
"""For all collectors together."""
MAX_BYTES = 64 << 20
"""Of all collectors together, 2 MB a rank; Python needs three times as much while it reads them."""
AT_ONCE = 8
"""Collectors that are asked at the same time; who comes first has the bytes."""


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
    question = f"/ops?run={quote(run, safe='')}&from_step={max(0, from_step)}"
    given, silent = ask(
        pages, question, lambda body: rank_answers(body, run), seconds, most, AT_ONCE
    )
    answers = [answer for some in given.values() for answer in some]
    steps, ops = Follower().take(answers, 0, 0.0, last=True) if answers else ([], [])
    return Operations(steps, ops, silent, len(set(pages)))
