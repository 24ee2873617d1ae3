"""Where somebody looks, as the query of an address and back: every state has an address."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from urllib.parse import urlencode

from lockstep.dashboard.shapes import Span
from lockstep.dashboard.trouble import Kind, TroubleError

LONGEST_TEXT = 200
LONGEST_LIST = 1000
"""Of several runs."""
MILLISECONDS = 1000.0
_RELATIVE = re.compile(r"now(?:-(\d{1,6})([smhdwMy]))?")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "M": 2592000, "y": 31536000}
_LATEST = 32503680000.0
"""Unix seconds of the year 3000."""
NUMBERS = ("gpu", "rank", "refresh")


@dataclass(frozen=True, slots=True)
class Location:
    """What an address says; empty or None = nothing.

    Attributes:
        run, node, gpu, rank: Whom it is about.
        since, until: As Grafana writes them: unix milliseconds, or `now-1h`; dates too.
        metric: Of the fleet (shapes.FLEET_METRICS).
        finding: Id of a finding.
        a, b: Runs that are compared.
        more: Further runs that are held against a, with commas between.
        op: Name of an operation.
        axis: `time`, `step` or `relative`.
        view: Of a page that has several, as `compare` or `report`; empty = its first one.
        refresh: Seconds between two looks of a live page; 0 = only when asked.
    """

    run: str = ""
    node: str = ""
    gpu: int | None = None
    rank: int | None = None
    since: str = ""
    until: str = ""
    metric: str = ""
    finding: str = ""
    a: str = ""
    b: str = ""
    more: str = ""
    op: str = ""
    axis: str = ""
    view: str = ""
    refresh: int | None = None

    def query(self, **changes: str | int | None) -> dict[str, str]:
        """Its words in an address, with some of them changed; what says nothing is left out."""
        words = {field.name: getattr(self, field.name) for field in fields(self)} | changes
        named = {_WRITTEN.get(name, name): value for name, value in words.items()}
        return {name: str(value) for name, value in named.items() if value not in ("", None)}

    def but(self, **changes: str | int | None) -> "Location":
        """The same place with some of its words changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


_WRITTEN = {"since": "from", "until": "to"}
_READ = {written: name for name, written in _WRITTEN.items()}


def read(words: Mapping[str, str]) -> Location:
    """The place that an address says; words that we do not know are no concern of ours.

    Grafana's `var-run` and `var-node` are read as `run` and `node`.

    Raises:
        TroubleError: A number that is none, or a text that nobody would have written.
    """
    known = {field.name for field in fields(Location)}
    words_read: dict[str, str | int] = {}
    for written, value in words.items():
        name = _READ.get(written, written).removeprefix("var-")
        if name not in known or not value:
            continue
        if len(value) > (LONGEST_LIST if name == "more" else LONGEST_TEXT):
            raise TroubleError(
                Kind.UNKNOWN_ID,
                f"The address says {written} with {len(value)} characters; nothing is called so.",
                "Follow a link, or choose in the sidebar.",
            )
        if name in NUMBERS:
            if not re.fullmatch(r"\d{1,7}", value):
                raise TroubleError(
                    Kind.UNKNOWN_ID,
                    f"The address says {written}={value!r}; it must be a whole number from 0.",
                    "Follow a link, or choose in the sidebar.",
                )
            words_read[name] = int(value)
        else:
            words_read[name] = value
    return Location(**words_read)  # type: ignore[arg-type]


def moment(text: str, now: float) -> float:
    """Unix seconds of one end of a range.

    Args:
        text: Unix milliseconds (or seconds, below the year 2286 in seconds), `now`, `now-15m`,
            or a date as `2026-11-20T10:00:00Z`; without a zone it is UTC.
        now: Unix seconds of the source's clock.

    Raises:
        TroubleError: It is none of these.
    """
    relative = _RELATIVE.fullmatch(text)
    if relative is not None:
        count, unit = relative.groups()
        number = now - (int(count) * _UNITS[unit] if count else 0)
    else:
        number = _absolute(text)
    if not (math.isfinite(number) and 0 <= number < _LATEST):
        raise TroubleError(
            Kind.UNKNOWN_ID,
            f"The address says {text!r} for a moment, and that is none.",
            "Write now-1h, a date as 2026-11-20T10:00:00Z, or unix milliseconds.",
        )
    return number


def span(location: Location, extent: Span, now: float) -> Span:
    """The range of a place, or all there is.

    Args:
        location: As read.
        extent: What the source knows, or the run.
        now: Unix seconds of the source's clock.

    Raises:
        TroubleError: An end that is no moment, or a range that ends before it begins.
    """
    start = moment(location.since, now) if location.since else extent.start
    end = moment(location.until, now) if location.until else max(extent.end, start)
    if end < start or (end == start and location.until):
        raise TroubleError(
            Kind.UNKNOWN_ID,
            f"The range ends before it begins: from {utc(start)} to {utc(end)}.",
            "Swap both ends, or choose a range in the sidebar.",
        )
    return Span(start, end)


def link(page: str, location: Location, **changes: str | int | None) -> str:
    """The path and query of a page, below the dashboard's address; `now` is the page at `/`.

    A view is one of its page's, so it is in the address only where `changes` has it.
    """
    words = urlencode(location.query(**{"view": "", **changes}))
    path = "/" if page == "now" else f"/{page}"
    return f"{path}?{words}" if words else path


def utc(seconds: float) -> str:
    """A moment for people."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _absolute(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return _date(text)
    return number / MILLISECONDS if abs(number) >= 1e11 else number


def _date(text: str) -> float:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
