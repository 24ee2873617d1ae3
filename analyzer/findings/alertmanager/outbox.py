"""The alerts that one Alertmanager must still be sent; the caller passes the time.

It is given the alerts that fire now, not what changed: after a failure, a lost answer or a restart
the next sending says the same again. `now` is seconds of a clock that is never stepped.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from lockstep.analyzer.findings.alertmanager.posting import Alert, Key

RESEND_SECONDS = 60.0
"""docs/method/alerting.md."""
STALE_SECONDS = 2 * RESEND_SECONDS
"""An alert that was not taken for so long counts as undelivered."""
FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 30.0
"""Pauses between tries double from the first to the last."""
LATE_SECONDS = 60.0
"""An alert fires for so long from when it was first taken, also one that is over by then: longer
than groups wait, or nobody would be notified of it. Of one that is replaced they notify of the
other."""
OWED_SECONDS = 86_400.0
"""What was not taken for so long is owed no more."""
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
        taken: When it was first taken; None = it was not. Of what an earlier process delivered it
            is when this one began.
        asked: A request with it is under way.
    """

    alert: Alert
    due: float
    heard: float
    taken: float | None = None
    refused: bool = False
    asked: bool = False


@dataclass(slots=True)
class _Over:
    """An alert that ended at `unix`; that is sent from `due` on, and kept until it is taken.

    An Alertmanager that was started anew has lost the alert and not its log of what it reported
    people: without an end they would never hear of one. To one that ended it by itself it says
    nothing new.
    """

    alert: Alert
    unix: float
    since: float
    due: float


@dataclass(slots=True)
class _Late:
    """An alert that was over before it was taken: people hear of it, at `due`, then of its end."""

    alert: Alert
    unix: float
    since: float
    due: float


@dataclass(slots=True)
class Outbox:
    """What one Alertmanager is owed. Not for several threads.

    Attributes:
        dropped: Alerts that it did not take within OWED_SECONDS after their end.
    """

    dropped: int = 0

    _marks: dict[str, float] = field(default_factory=dict)
    _remembers: bool = False
    _firing: dict[Key, _Firing] = field(default_factory=dict)
    _over: dict[Key, _Over] = field(default_factory=dict)
    _late: dict[Key, _Late] = field(default_factory=dict)
    _failures: int = 0
    _not_before: float = float("-inf")

    @property
    def marks(self) -> frozenset[str]:
        """Of the alerts that it took (`Alert.mark`), or whose end it took, lately."""
        return frozenset(self._marks)

    def remember(self, marks: Collection[str], now: float) -> None:
        """Which alerts it took from an earlier process: all others it did not."""
        self._marks, self._remembers = dict.fromkeys(marks, now), True

    def want(
        self, alerts: Sequence[Alert], now: float, unix: float, over: Sequence[Alert] = ()
    ) -> tuple[Alert, ...]:
        """Take what fires now; what fired before and does no more is over.

        Args:
            alerts: The most important first.
            now: Own clock.
            unix: The same moment in unix seconds.
            over: What is over, in its last words; of others those before stand.

        Returns:
            Alerts that are over before this Alertmanager said that it took them: they are sent
            late.
        """
        wanted = {alert.key: alert for alert in alerts[:MAX_ALERTS]}
        last = {alert.key: alert for alert in over}
        missed = []
        for key in [key for key in self._firing if key not in wanted]:
            gone = self._firing.pop(key)
            words = last.get(key, gone.alert)
            if gone.taken is not None or gone.asked:
                told = (now if gone.taken is None else gone.taken) + LATE_SECONDS
                self._over[key] = _Over(
                    words, unix, now, now if words.is_replaced else max(now, told)
                )
            else:
                self._late[key] = _Late(words, unix, now, gone.due if gone.refused else now)
                missed.append(words)
        for key, alert in wanted.items():
            self._over.pop(key, None)
            self._late.pop(key, None)
            firing = self._firing.setdefault(key, _Firing(alert, now, now))
            firing.alert = alert
            if firing.taken is None:
                firing.taken = self._marks.get(alert.mark)
        since = now - OWED_SECONDS
        self._marks = {mark: when for mark, when in self._marks.items() if when > since}
        self._over = {key: each for key, each in self._over.items() if each.since > since}
        late = len(self._late)
        self._late = {key: each for key, each in self._late.items() if each.since > since}
        self.dropped += late - len(self._late)
        return tuple(missed)

    def ended(
        self, alerts: Sequence[tuple[Alert, float]], now: float, *, late: bool = True
    ) -> None:
        """Take what ended before this process began, and when (unix seconds).

        Of what the Alertmanager took, just now or long ago, the end is sent again; what it is not
        known to have taken is sent late, if `late`. Else only its end is: who was killed
        may have sent it unnoted, and the end of what never fired says nothing to people.

        Args:
            alerts: Of which an earlier process may have reported the end, or not; the newest last.
            now: Own clock.
            late: Whether people are to hear of what they never heard of.
        """
        for alert, unix in alerts[-MAX_ALERTS:]:
            key = alert.key
            if key in self._firing:
                continue
            if late and self._remembers and alert.mark not in self._marks:
                self._late[key] = _Late(alert, unix, now, now)
                self._over.pop(key, None)
            else:
                self._over[key] = _Over(alert, unix, now, now + LATE_SECONDS if late else now)
                self._late.pop(key, None)

    def due(self, now: float) -> tuple[Owed, ...]:
        """What is to be sent now."""
        if now < self._not_before:
            return ()
        waiting = [each for each in self._firing.values() if each.due <= now]
        ended = [Owed(each.alert, each.unix) for each in self._over.values() if each.due <= now]
        late = [Owed(each.alert, None) for each in self._late.values() if each.due <= now]
        # What was called wrong goes after the others, or they would be refused with it.
        right = [Owed(each.alert, None) for each in waiting if not each.refused]
        return (*right, *late, *ended) or tuple(Owed(each.alert, None) for each in waiting)

    def seconds(self, now: float) -> float | None:
        """How long nothing is due; None = until something else fires or ends."""
        moments = [each.due for each in self._firing.values()]
        moments += [each.due for each in self._over.values()]
        moments += [each.due for each in self._late.values()]
        return max(0.0, min(moments) - now, self._not_before - now) if moments else None

    def asking(self, sent: Sequence[Owed]) -> None:
        """A request with these begins: what ends before its answer must be sent as ended, too."""
        for each in sent:
            if (firing := self._firing.get(each.alert.key)) is not None and each.over is None:
                firing.asked = True

    def taken(self, sent: Sequence[Owed], now: float) -> None:
        """The Alertmanager took these."""
        self._failures, self._not_before = 0, float("-inf")
        for each in sent:
            self._record(each, now, taken=True)

    def refused(self, alert: Owed, now: float) -> None:
        """The Alertmanager calls this one wrong; it is asked again when it would be sent again."""
        self._record(alert, now, taken=False)

    def failed(self, sent: Sequence[Owed], now: float) -> float:
        """The Alertmanager did not say that it took these; seconds before the next try."""
        for each in sent:
            if (firing := self._firing.get(each.alert.key)) is not None and each.over is None:
                firing.asked = False
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 16), LAST_PAUSE_SECONDS)
        self._failures += 1
        self._not_before = now + pause
        return pause

    def undelivered(self, now: float) -> int:
        """Alerts that fire and have not been taken in the last STALE_SECONDS."""
        return sum(now - each.heard >= STALE_SECONDS for each in self._firing.values())

    def _record(self, alert: Owed, now: float, *, taken: bool) -> None:
        key = alert.alert.key
        if taken:
            self._marks[alert.alert.mark] = now
        if alert.over is not None:
            if (over := self._over.get(key)) and over.unix == alert.over:
                del self._over[key]
            return
        if (late := self._late.get(key)) is not None:
            late.due = now + RESEND_SECONDS
            if taken:
                del self._late[key]
                self._over[key] = _Over(late.alert, late.unix, now, now + LATE_SECONDS)
        if (firing := self._firing.get(key)) is not None:
            firing.due, firing.refused, firing.asked = now + RESEND_SECONDS, not taken, False
            if taken:
                firing.heard = now
                firing.taken = now if firing.taken is None else firing.taken
