"""A thread that keeps one Alertmanager informed, independent of the others."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from typing import Any

import requests

from lockstep.analyzer.findings.alertmanager.outbox import Outbox, Owed
from lockstep.analyzer.findings.alertmanager.posting import (
    FIRING_SECONDS,
    Alert,
    Answer,
    Key,
    Result,
    alert_json,
    post,
)
from lockstep.analyzer.read.bounded_session import session
from lockstep.analyzer.read.prometheus.access import Access
from lockstep.collector.contract import threads

LOG = logging.getLogger(__name__)

SKEW_SECONDS = 30.0
"""Clocks that differ by less need no correction: an alert fires for FIRING_SECONDS."""

Send = Callable[[requests.Session, Access, Sequence[dict[str, Any]]], Answer]
Clock = Callable[[], float]


class Replica:
    """One Alertmanager, and what it is owed.

    Args:
        access: Where it is.
        unix: Unix seconds, for the moments that are sent.
        monotonic: Seconds of a clock that is never stepped.
        send: What makes a request.

    Attributes:
        url: Its address, without credentials.
        address: Where it is connected to, of several that the name in `url` leads to; None =
            wherever that leads.
        counts: Alerts `delivered`, `rejected` and `dropped`; failed requests by words of Result.
        answered: When it last took an alert, in `monotonic` seconds; before that -inf.
    """

    def __init__(self, access: Access, unix: Clock, monotonic: Clock, send: Send = post) -> None:
        self.url = access.url
        self.address: str | None = None
        self.counts: Counter[str] = Counter()
        self.answered = float("-inf")
        self._access = access
        self._unix = unix
        self._monotonic = monotonic
        self._send = send
        self._outbox = Outbox()
        self._change = threading.Condition()
        self._ending = threading.Event()
        self._skew = 0.0
        self._trouble = ""
        self._wrong: dict[Key, str] = {}
        self._session = session()
        self._thread = threads.loop("alertmanager", self._run, self._ending)

    def start(self) -> None:
        """Send from now on."""
        self._thread.start()

    def end(self) -> None:
        """Send no more; what fires then lapses at the other side. Returns at once."""
        with self._change:
            self._ending.set()
            self._change.notify()

    def move(self, address: str | None) -> None:
        """From now on it is at this address of its name's."""
        with self._change:
            self.address, self._skew = address, 0.0
            self._session = session(address=address)

    def succeed(self, other: "Replica") -> None:
        """Owe whatever another one owes: it may be that one, anew."""
        with other._change:
            outbox = deepcopy(other._outbox)
        with self._change:
            self._outbox = outbox

    def join(self, seconds: float) -> None:
        """Wait for a request under way, at most so long; it may end with the process."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def want(self, alerts: Sequence[Alert], over: Sequence[Alert] = ()) -> None:
        """Take what fires now, and the last words of what is over; returns at once."""
        with self._change:
            missed = self._outbox.want(alerts, self._monotonic(), self._unix(), over)
            self.counts["dropped"] = self._outbox.dropped
            self._change.notify()
        for alert in missed:
            LOG.warning(
                "Alertmanager %s has not taken an alert that is over now; it is sent late: %s",
                self.url, _named(alert),
            )  # fmt: skip

    def ended(self, alerts: Sequence[tuple[Alert, float]], *, late: bool = True) -> None:
        """Take what ended before this process began, and when; returns at once."""
        with self._change:
            self._outbox.ended(alerts, self._monotonic(), late=late)
            self._change.notify()

    def marks(self) -> frozenset[str]:
        """Of the alerts that it took, or whose end it took."""
        with self._change:
            return self._outbox.marks

    def remember(self, marks: Collection[str]) -> None:
        """Those that it took from an earlier process."""
        with self._change:
            self._outbox.remember(marks, self._monotonic())

    def undelivered(self) -> int:
        """Alerts that fire and that it has not taken for a while."""
        with self._change:
            return self._outbox.undelivered(self._monotonic())

    def work(self) -> None:
        """Send what is due now."""
        with self._change:
            now = self._monotonic()
            due = self._outbox.due(now)
            self._outbox.asking(due)
        if due:
            self._deliver(due)

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._ending.is_set() and not self._outbox.due(self._monotonic()):
                    self._change.wait(self._outbox.seconds(self._monotonic()))
                if self._ending.is_set():
                    self._session.close()
                    return
            self.work()

    def _deliver(self, due: Sequence[Owed]) -> None:
        answer = self._post(due)
        if answer.result is Result.WRONG and len(due) > 1:
            # One that is wrong must not keep the others back, and is to be named.
            for one in due:
                answer = self._post([one])
                if not self._settled([one], answer):
                    return
        else:
            self._settled(due, answer)

    def _post(self, sent: Sequence[Owed]) -> Answer:
        answer = self._send_in_its_time(sent)
        if answer.date is None or abs(answer.date - self._unix() - self._skew) < SKEW_SECONDS:
            return answer
        self._skew = answer.date - self._unix()
        LOG.warning(
            "the clock of Alertmanager %s is %+.0f s from ours; it gets times by its own clock",
            self.url, self._skew,
        )  # fmt: skip
        return self._send_in_its_time(sent)

    def _send_in_its_time(self, sent: Sequence[Owed]) -> Answer:
        # On the other side's clock: one that is ahead of ours would end at once what fires.
        now = self._unix() + self._skew
        return self._send(
            self._session,
            self._access,
            [
                alert_json(one.alert, now + FIRING_SECONDS if one.over is None
                         else one.over + self._skew)
                for one in sent
            ],
        )  # fmt: skip

    def _settled(self, sent: Sequence[Owed], answer: Answer) -> bool:
        """Whether it answered, so that more may be sent."""
        now = self._monotonic()
        with self._change:
            match answer.result:
                case Result.TAKEN:
                    self.answered = now
                    self._outbox.taken(sent, now)
                    self.counts["delivered"] += len(sent)
                case Result.WRONG:
                    self._outbox.refused(sent[0], now)
                    self.counts["rejected"] += 1
                case _:
                    pause = self._outbox.failed(sent, now)
                    self.counts[answer.result] += 1
        if answer.result is Result.WRONG:
            self._say_wrong(sent[0].alert, answer.why)
        elif answer.result is Result.TAKEN:
            self._say(f"Alertmanager {self.url} takes alerts again" if self._trouble else "", "")
        else:
            words = f"Alertmanager {self.url}: {answer.why}; its alerts wait and are sent again"
            self._say(f"{words}, in {pause:.0f} s first", answer.why)
        return answer.result in (Result.TAKEN, Result.WRONG)

    def _say(self, words: str, trouble: str) -> None:
        """Once for each change of what is wrong."""
        if words and trouble != self._trouble:
            LOG.warning("%s", words)
        self._trouble = trouble

    def _say_wrong(self, alert: Alert, why: str) -> None:
        if self._wrong.get(alert.key) != why:
            self._wrong = {alert.key: why, **dict(list(self._wrong.items())[:99])}
            LOG.error("Alertmanager %s refuses an alert, %s: %s", self.url, why, _named(alert))


def _named(alert: Alert) -> str:
    """Its labels for a log line; quoted, since names may be hostile."""
    return ", ".join(f"{name}={value!r}" for name, value in alert.key)
