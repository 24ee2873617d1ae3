"""What one Alertmanager is owed: bookkeeping that is told what time it is.

It is given the alerts that fire now, not what changed: after a failure, a lost answer or a restart
the next sending says the same again. `now` is seconds of a clock that is never stepped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from analyzer.alertmanager.alert import FIRING_SECONDS, Alert, Key

RESEND_SECONDS = 60.0
"""docs/method/alerting.md."""
STALE_SECONDS = 2 * RESEND_SECONDS
"""An alert that was not taken for so long counts as undelivered."""
FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 30.0
"""Pauses between tries double from the first to the last."""
MAX_ALERTS = 1000
"""At a time; a fleet with more findings has one problem. They take 0.12 s
(docs/method/alerting.md)."""


@dataclass(frozen=True, slots=True)
class Owed:
    """An alert to be sent; `over` = unix seconds at which it ended, None = it fires."""

    alert: Alert
    over: float | None


@dataclass(slots=True)
class _Firing:
    """An alert that fires.

    Attributes:
        due: When it is sent next.
        heard: When it was last taken; before that, when it began.
        lapses: When the Alertmanager ends it by itself, if it heard the last sending; an answer
            may be lost where the alert was not.
        asked: A request with it is under way.
    """

    alert: Alert
    due: float
    heard: float
    lapses: float = float("-inf")
    taken: bool = False
    refused: bool = False
    asked: bool = False


@dataclass(slots=True)
class _Over:
    """An alert that ended at `unix`, and that the Alertmanager ends by itself at `lapses`."""

    alert: Alert
    unix: float
    lapses: float


@dataclass(slots=True)
class Outbox:
    """What one Alertmanager is owed. Not for several threads."""

    _firing: dict[Key, _Firing] = field(default_factory=dict)
    _over: dict[Key, _Over] = field(default_factory=dict)
    _failures: int = 0
    _not_before: float = float("-inf")

    def want(self, alerts: Sequence[Alert], now: float, unix: float) -> tuple[Alert, ...]:
        """Take what fires now; what fired before and does no more is over.

        Args:
            alerts: The most important first.
            now: Own clock.
            unix: The same moment in unix seconds.

        Returns:
            Alerts that are over before this Alertmanager said that it took them.
        """
        wanted = {alert.key: alert for alert in alerts[:MAX_ALERTS]}
        missed = []
        for key in [key for key in self._firing if key not in wanted]:
            gone = self._firing.pop(key)
            self._over[key] = _Over(gone.alert, unix, gone.lapses)
            if not gone.taken and not gone.asked:
                missed.append(gone.alert)
        for key, alert in wanted.items():
            back = self._over.pop(key, None)
            lapses = float("-inf") if back is None else back.lapses
            self._firing.setdefault(key, _Firing(alert, now, now, lapses)).alert = alert
        # What it has ended by itself by now needs no words.
        self._over = {key: each for key, each in self._over.items() if each.lapses > now}
        return tuple(missed)

    def due(self, now: float) -> tuple[Owed, ...]:
        """What is to be sent now."""
        if now < self._not_before:
            return ()
        waiting = [each for each in self._firing.values() if each.due <= now]
        ended = [Owed(each.alert, each.unix) for each in self._over.values()]
        # What was called wrong goes after the others, or they would be refused with it.
        right = [Owed(each.alert, None) for each in waiting if not each.refused]
        return (*right, *ended) or tuple(Owed(each.alert, None) for each in waiting)

    def seconds(self, now: float) -> float | None:
        """How long nothing is due; None = until something else fires or ends."""
        moments = [each.due for each in self._firing.values()]
        if self._over:
            moments.append(now)
        return max(0.0, min(moments) - now, self._not_before - now) if moments else None

    def asking(self, sent: Sequence[Owed], now: float) -> None:
        """A request with these begins: what ends before its answer has to be told as ended too."""
        for each in sent:
            if (firing := self._firing.get(each.alert.key)) is not None and each.over is None:
                firing.lapses, firing.asked = now + FIRING_SECONDS, True

    def taken(self, sent: Sequence[Owed], now: float) -> None:
        """The Alertmanager took these."""
        self._failures, self._not_before = 0, float("-inf")
        for each in sent:
            self._record(each, now, taken=True)

    def refused(self, one: Owed, now: float) -> None:
        """The Alertmanager calls this one wrong; it is asked again when it would be sent again."""
        self._record(one, now, taken=False)

    def failed(self, sent: Sequence[Owed], now: float) -> float:
        """The Alertmanager did not say that it took these; seconds before the next try."""
        for each in sent:
            if (firing := self._firing.get(each.alert.key)) is not None and each.over is None:
                firing.lapses, firing.asked = now + FIRING_SECONDS, False
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 16), LAST_PAUSE_SECONDS)
        self._failures += 1
        self._not_before = now + pause
        return pause

    def undelivered(self, now: float) -> int:
        """Alerts that fire and have not been taken in the last STALE_SECONDS."""
        return sum(now - each.heard >= STALE_SECONDS for each in self._firing.values())

    def _record(self, one: Owed, now: float, *, taken: bool) -> None:
        key = one.alert.key
        if one.over is not None:
            if (over := self._over.get(key)) and over.unix == one.over:
                del self._over[key]
            return
        if (firing := self._firing.get(key)) is not None:
            firing.due, firing.refused, firing.asked = now + RESEND_SECONDS, not taken, False
            if taken:
                firing.taken, firing.heard, firing.lapses = True, now, now + FIRING_SECONDS
