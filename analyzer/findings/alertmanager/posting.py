"""One request to one Alertmanager, and what its answer means."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from hashlib import blake2s
from typing import Any

import requests
from urllib3.exceptions import HTTPError

from lockstep.analyzer.read.prometheus.access import Access
from lockstep.analyzer.read.prometheus.connection import authentication
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.bounded_http import Allowance, ExceededError, TooLateError, allowed
from lockstep.collector.contract.metric_rows.ranges import CLOCK

# An alert as Alertmanager's API v2 takes it.
#
# https://github.com/prometheus/alertmanager/blob/v0.25.0/api/v2/openapi.yaml, `postableAlert`.

Key = tuple[tuple[str, str], ...]
"""What makes an alert the same alert: its labels, sorted."""
FIRING_SECONDS = 3600.0
"""An alert that is not sent again for so long is over (docs/method/alerting.md): longer than a
restart, an upgrade or a network that is mended, or people would hear twice of what goes on. Its end
is always reported; a watch that is gone for good is an alert of its own."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        labels: Who and what; an empty value is the same as no label, and left out.
        annotations: What people read.
        starts_at: Unix seconds.
        source: Address of a page about it, or empty.
        is_replaced: Of one that is over: what it is about fires on, with other labels.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: float
    source: str = ""
    is_replaced: bool = False
    key: Key = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        key = tuple(sorted((name, value) for name, value in self.labels.items() if value))
        object.__setattr__(self, "key", key)

    @property
    def mark(self) -> str:
        """16 hexadecimal digits of what it is about and when that began."""
        told = repr((self.key, self.starts_at))
        return blake2s(told.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def alert_json(alert: Alert, ends_at: float) -> dict[str, Any]:
    """The JSON of an alert that is over at `ends_at`, unix seconds; in the future it fires."""
    return {
        "labels": {name: _sendable(value) for name, value in alert.key},
        "annotations": {
            name: _sendable(value) for name, value in alert.annotations.items() if value
        },
        "startsAt": _moment(min(alert.starts_at, ends_at)),
        "endsAt": _moment(ends_at),
        **({"generatorURL": alert.source} if alert.source else {}),
    }


def _sendable(text: str) -> str:
    """What UTF-8 cannot say (half of a surrogate pair) as a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


PATH = "/api/v2/alerts"
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0
"""1,000 alerts take 0.12 s (docs/method/alerting.md)."""
MAX_BYTES = 1 << 20
"""It says nothing where all is well, and a sentence where not."""
MAX_REASON_BYTES = 4096
SHOWN_REASON = 200
WRONG = (400, 422)
"""What Alertmanager answers to alerts that are wrong: by its own check, or by the schema's."""


class Result(StrEnum):
    """What became of a request; all but the first two are tried again."""

    TAKEN = "taken"
    WRONG = "wrong"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    STATUS = "status"


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request.

    Attributes:
        why: In words, where it was not taken.
        date: When the server answered, by its own clock: unix seconds; None = it does not say, or
            says what no clock can show.
    """

    result: Result
    why: str = ""
    date: float | None = None


def post(session: requests.Session, access: Access, alerts: Sequence[dict[str, Any]]) -> Answer:
    """Send alerts (alertmanager.alert.alert_json); never raises for what a server does.

    Args:
        session: Of load.bounded_session.
        access: Where to.
        alerts: Them.
    """
    try:
        with allowed(Allowance(CONNECT_SECONDS + ANSWER_SECONDS, MAX_BYTES)):
            response = session.post(
                access.url + PATH, data=json.dumps(alerts).encode(),
                headers={"Content-Type": "application/json"}, auth=authentication(access),
                timeout=(CONNECT_SECONDS, ANSWER_SECONDS), allow_redirects=False,
            )  # fmt: skip
        status, date = response.status_code, _date(response.headers.get("Date"))
        if status == requests.codes.ok:
            return Answer(Result.TAKEN, date=date)
        reason = reason_of(response.content[:MAX_REASON_BYTES])
    except ExceededError as error:
        if isinstance(error, TooLateError):
            return Answer(Result.TIMEOUT, "it did not answer in time")
        return Answer(Result.STATUS, f"its answer has more than {MAX_BYTES >> 20} MiB")
    except requests.Timeout:
        return Answer(Result.TIMEOUT, "it did not answer in time")
    except (requests.RequestException, HTTPError, OSError, ValueError) as error:
        return Answer(Result.UNREACHABLE, _cause(error))
    said = f"it answers {status}" + (f": {reason}" if reason else "")
    if status in WRONG:
        return Answer(Result.WRONG, said, date)
    if status in (401, 403):
        said += "; set LOCKSTEP_ALERTMANAGER_TOKEN, or _USER and _PASSWORD"
    elif status in (404, 405) or 300 <= status < 400:
        said += "; is that the address of an Alertmanager, with its path prefix?"
    return Answer(Result.STATUS, said)


def _date(header: str | None) -> float | None:
    try:
        date = parsedate_to_datetime(header or "").timestamp()
    except (ValueError, OverflowError, TypeError, OSError):
        return None
    return date if CLOCK.holds(date) else None


def reason_of(start: bytes) -> str:
    """The server's own words on one line; its API answers a string, its proxies anything."""
    text = start.decode("utf-8", "replace")
    try:
        told = bounded_json.loads(text)
    except ValueError:
        told = text
    if isinstance(told, dict):
        told = told.get("message", text)
    words = " ".join(str(told).split())
    return "".join(letter if letter.isprintable() else "?" for letter in words)[:SHOWN_REASON]


def _cause(error: Exception) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted here; REQUESTS_CA_BUNDLE=FILE names the authority"
    if isinstance(error, requests.ConnectionError):
        return "it cannot be reached"
    return f"the request failed ({type(error).__name__})"
