"""Silences of one Alertmanager: list, create, end.

https://github.com/prometheus/alertmanager/blob/v0.25.0/api/v2/openapi.yaml, `/silences`. An
acknowledgement is a short silence whose comment says so: Alertmanager has no other.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import requests

from lockstep.analyzer.findings.alertmanager.posting import MAX_REASON_BYTES, reason_of
from lockstep.analyzer.findings.alertmanager.webhook import FINDING_ALERT
from lockstep.analyzer.read.bounded_session import session
from lockstep.analyzer.read.prometheus.access import Access
from lockstep.analyzer.read.prometheus.connection import authentication
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.bounded_http import Allowance, ExceededError, allowed

ACKNOWLEDGED = "ACK!"
"""How the comment of an acknowledgement begins; karma, a well-known view of alerts, writes it so.

https://github.com/prymitive/karma/blob/main/docs/CONFIGURATION.md (alertAcknowledgement.comment).
"""
SECONDS = 5.0
"""For a request."""
MAX_BYTES = 4 << 20
"""Of all silences: some thousands."""
PLACE = ("run", "node", "rank", "gpu", "link")
"""Labels of a finding that say whom it is about; its cause and tier may still change."""
LONGEST_COMMENT, LONGEST_NAME = 1000, 200
MOST_REPEATS = 2
"""Of a pattern, groups counted too; one with more, or whose groups are repeated, is not read, and
its silence not shown."""


class SilenceError(Exception):
    """The Alertmanager did not do what was asked; its text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A silence that is in force.

    Attributes:
        id: Alertmanager's.
        author, comment: As they were given; written by others, so shown escaped.
        until: Unix seconds.
        matchers: (name, value, is a regular expression, must match) of each.
    """

    id: str
    author: str
    comment: str
    until: float
    matchers: tuple[tuple[str, str, bool, bool], ...]

    @property
    def acknowledges(self) -> bool:
        """Whether it says that somebody looks after it."""
        return self.comment.startswith(ACKNOWLEDGED)

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Whether an alert with these labels is silent by it; a label that is absent is empty.

        By a pattern that is not read nothing is covered, whether it must match or must not.
        """
        return all(
            _matches(pattern, labels.get(name, ""), regex=regex) is equal
            for name, pattern, regex, equal in self.matchers
        )


def labels_of(run: str, node: str, rank: int | None, gpu: int | None, link: str) -> dict[str, str]:
    """Of the alert of a finding, as far as a silence matches it: whom it is about."""
    rank_word, gpu_word = ("" if one is None else str(one) for one in (rank, gpu))
    values = dict(zip(PLACE, (run, node, rank_word, gpu_word, link), strict=True))
    return {"alertname": FINDING_ALERT, **values}


class Silences:
    """The silences of an Alertmanager.

    Args:
        access: Where, and how to get in.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session = session()

    @property
    def url(self) -> str:
        """Without credentials."""
        return self._access.url

    def in_force(self) -> tuple[Silence, ...]:
        """Those that are active now, the one that ends last first.

        Raises:
            SilenceError: It does not answer, or not as an Alertmanager does.
        """
        told = self._asked("GET", "/api/v2/silences")
        if not isinstance(told, list):
            raise SilenceError(f"{self.url} does not answer as an Alertmanager does.")
        found = [one for each in told if (one := _read(each)) is not None]
        return tuple(sorted(found, key=lambda one: (-one.until, one.id)))

    def silence(
        self, labels: Mapping[str, str], seconds: float, author: str, comment: str, now: float
    ) -> str:
        """Keep the alerts with exactly these labels quiet for a while; the id of the silence.

        Args:
            labels: Of `labels_of`; one that is empty must be absent.
            seconds: From now on.
            author: Who did it.
            comment: Why.
            now: Unix seconds.

        Raises:
            SilenceError: It was not taken.
        """
        told = self._asked("POST", "/api/v2/silences", {
            "matchers": [
                {"name": name, "value": value, "isRegex": False, "isEqual": True}
                for name, value in labels.items()
            ],
            "startsAt": _moment(now), "endsAt": _moment(now + seconds),
            "createdBy": author[:LONGEST_NAME], "comment": comment[:LONGEST_COMMENT],
        })  # fmt: skip
        mark = told.get("silenceID") if isinstance(told, dict) else None
        if not isinstance(mark, str):
            raise SilenceError(f"{self.url} does not answer as an Alertmanager does.")
        return mark

    def end(self, mark: str) -> None:
        """End a silence now.

        Raises:
            SilenceError: It was not taken, or there is none of that id.
        """
        self._asked("DELETE", f"/api/v2/silence/{quote(mark, safe='')}")

    def _asked(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            with allowed(Allowance(SECONDS, MAX_BYTES)):
                response = self._session.request(
                    method, self.url + path, data=None if body is None else json.dumps(body),
                    headers={"Content-Type": "application/json"}, timeout=SECONDS,
                    auth=authentication(self._access), allow_redirects=False,
                )  # fmt: skip
                content = response.content
        except (ExceededError, requests.Timeout) as error:
            raise SilenceError(f"The Alertmanager {self.url} did not answer in time.") from error
        except requests.RequestException as error:
            raise SilenceError(f"The Alertmanager {self.url} cannot be reached.") from error
        if response.status_code != HTTPStatus.OK:
            why = reason_of(content[:MAX_REASON_BYTES])
            said = f"The Alertmanager {self.url} answers {response.status_code}"
            raise SilenceError(f"{said}: {why}" if why else f"{said}.")
        try:
            return bounded_json.loads(content.decode("utf-8", "replace") or "null")
        except ValueError as error:
            raise SilenceError(f"{self.url} does not answer as an Alertmanager does.") from error


def _read(tree: Any) -> Silence | None:
    if not isinstance(tree, dict) or not isinstance(tree.get("status"), dict):
        return None
    if tree["status"].get("state") != "active":
        return None
    try:
        until = datetime.fromisoformat(str(tree["endsAt"])).timestamp()
        matchers = tuple(
            (str(one["name"]), str(one["value"]), bool(one.get("isRegex")),
             bool(one.get("isEqual", True)))
            for one in tree["matchers"]
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None
    author, comment = str(tree.get("createdBy", "")), str(tree.get("comment", ""))
    return Silence(str(tree.get("id", "")), author, comment, until, matchers)


def _matches(pattern: str, value: str, *, regex: bool) -> bool | None:
    """Whether it matches; None = the pattern is not read, so nobody knows."""
    if not regex:
        return pattern == value
    # Alertmanager's RE2 never looks back; of ours only what cannot look back for long is asked.
    plain = pattern.replace("(?:", "(")
    simple = len(pattern) <= LONGEST_NAME and not re.search(r"\{|\(\?|\)[*+?]", plain)
    if not simple or len(re.findall(r"[*+?(]", plain)) > MOST_REPEATS:
        return None
    try:
        return re.fullmatch(pattern, value[:LONGEST_NAME]) is not None
    except re.error:
        return None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
