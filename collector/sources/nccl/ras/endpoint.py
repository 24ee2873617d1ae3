"""One address of RAS: asked again and again by a thread of its own, its events counted."""

import codecs
import json
import logging
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from lockstep.collector.clock import Clock
from lockstep.collector.config import Address
from lockstep.collector.contract import threads
from lockstep.collector.readings.source import RankProcess, Rejected, SourceError
from lockstep.collector.sources.nccl.ras.client import (
    QUERY_SECONDS,
    Connection,
    Refused,
    ask,
    speaks_json,
)
from lockstep.collector.sources.nccl.ras.communicators import Picture, pictured

MAX_PENDING = 1 << 16
"""Characters of one event that has not ended."""

_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,39}", re.ASCII)
_LINE = re.compile(r"\[[0-9: -]{1,40}\] ([A-Z][A-Z0-9_]{0,39}):.*", re.ASCII)


class EventStream:
    """Cuts what a socket gives into events; what has not ended waits for the rest."""

    def __init__(self, in_json: bool) -> None:
        self._in_json = in_json
        self._pending = ""
        self._decoder = json.JSONDecoder()
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> list[str]:
        """Names of the events that are whole now, in small letters.

        Raises:
            SourceError: The stream holds something else; it cannot be followed any further.
        """
        self._pending += self._bytes.decode(data)
        names = self._objects() if self._in_json else self._lines()
        if len(self._pending) > MAX_PENDING:
            raise SourceError("too_large", f"an event of RAS exceeds {MAX_PENDING} characters")
        return names

    def _objects(self) -> list[str]:
        names = []
        while text := self._pending.lstrip():
            self._pending = text
            if text[0] != "{":
                raise SourceError("content", f"no event of RAS begins with {text[:40]!r}")
            try:
                event, end = self._decoder.raw_decode(text)
            except (ValueError, RecursionError):
                break
            self._pending = text[end:]
            name = event.get("event")
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise SourceError("content", f"{str(name)[:40]!r} is no event of RAS")
            names.append(name.lower())
        return names

    def _lines(self) -> list[str]:
        *whole, self._pending = self._pending.split("\n")
        names = []
        for line in whole:
            match = _LINE.fullmatch(line.rstrip("\r"))
            if match is None and line.strip():
                raise SourceError("content", f"{line[:60]!r} is no event of RAS")
            if match is not None:
                names.append(match[1].lower())
        return names


LOG = logging.getLogger(__name__)

VARIABLE = "NCCL_RAS_ADDR"
POLL_SECONDS = 10.0
"""Every question is passed on to all ranks of the run."""
RARELY_SECONDS = 300.0
"""How often a run is asked whose rank 0 is elsewhere, or which does not tell."""
SHARE = 0.05
"""Of the time, at most, that a job spends on our questions."""
LATE_POLLS = 1.5
"""For so long an answer counts after the next one was due."""
MAX_RUNS = 4
MAX_EVENTS = 64
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class TimedPicture:
    """A picture, when it was taken (monotonic seconds), and until when it counts."""

    picture: Picture
    at: float
    until: float


@dataclass(frozen=True, slots=True)
class Answers:
    """What one address told; replaced as a whole.

    Attributes:
        up: The last question was answered; None = nothing listens, or never asked.
        words: How it is, for the doctor.
        held: It is not asked, and `words` are why.
        events: By (run, event), since the collector started.
    """

    up: bool | None = None
    words: str = "not asked yet"
    seen: tuple[TimedPicture, ...] = ()
    events: tuple[tuple[tuple[str, str], int], ...] = ()
    held: bool = False


@dataclass(slots=True)
class _Monitor:
    connection: Connection
    stream: EventStream


@dataclass(slots=True)
class _Turn:
    """What the thread remembers between two questions."""

    asked_at: float | None = None
    took: float = 0.0
    failures: int = 0
    living: frozenset[RankProcess] = frozenset()
    elsewhere: bool = False
    words: str = ""
    monitors: bool = True
    events: Counter[tuple[str, str]] = field(default_factory=Counter)


class Endpoint:
    """Asks one address.

    Args:
        living: Ranks of this node by their rings.
        is_here: Whether a host, as NCCL names it, is this node.
        held: Why it may not be asked now, or None.
        asking: Held while it is spoken to: of one node there is one question at a time.
    """

    def __init__(
        self,
        address: Address,
        clock: Clock,
        living: Callable[[], Sequence[RankProcess]],
        is_here: Callable[[str], bool],
        poll_seconds: float = POLL_SECONDS,
        held: Callable[[], str | None] = lambda: None,
        asking: AbstractContextManager[object] | None = None,
    ) -> None:
        self.address = address
        self.answers = Answers()
        self.first_pass = threading.Event()
        self._clock = clock
        self._living = living
        self._is_here = is_here
        self._poll = poll_seconds
        self._held = held
        self._asking = asking or nullcontext()
        self._rejected: list[Rejected] = []
        self._lock = threading.Lock()
        self._turn = _Turn()
        self._monitor: _Monitor | None = None
        self._stop = threading.Event()
        self._thread = threads.loop("ras", self._run, self._stop)

    def start(self) -> None:
        """Start asking."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; the thread ends with the question that is under way."""
        self._stop.set()

    def rejected(self) -> tuple[Rejected, ...]:
        """What failed since this was last asked."""
        with self._lock:
            taken, self._rejected = self._rejected, []
        return tuple(taken)

    def _run(self) -> None:
        while not self._stop.is_set():
            until = self._clock.monotonic() + self._poll
            try:
                self.turn()
                until = self._clock.monotonic() + self.pause
                self.first_pass.set()
                self._follow(until)
            except Exception as error:
                LOG.exception("RAS at %s failed; this is a bug", self.address)
                self._fail(SourceError("internal", f"{self.address}: {error!r}"))
                self._stop.wait(until - self._clock.monotonic())
        self._hang_up()

    @property
    def pause(self) -> float:
        """Seconds until the next question: more after each that failed, and where one took long."""
        failed: float = self._poll * 2.0 ** min(self._turn.failures, 16)
        return min(max(failed, self._turn.took / SHARE), max(RARELY_SECONDS, self._poll))

    def turn(self) -> None:
        """Ask once, or only whether somebody is there where one asks rarely.

        The connection for events ends first: there is never a second one.
        """
        try:
            words = self._held()
        except SourceError as error:
            self._fail(error)
            return
        if words is not None:
            self._hang_up()
            fresh = self._fresh(self._clock.monotonic())
            self.answers = Answers(None, words, fresh, tuple(self._turn.events.items()), held=True)
            return
        with self._asking:
            self._ask()

    def _ask(self) -> None:
        now = self._clock.monotonic()
        try:
            living = tuple(self._living())
            if self._asks_rarely(living, now):
                Connection(self.address, self._clock.monotonic, now + QUERY_SECONDS).close()
                self._publish(True, self._turn.words, self._fresh(now))
                return
            self._turn.asked_at, self._turn.living = now, frozenset(living)
            self._hang_up()
            status = ask(self.address, self._clock.monotonic, QUERY_SECONDS)
        except Refused as error:
            self._forget(f"{error}: no NCCL 2.24 or newer runs here, or {VARIABLE} is another")
        except SourceError as error:
            self._fail(error)
        else:
            self._turn.failures, self._turn.took = 0, self._clock.monotonic() - now
            for rejected in status.rejected:
                self._reject(SourceError(rejected.reason, f"{self.address}: {rejected.message}"))
            fresh = self._fresh(now)
            picture = pictured(status, [seen.picture for seen in fresh], living, self._is_here)
            self._keep(picture, fresh)

    def _asks_rarely(self, living: Sequence[RankProcess], now: float) -> bool:
        turn = self._turn
        if turn.asked_at is None or now - turn.asked_at >= RARELY_SECONDS:
            return False
        return turn.elsewhere and frozenset(living) == turn.living

    def _keep(self, picture: Picture, fresh: tuple[TimedPicture, ...]) -> None:
        now = self._clock.monotonic()
        others = [seen for seen in fresh if not seen.picture.same_run(picture)]
        if picture.here is False:
            kept, words = others, "rank 0 of its run is on another node, whose collector asks"
        else:
            period = self.pause if picture.here else RARELY_SECONDS
            kept = [*others, TimedPicture(picture, now, now + period + LATE_POLLS * self._poll)]
            words = f"{sum(picture.kinds.values()) or len(picture.names)} communicators"
            if picture.version is not None:
                words += f" of NCCL {'.'.join(map(str, picture.version))}"
            if picture.here is None:
                words += "; the holder of rank 0 is unknown, asked every 5 minutes"
        self._turn.words = words
        self._publish(True, words, tuple(kept[-MAX_RUNS:]))
        one_is_here = any(seen.picture.here for seen in kept)
        # A run that has no communicators yet may be anyone's.
        self._turn.elsewhere = bool(picture.kinds or picture.names) and not one_is_here
        if not one_is_here:
            self._hang_up()
        elif self._turn.monitors and self._monitor is None:
            self._listen()

    def _forget(self, words: str) -> None:
        """Nothing listens any more: the run has ended, and another may be of a newer NCCL."""
        self._hang_up()
        self._turn.elsewhere, self._turn.monitors = False, True
        self._turn.failures, self._turn.took = 0, 0.0
        self._publish(None, words, ())

    def _fresh(self, now: float) -> tuple[TimedPicture, ...]:
        return tuple(seen for seen in self.answers.seen if now <= seen.until)

    def _publish(self, up: bool | None, words: str, seen: tuple[TimedPicture, ...]) -> None:
        self.answers = Answers(up, words, seen, tuple(self._turn.events.items()))

    def _fail(self, error: SourceError) -> None:
        self._turn.failures += 1
        self._reject(error)
        self._publish(False, str(error), self._fresh(self._clock.monotonic()))

    def _reject(self, error: SourceError) -> None:
        with self._lock:
            self._rejected.append(Rejected.of(error))

    def _listen(self) -> None:
        """Open the MONITOR stream; NCCL before 2.29 does not have it."""
        connection = None
        try:
            deadline = self._clock.monotonic() + QUERY_SECONDS
            connection = Connection(self.address, self._clock.monotonic, deadline)
            in_json = speaks_json(connection)
            if connection.command("MONITOR lifecycle") != "OK":
                self._turn.monitors = False
                connection.close()
                return
            # The peer may vanish without a word: the kernel finds out.
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
            self._monitor = _Monitor(connection, EventStream(in_json))
            self._take(connection.rest())
        except SourceError as error:
            # Old servers may answer an unknown command by hanging up.
            self._turn.monitors = error.reason in ("timeout", "io", "unreachable", "refused")
            if error.reason not in ("truncated", "refused"):
                self._reject(error)
            if connection is not None:
                connection.close()
            self._monitor = None

    def _follow(self, until: float) -> None:
        """Read events until the next question is due."""
        while not self._stop.is_set() and (left := until - self._clock.monotonic()) > 0:
            if self._monitor is None:
                self._stop.wait(left)
                return
            # A second: how long a request to stop may wait.
            self._monitor.connection.socket.settimeout(min(left, 1.0))
            self._receive(self._monitor)

    def _receive(self, monitor: _Monitor) -> None:
        try:
            data = monitor.connection.socket.recv(_CHUNK)
            if data:
                self._take(data)
            else:
                self._hang_up()
        except TimeoutError:
            return
        except SourceError as error:
            self._reject(error)
            self._turn.monitors = False
            self._hang_up()
        except OSError as error:
            self._reject(SourceError("io", f"{self.address}, events: {error}"))
            self._hang_up()

    def _take(self, data: bytes) -> None:
        if self._monitor is None:
            return
        runs = {seen.picture.run for seen in self.answers.seen}
        run = runs.pop() if len(runs) == 1 else ""
        for event in self._monitor.stream.feed(data):
            if (run, event) in self._turn.events or len(self._turn.events) < MAX_EVENTS:
                self._turn.events[run, event] += 1
            else:
                self._reject(SourceError("too_many", f"{event}: more than {MAX_EVENTS} kinds"))
        now = self.answers
        self._publish(now.up, now.words, now.seen)

    def _hang_up(self) -> None:
        if self._monitor is not None:
            self._monitor.connection.close()
            self._monitor = None
