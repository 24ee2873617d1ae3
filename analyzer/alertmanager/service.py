"""One address of an Alertmanager, and all replicas that its name leads to.

The name of a headless Service leads to every pod; replicas want to hear of every alert, each for
itself (https://prometheus.io/docs/alerting/latest/alertmanager/#high-availability).
"""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from urllib.parse import urlsplit

from requests.utils import get_environ_proxies

from analyzer.alertmanager.alert import Alert
from analyzer.alertmanager.replica import Clock, Replica
from analyzer.readers.prometheus.access import Access
from collector.contract import threads

RESOLVE_SECONDS = 30.0
"""A pod that is replaced has another address; cluster DNS is 5 to 30 s old."""
MOST_REPLICAS = 16
"""Of one name; Alertmanager's own mesh is of three, as a rule."""

Resolve = Callable[[str], Sequence[str]]


def addresses_of(url: str) -> tuple[str, ...]:
    """The addresses behind the name in a URL, where there are several; else none.

    Of one family only: `localhost` is one machine by two.

    Raises:
        OSError: The name is not known now.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if get_environ_proxies(url):  # whose it is to find the way
        return ()
    found = socket.getaddrinfo(host, parts.port, type=socket.SOCK_STREAM)
    for family in (socket.AF_INET, socket.AF_INET6):
        every = {str(address[0]) for kind, *_, address in found if kind == family}
        if len(every) > 1:
            return tuple(sorted(every))[:MOST_REPLICAS]
    return ()


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
        self._new: Callable[[], Replica] = lambda: Replica(access, unix, monotonic)
        self._resolve = resolve
        self._lock = threading.Lock()
        self._replicas = [self._new()]
        self._wanted: Sequence[Alert] = ()
        self._before: Counter[str] = Counter()
        self._ended = threading.Event()
        self._started = False
        self._thread = threads.loop("addresses", self._follow, self._ended)

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """Those that are told now."""
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
        """Alerts that fire and that one of them has not taken for a while."""
        return max(replica.undelivered() for replica in self.replicas)

    def lead_to(self, addresses: Sequence[str]) -> None:
        """Tell those at these addresses, each; none = whoever answers to the name.

        Who is replaced goes on under another address: what it was not told yet is told there.
        """
        wanted: list[str | None] = [*addresses] or [None]
        marks = self.marks()
        with self._lock:
            free = [each for each in self._replicas if each.address not in wanted]
            held = {each.address for each in self._replicas}
            for address in [each for each in wanted if each not in held]:
                if free:
                    free.pop(0).move(address)
                    continue
                replica = self._new()
                replica.move(address)
                replica.remember(marks)
                replica.want(self._wanted)
                self._replicas.append(replica)
                if self._started and not self._ended.is_set():
                    replica.start()
            for replica in free:
                replica.end()
                self._replicas.remove(replica)
                self._before.update(replica.counts)

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                addresses = self._resolve(self.url)
            except (OSError, UnicodeError):  # who is known is told; who sends says what fails
                pass
            else:
                self.lead_to(addresses)
            self._ended.wait(RESOLVE_SECONDS)
