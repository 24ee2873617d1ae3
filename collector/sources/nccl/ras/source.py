"""NCCL's RAS: what every communicator of a run did, from the node that holds the run's rank 0.

One client sees the whole run, and every question goes to all its ranks; so one node asks.
"""

import ipaddress
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lockstep.collector.clock import Clock
from lockstep.collector.config import Address, ConfigError
from lockstep.collector.config import address as parsed
from lockstep.collector.files.opening import environment
from lockstep.collector.readings.source import RankProcess, Rejected, SourceError
from lockstep.collector.sources.nccl.ras.communicators import Picture
from lockstep.collector.sources.nccl.ras.endpoint import POLL_SECONDS, VARIABLE, Endpoint
from lockstep.collector.sources.nccl.ras.guard import Libraries, Polling, why_not

__all__ = ["EndpointReading", "NcclRas", "RasReading"]

MAX_ENDPOINTS = 8
FIRST_ANSWER_SECONDS = 1.2
"""The first reading waits so long: a refusal or a small run's answer takes milliseconds."""


@dataclass(frozen=True, slots=True)
class EndpointReading:
    """One address.

    Attributes:
        up: None = nothing listens, and no rank of this node says that something should.
        pictures: (seconds since it was taken, one run).
        events: By (run, event).
    """

    address: str
    up: bool | None
    pictures: tuple[tuple[float, Picture], ...]
    events: tuple[tuple[tuple[str, str], int], ...]


@dataclass(frozen=True, slots=True)
class RasReading:
    """Every address."""

    endpoints: tuple[EndpointReading, ...]
    rejected: tuple[Rejected, ...]


class NcclRas:
    """Source of RasReading: what the threads of the addresses last heard; never waits for them.

    Args:
        addresses: Where RAS is asked, besides where the ranks of this node say.
        node: Name of this node, besides its host name.
        living: Ranks of this node by their rings, by the pids that they know, as NCCL does.
        processes: The same as our process table has them; None = as `living`.
        stepped: (run, rank) of the ranks of this node that have made a step since they started.
        polling: When they are asked.
    """

    name = "nccl_ras"

    def __init__(
        self,
        addresses: Sequence[Address],
        node: str | None,
        proc: Path,
        clock: Clock,
        living: Callable[[], Sequence[RankProcess]],
        poll_seconds: float = POLL_SECONDS,
        processes: Callable[[], Sequence[RankProcess]] | None = None,
        stepped: Callable[[], Collection[tuple[str, int]]] = tuple,
        polling: Polling = Polling.GUARDED,
    ) -> None:
        self._configured = tuple(addresses)
        self._names = {socket.gethostname(), *([node] if node else [])}
        self._proc = proc
        self._clock = clock
        self._living = living
        self._processes = processes or living
        self._stepped = stepped
        self._polling = polling
        self._libraries = Libraries(proc)
        self._asking = threading.Lock()
        self._poll = poll_seconds
        self._endpoints: dict[Address, Endpoint] = {}
        self._named: dict[int, Address | None] = {}
        self._looked_at: float | None = None
        self._rejected: list[Rejected] = []

    def available(self) -> bool:
        """Whether something listens, or should by the word of a rank of this node."""
        self._look()
        said = set(self._named.values())
        return any(
            endpoint.answers.up is not None
            or (endpoint.address in said and not endpoint.answers.held)
            for endpoint in self._endpoints.values()
        )

    def why_not(self) -> str:
        """What is missing."""
        words = [endpoint.answers.words for endpoint in self._endpoints.values()]
        return "; ".join(words) or "no address of RAS is known; collector.ras or NCCL_RAS_ADDR"

    def read(self) -> RasReading:
        """What every address last told."""
        now = self._clock.monotonic()
        rejected, self._rejected = self._rejected, []
        said = set(self._named.values())
        readings = []
        for endpoint in self._endpoints.values():
            rejected += endpoint.rejected()
            answers = endpoint.answers
            seen = [picture for picture in answers.seen if now <= picture.until]
            readings.append(
                EndpointReading(
                    str(endpoint.address),
                    False
                    if answers.up is None and endpoint.address in said and not answers.held
                    else answers.up,
                    tuple(
                        (max(0.0, now - seen_picture.at), seen_picture.picture)
                        for seen_picture in seen
                    ),
                    answers.events,
                )
            )
        return RasReading(tuple(readings), tuple(rejected))

    def close(self) -> None:
        """End the threads."""
        for endpoint in self._endpoints.values():
            endpoint.stop()

    def is_here(self, host: str) -> bool:
        """Whether a host, as NCCL names it, is this node: one binds to one's own addresses only."""
        if host in self._names:
            return True
        try:
            family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind((host, 0))
        except (ValueError, OSError):
            return False
        return True

    def _look(self) -> None:
        """Find out which addresses there are, as often as they are asked."""
        now = self._clock.monotonic()
        first = self._looked_at is None
        if self._looked_at is not None and now - self._looked_at < self._poll:
            return
        self._looked_at = now
        self._named = {
            rank.pid: self._named[rank.pid] if rank.pid in self._named else self._address(rank.pid)
            for rank in self._processes()
        }
        wanted = dict.fromkeys((*self._configured, *filter(None, self._named.values())))
        if len(wanted) > MAX_ENDPOINTS:
            words = f"{len(wanted)} addresses of RAS; {MAX_ENDPOINTS} are asked"
            self._rejected.append(Rejected("too_many", words))
        for address in list(wanted)[:MAX_ENDPOINTS]:
            if address not in self._endpoints:
                self._endpoints[address] = Endpoint(
                    address, self._clock, self._living, self._is_near(address), self._poll,
                    held=partial(self._held, address), asking=self._asking,
                )  # fmt: skip
                self._endpoints[address].start()
        for address in self._endpoints.keys() - wanted.keys():
            self._endpoints.pop(address).stop()
        if first:
            for endpoint in self._endpoints.values():
                left = now + FIRST_ANSWER_SECONDS - self._clock.monotonic()
                endpoint.first_pass.wait(max(0.0, left))

    def _is_near(self, address: Address) -> Callable[[str], bool]:
        """`is_here`; a rank of this node that names its pod's own address says where it is."""
        if address in self._configured:
            return self.is_here
        return lambda host: host == address.host or self.is_here(host)

    def _held(self, address: Address) -> str | None:
        """Why an address is not asked now, in words; called by its own thread."""
        if self._polling is not Polling.GUARDED:
            return why_not(self._polling, (), (), {})
        processes = {(rank.run, rank.rank): rank.pid for rank in self._processes()}
        named = {who: self._named.get(pid) for who, pid in processes.items()}
        # Who names no address listens where everybody does.
        usual = address if address in self._configured else None
        reached = [
            rank
            for rank in self._living()
            if (named.get((rank.run, rank.rank)) or usual) == address
        ]
        stepped = self._stepped()
        versions = {}
        if all((rank.run, rank.rank) in stepped for rank in reached):
            versions = {
                who: self._libraries.version(processes[who])
                for rank in reached
                if (who := (rank.run, rank.rank)) in processes
            }
        return why_not(self._polling, reached, stepped, versions)

    def _address(self, pid: int) -> Address | None:
        """What a rank's own environment says."""
        try:
            text = environment(self._proc, pid).get(VARIABLE)
            return None if not text else parsed(f"{VARIABLE} of process {pid}", text)
        except ConfigError as error:
            self._rejected.append(Rejected("content", str(error)))
        except SourceError as error:
            # Another user's process, or one that has just ended: the configured address stays.
            if error.reason not in ("missing", "permission"):
                self._rejected.append(Rejected.of(error))
        return None
