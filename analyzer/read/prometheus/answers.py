"""What an answer other than 200 means, as the error to raise."""

from collections.abc import Mapping

from lockstep.analyzer.read.prometheus.access import PASSWORD, TOKEN, USER
from lockstep.analyzer.read.prometheus.errors import SourceError, TooMuchError
from lockstep.collector.contract import bounded_json

LONGEST_REASON = 200
TOO_MUCH = (408, 413, 422, 504)
"""422 is Prometheus' word for an execution that failed, as for too many samples; so the others'."""


def shape(url: str) -> str:
    """The sentence for an answer of another shape than Prometheus'."""
    return f"{url} does not answer as a Prometheus does; is that its address?"


def refusal(url: str, status: int, headers: Mapping[str, str], start: bytes) -> SourceError:
    """The error for a status.

    Args:
        url: Of the Prometheus.
        status: Of HTTP.
        headers: Of the answer.
        start: First bytes of its body.
    """
    if 300 <= status < 400:
        place = headers.get("Location", "elsewhere").partition("?")[0].rpartition("@")[2]
        return SourceError(f"{url} answers {status}, a redirect to {place}; give that address")
    if status in (401, 407):
        return SourceError(
            f"{url} answers {status}: it wants credentials; set {TOKEN}, or {USER} and {PASSWORD}"
        )
    if status == 403:
        return SourceError(f"{url} answers 403: these credentials may not read there")
    if status in (404, 405):
        return SourceError(f"{url} answers {status}: no Prometheus is there; is that its address?")
    reason = _reason(start)
    said = f"{url} answers {status}" + (f": {reason}" if reason else "")
    if status in TOO_MUCH:
        return TooMuchError(f"{said}; a later --since may do")
    if status in (429, 502, 503):
        return SourceError(f"{said}; it is overloaded or starting, try again later")
    return SourceError(f"{said}; it must be Prometheus' HTTP API, version 1")


def _reason(start: bytes) -> str:
    """Prometheus' own words, or nothing where it was not Prometheus that answered."""
    try:
        told = bounded_json.loads(start)
        text = told["error"]
    except (ValueError, TypeError, KeyError):
        return ""
    words = " ".join(text.split()) if isinstance(text, str) else ""
    shown = "".join(letter if letter.isprintable() else "?" for letter in words)
    return shown[:LONGEST_REASON].rstrip(".")
