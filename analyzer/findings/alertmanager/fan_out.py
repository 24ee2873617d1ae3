"""Every Alertmanager is told of every finding, and none waits for another.

All replicas, as https://prometheus.io/docs/alerting/latest/alertmanager/#high-availability wants.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from lockstep.analyzer.findings.alertmanager.alert import Alert, Key
from lockstep.analyzer.findings.alertmanager.outbox import MAX_ALERTS
from lockstep.analyzer.findings.alertmanager.posting import Result
from lockstep.analyzer.findings.alertmanager.service import Service
from lockstep.analyzer.read.prometheus.access import access
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample

LOG = logging.getLogger(__name__)

STOP_SECONDS = 0.5
"""For all replicas together; a request under way may take longer, and ends with the process."""


class Alertmanagers:
    """All replicas of the Alertmanager.

    Args:
        urls: Of each; credentials in the address or in LOCKSTEP_ALERTMANAGER_TOKEN, _USER and
            _PASSWORD.
        unix: Unix seconds.

    Raises:
        RequestError: One is no address.
    """

    def __init__(self, urls: Sequence[str], unix: Callable[[], float]) -> None:
        every = [access(url, service="alertmanager") for url in urls]
        self._services = [Service(one, unix, time.monotonic) for one in every]
        self._beyond: frozenset[Key] = frozenset()
        self._left_out = 0

    def start(self) -> None:
        """Send from now on."""
        for service in self._services:
            service.start()

    def stop(self) -> None:
        """Send no more: alerts of open findings lapse after an hour, if nobody sends them."""
        for service in self._services:
            service.end()
        deadline = time.monotonic() + STOP_SECONDS
        for replica in (each for service in self._services for each in service.replicas):
            replica.join(max(0.0, deadline - time.monotonic()))

    def want(self, alerts: Sequence[Alert], over: Sequence[Alert] = ()) -> None:
        """Take all that fires now, the most important first; what is no more there is resolved.

        Args:
            alerts: What fires.
            over: What is over, in its last words.
        """
        beyond = frozenset(alert.key for alert in alerts[MAX_ALERTS:])
        if new := len(beyond - self._beyond):
            self._left_out += new
            LOG.error(
                "%d findings are open; Alertmanager is told of the first %d only",
                len(alerts), MAX_ALERTS,
            )  # fmt: skip
        self._beyond = beyond
        for service in self._services:
            service.want(alerts[:MAX_ALERTS], over)

    def taken(self) -> dict[str, frozenset[str]]:
        """Which alerts, or ends of alerts, each took: its address -> `Alert.mark` of each."""
        return {service.url: service.marks() for service in self._services}

    def remember(self, taken: Mapping[str, Collection[str]]) -> None:
        """What `taken` of an earlier process was; of others than its own nothing is known."""
        for service in self._services:
            if service.url in taken:
                service.remember(taken[service.url])

    def ended(self, alerts: Sequence[tuple[Alert, float]], *, late: bool = True) -> None:
        """Tell what ended before this process began, and when: the last may not have.

        Args:
            alerts: And the unix seconds of their end.
            late: Whether people are to hear of what an Alertmanager did not take.
        """
        for service in self._services:
            service.ended(alerts, late=late)

    def samples(self) -> Iterator[Sample]:
        """What the page says about delivery."""
        for service in self._services:
            url, counts = service.url, service.counts
            yield m.ALERTS_DELIVERED(counts["delivered"], url)
            for reason in (Result.UNREACHABLE, Result.TIMEOUT, Result.STATUS):
                yield m.ALERT_POSTS_FAILED(counts[reason], url, reason)
            yield m.ALERTS_REJECTED(counts["rejected"], url)
            yield m.ALERTS_DROPPED(counts["dropped"] + self._left_out, url)
            yield m.ALERTS_UNDELIVERED(service.undelivered(), url)
