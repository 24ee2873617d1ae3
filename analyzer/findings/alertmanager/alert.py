"""An alert as Alertmanager's API v2 takes it.

https://github.com/prometheus/alertmanager/blob/v0.25.0/api/v2/openapi.yaml, `postableAlert`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2s
from typing import Any

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
