"""Notifications that an Alertmanager posts to its webhook, version 4, taken as hostile.

https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from lockstep.collector.contract import bounded_json

VERSION = "4"
MAX_BYTES = 4 << 20
"""A notification of 1,000 alerts has about half of it: 2 KB each, with their texts."""
MAX_ALERTS = 1000
MAX_LABELS = 100
MAX_NAME = 1024
MAX_TEXT = 4096
"""Of one label or annotation; more is cut off and marked."""
MAX_TRUNCATED = 1_000_000_000
"""Alerts; a counter of the page has them, and every number there must be one for every reader."""


class WebhookError(ValueError):
    """The body is no notification; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ReceivedAlert:
    """One alert of a notification.

    Attributes:
        fingerprint: Alertmanager's name for its labels.
        firing: False once it is resolved.
        labels: As the rule gave them.
        annotations: Likewise.
        starts_at: Unix seconds.
        ends_at: Unix seconds; None while it fires.
    """

    fingerprint: str
    firing: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: float
    ends_at: float | None

    @property
    def key(self) -> tuple[str, float]:
        """The same alert reported again has the same; when it fires anew, another."""
        return self.fingerprint, self.starts_at


@dataclass(frozen=True, slots=True)
class Notification:
    """A group of alerts; `truncated` = how many more the Alertmanager left out."""

    alerts: tuple[ReceivedAlert, ...]
    truncated: int = 0


def parse(body: bytes) -> Notification:
    """The alerts of a request's body.

    Raises:
        WebhookError: It is none of an Alertmanager, or of another version.
    """
    try:
        tree = bounded_json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except UnicodeDecodeError:
        raise WebhookError("the body is not UTF-8; it must be Alertmanager's JSON") from None
    except ValueError:
        raise WebhookError("the body is not JSON; it must be Alertmanager's webhook") from None
    if not isinstance(tree, dict):
        raise WebhookError("the body is no JSON object; it must be Alertmanager's webhook")
    if (version := tree.get("version")) != VERSION:
        raise WebhookError(f'version is {_shown(version)}; it must be "{VERSION}"')
    alerts = tree.get("alerts")
    if not isinstance(alerts, list):
        raise WebhookError(f"alerts is {_shown(alerts)}; it must be a list")
    if len(alerts) > MAX_ALERTS:
        raise WebhookError(
            f"there are {len(alerts)} alerts; max_alerts of the receiver must be at most"
            f" {MAX_ALERTS}"
        )
    return Notification(
        tuple(_alert(alert, f"alerts[{place}]") for place, alert in enumerate(alerts)),
        _count(tree.get("truncatedAlerts", 0)),
    )


def _alert(alert: Any, number: str) -> ReceivedAlert:
    if not isinstance(alert, dict):
        raise WebhookError(f"{number} is {_shown(alert)}; it must be an object")
    status = alert.get("status")
    if status not in ("firing", "resolved"):
        raise WebhookError(f"{number}.status is {_shown(status)}; it must be firing or resolved")
    fingerprint = alert.get("fingerprint")
    if (
        not isinstance(fingerprint, str)
        or not 0 < len(fingerprint) <= 64
        or not _is_text(fingerprint)
    ):
        raise WebhookError(
            f"{number}.fingerprint is {_shown(fingerprint)}; it must be 1 to 64 characters"
        )
    firing = status == "firing"
    return ReceivedAlert(
        fingerprint=fingerprint,
        firing=firing,
        labels=_texts(alert.get("labels"), f"{number}.labels"),
        annotations=_texts(alert.get("annotations") or {}, f"{number}.annotations"),
        starts_at=_moment(alert.get("startsAt"), f"{number}.startsAt"),
        ends_at=None if firing else _moment(alert.get("endsAt"), f"{number}.endsAt"),
    )


def _texts(pairs: Any, path: str) -> dict[str, str]:
    if not isinstance(pairs, dict) or not all(isinstance(text, str) for text in pairs.values()):
        raise WebhookError(f"{path} is {_shown(pairs)}; it must be an object of texts")
    if len(pairs) > MAX_LABELS:
        raise WebhookError(f"{path} has {len(pairs)} entries; it must have at most {MAX_LABELS}")
    if any(len(name) > MAX_NAME for name in pairs):
        raise WebhookError(f"{path} has a name of more than {MAX_NAME} characters")
    if not all(map(_is_text, (*pairs, *pairs.values()))):
        raise WebhookError(f"{path} has half a character; it must be UTF-8")
    return {
        name: text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… (cut off)"
        for name, text in pairs.items()
    }


def _moment(text: Any, path: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError
        return moment.timestamp()
    except (TypeError, ValueError, OverflowError):
        raise WebhookError(f"{path} is {_shown(text)}; it must be a time as in RFC 3339") from None


def _count(number: Any) -> int:
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole or not 0 <= number <= MAX_TRUNCATED:
        raise WebhookError(f"truncatedAlerts is {_shown(number)}; it must be 0 to {MAX_TRUNCATED}")
    return int(number)


def _is_text(text: str) -> bool:
    """Whether it can be written: JSON may hold a half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _shown(value: Any) -> str:
    """A value in a sentence: its kind where it is large, so that nothing hostile is echoed."""
    if value is None:
        return "missing"
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


# Which finding an alert belongs to. The alert of a finding has the finding's labels. One of a rule
# has fewer (a node and a GPU) or others (an XID): it belongs to the finding that it does not
# contradict and shares most labels with.

FINDING_ALERT = "LockstepFinding"
PLACES = ("run", "node", "rank", "gpu")
"""Labels that mean the same in alerts of rules; `cause` may be another thing there."""
OF_FINDING = (*PLACES, "link", "cause", "tier")
AFTERWARDS_SECONDS = 600.0
"""A rule may notice when its finding is over: one of ten minutes is still evaluated."""


def matching_finding(
    alert: ReceivedAlert, runs: Sequence[str], findings: Sequence[Mapping[str, Any]]
) -> int | None:
    """Place of the finding that an alert belongs to; None = of none.

    Args:
        alert: With `run` among its labels or not.
        runs: Which runs it may be about.
        findings: What is in each `finding.json`.
    """
    ranked = [
        (score, opened, place)
        for place, finding in enumerate(findings)
        if (score := _shared(alert, runs, finding)) is not None
        and (opened := _number(finding.get("opened"))) is not None
    ]
    return max(ranked)[2] if ranked else None


def with_alert(
    finding: Mapping[str, Any], alert: ReceivedAlert, received: float
) -> dict[str, Any] | None:
    """The finding with an alert in it; None = it says so already.

    Whether it fires or ended may come in any order and more than once: an end stays, and the first
    time that it was heard of stays.
    """
    told = [each for each in finding.get("alerts") or () if isinstance(each, dict)]
    known = next((each for each in told if _is(each, alert)), None)
    if known is None:
        entry = {
            "name": alert.labels.get("alertname", ""),
            "fingerprint": alert.fingerprint,
            "labels": dict(alert.labels),
            "summary": alert.annotations.get("summary", ""),
            "starts_at": alert.starts_at,
            "received": received,
            "ends_at": alert.ends_at,
        }
        return {**finding, "alerts": [*told, entry]}
    if alert.ends_at is None or known.get("ends_at") is not None:
        return None
    ended = {**known, "ends_at": alert.ends_at}
    return {**finding, "alerts": [ended if each is known else each for each in told]}


def _shared(alert: ReceivedAlert, runs: Sequence[str], finding: Mapping[str, Any]) -> float | None:
    """How much an alert has in common with a finding; None = it is not about it."""
    if any(_is(each, alert) for each in finding.get("alerts") or () if isinstance(each, dict)):
        return float("inf")
    key = finding.get("key")
    if not isinstance(key, dict) or str(key.get("run") or "") not in runs:
        return None
    closed = _number(finding.get("closed"))
    own = alert.labels.get("alertname") == FINDING_ALERT
    # Ours begins when its finding opens: what closed before is an earlier finding of that place.
    afterwards = 0.0 if own else AFTERWARDS_SECONDS
    if closed is not None and closed < alert.starts_at - afterwards:
        return None
    shared = 0.0
    for name in OF_FINDING if own else PLACES:
        theirs = "" if key.get(name) is None else str(key[name])
        ours = alert.labels.get(name, "")
        if ours == theirs:
            shared += bool(ours)
        elif own or (ours and theirs):
            return None
    return shared


def _is(entry: Mapping[str, Any], alert: ReceivedAlert) -> bool:
    return (entry.get("fingerprint"), entry.get("starts_at")) == alert.key


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
