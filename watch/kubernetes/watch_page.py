"""The page of `lockstep watch` -> what is open about which node.

The page and not Prometheus: a series that is missing there for a scrape looks like a recovery, and
the page says itself how old it is.
"""

import hashlib
import http.client
import math
import re
import urllib.error
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from lockstep.collector.contract import bounded_http
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.words import FAMILY
from lockstep.watch.kubernetes.shapes import Fault, WatchState

PAGE_TIER = "page"
"""What is for the record only is no statement about a node that others should act on."""
WHO = ("run", "node", "rank", "gpu", "link", "cause")
_SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})? (\S+)(?: -?\d+)?')
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class PageError(ValueError):
    """It is no page of watch; the message says why."""


def parse_page(page: str) -> WatchState:
    """What a page says.

    Raises:
        PageError: A line is no sample, or what it must say is missing.
    """
    wanted = {
        one.name
        for one in (m.LAST_EVALUATION, m.DATA_AGE, m.PROMETHEUS_UP, m.NODE_SCRAPED,
                    m.NODE_HEALTH, m.FINDING_ACTIVE)
    }  # fmt: skip
    numbers: dict[str, float] = {}
    heard: dict[str, float] = {}
    faults: dict[str, dict[str, Fault]] = {}
    looked: set[str] = set()
    for name, labels, value in _samples(page, wanted):
        if name == m.NODE_SCRAPED.name:
            heard[labels.get("node", "")] = value
        elif name == m.NODE_HEALTH.name:
            looked.add(labels.get("node", ""))
        elif name == m.FINDING_ACTIVE.name:
            if value == 1 and _concerns_a_node(labels):
                one = _fault(labels)
                faults.setdefault(labels["node"], {})[one.id] = one
        else:
            numbers[name] = value
    if m.PROMETHEUS_UP.name not in numbers:
        raise PageError("it does not say lockstep_analyzer_prometheus_up; is it a page of watch?")
    # Before its first cycle watch does not say when it judged.
    return WatchState(
        judged=numbers.get(m.LAST_EVALUATION.name, -math.inf),
        data_age=numbers.get(m.DATA_AGE.name, math.inf),
        answered=numbers[m.PROMETHEUS_UP.name] == 1,
        heard=heard,
        faults={name: tuple(found.values()) for name, found in faults.items()},
        looked=frozenset(looked),
    )


def fault_id(labels: Mapping[str, str]) -> str:
    """A name for a finding that is the same for as long as it is open, whoever computes it."""
    # NUL cannot be in a label, so no two findings have the same text.
    text = "\0".join(labels.get(name, "") for name in WHO)
    return f"{labels['cause']}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _concerns_a_node(labels: Mapping[str, str]) -> bool:
    return (
        bool(labels.get("node"))
        and labels.get("tier") == PAGE_TIER
        and labels.get("cause") in FAMILY
    )


def _fault(labels: Mapping[str, str]) -> Fault:
    rest = {name: labels.get(name, "") for name in ("cause", "run", "rank", "gpu", "link")}
    return Fault(id=fault_id(labels), **rest)


def _samples(page: str, wanted: set[str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for line in page.split("\n"):
        if not line or line.startswith("#"):
            continue
        if not line.startswith(tuple(wanted)):
            continue
        found = _SAMPLE.fullmatch(line)
        try:
            if found is None:
                raise ValueError
            name, inside, value = found.group(1), found.group(2) or "", float(found.group(3))
        except ValueError as error:
            raise PageError(f"{line[:80]!r} is no sample") from error
        if name in wanted:
            yield name, {key: _plain(text) for key, text in _LABEL.findall(inside)}, value


def _plain(text: str) -> str:
    return re.sub(r"\\.", lambda found: _ESCAPES.get(found.group(), found.group()), text)


# The page of `lockstep watch` is read over HTTP.

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
