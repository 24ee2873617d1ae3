"""Who waits for what takes long, and whose turn it is: clients one after the other."""

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Iterator

WAIT_SECONDS = 8.0
"""Who has not had his turn by then is told to ask again: Prometheus waits for 10 s."""


class InTurn:
    """A queue in which a client that asks often waits behind its own requests; for many threads.

    Who finds it full takes the last place of whom has most in it, if that is more than he would
    have.

    Args:
        most: How many may be in it, with the one whose turn it is.
        most_a_client: Likewise, of one client.
        seconds: How long one waits at most.
    """

    def __init__(self, most: int, most_a_client: int, seconds: float = WAIT_SECONDS) -> None:
        self.most = max(1, most)
        self.most_a_client = max(1, min(most, most_a_client))
        self._seconds = seconds
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[object]] = {}
        """By client; whose turn comes next is first."""
        self._held: Counter[str] = Counter()
        self._inside: object | None = None

    @contextlib.contextmanager
    def turn(self, client: str) -> Iterator[bool]:
        """Wait for one's turn and have it in the block; False, and it is not to be begun, if not.

        Args:
            client: Whose request it is.
        """
        let_in = self._enter(client)
        try:
            yield let_in
        finally:
            if let_in:
                self._leave(client)

    def _enter(self, client: str) -> bool:
        mine = object()
        with self._changed:
            if self._held[client] >= self.most_a_client or not self._room(client):
                return False
            self._held[client] += 1
            self._waiting.setdefault(client, deque()).append(mine)
            self._next()
            self._changed.wait_for(lambda: not self._waits(client, mine), self._seconds)
            if self._inside is mine:
                return True
            if self._waits(client, mine):
                self._drop(client, mine)
            return False

    def _leave(self, client: str) -> None:
        with self._changed:
            self._inside = None
            self._held[client] -= 1
            self._held += Counter()  # forgets who has none
            self._next()

    def _waits(self, client: str, one: object) -> bool:
        return one in self._waiting.get(client, ())

    def _next(self) -> None:
        """Let the next one in, if nobody is; his client goes to the end."""
        if self._inside is None and self._waiting:
            client = next(iter(self._waiting))
            theirs = self._waiting.pop(client)
            self._inside = theirs.popleft()
            if theirs:
                self._waiting[client] = theirs
            self._changed.notify_all()

    def _room(self, client: str) -> bool:
        if self._held.total() < self.most:
            return True
        greedy = max(self._waiting, key=lambda one: self._held[one], default=client)
        if self._held[greedy] < self._held[client] + 2:
            return False
        self._drop(greedy, self._waiting[greedy][-1])
        return True

    def _drop(self, client: str, one: object) -> None:
        """Its thread finds out by itself."""
        self._held[client] -= 1
        self._held += Counter()
        self._waiting[client].remove(one)
        if not self._waiting[client]:
            del self._waiting[client]
        self._changed.notify_all()
