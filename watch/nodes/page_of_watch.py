"""The page of `lockstep watch`, over HTTP."""

import http.client
import urllib.error
from urllib.parse import urlsplit

from lockstep.collector.contract import bounded_http
from lockstep.watch.node_conditions.shapes import WatchState
from lockstep.watch.node_conditions.watch_page import PageError, parse_page

ANSWER_SECONDS = 10.0
MAX_BYTES = 64 << 20
"""Of 10,000 nodes it is some megabytes."""


class WatchError(OSError):
    """Nothing is known from watch; the message says why."""


def read(url: str) -> WatchState:
    """What watch says now.

    Args:
        url: http:// or https://, with or without /metrics.

    Raises:
        WatchError: It does not answer, or with no page of watch.
    """
    where = address(url)
    try:
        content = bounded_http.get(where, ANSWER_SECONDS, MAX_BYTES, {"Accept": "text/plain"})
    except bounded_http.TooLargeError as error:
        raise WatchError(f"{where} answers more than {MAX_BYTES >> 20} MiB") from error
    except bounded_http.TooLateError as error:
        raise WatchError(f"{where} does not answer in {ANSWER_SECONDS:g} s") from error
    except urllib.error.HTTPError as error:
        error.close()
        raise WatchError(f"{where} answers {error.code}") from error
    except urllib.error.URLError as error:
        raise WatchError(f"{where} does not answer: {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise WatchError(f"{where} does not answer: {error or type(error).__name__}") from error
    try:
        return parse_page(content.decode("utf-8", "replace"))
    except PageError as error:
        raise WatchError(f"{where} is no page of watch: {error}") from error


def address(url: str) -> str:
    """Of the page.

    Raises:
        ValueError: It is no address of HTTP.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is no address of watch; give http://HOST:9411")
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path.removesuffix('/metrics')}/metrics"
