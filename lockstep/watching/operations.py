"""The operations of a finding's steps, fetched from the collectors before they are overwritten."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from urllib.parse import quote, urlsplit, urlunsplit

import requests

from analyzer.load.prometheus.access import Access, access
from analyzer.load.prometheus.connection import authentication
from collector.recorder.follow import Follower
from collector.recorder.parts import Row
from collector.recorder.rows import AnswerError, RankAnswer, rank_answers

SECONDS = 5.0
"""For all collectors together."""
CONNECT_SECONDS = 2.0
MAX_BYTES = 32 << 20
"""A collector gives 2 MB a rank at most."""
CHUNK = 1 << 18
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


def fetch(pages: Sequence[str], run: str, from_step: int, seconds: float = SECONDS) -> Operations:
    """Ask every collector at the same time, until the deadline; never raises for what one does.

    Args:
        pages: Addresses of their pages, as Prometheus scrapes them.
        run: The run's id.
        from_step: The first step that is wanted.
        seconds: For all.
    """
    query = f"run={quote(run, safe='')}&from_step={max(0, from_step)}"
    due = monotonic() + seconds
    given: dict[str, list[RankAnswer]] = {}
    silent = dict.fromkeys(pages, "it did not answer in time")

    def ask(page: str) -> None:
        try:
            given[page] = _ask(page, query, run, due)
        except _NothingError as error:
            silent[page] = str(error)

    # Daemons: who has not answered by then is not waited for, not even at the end of the program.
    threads = [threading.Thread(target=ask, args=(page,), daemon=True) for page in silent]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, due - monotonic()))
    in_time = dict(given)
    answers = [answer for page in in_time for answer in in_time[page]]
    steps, ops = Follower().take(answers, 0, 0.0, last=True) if answers else ([], [])
    why = {page: words for page, words in dict(silent).items() if page not in in_time}
    return Operations(steps, ops, why, len(threads))


class _NothingError(Exception):
    """A collector gave nothing; the message says why."""


def _ask(page: str, query: str, run: str, due: float) -> list[RankAnswer]:
    """The ranks of one collector."""
    try:
        where = _collector(page)
        with requests.get(
            f"{where.url}/ops?{query}", auth=authentication(where), stream=True,
            timeout=(CONNECT_SECONDS, max(0.1, due - monotonic())), allow_redirects=False,
        ) as response:  # fmt: skip
            if response.status_code == requests.codes.not_found:
                raise _NothingError("it has no rank of this run any more")
            if response.status_code != requests.codes.ok:
                raise _NothingError(f"it answers {response.status_code}")
            parts, size = [], 0
            for part in response.iter_content(CHUNK):
                parts.append(part)
                size += len(part)
                if size > MAX_BYTES or monotonic() > due:
                    raise _NothingError("its answer takes too long or is too large")
        return rank_answers(b"".join(parts), run)
    except AnswerError:
        raise _NothingError("its answer is not as agreed") from None
    except (requests.RequestException, OSError, ValueError) as error:
        raise _NothingError(f"it cannot be asked ({type(error).__name__})") from None


def _collector(page: str) -> Access:
    """Where a collector is, by the address of its page."""
    parts = urlsplit(page)
    path = parts.path.rstrip("/").removesuffix("/metrics")
    return access(urlunsplit((parts.scheme, parts.netloc, path, "", "")), service=SERVICE)
