"""Answers kept for a while and shared between sessions: each is asked for once at a time."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd

from lockstep.dashboard.trouble import TroubleError

T = TypeVar("T")

MOST_ENTRIES = 512
MOST_BYTES = 96 << 20
"""Of all answers: the dashboard's process shall stay below 400 MB with 10,000 GPUs (issue 10)."""
SMALL = 64
"""Bytes of an answer that holds nothing of size."""
TROUBLE_SECONDS = 5.0
"""So long a source that is in trouble is left alone."""


@dataclass(slots=True)
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = float("-inf")
    value: Any = None
    trouble: TroubleError | None = None
    size: int = 0


class Cache:
    """Answers by key, the least recently used left out first.

    They are handed out as they are, not copied: nobody changes an answer (dashboard.protocol).
    `st.cache_data` would pickle each and unpickle it at every look.

    Args:
        entries: At most so many.
        most_bytes: At most so much memory, about.
        clock: Seconds, rising.
    """

    def __init__(
        self,
        entries: int = MOST_ENTRIES,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._most_entries, self._most_bytes = entries, most_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._bytes = 0

    def get(self, key: Hashable, ask: Callable[[], T], seconds: float) -> T:
        """The answer of `ask`, not older than so many seconds.

        Who asks while somebody else is asking the same waits for that answer.

        Raises:
            TroubleError: `ask` raised it, now or in the last TROUBLE_SECONDS.
        """
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
        with entry.lock:
            if self._clock() >= entry.until:
                self._ask(key, entry, ask, seconds)
            if entry.trouble is not None:
                old = entry.trouble
                raise TroubleError(old.kind, old.sentence, old.next_step, old.choices)
            return cast("T", entry.value)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _ask(self, key: Hashable, entry: _Entry, ask: Callable[[], Any], seconds: float) -> None:
        value, trouble = None, None
        try:
            value = ask()
        except TroubleError as error:
            trouble = error
        entry.value, entry.trouble = value, trouble
        entry.until = self._clock() + (seconds if trouble is None else TROUBLE_SECONDS)
        with self._lock:
            before, entry.size = entry.size, size(value)
            if self._entries.get(key) is not entry:  # cleared in the meantime
                return
            self._bytes += entry.size - before
            while len(self._entries) > self._most_entries or (
                self._bytes > self._most_bytes and len(self._entries) > 1
            ):
                _, oldest = self._entries.popitem(last=False)
                self._bytes -= oldest.size


def size(answer: Any) -> int:
    """Bytes that an answer takes, about: those of arrays, frames and texts are counted."""
    if isinstance(answer, np.ndarray):
        return SMALL + answer.nbytes
    if isinstance(answer, pd.DataFrame):
        return SMALL + int(answer.memory_usage(index=True, deep=True).sum())
    if isinstance(answer, str | bytes):
        return SMALL + len(answer)
    if isinstance(answer, Mapping):
        return SMALL + sum(size(key) + size(value) for key, value in answer.items())
    if isinstance(answer, tuple | list):
        return SMALL + sum(map(size, answer))
    if is_dataclass(answer):
        return SMALL + sum(size(getattr(answer, each.name)) for each in fields(answer))
    return SMALL
