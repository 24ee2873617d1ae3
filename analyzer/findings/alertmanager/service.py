"""One address of an Alertmanager, and all replicas behind its name.

The name of a headless Service leads to every pod; replicas want to hear of every alert, each for
itself (https://prometheus.io/docs/alerting/latest/alertmanager/#high-availability).
"""

import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from requests.utils import get_environ_proxies

from lockstep.analyzer.findings.alertmanager.outbox import MAX_ALERTS
from lockstep.analyzer.findings.alertmanager.posting import FIRING_SECONDS, Alert, Key, Result
from lockstep.analyzer.findings.alertmanager.replica import Clock, Replica
from lockstep.analyzer.read.prometheus.access import Access, access
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract import threads
from lockstep.collector.contract.metrics import Sample

RESOLVE_SECONDS = 30.0
"""A pod that is replaced has another address; cluster DNS is 5 to 30 s old."""
SILENT_SECONDS = 300.0
"""Whose address left the name and who answers nothing for so long is gone: longer than a pod that
is not ready for a moment, shorter than until somebody else has its address."""
MOST_REPLICAS = 16
"""Of one name; Alertmanager's own mesh is of three, as a rule."""

Resolve = Callable[[str], Sequence[str]]


def addresses_of(url: str) -> tuple[str, ...]:
    """The addresses behind the name in a URL; none where a proxy finds them.

    Of one family only: `localhost` is one machine by two.

    Raises:
        OSError: The name is not known now.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if get_environ_proxies(url):  # whose it is to find the way
        return ()
    found = socket.getaddrinfo(host, parts.port, type=socket.SOCK_STREAM)
    families: list[set[str]] = [
        {str(address[0]) for kind, *_, address in found if kind == family}
        for family in (socket.AF_INET, socket.AF_INET6)
    ]
    most = max(families, key=lambda every: min(len(every), 2))
    return tuple(sorted(most))[:MOST_REPLICAS]


class Service:
    """All replicas behind one address; for many threads.

    Args:
        access: The address, and how to get in.
        unix: Unix seconds.
        monotonic: Seconds of a clock that is never stepped.
        resolve: As addresses_of.
    """

    def __init__(
        self, access: Access, unix: Clock, monotonic: Clock, resolve: Resolve = addresses_of
    ) -> None:
        self.url = access.url
        secret = access.token or access.password
        self._in_the_clear = bool(secret) and not access.url.startswith("https:")
        """Whether the owner of an address that left the name would receive credentials."""
        self._new: Callable[[], Replica] = lambda: Replica(access, unix, monotonic)
        self._resolve, self._monotonic = resolve, monotonic
        self._lock = threading.Lock()
        self._replicas = [self._new()]
        self._left: dict[Replica, float] = {}
        self._wanted: Sequence[Alert] = ()
        self._before: Counter[str] = Counter()
        self._ended = threading.Event()
        self._started = False
        self._thread = threads.loop("addresses", self._follow, self._ended)

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """The replicas that are sent alerts now."""
        with self._lock:
            return tuple(self._replicas)

    @property
    def counts(self) -> Counter[str]:
        """As of Replica, of all together, those that are gone included."""
        total = Counter(self._before)
        for replica in self.replicas:
            total.update(replica.counts)
        return total

    def start(self) -> None:
        """Send from now on, and look where the name leads."""
        self._started = True
        for replica in self.replicas:
            replica.start()
        self._thread.start()

    def end(self) -> None:
        """Send no more; returns at once."""
        self._ended.set()
        for replica in self.replicas:
            replica.end()

    def want(self, alerts: Sequence[Alert], over: Sequence[Alert] = ()) -> None:
        """As of Replica."""
        with self._lock:
            self._wanted = alerts
            for replica in self._replicas:
                replica.want(alerts, over)

    def ended(self, alerts: Sequence[tuple[Alert, float]], *, late: bool = True) -> None:
        """As of Replica."""
        for replica in self.replicas:
            replica.ended(alerts, late=late)

    def marks(self) -> frozenset[str]:
        """Of the alerts that any of them took: people heard of these."""
        return frozenset[str]().union(*(replica.marks() for replica in self.replicas))

    def remember(self, marks: Collection[str]) -> None:
        """As of Replica."""
        for replica in self.replicas:
            replica.remember(marks)

    def undelivered(self) -> int:
        """Alerts that fire and that one of those in the name has not taken for a while."""
        with self._lock:
            there = [each for each in self._replicas if each not in self._left]
        return max(replica.undelivered() for replica in there)

    def lead_to(self, addresses: Sequence[str]) -> None:
        """Serve those at these addresses; none, or the first one alone = who answers the name.

        Who leaves the name for a moment has its alerts all the same, and receives their ends: it is
        sent alerts until they would have lapsed, or it is silent. Who comes may be the same one at
        another address: what that one was not sent yet is sent there as well.
        """
        now = self._monotonic()
        marks = self.marks()
        with self._lock:
            at = {each.address: each for each in self._replicas}
            several = len(addresses) > 1 or None not in at
            wanted: list[str | None] = [*addresses] if addresses and several else [None]
            for address in wanted:
                if address in at:
                    self._left.pop(at[address], None)
            leaving = [
                each for each in self._replicas
                if each.address not in wanted and each not in self._left
            ]  # fmt: skip
            for address in [each for each in wanted if each not in at]:
                before = leaving.pop(0) if leaving else None
                if before is not None and before.address is None:
                    before.move(address)
                    continue
                self._add(address, before, marks)
                if before is not None:
                    self._left[before] = now
            self._left.update(dict.fromkeys(leaving, now))
            for replica in self._gone(now):
                replica.end()
                self._replicas.remove(replica)
                del self._left[replica]
                self._before.update(replica.counts)

    def _add(self, address: str | None, before: Replica | None, marks: Collection[str]) -> None:
        replica = self._new()
        replica.move(address)
        if before is None:
            replica.remember(marks)
        else:
            replica.succeed(before)
        replica.want(self._wanted)
        self._replicas.append(replica)
        if self._started and not self._ended.is_set():
            replica.start()

    def _gone(self, now: float) -> list[Replica]:
        """The replicas that left the name and are sent nothing more; the lock is held."""
        longest = SILENT_SECONDS if self._in_the_clear else FIRING_SECONDS
        newest = sorted(self._left, key=self._left.__getitem__, reverse=True)
        return [
            each for place, each in enumerate(newest)
            if each.address is None or place >= MOST_REPLICAS
            or now - self._left[each] >= longest
            or now - max(self._left[each], each.answered) >= SILENT_SECONDS
        ]  # fmt: skip

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                addresses = self._resolve(self.url)
            except (OSError, UnicodeError):  # known replicas are served; who sends says what fails
                pass
            else:
                self.lead_to(addresses)
            self._ended.wait(RESOLVE_SECONDS)


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
                "%d findings are open; Alertmanager gets the first %d only",
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
