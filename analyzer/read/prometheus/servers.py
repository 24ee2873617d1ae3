"""Servers with Prometheus' HTTP API, and how each differs: the one place that knows.

A question is asked in words that all of them understand, so that hardly anything depends on who
answers; what remains is reported (docs/sre/servers.md).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FRESH = {"nocache": "1"}
"""With every question. VictoriaMetrics holds back what is younger than `-search.latencyOffset`
(30 s), moves `time()` back by as much and rounds ranges to their step, unless this is said (of
ranges see Server.held_back); the others ignore words that they do not know."""
HEAD = 256
_PARTIAL = re.compile(rb'^\s*\{\s*"status"\s*:\s*"\w+"\s*,\s*"isPartial"\s*:\s*true\b')
"""VictoriaMetrics' cluster says so in front of the data, where others add warnings behind it."""


@dataclass(frozen=True, slots=True)
class Server:
    """Who answers.

    Attributes:
        name: For people.
        differs: What it does otherwise than Prometheus, a clause; empty = nothing that matters.
        held_back: Seconds: of a range the points that are younger repeat the one before them.
        marks_ends: Whether NaN among samples that are read says that the series ended there
            (Prometheus' staleness marker, which itself leaves out).
    """

    name: str
    differs: str = ""
    held_back: float = 0.0
    marks_ends: bool = False


PROMETHEUS = Server("Prometheus")
VICTORIA_METRICS = Server(
    "VictoriaMetrics",
    "rates begin at the sample before their window, and its targets' addresses are unknown",
    held_back=300.0,
    marks_ends=True,
)
"""`-search.latencyOffset` is 30 s and holds for ranges whatever is said: what a range asks of these
seconds, it asks of earlier ones, with as large an offset into the future. Ten times the usual."""
THANOS = Server("Thanos", "its targets' addresses are unknown")
MIMIR = Server("Grafana Mimir", "its targets' addresses are unknown")
OTHER = Server("a server with Prometheus' HTTP API")


def server(build: Mapping[str, Any], time: object) -> Server:
    """Who answers.

    Args:
        build: The data of `/api/v1/status/buildinfo`; empty = it has none. Mimir names itself
            there; Thanos has versions below 1, Prometheus the Go version it was built with.
        time: The result of `time()`: VictoriaMetrics knows no scalars.
    """
    if isinstance(time, list) and time and isinstance(time[0], dict):
        return VICTORIA_METRICS
    if "mimir" in str(build.get("application", "")).lower():
        return MIMIR
    if str(build.get("version", "")).startswith("0."):
        return THANOS
    return PROMETHEUS if build.get("goVersion") else OTHER


def seconds(time: Any) -> float:
    """The result of `time()`: a scalar, or the only series of a vector.

    Raises:
        ValueError, TypeError, KeyError, IndexError: It is neither.
    """
    return float((time[0]["value"] if isinstance(time[0], dict) else time)[1])


def partial(body: bytes) -> bool:
    """Whether an answer says of itself, in front of the data, that some of it is missing."""
    return _PARTIAL.match(body[:HEAD]) is not None
